//! The rows: what each system is, in words.
//!
//! Why it exists: SYSTEMS.md, `everybuddy systems` and the conformance suite are made from these.
//!
//! Invariant: names are unique; every option of a row is known to [`Options`].

use super::{Area, Options, Rule, ZoneKind};
use crate::structure::Kept;

/// A system, described.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name.
    pub name: &'static str,
    /// The row that this is another name for.
    pub alias_of: Option<&'static str>,
    /// What it is, in one sentence.
    pub summary: &'static str,
    /// The layers, from the request downwards.
    pub composition: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// What was taken as the source has it.
    pub faithful: &'static str,
    /// What differs from the source, or what was decided where it is silent.
    pub deviates: &'static str,
    /// The options that this system takes.
    pub options: &'static [&'static str],
    /// The options that make this row what it is.
    pub(super) preset: Options,
    /// The kind of per-CPU layer.
    pub(super) kind: Kind,
    /// What free memory is kept as.
    pub(super) area: Area,
}

/// The kinds of per-CPU layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// None.
    Bare,
    /// Linux 2.6.32's list: batch by memory, high mark six batches.
    LinuxBatch,
    /// The same with a bypass at the marks.
    LinuxBypass,
    /// The same with a given high mark, batch a sixth of it.
    LinuxFixed,
    /// Linux 6.12's lists.
    Linux6,
    /// Spring Buddy's list, which predicts.
    Predictive,
}

const LISTS: &[&str] = &[
    "batch", "high", "order", "percpu", "check", "zone", "space", "select", "idle", "lock", "hold",
    "line", "bulk",
];
const BYPASS: &[&str] = &[
    "high", "order", "percpu", "check", "zone", "space", "select", "idle", "lock", "line",
];
const BARE: &[&str] = &["order", "zone", "space", "select", "idle", "lock", "line"];
const INVERSE_BARE: &[&str] = &["order", "zone", "space", "select", "lock", "line"];
const INVERSE_LISTS: &[&str] = &[
    "batch", "high", "order", "zone", "space", "select", "lock", "hold", "line",
];
const INVERSE_BYPASS: &[&str] = &["high", "order", "zone", "space", "select", "lock", "line"];
// Who holds a domain holds no lock, so there is none whose holding or place could be chosen.
const DOMAIN_LISTS: &[&str] = &[
    "batch", "high", "order", "zone", "space", "select", "idle", "lock", "bulk",
];
const DOMAIN_PREDICTIVE: &[&str] = &[
    "high", "order", "zone", "space", "select", "idle", "lock", "bulk",
];
const DOMAIN_BARE: &[&str] = &["order", "zone", "space", "select", "idle", "lock"];
const INVERSE_FAITHFUL: &str = "Every free frame linked on its own, one bitmap whose bits mean the group and \
    its representative, next_allocation_level; spaces of 4 MiB, one assigned to each CPU, partly used ones \
    before free ones.";
const INVERSE_DEVIATES: &str = "A block is the one that holds its group's representative. A space is tried \
    under its lock and exchanged in the same critical section; unassigned spaces are kept by the largest \
    block that they can give, the smallest that suffices and is worth an exchange first; when none is left \
    those of other CPUs are tried in turn. The paper says none of this.";
const DELAYED_DEVIATES: &str = "Memory need not be a power of two. A part of an allocation can be freed; the whole \
    is a split block then. Before memory is taken out of service everything is coalesced. With +reclaim=on \
    also before a request is refused, which is what a kernel wants; without it, as in the paper, a request may \
    be refused while locally free buddies could be coalesced. What a CPU's list keeps (+list=linux, bypass, linux-6, \
    spring; the paper knows no CPUs) is allocated for the policy. There is no +zone=domains: what is allocated belongs \
    to no domain, so a class of blocks has no number there, and no slack. The two delays are for a release into a \
    class, so one call may cause more; with +debt=on a call keeps to two of each class, and leaves the rest to later \
    ones.";
const FIXED_FAITHFUL: &str = "One list a CPU for single frames, of fixed length, before one zone.";
const LINUX_DEVIATES: &str = "The list is an array in the order of Linux's linked list. The batch is \
    min(memory / 4 MiB - 1, 31), so a machine below 128 MiB has a smaller one. Frames in other CPUs' \
    lists are found before a request fails, by the protocol of percpu/buffered.rs; Linux 2.6.32 drains \
    all CPUs only on direct reclaim.";

const SPACES: Options = Options {
    zone: Some(ZoneKind::Spaces),
    ..Options::NONE
};

const DOMAINS: Options = Options {
    zone: Some(ZoneKind::Domains),
    ..Options::NONE
};
const DOMAINS_FAITHFUL: &str = "Domains in a global spring, taken and put back by each visit; frames go into any \
    domain; a ghost that waits is passed a part of the domain that comes back; when one comes back, two that \
    nobody took for long are merged.";
const DOMAINS_DEVIATES: &str = "Which domain a free block is in is a word of 16 bits a frame, written by the domain's \
    holder. A domain is taken by an exchange on its own line, the one that this CPU had last if it can be had, and \
    put back by a store; only who finds it held takes the spring's lock. A ghost is passed half of the blocks of each \
    order, 64 at most, or what was merged last and did not move yet; a second one all the rest. Merging moves no block \
    at once. After 16 blocks, times the number of domains, a CPU looks how many are held; the most at once, by the \
    last 8 to 16 looks for each domain and by ghosts, are needed, and if there are more, the two are merged that \
    nobody took for longest. A request that its domain can't serve merges domains until one can. The paper says none \
    of this.";

/// All systems.
pub const ROWS: &[Row] = &[
    Row {
        name: "bs",
        alias_of: None,
        summary: "The standard buddy: every request takes the zone's lock, splits, and coalesces.",
        composition: "one zone (spin lock) > bitmap and doubly linked free lists by level > coalesces at once",
        source: "iBuddy (000) 3.1 and figure 5b; Barkley & Lee (003) 3",
        faithful: "Search upwards from the order asked for, recursive split, recursive coalescing while the \
            buddy's bit is set; bitmap and lists by level.",
        deviates: "Orders 0 to 10 as in the papers, up to 18 by option. The lists are last in, first out; a \
            split gives the lower half. The papers say neither.",
        options: BARE,
        preset: Options::NONE,
        kind: Kind::Bare,
        area: Area::Blocks,
    },
    Row {
        name: "lbs-1",
        alias_of: None,
        summary: "Linux's list with bypass: at its marks, frames go past it one by one.",
        composition: "one list a CPU, batch 1 with bypass > one zone > as bs",
        source: "iBuddy (000) 2.4 and 4",
        faithful: "Watermarks as in lbs-31, batch 1: an empty list sends the request, a full one the release, \
            directly to the buddy layer.",
        deviates: LINUX_DEVIATES,
        options: BYPASS,
        preset: Options::NONE,
        kind: Kind::LinuxBypass,
        area: Area::Blocks,
    },
    Row {
        name: "lbs-31",
        alias_of: None,
        summary: "Linux's lazy buddy of 2.6.32: a list for each CPU, refilled and drained by batches of 31.",
        composition: "one list a CPU, batch 31, high mark 186, low 0 > one zone > as bs",
        source: "iBuddy (000) 2.1, 2.4 and 4",
        faithful: "Batch, high mark (6 x batch), low mark (0); larger orders go straight through; a batch is \
            moved under one acquisition of the zone's lock.",
        deviates: LINUX_DEVIATES,
        options: LISTS,
        preset: Options::NONE,
        kind: Kind::LinuxBatch,
        area: Area::Blocks,
    },
    Row {
        name: "is",
        alias_of: None,
        summary: "iBuddy: every free frame on its own, a space of 4 MiB for each CPU, no list before it.",
        composition: "buddy spaces (a spin lock each) > bitmap and lists of single frames by level",
        source: "iBuddy (000) 3 and 5, figures 5c and 8b",
        faithful: INVERSE_FAITHFUL,
        deviates: INVERSE_DEVIATES,
        options: INVERSE_BARE,
        preset: SPACES,
        kind: Kind::Bare,
        area: Area::Frames,
    },
    Row {
        name: "lis-1",
        alias_of: None,
        summary: "Lazy iBuddy with bypass: at its marks, frames go past the list one by one.",
        composition: "one list a CPU, batch 1 with bypass, high mark 186 > as is",
        source: "iBuddy (000) 3 to 5, algorithms 1 and 2",
        faithful: INVERSE_FAITHFUL,
        deviates: INVERSE_DEVIATES,
        options: INVERSE_BYPASS,
        preset: SPACES,
        kind: Kind::LinuxBypass,
        area: Area::Frames,
    },
    Row {
        name: "lis-31",
        alias_of: None,
        summary: "Lazy iBuddy with batches of 31.",
        composition: "one list a CPU, batch 31, high mark 186, low 0 > as is",
        source: "iBuddy (000) 4 and 6.3.3",
        faithful: INVERSE_FAITHFUL,
        deviates: INVERSE_DEVIATES,
        options: INVERSE_LISTS,
        preset: SPACES,
        kind: Kind::LinuxBatch,
        area: Area::Frames,
    },
    Row {
        name: "fixlazy-186",
        alias_of: Some("lbs-31"),
        summary: "Spring Buddy's baseline with a buffer of 186 frames: another name for lbs-31.",
        composition: "as lbs-31",
        source: "Spring Buddy (002) IV",
        faithful: FIXED_FAITHFUL,
        deviates: LINUX_DEVIATES,
        options: LISTS,
        preset: Options::NONE,
        kind: Kind::LinuxBatch,
        area: Area::Blocks,
    },
    Row {
        name: "fixlazy-372",
        alias_of: None,
        summary: "Linux's list with a high mark of 372 frames.",
        composition: "one list a CPU, batch 62, high mark 372 > one zone > as bs",
        source: "Spring Buddy (002) IV",
        faithful: FIXED_FAITHFUL,
        deviates: "The paper gives the length; the batch is a sixth of it, as in Linux.",
        options: LISTS,
        preset: Options {
            high: Some(372),
            ..Options::NONE
        },
        kind: Kind::LinuxFixed,
        area: Area::Blocks,
    },
    Row {
        name: "fixlazy-744",
        alias_of: None,
        summary: "Linux's list with a high mark of 744 frames.",
        composition: "one list a CPU, batch 124, high mark 744 > one zone > as bs",
        source: "Spring Buddy (002) IV",
        faithful: FIXED_FAITHFUL,
        deviates: "The paper gives the length; the batch is a sixth of it, as in Linux.",
        options: LISTS,
        preset: Options {
            high: Some(744),
            ..Options::NONE
        },
        kind: Kind::LinuxFixed,
        area: Area::Blocks,
    },
    Row {
        name: "spring",
        alias_of: None,
        summary: "Spring Buddy: a list whose length is predicted, before as many domains as CPUs work at once.",
        composition: "one list a CPU, refills of 128 to 512, limit of 512 to 4096, by prediction > as spring-core",
        source: "Spring Buddy (002) III, figures 3 to 7",
        faithful: "Predicts from the run so far and from the address region, both requests and releases; the \
            limit is widened in runs of releases, and what is left is given back when a run has ended. The core layer \
            as spring-core.",
        deviates: "The paper says neither how it predicts nor how far; here a run goes on for as long as it has \
            lasted, and at most to its region's end. There is no clock: that a run has ended is noticed by the \
            request after it. +high=N bounds what a CPU keeps; else a sixteenth of memory divided by the CPUs, at \
            most 16 MiB. The core layer as spring-core.",
        options: DOMAIN_PREDICTIVE,
        preset: DOMAINS,
        kind: Kind::Predictive,
        area: Area::Blocks,
    },
    Row {
        name: "spring-core",
        alias_of: None,
        summary: "Spring Buddy's core layer: as many domains as CPUs work at once, no list before them.",
        composition: "elastic domains in a spring > as bs",
        source: "Spring Buddy (002) III-B, figures 4 to 6",
        faithful: DOMAINS_FAITHFUL,
        deviates: DOMAINS_DEVIATES,
        options: DOMAIN_BARE,
        preset: DOMAINS,
        kind: Kind::Bare,
        area: Area::Blocks,
    },
    Row {
        name: "spring-fixlazy-186",
        alias_of: None,
        summary: "Spring Buddy's core layer behind Linux's list with a high mark of 186 frames.",
        composition: "as lbs-31's list > as spring-core",
        source: "Spring Buddy (002) IV-C2, figure 12",
        faithful: DOMAINS_FAITHFUL,
        deviates: DOMAINS_DEVIATES,
        options: DOMAIN_LISTS,
        preset: DOMAINS,
        kind: Kind::LinuxBatch,
        area: Area::Blocks,
    },
    Row {
        name: "spring-fixlazy-372",
        alias_of: None,
        summary: "Spring Buddy's core layer behind Linux's list with a high mark of 372 frames.",
        composition: "as fixlazy-372's list > as spring-core",
        source: "Spring Buddy (002) IV-C2, figure 12",
        faithful: DOMAINS_FAITHFUL,
        deviates: DOMAINS_DEVIATES,
        options: DOMAIN_LISTS,
        preset: Options {
            high: Some(372),
            ..DOMAINS
        },
        kind: Kind::LinuxFixed,
        area: Area::Blocks,
    },
    Row {
        name: "spring-fixlazy-744",
        alias_of: None,
        summary: "Spring Buddy's core layer behind Linux's list with a high mark of 744 frames.",
        composition: "as fixlazy-744's list > as spring-core",
        source: "Spring Buddy (002) IV-C2, figure 12",
        faithful: DOMAINS_FAITHFUL,
        deviates: DOMAINS_DEVIATES,
        options: DOMAIN_LISTS,
        preset: Options {
            high: Some(744),
            ..DOMAINS
        },
        kind: Kind::LinuxFixed,
        area: Area::Blocks,
    },
    Row {
        name: "watermark",
        alias_of: None,
        summary: "The lazy buddy by watermarks: a class coalesces only when much of it is free.",
        composition: "one zone (spin lock) > lists of locally and globally free blocks > watermarks (1/2, 1/2)",
        source: "Barkley & Lee (003) 3.1",
        faithful: "Lazy, reclaiming and accelerated mode by the usage of a class; a coalesced block is freed into \
            the next class by that class's mode.",
        deviates: "The usage counts the block that is being freed: without it not all coalesces in the end. Memory \
            need not be a power of two. +reclaim=on coalesces everything before a request is refused. Lists and \
            domains as for delay-2.",
        options: &[
            "list", "batch", "high", "order", "zone", "space", "select", "lock", "hold", "line",
            "reclaim", "lazy", "speedup",
        ],
        preset: Options::NONE,
        kind: Kind::Bare,
        area: Area::Delayed(Rule::Watermarks {
            lazy: 500,
            speedup: 500,
        }),
    },
    Row {
        name: "delay-2",
        alias_of: None,
        summary: "The lazy buddy of UNIX System V: at most two coalescing delays for a release into a class.",
        composition: "one zone (spin lock) > lists of locally and globally free blocks > a slack variable a class",
        source: "Barkley & Lee (003) 3.2 and 4, figures 1 and 3",
        faithful: "The slack variable of figure 3, with its recursive use on splits and coalescings; locally free \
            blocks at the head of a list, globally free ones at the tail, allocation from the head.",
        deviates: DELAYED_DEVIATES,
        options: &[
            "list", "batch", "high", "order", "zone", "space", "select", "lock", "hold", "line",
            "reclaim", "debt",
        ],
        preset: Options::NONE,
        kind: Kind::Bare,
        area: Area::Delayed(Rule::Slack),
    },
    Row {
        name: "serewa",
        alias_of: None,
        summary: "Serewa's buddy: requests take, releases leave behind; services divide and link the rest.",
        composition: "dividing and linking queues > one zone (spin lock) > bitmap and balanced trees by level",
        source: "Serewa (004) 2.2, figure 1",
        faithful: "Exact requests, any part freed by itself (2.2.1); resource management, dividing and linking apart, \
            joined by two queues (2.2.2); memory divided in the beginning as statistics say (2.2.3); balanced trees \
            (2.2.4). Each can be switched: separate=, division=, structure=; who asks for blocks rounds sizes up.",
        deviates: "The manager runs in the caller; on a thread, as the paper has it, with manager=thread. Queues are \
            bounded rings without locks, under binary semaphores with sync=semaphore. A full queue makes its caller do \
            the work; a request that finds no block does what waits before it fails; a piece whose buddy came back is \
            merged by who files it. Without statistics memory starts in largest blocks. Trees give the lowest address. \
            Requests that come faster than remnants are divided break one large block after another; with \
            remnants=first they divide what waits. The paper says none of this.",
        options: &[
            "order",
            "lock",
            "line",
            "separate",
            "manager",
            "remnants",
            "structure",
            "division",
            "queue",
            "sync",
        ],
        preset: Options {
            zone: Some(ZoneKind::Separated),
            structure: Some(Kept::Tree),
            division: Some(true),
            ..Options::NONE
        },
        kind: Kind::Bare,
        area: Area::Blocks,
    },
    Row {
        name: "linux-6",
        alias_of: None,
        summary: "Today's Linux lists: orders 0 to 3 and huge pages, a high mark that tunes itself.",
        composition: "five lists a CPU, batch up to 63, self-tuning high mark > one zone > as bs",
        source: "Linux 6.12, mm/page_alloc.c",
        faithful: "Batch and marks from the zone's size, doubling refills, drains as long as the run of \
            releases, the limit on blocks of orders 1 to 3.",
        deviates: "No migrate types, no decay of the high mark over time, no reaction to reclaim, no zone \
            watermarks. The lists have no locks (Linux's way is +percpu=locked).",
        options: &["order", "percpu", "check", "lock", "hold", "line", "bulk"],
        preset: Options::NONE,
        kind: Kind::Linux6,
        area: Area::Blocks,
    },
];
