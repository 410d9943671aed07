//! Computes a system's parameters from its name, its options and the machine's memory.
//!
//! # Invariants
//! Options that contradict each other never become parameters.

use core::ops::RangeInclusive;

use super::numbers::{Count, Ratio, SpaceFrames};
use super::options::{OPTIONS, Options};
use super::parameters::{Composition, Parameters};
use super::row::Row;
use super::spec::SystemSpec;
use super::values::{BlockState, ListAccess, ListKind, Switch, ZoneKind};
use super::{Bound, Rule, Setup, Steal, Tuning, Watermarks};
use crate::error::BuildError;
use crate::everybuddy;
use crate::frame::Order;
use crate::llfree;
use crate::lock::{Hold, Line, LockKind};
use crate::percpu::magazines;
use crate::percpu::page_blocks::page_block;
use crate::percpu::predictive::{INITIAL_REFILL, SPREAD};
use crate::serewa::{self, Linking, Manager, RemnantPolicy, ServiceOptions};
use crate::structure::StructureKind;
use crate::zone::{BLOCKS_PER_LOOK, Exchange, Select, SpringKind};

impl Composition {
    /// Returns the key of the option that makes two compositions differ, the one first that says most. Two rows may
    /// also differ by the `list` alone, which no option chooses.
    pub(super) fn differs_by(&self, other: &Self, row: &Row) -> &'static str {
        match () {
            () if self.zone != other.zone && row.zone() == ZoneKind::Separated => "separate",
            () if self.zone != other.zone => "zone",
            () if self.structure != other.structure && row.takes("state") => "state",
            () if self.structure != other.structure => "structure",
            () if self.access != other.access => "percpu",
            () => "list",
        }
    }
}

/// The largest number of CPUs: records have 16 bits for a CPU, and the largest number means none.
const MAX_CPUS: u16 = u16::MAX - 1;

/// Frames of a space by default: 4 MiB, as in \[iBuddy\].
const SPACE: u32 = 1 << 10;

impl SystemSpec {
    /// Returns the parameters on a machine. O(ranges).
    ///
    /// # Errors
    /// [`BuildError::BadCpuCount`], or [`BuildError::Contradiction`] where two options contradict each other.
    pub fn parameters(&self, setup: &Setup<'_>) -> Result<Parameters, BuildError> {
        let given = &self.options;
        let options = given.or(&self.row.preset);
        let list = self.row.list;
        let most = match list {
            ListKind::Magazines => magazines::MAX_MAGAZINE_CPUS,
            _ => MAX_CPUS,
        };
        if !(1..=most).contains(&setup.cpus) {
            return Err(BuildError::BadCpuCount { most });
        }
        let zone = zone(&options)?;
        let structure = match options.state {
            Some(BlockState::Record) => StructureKind::Records,
            _ => options.structure.unwrap_or_default(),
        };
        let max_order = options.order.unwrap_or(Order::TEN);
        let composition = Composition {
            list: match list {
                ListKind::Bypass => ListKind::Linux,
                list => list,
            },
            access: options.percpu.unwrap_or_default(),
            zone,
            structure,
            policy: self.row.policy,
        };
        refuse(&options, &composition)?;
        let space = options.space.map(SpaceFrames::get);
        let space = space.unwrap_or(match self.row.preset.exchange {
            Some(Exchange::Never) => {
                let quarter = setup.span(max_order)?.frames().div_ceil(4);
                // Above 2^31 frames there are two instances.
                let size = quarter.checked_next_power_of_two().unwrap_or(1 << 31);
                size.max(max_order.frames())
            }
            _ => max_order.frames().max(SPACE),
        });
        if space < max_order.frames() {
            return contradiction("space", "at least the size of the largest block");
        }
        // A policy that coalesces immediately would undo a division.
        let is_separated = zone == ZoneKind::Separated;
        if !is_separated && given.division == Some(Switch::On) {
            return contradiction(
                "division",
                "`off` with separate=off: each free would undo the division",
            );
        }
        let mut parameters = Parameters {
            composition,
            max_order,
            watermarks: self.watermarks(&options, list, setup)?,
            tuning: tuning(setup, max_order)?,
            bound: bound(&options, list, setup),
            space,
            select: Select::default(),
            exchange: Exchange::default(),
            shards: 1,
            idle: BLOCKS_PER_LOOK,
            spring: SpringKind::default(),
            services: ServiceOptions {
                slots: serewa::SLOTS,
                locked: false,
                linking: Linking::default(),
                manager: Manager::default(),
                remnants: RemnantPolicy::default(),
            },
            lock: LockKind::default(),
            line: Line::default(),
            hold: Hold::default(),
            rule: rule(self.row.rule, &options)?,
            division: is_separated && is_on(options.division),
            reclaim: false,
            steal: Steal::default(),
            tree: (zone == ZoneKind::Reserved).then_some(llfree::TREE),
        };
        for option in OPTIONS {
            option.apply(&options, &mut parameters, setup);
        }
        let is_within = |sizes: RangeInclusive<u32>| {
            let tree = parameters.tree;
            tree.is_none_or(|tree| sizes.contains(&tree))
        };
        if zone == ZoneKind::Owned
            && !is_within(everybuddy::SMALLEST_TREE..=everybuddy::LARGEST_TREE)
        {
            return contradiction("tree", "256KiB to 16MiB: 1 to 64 words of 64 frames");
        }
        if zone == ZoneKind::Reserved {
            if !is_within(llfree::SMALLEST_TREE..=llfree::LARGEST_TREE) {
                return contradiction("tree", "4MiB to 1GiB: a tree holds a block of order 10");
            }
            if max_order > llfree::LARGEST_BLOCK {
                let needs =
                    "0 to 10: a block is at most two huge frames, whose counters share a word";
                return contradiction("order", needs);
            }
        }
        Ok(parameters)
    }

    /// Returns batch and high watermark: Linux's formula by memory, unless the options say something else.
    fn watermarks(
        &self,
        options: &Options,
        list: ListKind,
        setup: &Setup<'_>,
    ) -> Result<Watermarks, BuildError> {
        let by_memory = Watermarks::linux_batch(setup.zone().frames);
        let (batch, high) = (options.batch.map(Count::get), options.high.map(Count::get));
        let marks = match (list, self.row.preset.high) {
            (ListKind::Bypass, _) => Watermarks {
                batch: 1,
                high: high.unwrap_or(6 * by_memory),
                bypass: true,
                merged: false,
            },
            // The marks of Linux 6.12 before they tune themselves, with room for two page blocks.
            (ListKind::PcpBuddy, _) => {
                let max_order = options.order.unwrap_or(Order::TEN);
                let Tuning {
                    batch: own,
                    high_min,
                    ..
                } = tuning(setup, max_order)?;
                let page_block = page_block(max_order);
                let batch = batch.unwrap_or(own);
                Watermarks {
                    batch,
                    high: high.unwrap_or(high_min.max(2 * page_block.frames()).max(batch)),
                    bypass: false,
                    merged: false,
                }
            }
            // A list of fixed length: Linux's ratio the other way round.
            (_, Some(_)) => {
                let high = high.unwrap_or(6 * by_memory);
                Watermarks {
                    batch: batch.unwrap_or((high / 6).max(1)),
                    high,
                    bypass: false,
                    merged: false,
                }
            }
            (_, None) => {
                let batch = batch.unwrap_or(by_memory);
                Watermarks {
                    batch,
                    high: high.unwrap_or(6 * batch),
                    bypass: false,
                    merged: false,
                }
            }
        };
        let has_marks = matches!(
            list,
            ListKind::Linux | ListKind::Bypass | ListKind::PcpBuddy
        );
        if has_marks && marks.high < marks.batch {
            return match self.options.high {
                Some(_) => contradiction("high", "at least the frames of a batch"),
                None => contradiction("batch", "at most the high watermark"),
            };
        }
        Ok(marks)
    }
}

/// Returns the marks of Linux's lists. No list holds more than what can ever be managed.
fn tuning(setup: &Setup<'_>, max_order: Order) -> Result<Tuning, BuildError> {
    let room = u64::from(setup.span(max_order)?.frames());
    Ok(Tuning::linux(&setup.zone(), room))
}

/// Returns the bounds of Spring Buddy's list.
fn bound(options: &Options, list: ListKind, setup: &Setup<'_>) -> Bound {
    let by_memory = || {
        let zone = setup.zone();
        Bound::by_memory(zone.frames, zone.cpus)
    };
    let max = options.high.map_or_else(by_memory, Count::get);
    // In other lists a batch is something else.
    let first = options.batch.filter(|_| list == ListKind::Predictive);
    let first = first.map_or(INITIAL_REFILL, Count::get);
    let spread = options.spread.map_or(SPREAD, Count::get);
    Bound::new(max, (first, spread), options.predict.unwrap_or_default())
}

fn is_on(switch: Option<Switch>) -> bool {
    switch.is_some_and(Switch::is_on)
}

/// Returns who owns free frames; options of services mean nothing without services.
fn zone(options: &Options) -> Result<ZoneKind, BuildError> {
    let kind = options.zone.unwrap_or_default();
    if options.separate != Some(Switch::Off) {
        return Ok(kind);
    }
    let needs = "a value only with separate=on: it is an option of the services";
    match () {
        () if options.manager.is_some() => contradiction("manager", needs),
        () if options.remnants.is_some() => contradiction("remnants", needs),
        () if options.linking.is_some() => contradiction("linking", needs),
        () if options.queue.is_some() => contradiction("queue", needs),
        () if options.sync.is_some() => contradiction("sync", needs),
        () => Ok(ZoneKind::One),
    }
}

/// Returns when buddies are coalesced: by the row's rule, with the numbers that the options choose.
fn rule(rule: Rule, options: &Options) -> Result<Rule, BuildError> {
    match rule {
        Rule::Slack if is_on(options.debt) => Ok(Rule::Debt),
        Rule::Watermarks { .. } if rule.has_ratios() => {
            let lazy = options.lazy.unwrap_or(Ratio::HALF).thousandths();
            let speedup = options.speedup.unwrap_or(Ratio::HALF).thousandths();
            if lazy > speedup {
                return contradiction("lazy", "a ratio of at most `speedup`");
            }
            Ok(Rule::Watermarks { lazy, speedup })
        }
        rule => Ok(rule),
    }
}

/// Refuses options that contradict each other, or the composition.
fn refuse(options: &Options, composition: &Composition) -> Result<(), BuildError> {
    let Composition {
        zone, structure, ..
    } = *composition;
    let hold = options.hold.unwrap_or_default();
    let shows_waiters = options.lock.unwrap_or_default() != LockKind::Spin;
    if hold == Hold::WhenContended && !shows_waiters {
        return contradiction(
            "hold",
            "`batch` or `iteration` with lock=spin, which does not show a waiting CPU",
        );
    }
    // Compositions with such records exist for one zone and for spaces, and with lists that have no locks.
    if structure == StructureKind::Records {
        if zone == ZoneKind::Domains {
            return contradiction(
                "state",
                "`bits` with zone=domains: a domain's tags are the state of its blocks",
            );
        }
        if composition.access == ListAccess::Locked {
            return contradiction("state", "`bits` with percpu=locked");
        }
    }
    // A domain is held without a lock, and keeps free blocks only.
    if zone == ZoneKind::Domains {
        if hold != Hold::Batch {
            return contradiction(
                "hold",
                "`batch` with zone=domains: a domain is held without a lock",
            );
        }
        if options.line.is_some() {
            return contradiction(
                "line",
                "a value only without zone=domains: a domain is held without a lock",
            );
        }
        if structure != StructureKind::Lists {
            return contradiction(
                "zone",
                "`one` or `spaces` here: domains keep free blocks, not single frames",
            );
        }
    }
    if zone == ZoneKind::Spaces && options.line.is_some() {
        return contradiction(
            "line",
            "a value only without zone=spaces: a space's lock lies with what it guards",
        );
    }
    if zone != ZoneKind::Spaces && options.space.is_some() {
        return contradiction("space", "a value only with zone=spaces");
    }
    if zone != ZoneKind::Spaces && options.select.is_some() {
        return contradiction("select", "a value only with zone=spaces");
    }
    if zone != ZoneKind::Spaces && options.exchange.is_some() {
        return contradiction("exchange", "a value only with zone=spaces");
    }
    if zone != ZoneKind::Spaces && options.shards.is_some() {
        return contradiction("shards", "a value only with zone=spaces");
    }
    if zone != ZoneKind::Domains && options.idle.is_some() {
        return contradiction("idle", "a value only with zone=domains");
    }
    if zone != ZoneKind::Domains && options.spring.is_some() {
        return contradiction("spring", "a value only with zone=domains");
    }
    // Lists with locks exist for one zone of free blocks only.
    let is_plain = zone == ZoneKind::One && structure == StructureKind::Lists;
    if !is_plain && composition.access == ListAccess::Locked {
        return contradiction("percpu", "`token` except in one zone of free blocks");
    }
    Ok(())
}

/// Refuses an option, with what it could be instead.
fn contradiction<T>(key: &'static str, needs: &'static str) -> Result<T, BuildError> {
    Err(BuildError::Contradiction { key, needs })
}

impl Parameters {
    /// Returns the number of frames that a refill or a drain of a CPU's list moves: what the options and the machine's
    /// memory decide together. `None` if there is no list, or if the list decides at each refill and drain.
    pub fn batch(&self) -> Option<u32> {
        match self.composition.list {
            ListKind::None | ListKind::Predictive => None,
            ListKind::Linux | ListKind::Bypass | ListKind::PcpBuddy | ListKind::Magazines => {
                Some(self.watermarks.batch)
            }
            ListKind::Linux6 => Some(self.tuning.batch),
        }
    }

    /// Returns `true` if each CPU has a list of free frames. What a CPU reserves or owns in trees is not a list.
    pub fn has_list(&self) -> bool {
        self.composition.list != ListKind::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Pfn;
    use crate::region::FrameRange;
    use std::format;

    fn parameters(text: &str) -> Result<Parameters, BuildError> {
        let ranges = [FrameRange::new(Pfn(0), 1 << 16)];
        let spec: SystemSpec = text.parse().unwrap();
        spec.parameters(&Setup::new(&ranges, 2))
    }

    #[test]
    fn a_list_of_fixed_length_moves_a_sixth_of_it() {
        for (text, batch, high) in [
            ("fixlazy-744", 124, 744),
            ("fixlazy-744+high=60", 10, 60),
            ("fixlazy-744+high=3", 1, 3),
            ("fixlazy-744+batch=5", 5, 744),
            ("lbs-31", 31, 186),
            ("lbs-1", 1, 186),
        ] {
            let own = parameters(text).unwrap();
            let marks = own.watermarks;
            assert_eq!((marks.batch, marks.high), (batch, high), "{text}");
            assert_eq!(own.batch(), Some(batch), "{text}");
        }
        assert_eq!(parameters("bs").unwrap().batch(), None);
        assert_eq!(parameters("spring").unwrap().batch(), None);
    }

    #[test]
    fn a_list_of_fixed_length_has_that_length_whatever_the_memory() {
        for frames in [64, 1 << 10, 76 << 8, 1 << 15, 1 << 20] {
            let ranges = [FrameRange::new(Pfn(0), frames)];
            let marks = |text: &str| {
                let spec: SystemSpec = text.parse().unwrap();
                let own = spec.parameters(&Setup::new(&ranges, 2)).unwrap();
                (own.watermarks.batch, own.watermarks.high)
            };
            for (name, batch, high) in [("186", 31, 186), ("372", 62, 372), ("744", 124, 744)] {
                for prefix in ["fixlazy", "spring-fixlazy"] {
                    let name = format!("{prefix}-{name}");
                    assert_eq!(marks(&name), (batch, high), "{name}, {frames} frames");
                }
            }
            // Linux's own formula follows memory: 76 MiB have a batch of 18.
            let batch = Watermarks::linux_batch(frames);
            assert_eq!(marks("lbs-31"), (batch, 6 * batch), "{frames} frames");
        }
        assert_eq!(Watermarks::linux_batch(76 << 8), 18);
    }

    #[test]
    fn options_that_contradict_each_other_are_refused_by_name() {
        for (text, key) in [
            ("is+space=1MiB", "space"),
            ("is+zone=one+space=4MiB", "space"),
            ("bs+select=fresh", "select"),
            ("bs+exchange=single", "exchange"),
            ("bs+shards=2", "shards"),
            ("fixlazy-744+batch=1000", "batch"),
            ("lbs-31+idle=8", "idle"),
            ("lbs-31+spring=locked", "spring"),
            ("lbs-31+hold=when-contended", "hold"),
            ("lbs-31+zone=domains+hold=iteration", "hold"),
            ("lbs-31+zone=domains+line=own", "line"),
            ("lbs-31+zone=spaces+line=own", "line"),
            ("is+zone=domains", "zone"),
            ("lbs-31+zone=domains+state=record", "state"),
            ("lbs-31+percpu=locked+state=record", "state"),
            ("lbs-31+zone=spaces+percpu=locked", "percpu"),
            ("lbs-31+batch=9+high=3", "high"),
            ("serewa+separate=off+manager=thread", "manager"),
            ("serewa+separate=off+remnants=first", "remnants"),
            ("serewa+separate=off+linking=idle", "linking"),
            ("serewa+separate=off+queue=4", "queue"),
            ("serewa+separate=off+sync=ring", "sync"),
            ("serewa+separate=off+division=on", "division"),
            ("llfree+tree=2MiB", "tree"),
            ("llfree+tree=2GiB", "tree"),
            ("everybuddy+tree=128KiB", "tree"),
            ("everybuddy+tree=32MiB", "tree"),
            ("llfree+order=11", "order"),
        ] {
            let Err(BuildError::Contradiction {
                key: refused,
                needs,
            }) = parameters(text)
            else {
                panic!("{text} is not refused as a contradiction");
            };
            assert_eq!(refused, key, "{text}");
            assert!(needs.len() > 10, "{text}: the reason is \"{needs}\"");
        }
    }
}
