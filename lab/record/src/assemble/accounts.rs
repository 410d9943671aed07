//! The accounts of a trace: how it was made, in numbers.
//!
//! Nothing is left out in silence: whatever an [`Assembly`](super::Assembly) does
//! not keep, or infers, is counted here under its reason.
//!
//! # Invariants
//! Every event that was pushed is counted once among those seen.

/// Declares the counts, each with its field and its description, in one place.
macro_rules! accounts {
    ($($(#[doc = $doc:literal])* $field:ident: $name:literal,)*) => {
        /// Counts of events seen, kept, omitted and inferred.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Accounts {
            $($(#[doc = $doc])* pub $field: u64,)*
        }

        impl Accounts {
            /// Iterates over the counts: the name in files, the description, the value.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($field), $name, self.$field),)*].into_iter()
            }
        }
    };
}

accounts! {
    /// Allocations of all tasks.
    allocations_seen: "allocations seen",
    /// Frees of all tasks.
    frees_seen: "frees seen",
    /// Failed allocations of all tasks.
    refusals_seen: "failed allocations seen",
    /// Faults in user mode seen.
    user_faults_seen: "faults in user mode seen",
    /// Faults in the kernel seen.
    kernel_faults_seen: "faults in the kernel seen",
    /// Beginnings of system calls seen.
    system_calls_seen: "system calls seen",
    /// Starts of system calls seen.
    system_call_ends_seen: "ends of system calls seen",
    /// New tasks seen.
    new_tasks_seen: "new tasks seen",
    /// Programs started.
    execs_seen: "beginnings of programs seen",
    /// Exits seen.
    exits_seen: "exits seen",
    /// Events of locks seen.
    lock_events_seen: "events of locks seen",
    /// Allocations in the trace.
    allocations: "allocations kept",
    /// Frees in the trace, including inferred frees and each part of a free of several blocks.
    frees: "frees kept",
    /// Frees in the trace that were made by a task outside the tree.
    frees_by_others: "frees kept of other tasks",
    /// Frees in the trace of a part of a block.
    partial_frees: "frees of a part of a block",
    /// Frees in the trace that were not observed: their frames were allocated again.
    inferred_frees: "frees inferred because their frames were allocated again",
    /// Frees that covered more than one block or part; each part is one free of the trace.
    spread_frees: "frees of several pieces in one call",
    /// Allocations in the trace that were made in an interrupt.
    interrupt_allocations: "allocations kept of interrupts",
    /// Failed allocations of the tree.
    refusals: "failed allocations of the tree, omitted",
    /// Allocations of tasks outside the tree.
    allocations_by_others: "allocations of other tasks, omitted",
    /// Frees by a task of the tree that match no kept allocation.
    unmatched_frees: "frees by the tree without a kept allocation, omitted",
    /// Frees by other tasks that match no kept allocation.
    unmatched_frees_by_others: "frees by other tasks without a kept allocation, omitted",
    /// Events with an invalid order.
    odd_orders: "events with an invalid order, omitted",
    /// Events whose frame is not aligned to their order.
    misaligned: "events with a misaligned frame, omitted",
    /// Kept events whose frames lay too far from the others, left out finally.
    too_far: "events with damaged frame numbers, or beyond the 16 TiB or 16 parts of a trace, omitted \
              (docs/limitations.md)",
    /// Kept events whose frames have other numbers than on the machine.
    moved: "events whose frames were renumbered: memory 16 TiB or more apart is moved together",
    /// Events beyond the maximum number of events of a trace.
    too_many: "events beyond the maximum of a trace, omitted",
    /// Events with an earlier timestamp than a previous event, whose timestamp they received.
    early: "events out of order, moved to the time of the previous event",
    /// Acquisitions of a zone's lock in the trace.
    acquisitions: "acquisitions of a zone's lock kept",
    /// Acquisitions of a zone's lock by tasks outside the tree, or before its first event.
    acquisitions_by_others: "acquisitions of a zone's lock by other tasks, omitted",
    /// Acquisitions that another kind of event also reported.
    acquisitions_repeated: "acquisitions of a lock that other events repeat, omitted",
    /// Waits for locks that are not a zone's.
    waits_for_others: "waits for other locks than a zone's, omitted",
    /// Waits for locks of which nothing shows whose they are.
    waits_of_unknown_locks: "waits for locks without a known caller, omitted",
    /// Beginnings of waits whose end was not recorded.
    waits_unfinished: "waits for a lock without an end, omitted",
    /// Ends of waits, or releases, whose beginning was not recorded.
    ends_unmatched: "ends of waits for a lock without a beginning, omitted",
    /// Waits that overlap another one of the same CPU.
    waits_overlapping: "waits for a zone's lock that overlap another one, omitted",
    /// Allocations by a fault in a region whose mapping was observed.
    faults_in_mapped: "allocations by a fault in a region whose mapping was seen",
    /// Allocations by a fault in a region inferred from the address: stack, image, loader.
    faults_in_guessed: "allocations by a fault in an inferred region (stack, image, loader)",
    /// Allocations by a fault at an address without a region.
    faults_in_none: "allocations by a fault outside any region",
    /// Forks whose regions were not copied because there were too many.
    forks_without_regions: "forks whose regions were not copied",
    /// Tasks of the trace: threads and processes.
    tasks: "tasks",
    /// Processes of the trace.
    processes: "processes",
    /// Address regions of the trace.
    regions: "address regions",
    /// The largest number of frames that were allocated simultaneously.
    peak_frames: "peak frames in use",
}

impl Accounts {
    /// Iterates over the counts of what was left out, inferred or changed, except zeros: the description, the value.
    pub fn left_out(&self) -> impl Iterator<Item = (&'static str, u64)> {
        const WORDS: [&str; 3] = ["omitted", "inferred", "renumbered"];
        let counts = self.iter().map(|(_, meaning, value)| (meaning, value));
        counts.filter(|(meaning, value)| {
            *value > 0 && WORDS.iter().any(|word| meaning.contains(word))
        })
    }

    /// Returns the share of allocations by faults whose region is known or inferred, from 0 to 1; 1 if there were none.
    pub fn region_share(&self) -> f64 {
        let found = self.faults_in_mapped + self.faults_in_guessed;
        match found + self.faults_in_none {
            0 => 1.0,
            all => found as f64 / all as f64,
        }
    }
}
