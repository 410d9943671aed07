//! What uses a machine's memory, from the counters of a log or of `/proc/vmstat`.
//!
//! Users must know whether memory is fragmented or full. Only the first is a question of blocks.
//!
//! # Invariants
//! All numbers are frames. A counter that the input lacks is 0, and so is its share; swap that it does not state is
//! `None`.

use everybuddy_text::size;

use crate::request::Request;
use crate::state::{Cause, State, Zone};

/// The names of uses, and the counters of each.
#[rustfmt::skip]
const USES: [(&str, &[&str]); 8] = [
    ("anonymous", &["nr_active_anon", "nr_inactive_anon"]),
    ("page cache", &["nr_active_file", "nr_inactive_file"]),
    ("locked or pinned", &["nr_unevictable"]),
    ("reclaimable slab", &["nr_slab_reclaimable"]),
    ("other slab", &["nr_slab_unreclaimable"]),
    ("page tables", &["nr_page_table_pages", "nr_sec_page_table_pages"]),
    ("compressed pages (zspages)", &["nr_zspages"]),
    ("reclaimable memory of the kernel", &["nr_kernel_misc_reclaimable"]),
];

// The positions of those that can be reclaimed, and of one that zones may state.
const ANONYMOUS: usize = 0;
const CACHE: usize = 1;
const SLAB: usize = 3;
const ZSPAGES: usize = 6;
const OWN: usize = 7;

/// Less than one part in this number of memory is next to nothing.
const NOTHING: u64 = 64;

/// The frames of each use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The uses, in the order of their names.
    uses: [u64; USES.len()],
    /// The pool of huge pages.
    pool: u64,
    /// The frames that all zones manage.
    managed: Option<u64>,
    /// The swap space that is left.
    swap_free: Option<u64>,
    /// All swap space.
    swap: Option<u64>,
    /// Whether the kernel had reclaimed what it could.
    has_reclaimed: bool,
}

fn sum(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::saturating_add)
}

impl Usage {
    /// Returns what a state tells. `None` if it has no counters.
    #[must_use]
    pub fn of(state: &State) -> Option<Usage> {
        let counter = |name: &&str| state.vmstat.get(*name).copied();
        if USES[CACHE].1.iter().any(|name| counter(name).is_none()) {
            return None;
        }
        let mut uses = USES.map(|(_, names)| sum(names.iter().filter_map(counter)));
        let zspages = state.zones.iter().filter_map(|zone| zone.zspages);
        uses[ZSPAGES] = uses[ZSPAGES].max(sum(zspages));
        let frame_kib = (state.frame.bytes / 1024).max(1);
        let frames = |name: &str| state.meminfo.get(name).map(|kib| kib / frame_kib);
        // Old kernels state the frames that are present only.
        let managed = |zone: &Zone| zone.extent.managed.or(zone.extent.present);
        let all: Option<Vec<u64>> = state.zones.iter().map(managed).collect();
        let all = all.filter(|_| Request::MOVABLE.missing_frames(state) == 0);
        let event = state.event.as_ref();
        Some(Usage {
            uses,
            pool: frames("Hugetlb").unwrap_or(0),
            managed: all.map(|all| sum(all.into_iter())),
            swap_free: frames("SwapFree"),
            swap: frames("SwapTotal"),
            has_reclaimed: event.is_some_and(|event| event.cause == Cause::OutOfMemory),
        })
    }

    fn cache(&self) -> u64 {
        self.uses[CACHE]
    }

    /// Returns the frames that swap has room for.
    fn swappable(&self) -> Option<u64> {
        Some(self.uses[ANONYMOUS].min(self.swap_free?))
    }

    /// Returns the frames that reclaim can make free at most: page cache, what swap has room for, and what the kernel
    /// can drop of its own. `None` if swap is unknown.
    #[must_use]
    pub fn reclaimable(&self) -> Option<u64> {
        let own = if self.has_reclaimed {
            0
        } else {
            self.uses[SLAB].saturating_add(self.uses[OWN])
        };
        Some(sum([self.cache(), self.swappable()?, own].into_iter()))
    }

    /// Says that memory is full, if it is: `usable` frames are free above the watermarks.
    #[must_use]
    pub fn full(&self, usable: u64, frame_bytes: u64) -> Option<String> {
        let shown = |frames: u64| size::shown(frames.saturating_mul(frame_bytes));
        let swappable = self.swappable().unwrap_or(0);
        let left = sum([usable, self.cache(), swappable].into_iter());
        if left > self.managed? / NOTHING {
            return None;
        }
        let cache = shown(self.cache());
        Some(match self.swap_free {
            None => format!(
                "Fragmentation is not the cause: memory is full. {cache} of page cache remain. The report does not \
                 show swap."
            ),
            Some(_) if self.swap == Some(0) => format!(
                "Fragmentation is not the cause: memory is full. {cache} of page cache remain, without swap."
            ),
            Some(swap) => format!(
                "Fragmentation is not the cause: memory and swap are full. {cache} of page cache and {} of swap \
                 remain.",
                shown(swap)
            ),
        })
    }

    /// Lists the uses, the largest first.
    #[must_use]
    pub fn shown(&self, free: u64, frame_bytes: u64) -> String {
        let shown = |frames: u64| size::shown(frames.saturating_mul(frame_bytes));
        let named = USES.iter().map(|(name, _)| *name).zip(self.uses);
        let mut parts: Vec<(&str, u64)> =
            named.chain([("pool of huge pages", self.pool)]).collect();
        if let Some(managed) = self.managed {
            let known = sum(parts.iter().map(|(_, frames)| *frames)).saturating_add(free);
            parts.push((
                "uncounted (drivers, balloon)",
                managed.saturating_sub(known),
            ));
        }
        parts.sort_by_key(|(_, frames)| std::cmp::Reverse(*frames));
        parts.retain(|(_, frames)| *frames > 0);
        let mut parts: Vec<String> = parts
            .into_iter()
            .map(|(name, frames)| format!("{name} {}", shown(frames)))
            .collect();
        match self.swap_free.zip(self.swap) {
            Some((_, 0)) => parts.push("no swap".to_owned()),
            Some((free, all)) => {
                parts.push(format!("swap free {} of {}", shown(free), shown(all)));
            }
            None => {}
        }
        format!("Memory: {}.", parts.join(", "))
    }
}
