//! The table of options: all that can be said about a system besides its name, written `+key=value`.
//!
//! # Purpose
//! An option is one entry of the list in this file: its key, its type, its default, its meaning. The fields of
//! [`Options`], parsing, printing, error messages, SYSTEMS.md and `everybuddy systems` are made from that entry.
//!
//! # Invariants
//! 1. A text that an option accepts is printed the same way, and parses to the same value again.
//! 2. Keys are unique; the order of the list is the order in which options are printed.

use core::fmt;

use crate::frame::Order;
use crate::lock::{Hold, Line, LockKind};
use crate::serewa::{Manager, RemnantPolicy};
use crate::structure::StructureKind;
use crate::zone::Select;

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

/// One entry of the table of options.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// The key, as in `+key=value`.
    pub key: &'static str,
    /// The values, for people.
    pub values: &'static str,
    /// The meaning, in one sentence.
    pub meaning: &'static str,
    /// What a system has that does not choose for itself, for people.
    pub default: &'static str,
    /// Sets the option. Returns `false`, and changes nothing, if the text is not a value.
    set: fn(&mut Options, &str) -> bool,
    /// Returns whether the option has a value.
    is_set: fn(&Options) -> bool,
    /// Writes the value, if there is one.
    write: fn(&Options, &mut fmt::Formatter<'_>) -> fmt::Result,
}

macro_rules! options {
    ($($field:ident = $key:literal : $type:ty, $default:literal, $meaning:literal;)*) => {
        /// What is said about a system besides its name. `None` leaves the choice to the system's row.
        ///
        /// [`OPTIONS`] describes each one. Which of them a system takes is said by its
        /// [`Row`](super::Row).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Options {
            $(
                #[doc = concat!("`", $key, "=`: ", $meaning)]
                pub $field: Option<$type>,
            )*
        }

        impl Options {
            /// No option.
            pub const NONE: Options = Options { $($field: None,)* };

            /// Returns these options, completed by those of `preset`.
            #[must_use]
            pub const fn or(&self, preset: &Options) -> Options {
                Options {
                    $($field: match self.$field {
                        Some(value) => Some(value),
                        None => preset.$field,
                    },)*
                }
            }

            /// Returns the keys of the options that have a value, without the code of [`OPTIONS`] that reads and
            /// writes values: a kernel that builds a system by type does not link it.
            pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
                let keys = [$(self.$field.is_some().then_some($key)),*];
                keys.into_iter().flatten()
            }
        }

        /// All options, in the order in which they are printed.
        pub const OPTIONS: &[OptionRow] = &[$(
            OptionRow {
                key: $key,
                values: <$type as OptionValue>::VALUES,
                meaning: $meaning,
                default: $default,
                set: |options, text| match <$type as OptionValue>::parse(text) {
                    Some(value) => {
                        options.$field = Some(value);
                        true
                    }
                    None => false,
                },
                is_set: |options| options.$field.is_some(),
                write: |options, f| match &options.$field {
                    Some(value) => value.write(f),
                    None => Ok(()),
                },
            },
        )*];
    };
}

options! {
    list = "list": ListKind, "`none`",
        "The list that each CPU keeps, in a system that takes any.";
    batch = "batch": Count, "Linux's formula by memory, at most 31; a sixth of `high` in a list of fixed length",
        "The number of frames that a refill or a drain of a per-CPU list moves.";
    high = "high": Count, "six batches; in `spring` a sixteenth of memory divided by the CPUs, at most 16 MiB",
        "The high watermark: the length, in frames, at which a per-CPU list drains.";
    order = "order": Order, "10",
        "The order of the largest block.";
    percpu = "percpu": ListAccess, "`token`",
        "How other CPUs reach a per-CPU list: they ask its owner, or each list has a lock, as in Linux 6.";
    check = "check": Switch, "`on`",
        "Whether hits of a per-CPU list detect misuse; all other paths always do.";
    zone = "zone": ZoneKind, "`one`",
        "Who owns free frames, under which lock.";
    space = "space": SpaceFrames, "4MiB, or the largest block",
        "The size of a buddy space.";
    select = "select": Select, "`used`",
        "Which unassigned buddy space a CPU prefers: a partly used one, or one that is all free.";
    idle = "idle": Count, "16",
        "After this many blocks times the number of domains a CPU looks for domains that are idle.";
    lock = "lock": LockKind, "`spin`",
        "The kind of a zone's lock.";
    hold = "hold": Hold, "`batch`",
        "How long the zone's lock is held while a batch moves.";
    line = "line": Line, "`own`",
        "Where the zone's lock lies: on a cache line of its own, or with the lists that it guards.";
    bulk = "bulk": BulkKind, "`blocks`",
        "Whether a batch moves block by block, or neighbours move at once.";
    reclaim = "reclaim": Switch, "`off`",
        "Whether delayed coalescing is done before a request is refused.";
    debt = "debt": Switch, "`off`",
        "Whether a call coalesces two blocks of each class at most and leaves the rest to later calls.";
    lazy = "lazy": Ratio, "0.5",
        "The lazy ratio: a class is lazy while at most this share of it is free.";
    speedup = "speedup": Ratio, "0.5",
        "The speedup ratio: above this share a free coalesces a second block of the class.";
    separate = "separate": Switch, "`on`",
        "Whether services divide and link; otherwise the calls do.";
    manager = "manager": Manager, "`caller`",
        "Who answers requests: the caller under the lock, or a service on a thread.";
    remnants = "remnants": RemnantPolicy, "`wait`",
        "What a request divides that finds no block: a larger one, or first what waits to be divided.";
    structure = "structure": StructureKind, "`list`; `tree` in `serewa`",
        "How the free blocks of an order are kept.";
    division = "division": Switch, "`off`; `on` in `serewa`",
        "Whether memory is divided initially as the setup's statistics say.";
    queue = "queue": Slots, "256",
        "The number of slots of each queue between requests and services.";
    sync = "sync": QueueSync, "`ring`",
        "Whether a queue is a lock-free ring, or each of its operations takes a semaphore.";
}

impl OptionRow {
    /// Returns the entry of a key.
    pub fn of(key: &str) -> Option<&'static OptionRow> {
        OPTIONS.iter().find(|row| row.key == key)
    }

    /// Sets the option. Returns `false`, and changes nothing, if `text` is not a value.
    pub(super) fn set(&self, options: &mut Options, text: &str) -> bool {
        (self.set)(options, text)
    }

    /// Returns `true` if the option has a value in `options`.
    pub fn is_set(&self, options: &Options) -> bool {
        (self.is_set)(options)
    }
}

/// `+key=value` for each option that has a value.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in OPTIONS.iter().filter(|row| row.is_set(self)) {
            write!(f, "+{}=", row.key)?;
            (row.write)(self, f)?;
        }
        Ok(())
    }
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
named_values!(Switch, "`on` or `off`", "on" = Self::On, "off" = Self::Off);

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
}
named_values!(
    ListKind,
    "`none`, `linux`, `bypass`, `linux-6` or `spring`",
    "none" = Self::None,
    "linux" = Self::Linux,
    "bypass" = Self::Bypass,
    "linux-6" = Self::Linux6,
    "spring" = Self::Predictive,
);

/// How other CPUs reach a per-CPU list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListAccess {
    /// They ask its owner; a hit takes no atomic read-modify-write.
    #[default]
    Token,
    /// Each list has a lock, which its owner tries at each operation: Linux 6's way.
    Locked,
}
named_values!(
    ListAccess,
    "`token` or `locked`",
    "token" = Self::Token,
    "locked" = Self::Locked
);

/// Who owns free frames, under which lock.
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
}
named_values!(
    ZoneKind,
    "`one`, `spaces` or `domains`",
    "one" = Self::One,
    "spaces" = Self::Spaces,
    "domains" = Self::Domains,
);

/// Whether a batch moves block by block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BulkKind {
    /// Block by block.
    #[default]
    Blocks,
    /// Neighbours at once.
    Rows,
}
named_values!(
    BulkKind,
    "`blocks` or `rows`",
    "blocks" = Self::Blocks,
    "rows" = Self::Rows
);

/// How CPUs and services take turns at a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueSync {
    /// A lock-free ring.
    #[default]
    Ring,
    /// A semaphore for each operation.
    Semaphore,
}
named_values!(
    QueueSync,
    "`ring` or `semaphore`",
    "ring" = Self::Ring,
    "semaphore" = Self::Semaphore
);

named_values!(
    StructureKind,
    "`list`, `tree` or `bitmap`",
    "list" = Self::Lists,
    "tree" = Self::Trees,
    "bitmap" = Self::Bits,
);
named_values!(
    Select,
    "`used` or `fresh`",
    "used" = Self::Used,
    "fresh" = Self::Fresh
);
named_values!(
    LockKind,
    "`spin` or `ticket`",
    "spin" = Self::Spin,
    "ticket" = Self::Ticket
);
named_values!(
    Hold,
    "`batch`, `iteration` or `when-contended`",
    "batch" = Self::Batch,
    "iteration" = Self::Iteration,
    "when-contended" = Self::WhenContended,
);
named_values!(
    Line,
    "`own` or `beside`",
    "own" = Self::Own,
    "beside" = Self::Beside
);
named_values!(
    Manager,
    "`caller` or `thread`",
    "caller" = Self::Caller,
    "thread" = Self::Thread
);
named_values!(
    RemnantPolicy,
    "`wait` or `first`",
    "wait" = Self::Wait,
    "first" = Self::First
);

/// A number of frames, or of blocks: 1 to 2^20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(u32);

impl Count {
    /// The largest.
    pub const MAX: u32 = 1 << 20;

    /// Makes a count. Returns `None` outside 1 to [`MAX`](Self::MAX).
    pub const fn new(count: u32) -> Option<Self> {
        if count >= 1 && count <= Self::MAX {
            Some(Self(count))
        } else {
            None
        }
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl OptionValue for Count {
    const VALUES: &'static str = "a number, 1 to 1048576";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().and_then(Self::new)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl OptionValue for Order {
    const VALUES: &'static str = "an order, 0 to 18";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().and_then(Self::new)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The slots of a queue: a power of two up to 2^16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots(u32);

impl Slots {
    /// Makes a number of slots. Returns `None` if it is not a power of two up to 2^16.
    pub const fn new(slots: u32) -> Option<Self> {
        if slots.is_power_of_two() && slots <= 1 << 16 {
            Some(Self(slots))
        } else {
            None
        }
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl OptionValue for Slots {
    const VALUES: &'static str = "a power of two up to 65536";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().and_then(Self::new)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A ratio from 0 to 1/2, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(u32);

impl Ratio {
    /// One half.
    pub const HALF: Ratio = Ratio(500);

    /// Makes a ratio of thousandths. Returns `None` above 500.
    pub const fn new(thousandths: u32) -> Option<Self> {
        if thousandths <= Self::HALF.0 {
            Some(Self(thousandths))
        } else {
            None
        }
    }

    /// Returns the thousandths.
    pub const fn thousandths(self) -> u32 {
        self.0
    }
}

impl OptionValue for Ratio {
    const VALUES: &'static str = "a ratio from 0 to 0.5";

    fn parse(text: &str) -> Option<Self> {
        let ratio = match text {
            "1/2" => 0.5,
            other => other.parse::<f64>().ok()?,
        };
        let fits = (0.0..=0.5).contains(&ratio);
        fits.then_some(Self((ratio * 1000.0 + 0.5) as u32))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 1000.0)
    }
}

/// The size of a buddy space: frames, a power of two up to 2^24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceFrames(u32);

/// Units of a space's size, in frames of 4 KiB; 0 stands for a quarter of a frame.
const UNITS: [(&str, u32); 3] = [("KiB", 0), ("MiB", 1 << 8), ("GiB", 1 << 18)];

impl SpaceFrames {
    /// Makes a size. Returns `None` if it is not a power of two up to 2^24.
    pub const fn new(frames: u32) -> Option<Self> {
        if frames.is_power_of_two() && frames <= 1 << 24 {
            Some(Self(frames))
        } else {
            None
        }
    }

    /// Returns the frames.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl OptionValue for SpaceFrames {
    const VALUES: &'static str = "a power of two of memory, like 4MiB or 64MiB";

    fn parse(text: &str) -> Option<Self> {
        let (unit, frames) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
        let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
        match frames {
            // A frame has 4 KiB.
            0 if number.is_multiple_of(4) => Self::new(number / 4),
            0 => None,
            frames => number.checked_mul(*frames).and_then(Self::new),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |unit: &&(&str, u32)| unit.1 > 0 && self.0.is_multiple_of(unit.1);
        match UNITS.iter().rev().find(fits) {
            Some((unit, size)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}KiB", self.0 * 4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn keys_are_unique_and_every_entry_is_described() {
        for (index, row) in OPTIONS.iter().enumerate() {
            assert!(OPTIONS[..index].iter().all(|other| other.key != row.key));
            assert!(
                row.meaning.ends_with('.') && !row.values.is_empty() && !row.default.is_empty()
            );
            let mut options = Options::NONE;
            assert!(!row.set(&mut options, "no value"), "{}", row.key);
            assert_eq!(options, Options::NONE);
        }
    }

    #[test]
    fn what_is_set_is_printed_and_hides_the_preset() {
        let batch = OptionRow::of("batch").unwrap();
        let mut options = Options::NONE;
        assert!(batch.set(&mut options, "7") && batch.is_set(&options));
        assert_eq!(options.to_string(), "+batch=7");
        let preset = Options {
            batch: Count::new(62),
            high: Count::new(372),
            ..Options::NONE
        };
        assert_eq!(options.or(&preset).to_string(), "+batch=7+high=372");
        assert!(OptionRow::of("colour").is_none());
    }
}
