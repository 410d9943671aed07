//! The table of options: all that can be said about a system besides its name, written `+key=value`.
//!
//! An option is one entry of the list in this file: its key, its type, its default, its meaning. The fields of
//! [`Options`], parsing, printing, error messages, SYSTEMS.md and `everybuddy systems` are made from that entry.
//!
//! # Invariants
//! 1. A text that an option accepts is printed the same way, and parses to the same value again.
//! 2. Keys are unique; the order of the list is the order in which options are printed.

use core::fmt;

use super::numbers::{Count, Fraction, Ratio, Slots, SpaceFrames};
use super::parameters::Parameters;
use super::values::{
    BlockState, DrainKind, ListAccess, ListKind, OptionValue, QueueSync, Switch, ZoneKind,
};
use super::{LinuxZone, Rule, Setup, Steal, Tuning};
use crate::frame::Order;
use crate::lock::{Hold, Line, LockKind};
use crate::percpu::predictive::Predict;
use crate::serewa::{Linking, Manager, RemnantPolicy};
use crate::structure::StructureKind;
use crate::zone::{Exchange, Select, SpringKind};

/// The layers that a list, a preset and a rule stand for, unless an option chooses others.
#[derive(Clone, Copy)]
pub(super) struct Layers<'o> {
    pub(super) list: ListKind,
    pub(super) preset: &'o Options,
    pub(super) rule: Rule,
}

impl Layers<'_> {
    /// Returns who owns free frames.
    pub(super) fn zone(&self) -> ZoneKind {
        self.preset.zone.unwrap_or_default()
    }

    /// Returns how free memory is kept.
    pub(super) fn structure(&self) -> StructureKind {
        self.preset.structure.unwrap_or_default()
    }
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
    /// Why other systems do not take it, in one sentence, which `meaning` contains. Empty if their layers say so.
    pub(super) limit: &'static str,
    /// What a system has that does not choose for itself, for people.
    pub default: &'static str,
    /// Returns `true` if a system takes the option: if its layers can.
    pub(super) applies: fn(&Layers<'_>) -> bool,
    /// Writes the value, if there is one, into the parameters of a system.
    apply: fn(&Options, &mut Parameters, &Setup<'_>),
    /// Returns whether the option has a value.
    is_set: fn(&Options) -> bool,
}

/// How the value of an option is read and written. Apart from [`OptionRow`], so that a kernel that builds a system by
/// type does not link this code, which needs floating-point numbers.
struct OptionText {
    /// Sets the option. Returns `false`, and changes nothing, if the text is not a value.
    set: fn(&mut Options, &str) -> bool,
    /// Writes the value, if there is one.
    write: fn(&Options, &mut fmt::Formatter<'_>) -> fmt::Result,
}

macro_rules! options {
    ($(
        $field:ident = $key:literal : $type:ty, $default:literal, $meaning:literal,
        for $applies:expr $(, else $limit:literal)? $(, sets $apply:expr)?;
    )*) => {
        /// What is said about a system besides its name. `None` leaves the choice to the system's row.
        ///
        /// [`OPTIONS`] describes each one. Which of them a system takes is said by its [`Row`](super::Row).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Options {
            $(
                #[doc = concat!("`", $key, "=`: ", $meaning $(, " ", $limit)?)]
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
                meaning: concat!($meaning $(, " ", $limit)?),
                limit: concat!($($limit)?),
                default: $default,
                applies: $applies,
                apply: |_options, _parameters, _setup| {
                    $(
                        let apply: fn(&mut Parameters, $type, &Setup<'_>) = $apply;
                        if let Some(value) = _options.$field {
                            apply(_parameters, value, _setup);
                        }
                    )?
                },
                is_set: |options| options.$field.is_some(),
            },
        )*];

        /// How the values of all options are read and written, in the order of [`OPTIONS`].
        const TEXTS: &[OptionText] = &[$(
            OptionText {
                set: |options, text| match <$type as OptionValue>::parse(text) {
                    Some(value) => {
                        options.$field = Some(value);
                        true
                    }
                    None => false,
                },
                write: |options, f| match &options.$field {
                    Some(value) => value.write(f),
                    None => Ok(()),
                },
            },
        )*];
    };
}

// An entry says for which rows the option is, by their layers, and what it sets. Choices of layers, and values that
// depend on each other, are resolved in `resolve.rs` instead.
options! {
    batch = "batch": Count, "Linux's formula by memory, at most 31; a sixth of `high` in a list of fixed length; \
        128 in `spring`; Linux 6.12's formula in `pcp-buddy`",
        "The number of frames that a refill or a drain of a per-CPU list moves; in `spring` those of a run's first \
        refill; in `magazines` those of a magazine.",
        for |row| {
            matches!(
                row.list,
                ListKind::Linux | ListKind::Predictive | ListKind::PcpBuddy | ListKind::Magazines
            )
        };
    high = "high": Count, "six batches; in `spring` a sixteenth of memory divided by the CPUs, at most 16 MiB; in \
        `pcp-buddy` the smallest one of `linux-6`, but at least two page blocks",
        "The high watermark: the length, in frames, at which a per-CPU list drains.",
        for |row| {
            matches!(
                row.list,
                ListKind::Linux | ListKind::Bypass | ListKind::Predictive | ListKind::PcpBuddy
            )
        };
    predict = "predict": Predict, "`both`",
        "What a predictive list predicts from: the run so far and the address region, one of them, or neither. With \
        `both` the region's end shortens a prediction; with `widen` a large region also lengthens one, after as many \
        operations as a first refill has frames.",
        for |row| row.list == ListKind::Predictive;
    spread = "spread": Count, "4",
        "The largest refill of a predictive list, in first refills.",
        for |row| row.list == ListKind::Predictive;
    order = "order": Order, "10",
        "The order of the largest block.",
        for |_| true;
    percpu = "percpu": ListAccess, "`token`",
        "How other CPUs reach a per-CPU list: they ask its owner, or each list has a lock, as in Linux 6.",
        // Lists with locks exist before one zone of free blocks.
        for |row| {
            row.zone() == ZoneKind::One
                && row.structure() == StructureKind::Lists
                && matches!(row.list, ListKind::Linux | ListKind::Bypass | ListKind::Linux6)
        };
    zone = "zone": ZoneKind, "`one`",
        "The owner of free frames, and its lock.",
        for takes_zone;
    space = "space": SpaceFrames, "4MiB, or the largest block; in `zones-4` a quarter of memory",
        "The size of a buddy space.",
        for has_spaces;
    select = "select": Select, "`used`",
        "Which unassigned buddy space a CPU prefers: a partly used one, or one that is all free.",
        for takes_zone, sets |parameters, select, _| parameters.select = select;
    exchange = "exchange": Exchange, "`any`",
        "Which requests exchange a buddy space that cannot serve them: any, those for single frames and nested \
         ones, or none.",
        for takes_zone, sets |parameters, exchange, _| parameters.exchange = exchange;
    shards = "shards": Count, "1",
        "The number of parts of the pool of unassigned buddy spaces, each with a lock of its own. A CPU prefers the \
         spaces of one part. Sizes are powers of two, so there may be fewer parts.",
        for takes_zone, sets |parameters, shards, _| parameters.shards = shards.get();
    idle = "idle": Count, "16",
        "A CPU looks for idle domains each time it has moved this many blocks per domain; with `spring=locked`, a \
        domain is idle after this many acquisitions per domain.",
        for may_be_elastic,
        sets |parameters, blocks, _| parameters.idle = blocks.get();
    spring = "spring": SpringKind, "`own`",
        "How a CPU acquires a domain: by an exchange the one that it had last, or, as the paper describes, under the \
        spring's lock the one that was put back last.",
        for may_be_elastic,
        sets |parameters, kind, _| parameters.spring = kind;
    state = "state": BlockState, "`bits`",
        "Where the order and the state of a free block are: in a bitmap, or in the record of its first frame, as in \
         Linux 2.6.32.",
        // Records store orders in one zone of free blocks, or in spaces of them.
        for |row| {
            takes_zone(row) && !is_elastic(row) && row.structure() == StructureKind::Lists
        };
    lock = "lock": LockKind, "`spin`",
        "The kind of a zone's lock: unfair; fair; or fair, and waiters poll lines of their own.",
        for has_locks, sets |parameters, lock, _| parameters.lock = lock;
    hold = "hold": Hold, "`batch`",
        "How long the zone's lock is held while a batch moves.",
        for |row| !is_elastic(row) && matches!(row.list, ListKind::Linux | ListKind::Linux6),
        sets |parameters, hold, _| parameters.hold = hold;
    line = "line": Line, "`own`",
        "Where the zone's lock lies: on a cache line of its own, as behind the lists of Linux 4.14, or on that of the \
         list of order 0, as in Linux 2.6.32. The other lists lie eight on a line; in Linux 2.6.32, each has 88 bytes.",
        for has_line,
        else "Only one zone of free blocks can have both: a space has its lock with what it guards, and iBuddy's \
         structure has its lists in itself.",
        sets |parameters, line, _| parameters.line = line;
    drain = "drain": DrainKind, "`single`",
        "Whether the frames of a drain are merged into larger blocks outside the zone's lock, or return one by one.",
        for |row| row.list == ListKind::Linux,
        sets |parameters, drain, _| parameters.watermarks.merged = drain == DrainKind::Merged;
    reclaim = "reclaim": Switch, "`off`; `on` in `never`",
        "Whether delayed coalescing is done before a request is refused.",
        for |row| row.rule != Rule::AT_ONCE,
        sets |parameters, reclaim, _| parameters.reclaim = reclaim.is_on();
    debt = "debt": Switch, "`off`",
        "Whether a call coalesces two blocks of each class at most and leaves the rest to later calls.",
        for |row| row.rule == Rule::Slack;
    lazy = "lazy": Ratio, "0.5",
        "The lazy ratio: a class is lazy while at most this share of it is free.",
        for |row| row.rule.has_ratios();
    speedup = "speedup": Ratio, "0.5",
        "The speedup ratio: above this share a free coalesces a second block of the class.",
        for |row| row.rule.has_ratios();
    separate = "separate": Switch, "`on`",
        "Whether services do the dividing and linking; if off, each call does its own.",
        for has_services;
    manager = "manager": Manager, "`caller`",
        "The server of requests: the caller under the lock, or a service on a thread.",
        for has_services, sets |parameters, manager, _| parameters.services.manager = manager;
    remnants = "remnants": RemnantPolicy, "`wait`",
        "What a request splits if it finds no block: a larger one, or first what waits to be divided.",
        for has_services, sets |parameters, remnants, _| parameters.services.remnants = remnants;
    linking = "linking": Linking, "`eager`",
        "When freed blocks are merged: by a service on a thread, or when a CPU is idle, a request would be refused, or \
         the queue is full.",
        for has_services, sets |parameters, linking, _| parameters.services.linking = linking;
    structure = "structure": StructureKind, "`list`; `tree` in `serewa`",
        "How the free blocks of an order are kept.",
        for has_services;
    division = "division": Switch, "`off`; `on` in `serewa`",
        "Whether memory is divided initially as the setup's statistics say.",
        for has_services;
    queue = "queue": Slots, "256",
        "The number of slots of each queue between requests and services.",
        for has_services, sets |parameters, slots, _| parameters.services.slots = slots.get();
    steal = "steal": Steal, "`linux`",
        "When a request takes frames of page blocks of another type: by Linux's rules, or so that few page blocks \
         contain frames of several classes.",
        for |row| row.structure() == StructureKind::MobilityLists,
        sets |parameters, steal, _| parameters.steal = steal;
    fraction = "fraction": Fraction, "none: the high watermark tunes itself",
        "The inverse of the share of memory that all lists may keep: Linux's percpu_pagelist_high_fraction.",
        for |row| row.list == ListKind::Linux6,
        sets |parameters, fraction, setup| {
            let zone = LinuxZone { fraction: fraction.get(), ..setup.zone() };
            let room = u64::from(parameters.tuning.most);
            parameters.tuning = Tuning::linux(&zone, room);
        };
    sync = "sync": QueueSync, "`ring`",
        "Whether a queue is a lock-free ring, or each of its operations takes a spin lock.",
        for has_services,
        sets |parameters, sync, _| parameters.services.locked = sync == QueueSync::Lock;
    tree = "tree": SpaceFrames, "16MiB; smaller in `everybuddy` if memory is small for the number of CPUs",
        "The size of a tree, the part of memory that a CPU reserves or owns: 4MiB to 1GiB, in `everybuddy` 256KiB to \
         16MiB.",
        for |row| matches!(row.zone(), ZoneKind::Reserved | ZoneKind::Owned),
        sets |parameters, tree, _| parameters.tree = Some(tree.get());
}

fn is_elastic(row: &Layers<'_>) -> bool {
    row.zone() == ZoneKind::Domains
}

/// A row whose zone layer can be exchanged: the other compositions exist.
fn takes_zone(row: &Layers<'_>) -> bool {
    !has_services(row)
        && has_locks(row)
        && matches!(
            row.list,
            ListKind::None | ListKind::Linux | ListKind::Bypass
        )
        && matches!(
            row.structure(),
            StructureKind::Lists | StructureKind::Frames
        )
}

/// A row whose zone layer is domains, or can be.
fn may_be_elastic(row: &Layers<'_>) -> bool {
    is_elastic(row) || takes_zone(row) && row.structure() == StructureKind::Lists
}

fn has_spaces(row: &Layers<'_>) -> bool {
    takes_zone(row) || row.zone() == ZoneKind::Spaces
}

fn has_locks(row: &Layers<'_>) -> bool {
    !matches!(
        row.zone(),
        ZoneKind::Reserved | ZoneKind::Shared | ZoneKind::Owned
    )
}

/// A row with one zone, whose lists lie apart from its lock. A domain is held without a lock, and the lock of a space
/// lies in the space.
fn has_line(row: &Layers<'_>) -> bool {
    matches!(row.zone(), ZoneKind::One | ZoneKind::Separated)
        && row.structure() != StructureKind::Frames
}

fn has_services(row: &Layers<'_>) -> bool {
    row.zone() == ZoneKind::Separated
}

impl OptionRow {
    /// Returns the entry of a key.
    pub fn of(key: &str) -> Option<&'static OptionRow> {
        OPTIONS.iter().find(|row| row.key == key)
    }

    /// Sets the option. Returns `false`, and changes nothing, if `text` is not a value.
    pub(super) fn set(&self, options: &mut Options, text: &str) -> bool {
        let mut texts = OPTIONS.iter().zip(TEXTS);
        let text_of_this = texts.find(|(row, _)| row.key == self.key);
        text_of_this.is_some_and(|(_, own)| (own.set)(options, text))
    }

    /// Writes the value, if there is one, into the parameters of a system.
    pub(super) fn apply(&self, options: &Options, parameters: &mut Parameters, setup: &Setup<'_>) {
        (self.apply)(options, parameters, setup);
    }

    /// Returns `true` if the option has a value in `options`.
    pub fn is_set(&self, options: &Options) -> bool {
        (self.is_set)(options)
    }
}

/// `+key=value` for each option that has a value.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = OPTIONS.iter().zip(TEXTS);
        for (row, text) in texts.filter(|(row, _)| row.is_set(self)) {
            write!(f, "+{}=", row.key)?;
            (text.write)(self, f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bound, Watermarks};
    use super::*;
    use crate::Pfn;
    use crate::percpu::predictive::SPREAD;
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
    fn a_fraction_fixes_the_watermark_of_linux_6() {
        let ranges = [crate::FrameRange::new(Pfn(0), 1 << 20)];
        let setup = Setup::new(&ranges, 4);
        let tuning = |text: &str| {
            let spec: crate::SystemSpec = text.parse().unwrap();
            spec.parameters(&setup).unwrap().tuning
        };
        let own = tuning("linux-6");
        assert!(own.high_min < own.high_max);
        let fixed = tuning("linux-6+fraction=64");
        assert_eq!((fixed.high_min, fixed.high_max), (4096, 4096));
        // Never less than four batches, never more than Linux's own bound.
        let least = tuning("linux-6+fraction=1048576");
        assert_eq!(least.high_max, 4 * own.batch);
        assert_eq!(tuning("linux-6+fraction=8").high_max, own.high_max);
        // Linux refuses a share of more than an eighth.
        for refused in [
            "lbs-31+fraction=8",
            "linux-6+fraction=7",
            "linux-6+fraction=1",
        ] {
            assert!(refused.parse::<crate::SystemSpec>().is_err(), "{refused}");
        }
    }

    #[test]
    fn what_is_set_is_printed_and_hides_the_preset() {
        let batch = OptionRow::of("batch").unwrap();
        let mut options = Options::NONE;
        assert!(batch.set(&mut options, "7") && batch.is_set(&options));
        assert_eq!(options.to_string(), "+batch=7");
        let preset = Options {
            batch: Some(Count::preset(62)),
            high: Some(Count::preset(372)),
            ..Options::NONE
        };
        assert_eq!(options.or(&preset).to_string(), "+batch=7+high=372");
        assert!(OptionRow::of("colour").is_none());
    }

    #[test]
    fn every_option_changes_its_own_parameter_and_no_other() {
        let ranges = [crate::FrameRange::new(Pfn(0), 1 << 20)];
        let setup = Setup::new(&ranges, 4);
        let parameters = |text: &str| {
            let spec: crate::SystemSpec = text.parse().unwrap();
            spec.parameters(&setup).unwrap()
        };
        type Change = fn(&mut Parameters);
        #[rustfmt::skip]
        let cases: &[(&str, &str, Change)] = &[
            ("lbs-31", "batch=7", |p| { (p.watermarks.batch, p.watermarks.high) = (7, 42) }),
            ("lbs-31", "high=100", |p| {
                p.watermarks.high = 100;
                p.bound = Bound::new(100, (p.bound.first(), SPREAD), Predict::Both);
            }),
            ("spring", "predict=region", |p| { p.bound.predict = Predict::Region }),
            ("spring", "spread=16", |p| {
                p.bound = Bound::new(p.bound.max, (p.bound.first(), 16), Predict::Both);
            }),
            ("spring", "batch=32", |p| {
                p.watermarks = Watermarks {
                    batch: 32,
                    high: 192,
                    ..p.watermarks
                };
                p.bound = Bound::new(p.bound.max, (32, SPREAD), Predict::Both);
            }),
            ("bs", "order=3", |p| { p.max_order = Order::ZERO.up().up().up() }),
            ("lbs-31", "percpu=locked", |p| { p.composition.access = ListAccess::Locked }),
            ("bs", "zone=spaces", |p| { p.composition.zone = ZoneKind::Spaces }),
            ("is", "space=16MiB", |p| p.space = 1 << 12),
            ("is", "select=fresh", |p| p.select = Select::Fresh),
            ("is", "exchange=single", |p| p.exchange = Exchange::Single),
            ("is", "exchange=never", |p| p.exchange = Exchange::Never),
            ("zones-4", "space=64MiB", |p| p.space = 1 << 14),
            ("is", "shards=4", |p| p.shards = 4),
            ("spring-core", "idle=8", |p| p.idle = 8),
            ("spring-core", "spring=locked", |p| { p.spring = SpringKind::Locked }),
            ("bs", "state=record", |p| { p.composition.structure = StructureKind::Records }),
            ("bs", "lock=ticket", |p| p.lock = LockKind::Ticket),
            ("bs", "lock=queued", |p| p.lock = LockKind::Queued),
            ("lbs-31", "hold=iteration", |p| p.hold = Hold::Iteration),
            ("bs", "line=beside", |p| p.line = Line::Beside),
            ("lbs-31", "drain=merged", |p| p.watermarks.merged = true),
            ("delay-2", "reclaim=on", |p| p.reclaim = true),
            ("never", "reclaim=off", |p| p.reclaim = false),
            ("delay-2", "debt=on", |p| p.rule = Rule::Debt),
            ("watermark+lazy=0.25", "speedup=0.3", |p| { p.rule = Rule::Watermarks { lazy: 250, speedup: 300 } }),
            ("watermark", "lazy=0.1", |p| { p.rule = Rule::Watermarks { lazy: 100, speedup: 500 } }),
            ("serewa", "separate=off", |p| { (p.composition.zone, p.division) = (ZoneKind::One, false) }),
            ("serewa", "manager=thread", |p| { p.services.manager = Manager::Thread }),
            ("serewa", "remnants=first", |p| { p.services.remnants = RemnantPolicy::First }),
            ("serewa", "structure=bitmap", |p| { p.composition.structure = StructureKind::Bits }),
            ("serewa", "division=off", |p| p.division = false),
            ("serewa", "queue=16", |p| p.services.slots = 16),
            ("serewa", "sync=lock", |p| p.services.locked = true),
            ("serewa", "linking=idle", |p| { p.services.linking = Linking::Idle }),
            ("mobility", "steal=mixed", |p| p.steal = Steal::Mixed),
            ("llfree", "tree=32MiB", |p| p.tree = Some(1 << 13)),
            ("linux-6", "fraction=64", |p| {
                let tuning = &mut p.tuning;
                (tuning.high_min, tuning.high_max, tuning.most) = (4096, 4096, 4096)
            }),
        ];
        for (system, option, change) in cases {
            let mut expected = parameters(system);
            change(&mut expected);
            let text = std::format!("{system}+{option}");
            assert_ne!(expected, parameters(system), "{text}");
            assert_eq!(parameters(&text), expected, "{text}");
        }
        for row in OPTIONS {
            let is_its = |option: &str| option.split('=').next() == Some(row.key);
            assert!(
                cases.iter().any(|(_, option, _)| is_its(option)),
                "{}",
                row.key
            );
        }
    }
}
