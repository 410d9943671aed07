//! Advice for a machine whose kernel stays as it is: is the page allocator its problem, and would a setting help?
//!
//! Linux has one setting for the lists of CPUs: `vm.percpu_pagelist_high_fraction`. A trace of the machine is replayed
//! with the lists that each value makes, next to those that the machine has now.
//!
//! # Invariants
//! "It is not the problem" and "nothing to gain" are answers: a value is advised only if it passes every threshold of
//! this file. Counts decide, since those of one thread are exact. Times can only refuse.

use everybuddy::systems::{LinuxZone, Tuning};
use everybuddy::{Counts, SystemSpec};
use everybuddy_trace as trace;
use everybuddy_trace::LockWaits;

use crate::answer::{self, LEAST_CALLING};
use crate::bench::ratio::Ratio;
use crate::choice;
use crate::replay::machine::{LARGEST_ROOM, Machine};
use crate::replay::memory::Memory;
use crate::replay::outcome::{Comparison, Outcome, share};
use crate::replay::script::Script;

/// Below this share of the CPUs' time, waits for zones' locks are not a machine's problem: without any wait, its
/// programs would gain less than their run times vary by themselves, about a percent.
pub const LEAST_WAITING: f64 = 0.01;

/// A value must save this share of the acquisitions of the zone's lock: those of another recording of the same program
/// differ by some percent.
pub const LEAST_SAVED: f64 = 0.1;

/// It must save this many acquisitions per call. One costs at most some microseconds, so one in 10,000 calls changes
/// the mean time of a call by less than a nanosecond.
pub const LEAST_SAVED_PER_CALL: f64 = 1e-4;

/// Of the values that save nearly as much as the best, that with the shortest lists is advised. Nearly is this share of
/// the acquisitions that remain now.
pub const NEARLY: f64 = 0.05;

/// The values that are tried. 8 is the smallest that Linux takes, and makes the longest lists.
pub const FRACTIONS: [u32; 5] = [8, 16, 32, 64, 128];

/// What a kernel does with the lengths of the lists, by its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// Before 5.14: the setting does not exist.
    WithoutSetting,
    /// Before 6.7: the length is fixed.
    Fixed,
    /// From 6.7 on, the length tunes itself while the setting is 0.
    Tuned,
    /// The trace does not state the version. What is new is assumed.
    Unknown,
}

impl Age {
    /// Returns what a kernel of this version does: `6.12.0-13-generic`.
    pub fn of(version: &str) -> Age {
        let mut parts = version.split(|c: char| !c.is_ascii_digit());
        let mut next = || parts.next().and_then(|part| part.parse::<u32>().ok());
        match (next(), next()) {
            (Some(major), Some(minor)) if (major, minor) < (5, 14) => Age::WithoutSetting,
            (Some(major), Some(minor)) if (major, minor) < (6, 7) => Age::Fixed,
            (Some(_), Some(_)) => Age::Tuned,
            _ => Age::Unknown,
        }
    }
}

/// A value of the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value; 0 is Linux's default.
    pub fraction: u32,
    /// The system that stands for it.
    pub spec: SystemSpec,
    /// The smallest and the largest high watermark of each CPU's list, in frames.
    pub high: [u32; 2],
}

/// The values to replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The kernel of the trace.
    pub age: Age,
    /// What the machine has now, then the others.
    pub list: Vec<Setting>,
    /// The machine. Its zone is without the value that it has now, since the systems have one each.
    pub machine: Machine,
}

impl Settings {
    /// Returns the values to replay for a trace: the present one, the default, and those that make longer lists.
    pub fn of(trace: &trace::Trace, cpus: u16) -> Settings {
        let recorded = trace::Machine::of(trace);
        let age = Age::of(recorded.as_ref().map_or("", |machine| &machine.kernel));
        let mut machine = Machine::new(trace, None, cpus);
        let now = std::mem::take(&mut machine.zone.fraction);
        let setting = |fraction| setting(&machine.zone, age, fraction);
        let mut list: Vec<Setting> = setting(now).into_iter().collect();
        let [least, _] = list.first().map_or([0, 0], |now| now.high);
        if age != Age::WithoutSetting {
            let others = FRACTIONS
                .into_iter()
                .filter_map(setting)
                .filter(|own| own.high[1] > least);
            // Back to the default is always possible.
            let others = setting(0).into_iter().chain(others);
            list.extend(others.filter(|own| own.fraction != now));
        }
        Settings { age, list, machine }
    }

    /// Returns the room of the replay: what the machine has, and at least what its longest lists need, since requests
    /// that drain the lists of other CPUs would be an artefact of a small room.
    pub fn room(&self, script: &Script) -> u64 {
        let longest = self.list.iter().map(|own| u64::from(own.high[1])).max();
        let kept = longest.unwrap_or(0).saturating_mul(script.cpus.into());
        let enough = Memory::usual(script.peak_frames).saturating_add(kept);
        Memory::room(&self.machine, script.peak_frames, script.cpus).max(enough.min(LARGEST_ROOM))
    }
}

/// Returns a value of the setting; `None` if no system has such lists.
fn setting(zone: &LinuxZone, age: Age, fraction: u32) -> Option<Setting> {
    // The fixed length of older kernels is the smallest one of newer ones: the zone's low watermark, divided by the
    // CPUs. It is that of the fraction that the low watermark is of the zone.
    let effective = match (age, fraction) {
        (Age::Fixed | Age::WithoutSetting, 0) => {
            let fixed = zone.frames.checked_div(zone.low).unwrap_or(0);
            u32::try_from(fixed).unwrap_or(u32::MAX).clamp(8, 1 << 20)
        }
        _ => fraction,
    };
    let zone = LinuxZone {
        fraction: effective,
        ..*zone
    };
    let tuning = Tuning::linux(&zone, u64::MAX);
    let name = match effective {
        0 => choice::LINUX.to_string(),
        _ => format!("{}+fraction={effective}", choice::LINUX),
    };
    Some(Setting {
        fraction,
        spec: name.parse().ok()?,
        high: [tuning.high_min, tuning.high_max],
    })
}

/// What a replay with a value of the setting gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The setting.
    pub setting: Setting,
    /// The mean time of a call in relation to now; `None` for what the machine has now.
    pub ratio: Option<Ratio>,
    /// Refills and drains of lists.
    pub moves: u64,
    /// Acquisitions of the zone's lock: these, and the calls for blocks that the lists do not keep.
    pub acquisitions: u64,
    /// The frames that allocations moved to lists, and frees from lists, in calls for single frames.
    pub moved_frames: [u64; 2],
    /// The most frames that lay in lists at the moments that were looked at.
    pub idle_frames: u64,
}

/// How busy a machine is with its page allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// The share of the CPUs' time that was spent waiting for zones' locks; `None` if waits were not recorded.
    pub waiting: Option<f64>,
    /// The share of the CPUs' time that the calls take, as they were replayed; `None` without calls.
    pub calling: Option<f64>,
    /// The share of the calls that leave the CPU's list; `None` without calls.
    pub leaving: Option<f64>,
}

impl Load {
    /// Returns the load of a trace that contains only waits.
    pub fn of_waits(waits: &LockWaits) -> Load {
        Load {
            waiting: Some(waits.share()),
            ..Load::default()
        }
    }

    /// Returns `true` if CPUs wait for zones' locks so long that it matters; `None` if that is unknown.
    pub fn is_waiting(&self) -> Option<bool> {
        self.waiting.map(|share| share >= LEAST_WAITING)
    }

    /// Returns `true` if the allocator is a problem of the machine, as far as it is known.
    pub fn is_problem(&self) -> bool {
        let calls = self.calling.is_some_and(|share| share >= LEAST_CALLING);
        calls || self.is_waiting() == Some(true)
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The allocator takes too little of the machine's time.
    NotTheProblem,
    /// It may be a problem, and no value of the setting helps.
    NothingToGain,
    /// This value of the setting helps.
    Set(u32),
}

/// The advice for a trace with calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The answer.
    pub verdict: Verdict,
    /// How busy the machine is with its allocator now.
    pub load: Load,
    /// What each setting gave; what the machine has now is first.
    pub effects: Vec<Effect>,
    /// Nanoseconds from the first call of the trace to the last.
    pub duration_ns: u64,
    /// CPUs that made calls.
    pub cpus: u16,
    /// Calls of the trace.
    pub calls: u32,
}

impl Advice {
    /// Draws the conclusions from two comparisons of the systems of the settings, in the same order: of the trace, and
    /// of the trace twice in a row. What happens the second time counts, since the lists of a machine in use are not
    /// empty. `None` if there are no settings.
    pub fn of(
        settings: &Settings,
        [first, twice]: [&Comparison; 2],
        duration_ns: u64,
        waits: Option<&LockWaits>,
    ) -> Option<Advice> {
        let outcomes = first.systems.iter().zip(&twice.systems);
        let now = twice.systems.first()?;
        let of_now = answer::rounds(twice, &now.spec.to_string());
        let effects: Vec<Effect> = settings
            .list
            .iter()
            .zip(outcomes)
            .enumerate()
            .map(|(at, (setting, (first, twice_own)))| {
                let rounds = answer::rounds(twice, &twice_own.spec.to_string());
                let ratio = (at > 0).then(|| Ratio::of(&rounds, &of_now)).flatten();
                effect(setting, [first, twice_own], ratio)
            })
            .collect();
        let time: f64 = now
            .pace
            .latency
            .iter()
            .map(|own| own.mean * own.count as f64)
            .sum();
        let [before, all] = [first.systems.first()?, now].map(Outcome::all);
        let load = Load {
            waiting: waits.map(LockWaits::share),
            calling: Some(time / (2.0 * duration_ns.max(1) as f64 * f64::from(twice.cpus.max(1)))),
            leaving: share(
                all.visits.saturating_sub(before.visits),
                all.operations.saturating_sub(before.operations),
            ),
        };
        let calls = twice.events.saturating_sub(first.events);
        let verdict = match best(&effects, calls) {
            _ if !load.is_problem() => Verdict::NotTheProblem,
            None => Verdict::NothingToGain,
            Some(fraction) => Verdict::Set(fraction),
        };
        Some(Advice {
            verdict,
            load,
            effects,
            duration_ns,
            cpus: twice.cpus,
            calls,
        })
    }

    /// Converts a number of events of the trace to events per second.
    pub fn per_second(&self, events: u64) -> f64 {
        events as f64 * 1e9 / self.duration_ns.max(1) as f64
    }
}

fn effect(setting: &Setting, [first, twice]: [&Outcome; 2], ratio: Option<Ratio>) -> Effect {
    let [before, all] = [first, twice].map(|outcome| outcome.all().counts);
    let moves_of = |counts: &Counts| counts.refills + counts.drains;
    let acquisitions_of =
        |counts: &Counts| moves_of(counts) + counts.bypasses_order0 + counts.bypasses_larger;
    let idle = twice
        .samples
        .iter()
        .map(|sample| sample.snapshot.buffered_frames);
    Effect {
        setting: *setting,
        ratio,
        moves: moves_of(&all).saturating_sub(moves_of(&before)),
        acquisitions: acquisitions_of(&all).saturating_sub(acquisitions_of(&before)),
        moved_frames: [0, 1].map(|call| {
            let [before, all] = [first, twice].map(|outcome| outcome.tallies[call].crossed);
            all.saturating_sub(before)
        }),
        idle_frames: idle.max().unwrap_or(0),
    }
}

/// Returns the value that passes all thresholds, if one does. The first effect is that of the present value.
fn best(effects: &[Effect], calls: u32) -> Option<u32> {
    let (now, others) = effects.split_first()?;
    let least =
        (now.acquisitions as f64 * LEAST_SAVED).max(f64::from(calls) * LEAST_SAVED_PER_CALL);
    let saved = |own: &Effect| now.acquisitions as f64 - own.acquisitions as f64;
    let is_slower = |own: &Effect| own.ratio.is_some_and(|ratio| ratio.least > 1.0);
    let gains = |own: &&Effect| saved(own) >= least && !is_slower(own);
    let most = others
        .iter()
        .filter(gains)
        .map(saved)
        .max_by(f64::total_cmp)?;
    let nearly = most - now.acquisitions as f64 * NEARLY;
    let good = others
        .iter()
        .filter(gains)
        .filter(|own| saved(own) >= nearly);
    good.min_by_key(|own| own.setting.high[1])
        .map(|own| own.setting.fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> LinuxZone {
        LinuxZone {
            frames: 3_080_192,
            low: 16_866,
            cpus: 2,
            fraction: 0,
        }
    }

    #[test]
    fn versions_say_whether_lists_tune_themselves() {
        for (version, age) in [
            ("6.18.44", Age::Tuned),
            ("6.7.0-rc1", Age::Tuned),
            ("6.6.87+deb", Age::Fixed),
            ("5.14", Age::Fixed),
            ("5.4.0-150-generic", Age::WithoutSetting),
            ("4.18.0-553.el8", Age::WithoutSetting),
            ("", Age::Unknown),
            ("Linux", Age::Unknown),
        ] {
            assert_eq!(Age::of(version), age, "{version}");
        }
    }

    #[test]
    fn the_default_of_older_kernels_has_the_smallest_length_of_newer_ones() {
        let tuned = setting(&zone(), Age::Tuned, 0).unwrap();
        assert_eq!(tuned.spec.to_string(), choice::LINUX);
        let fixed = setting(&zone(), Age::Fixed, 0).unwrap();
        let [low, high] = fixed.high;
        assert_eq!((fixed.fraction, low), (0, high));
        assert!(low.abs_diff(tuned.high[0]) * 100 < low, "{fixed:?}");
        // A fixed list is as long as the longest that tunes itself.
        let longest = setting(&zone(), Age::Fixed, 8).unwrap();
        assert_eq!(longest.high, [tuned.high[1]; 2]);
    }

    #[test]
    fn only_longer_lists_are_tried() {
        let machine = |kernel: &str, fraction: &str| trace::Machine {
            kernel: kernel.to_string(),
            cpus: 2,
            total_kib: 3_080_192 * 4,
            zones: vec![trace::MachineZone {
                name: "Normal".to_string(),
                managed: 3_080_192,
                low: 16_866,
                cpus: 2,
                ..trace::MachineZone::default()
            }],
            settings: vec![(
                "percpu_pagelist_high_fraction".to_string(),
                fraction.to_string(),
            )],
            ..trace::Machine::default()
        };
        let fractions = |kernel: &str, fraction: &str| {
            let trace = trace::Trace {
                metadata: vec![machine(kernel, fraction).entry()],
                ..trace::Trace::default()
            };
            let settings = Settings::of(&trace, 2);
            assert_eq!(settings.machine.zone.fraction, 0);
            let list = settings.list.iter().map(|own| own.fraction);
            list.collect::<Vec<_>>()
        };
        assert_eq!(fractions("6.18.1", "0"), [0, 8, 16, 32, 64, 128]);
        // What the machine has now is first, and the default is among the others.
        assert_eq!(fractions("6.18.1", "32"), [32, 0, 8, 16]);
        assert_eq!(fractions("5.4.1", "0"), [0]);
    }

    #[test]
    fn the_shortest_list_that_saves_nearly_as_much_is_advised() {
        let ratio = |least, most| {
            Some(Ratio {
                median: (least + most) / 2.0,
                least,
                most,
            })
        };
        let effect = |fraction, acquisitions, ratio| Effect {
            setting: setting(&zone(), Age::Fixed, fraction).unwrap(),
            ratio,
            moves: acquisitions,
            acquisitions,
            moved_frames: [0; 2],
            idle_frames: 0,
        };
        let of = |own: [u64; 3], ratios: [Option<Ratio>; 2]| {
            let [now, first, second] = own;
            let effects = [
                effect(0, now, None),
                effect(8, first, ratios[0]),
                effect(64, second, ratios[1]),
            ];
            best(&effects, 100_000)
        };
        let same = ratio(0.9, 1.1);
        assert_eq!(of([1000, 100, 140], [same; 2]), Some(64));
        assert_eq!(of([1000, 100, 160], [same; 2]), Some(8));
        // A tenth is not saved, nor one acquisition in 10,000 calls.
        assert_eq!(of([1000, 901, 1000], [same; 2]), None);
        assert_eq!(of([12, 3, 3], [same; 2]), None);
        // A value that is slower in each round is never advised.
        let slower = ratio(1.01, 1.2);
        assert_eq!(of([1000, 100, 140], [same, slower]), Some(8));
        assert_eq!(of([1000, 100, 140], [slower; 2]), None);
    }

    #[test]
    fn little_time_is_no_problem() {
        let load = |waiting, calling| Load {
            waiting,
            calling,
            leaving: None,
        };
        assert!(!load(None, None).is_problem());
        assert!(!load(Some(0.009), Some(0.009)).is_problem());
        assert!(load(Some(0.01), None).is_problem());
        assert!(load(Some(0.0), Some(0.01)).is_problem());
        assert_eq!(load(None, Some(1.0)).is_waiting(), None);
    }
}
