//! What makes blocks unavailable, in words.
//!
//! The number of lost blocks does not help a user. The name of their holder, and what frees it, does.
//!
//! # Invariants
//! The worst holder comes first. What the input does not show is named with the assumption that replaces it.

use everybuddy_text::size::{self, grouped};

use crate::frames::facts::Groups;
use crate::frames::owner::Holders;
use crate::frames::{Facts, Holder, Kind, OrderWindows};
use crate::state::State;

/// The maximum number of functions and of groups.
const MOST: usize = 10;

/// The columns of the lists of holders.
pub const COLUMNS: [&str; 4] = ["held by", "frames", "in blocks", "only holder in"];

/// A list of holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// What the list shows.
    pub title: String,
    /// The columns' names.
    pub columns: [&'static str; 4],
    /// The cells of each row, and a remark.
    pub rows: Vec<([String; 4], &'static str)>,
}

/// Returns the windows of the blocks whose holders are named, in all zones.
fn windows(state: &State) -> impl Iterator<Item = &OrderWindows> {
    let order = state
        .frames
        .as_ref()
        .map_or(0, |facts| facts.order as usize);
    let zones = state.zones.iter().filter_map(|zone| zone.windows.as_ref());
    zones.filter_map(move |windows| windows.orders.get(order))
}

/// Returns the holders of all zones' blocks by kind, the worst first.
fn by_kind(state: &State) -> Vec<Holder> {
    let mut sums: Vec<Holder> = Vec::new();
    for holder in windows(state).flat_map(|windows| &windows.holders) {
        match sums.iter_mut().find(|sum| sum.kind == holder.kind) {
            Some(sum) => {
                sum.frames += holder.frames;
                sum.blocks += holder.blocks;
                sum.alone += holder.alone;
            }
            None => sums.push(*holder),
        }
    }
    sums.sort_by_key(|holder| std::cmp::Reverse((holder.alone, holder.blocks, holder.frames)));
    sums
}

/// Returns what helps against a kind of page.
fn remedy(kind: Kind) -> &'static str {
    match kind {
        Kind::Slab => "see /proc/slabinfo; `echo 2 > /proc/sys/vm/drop_caches` frees a part",
        Kind::PageTable => "free when their process ends",
        Kind::HugePool => "vm.nr_hugepages sets it",
        Kind::Offline => "returned to the host, or set offline by an administrator",
        Kind::Compound => "buffers of drivers and of the network",
        Kind::Kernel => "stacks, pipes, modules",
        Kind::Pinned => "direct I/O, RDMA, VFIO, io_uring, pipes",
        _ => "",
    }
}

/// Returns the lists that the input permits.
#[must_use]
pub fn lists(state: &State) -> Vec<List> {
    let mut lists = Vec::new();
    if let Some(facts) = &state.frames {
        lists.push(kinds(state, facts));
        lists.extend(facts.functions.as_ref().map(functions));
        lists.extend(facts.groups.as_ref().map(groups));
    }
    lists.push(callers(state));
    lists.retain(|list| !list.rows.is_empty());
    lists
}

fn kinds(state: &State, facts: &Facts) -> List {
    let bytes = size::shown(facts.block_bytes);
    let blocked = windows(state).map(|windows| windows.blocked).sum();
    let rows = by_kind(state).into_iter().map(|holder| {
        let numbers = [holder.frames, holder.blocks, holder.alone].map(grouped);
        let [frames, blocks, alone] = numbers;
        (
            [holder.kind.name().to_owned(), frames, blocks, alone],
            remedy(holder.kind),
        )
    });
    List {
        title: format!(
            "What holds the {} blocks of {bytes} that are never free, the worst first:",
            grouped(blocked)
        ),
        columns: COLUMNS,
        rows: rows.collect(),
    }
}

fn callers(state: &State) -> List {
    let rows = state.callers.iter().map(|caller| {
        let name = format!("{} ({})", caller.function, caller.place);
        let (bytes, calls) = (size::shown(caller.bytes), grouped(caller.calls));
        ([name, bytes, calls, String::new()], "")
    });
    List {
        title: "What allocated the most, by the kernel's profiling:".to_owned(),
        columns: ["allocated by", "memory", "calls", ""],
        rows: rows.collect(),
    }
}

fn functions(holders: &Holders) -> List {
    let rows = holders.functions.iter().take(MOST).map(|function| {
        let name = if function.name.is_empty() {
            "without a stack"
        } else {
            &function.name
        };
        let [frames, blocks, alone] =
            [function.frames, function.blocks, function.alone].map(grouped);
        ([name.to_owned(), frames, blocks, alone], "")
    });
    List {
        title: "The functions that allocated these pages (page_owner):".to_owned(),
        columns: COLUMNS,
        rows: rows.collect(),
    }
}

fn groups(groups: &Groups) -> List {
    let holders = groups
        .tally
        .groups
        .iter()
        .filter(|group| group.blocks > 0 || group.movable() > 0);
    let rows = holders.take(MOST).map(|group| {
        let [pinned, blocks, movable] =
            [group.pinned(), group.blocks, group.movable()].map(grouped);
        ([groups.name(group.inode), pinned, blocks, movable], "")
    });
    List {
        title: "Control groups, where the kernel knows them (not for slab pages):".to_owned(),
        columns: ["group", "fixed frames", "in blocks", "movable frames"],
        rows: rows.collect(),
    }
}

/// Returns the sentences about what the numbers assume.
#[must_use]
pub fn assumptions(state: &State) -> Vec<String> {
    let Some(facts) = &state.frames else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    match &facts.settled {
        Some(settled) => lines.push(format!(
            "By counts of references, {} frames are on the CPUs' own lists, {} are pinned, and {} are unknown.",
            grouped(settled.on_lists),
            grouped(settled.pinned),
            grouped(settled.undecided)
        )),
        None => {
            lines.push(
                "Pinned pages (direct I/O, RDMA, VFIO) are unknown without /proc/kcore: all movable pages count as \
                 free to move."
                    .to_owned(),
            );
            lines.extend(unsure(state, facts));
        }
    }
    if facts.functions.is_none() {
        lines.push(
            "The functions that hold pages are unknown without page_owner (boot with `page_owner=on`)."
                .to_owned(),
        );
    }
    lines.extend(facts.notes.iter().cloned());
    lines
}

/// Describes the frames without flags.
fn unsure(state: &State, facts: &Facts) -> Option<String> {
    let unsure: u64 = windows(state).map(OrderWindows::unsure_windows).sum();
    let listed = state
        .zones
        .iter()
        .filter_map(crate::Zone::listed_frames)
        .fold(0, u64::saturating_add);
    (unsure > 0).then(|| {
        format!(
            "In {} blocks of {}, only frames without flags stand in the way: {} free frames on the CPUs' own lists \
             look like that, and so do pages of the kernel.",
            grouped(unsure),
            size::shown(facts.block_bytes),
            grouped(listed)
        )
    })
}
