//! What a person should know about how a trace was made, in numbers.
//!
//! # Purpose
//!
//! Nothing is left out in silence: whatever an [`Assembly`](super::Assembly) does
//! not keep, or infers, is counted here under its reason.
//!
//! # Invariants
//!
//! Every event that was pushed is counted once among those seen.

/// Declares the counts, each with its field and what it means for people, in one place.
macro_rules! accounts {
    ($($(#[doc = $doc:literal])* $field:ident: $name:literal,)*) => {
        /// Counts of what was seen, kept, left out and inferred.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Accounts {
            $($(#[doc = $doc])* pub $field: u64,)*
        }

        impl Accounts {
            /// Gives each count: its name in files, what it means for people, its value.
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
    refusals_seen: "refused allocations seen",
    /// Faults in user mode seen.
    user_faults_seen: "faults in user mode seen",
    /// Faults in the kernel seen.
    kernel_faults_seen: "faults in the kernel seen",
    /// Beginnings of system calls seen.
    system_calls_seen: "system calls seen",
    /// Ends of system calls seen.
    system_call_ends_seen: "ends of system calls seen",
    /// New tasks seen.
    new_tasks_seen: "new tasks seen",
    /// Beginnings of programs seen.
    execs_seen: "beginnings of programs seen",
    /// Exits seen.
    exits_seen: "exits seen",
    /// Allocations in the trace.
    allocations: "allocations kept",
    /// Frees in the trace, with inferred ones and each piece of a free of several blocks.
    frees: "frees kept",
    /// Frees in the trace that a task outside of the tree called.
    frees_by_others: "frees kept that others called",
    /// Frees in the trace that give back a part of their block.
    partial_frees: "frees of a part of a block",
    /// Frees in the trace that were not seen: their frames were allocated again.
    inferred_frees: "frees inferred, since their frames were allocated again",
    /// Frees seen that touched more than one block or piece; each piece is one free of the trace.
    spread_frees: "frees of several pieces in one call",
    /// Allocations in the trace that came in an interrupt.
    interrupt_allocations: "allocations kept that came in an interrupt",
    /// Allocations of the tree that were refused.
    refusals: "allocations of the tree that were refused",
    /// Allocations of tasks outside of the tree.
    allocations_by_others: "allocations by others, left out",
    /// Frees that a task of the tree called and that no kept allocation gave.
    unmatched_frees: "frees by the tree of what it had not allocated, left out",
    /// Frees that others called and that no kept allocation gave.
    unmatched_frees_by_others: "frees by others of what the tree had not allocated, left out",
    /// Events with an order that no block can have.
    odd_orders: "events with an impossible order, left out",
    /// Events whose frame is not aligned to their order.
    misaligned: "events with a misaligned frame, left out",
    /// Kept events whose frames lay too far from the others, left out finally.
    too_far: "events with frames far from the others, left out",
    /// Events beyond the largest number that a trace may hold.
    too_many: "events beyond the largest number of a trace, left out",
    /// Events that came with an earlier time than one before them, and got that one's time.
    early: "events out of order, moved to the time of the one before",
    /// Allocations by a fault in a region whose mapping was seen.
    faults_in_mapped: "allocations by a fault in a region that was seen mapped",
    /// Allocations by a fault in a region guessed from the address: stack, image, loader.
    faults_in_guessed: "allocations by a fault in a guessed region (stack, image, loader)",
    /// Allocations by a fault at an address of no region.
    faults_in_none: "allocations by a fault outside of any region",
    /// Forks whose regions were not copied, because too many were.
    forks_without_regions: "forks whose regions were not copied",
    /// Tasks of the trace: threads and processes.
    tasks: "tasks",
    /// Processes of the trace.
    processes: "processes",
    /// Address regions of the trace.
    regions: "address regions",
    /// The largest number of frames that were allocated simultaneously.
    peak_frames: "frames live at the peak",
}

impl Accounts {
    /// Returns the share of allocations by faults whose region is known or guessed, 0 to 1; 1
    /// when there were none.
    pub fn region_share(&self) -> f64 {
        let found = self.faults_in_mapped + self.faults_in_guessed;
        match found + self.faults_in_none {
            0 => 1.0,
            all => found as f64 / all as f64,
        }
    }
}
