//! The values of options that are names, and how every value is read and written. The numbers are in `numbers`.
//!
//! # Invariants
//! A text that a value is parsed from is what it writes, or means the same.

use core::fmt;

use crate::coalesce::mobility::Steal;
use crate::lock::{Hold, Line, LockKind};
use crate::percpu::predictive::Predict;
use crate::serewa::{Linking, Manager, RemnantPolicy};
use crate::structure::StructureKind;
use crate::zone::{Exchange, Select, SpringKind};

/// A value that an option can have: how it is read and written.
pub trait OptionValue: Copy + Sized {
    /// The values, for people: `` `on` or `off` ``, or "a number of frames, 1 to 1048576".
    const VALUES: &'static str;

    /// Reads a value. Returns `None` if the text is not one of [`VALUES`](Self::VALUES).
    fn parse(text: &str) -> Option<Self>;

    /// Writes the value as [`parse`](Self::parse) reads it.
    ///
    /// # Errors
    /// Those of `f`.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// Implements [`OptionValue`] for values that have names, with the names themselves as documentation.
macro_rules! named_values {
    ($type:ty, $values:literal, $($name:literal = $value:path),* $(,)?) => {
        impl OptionValue for $type {
            const VALUES: &'static str = $values;

            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($name => Some($value),)*
                    _ => None,
                }
            }

            #[allow(unreachable_patterns)]
            fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($value => $name,)*
                    // A value that only rows choose.
                    _ => "internal",
                })
            }
        }
    };
}

/// `on` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// `on`.
    On,
    /// `off`.
    Off,
}
named_values! { Switch, "`on` or `off`", "on" = Self::On, "off" = Self::Off }

impl Switch {
    /// Returns `true` if it is on.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// The list that each CPU keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// None.
    #[default]
    None,
    /// Linux 2.6.32's list, refilled and drained by batches: as in `lbs-31`.
    Linux,
    /// The same list, bypassed at its watermarks: as in `lbs-1`.
    Bypass,
    /// Linux 6.12's lists: as in `linux-6`.
    Linux6,
    /// Spring Buddy's list, whose length is predicted: as in `spring`.
    Predictive,
    /// Two magazines, and a depot for all CPUs: as in `magazines`, and only there.
    Magazines,
    /// A buddy allocator of owned page blocks: as in `pcp-buddy`, and only there.
    PcpBuddy,
}

/// How other CPUs reach a per-CPU list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListAccess {
    /// They ask its owner; a hit takes no atomic read-modify-write.
    #[default]
    Token,
    /// Each list has a lock, which its owner tries at each operation: Linux 6's way.
    Locked,
}
named_values! { ListAccess, "`token` or `locked`", "token" = Self::Token, "locked" = Self::Locked }

/// The owner of free frames, and its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneKind {
    /// One zone under one lock.
    #[default]
    One,
    /// iBuddy's buddy spaces, a lock for each.
    Spaces,
    /// Spring Buddy's elastic domains.
    Domains,
    /// One zone whose blocks services divide and link: `serewa`, unless `separate=off`.
    Separated,
    /// Trees that CPUs reserve, without a lock: `llfree`.
    Reserved,
    /// Memory that all CPUs share without a lock: `nbbs`.
    Shared,
    /// Trees that CPUs own, without a lock: `everybuddy`.
    Owned,
}
named_values! {
    ZoneKind, "`one`, `spaces` or `domains`",
    "one" = Self::One, "spaces" = Self::Spaces, "domains" = Self::Domains
}

/// Where the order and the state of a free block are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockState {
    /// In a bitmap, with a bit for each block of each order: figure 5b of \[iBuddy\].
    #[default]
    Bits,
    /// In the record of its head: Linux's way since 2.6.11.
    Record,
}
named_values! { BlockState, "`bits` or `record`", "bits" = Self::Bits, "record" = Self::Record }

/// What a per-CPU list does with the frames of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DrainKind {
    /// It returns them to the zone one by one.
    #[default]
    Single,
    /// It merges them into larger blocks outside the zone's lock, and returns these.
    Merged,
}
named_values! { DrainKind, "`single` or `merged`", "single" = Self::Single, "merged" = Self::Merged }

/// How CPUs and services take turns at a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueSync {
    /// A lock-free ring.
    #[default]
    Ring,
    /// A lock for each operation.
    Lock,
}
named_values! { QueueSync, "`ring` or `lock`", "ring" = Self::Ring, "lock" = Self::Lock }
named_values! {
    StructureKind, "`list`, `tree` or `bitmap`",
    "list" = Self::Lists, "tree" = Self::Trees, "bitmap" = Self::Bits
}
named_values! { Select, "`used` or `fresh`", "used" = Self::Used, "fresh" = Self::Fresh }
named_values! { SpringKind, "`own` or `locked`", "own" = Self::Own, "locked" = Self::Locked }
named_values! {
    Predict, "`both`, `widen`, `run`, `region` or `none`",
    "both" = Self::Both, "widen" = Self::Widen, "run" = Self::Run, "region" = Self::Region, "none" = Self::None
}
named_values! {
    Exchange, "`any`, `single` or `never`",
    "any" = Self::Any, "single" = Self::Single, "never" = Self::Never
}
named_values! { Steal, "`linux` or `mixed`", "linux" = Self::Linux, "mixed" = Self::Mixed }
named_values! {
    LockKind, "`spin`, `ticket` or `queued`",
    "spin" = Self::Spin, "ticket" = Self::Ticket, "queued" = Self::Queued
}
named_values! {
    Hold, "`batch`, `iteration` or `when-contended`",
    "batch" = Self::Batch, "iteration" = Self::Iteration, "when-contended" = Self::WhenContended
}
named_values! { Line, "`own` or `beside`", "own" = Self::Own, "beside" = Self::Beside }
named_values! { Manager, "`caller` or `thread`", "caller" = Self::Caller, "thread" = Self::Thread }
named_values! { Linking, "`eager` or `idle`", "eager" = Self::Eager, "idle" = Self::Idle }
named_values! { RemnantPolicy, "`wait` or `first`", "wait" = Self::Wait, "first" = Self::First }
