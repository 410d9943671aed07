//! The machine whose lists are measured, as opposed to the memory that is managed.
//!
//! Linux computes batch and watermarks of a CPU's lists from the size of a zone. A replay manages little more than the
//! traced program used, and no real machine is that small. So there are two numbers: the *machine*, from
//! which the parameters of all lists follow, and the *room* in which a trace runs.
//!
//! # Invariants
//! The machine is what the command line says, or what the trace says, or [`Machine::COMMON`].

use std::fmt;

use everybuddy::systems::{LinuxZone, Tuning};
use everybuddy::{FrameRange, Setup};
use everybuddy_trace as trace;

use crate::size;

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Frames of its memory.
    pub frames: u64,
    /// The zone from which the parameters of lists follow: its largest.
    pub zone: LinuxZone,
    /// The room in which the traced program ran, in frames, if it is known.
    pub room: Option<u64>,
    /// Where these numbers come from.
    source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Given,
    Trace,
    Nobody,
}

/// Frames of zone `DMA` that Linux manages on x86-64, and the frame at which zone `DMA32` begins.
const DMA: [u64; 2] = [3840, 1 << 12];
/// Frames below 4 GiB on most machines: one GiB is for devices.
const BELOW_4_GIB: u64 = 3 << 18;
/// Frames that Linux reserves for each zone where transparent huge pages are enabled: 11 page blocks.
const RESERVE: u64 = 11 * 512;
/// The most frames that a trace says were free and that become the room: 4 GiB. More costs time and changes no list.
pub(crate) const LARGEST_ROOM: u64 = 1 << 20;

impl Machine {
    /// The memory of a machine about which nothing is known: 16 GiB.
    pub const COMMON: u64 = 1 << 22;

    /// The least CPUs of such a machine. Linux divides the marks of lists by CPUs, and the number of threads of a
    /// measurement says nothing about them.
    const COMMON_CPUS: u16 = 8;

    /// Returns the machine for a trace that runs on `cpus` CPUs.
    pub fn new(trace: &trace::Trace, given: Option<u64>, cpus: u16) -> Machine {
        let recorded = trace::Machine::of(trace);
        match (given, recorded) {
            (Some(_), Some(recorded)) if recorded.cpus > 0 => Machine::x86(
                given.unwrap_or(Machine::COMMON),
                recorded.cpus,
                Source::Given,
            ),
            (Some(_), _) | (_, None) => Machine::sized(given, cpus),
            (None, Some(recorded)) => Machine::recorded(&recorded, cpus),
        }
    }

    /// Returns a machine of that memory, or a common one, with the zones of Linux on x86-64.
    pub fn sized(given: Option<u64>, cpus: u16) -> Machine {
        let source = given.map_or(Source::Nobody, |_| Source::Given);
        let cpus = cpus.max(Machine::COMMON_CPUS);
        Machine::x86(given.unwrap_or(Machine::COMMON), cpus, source)
    }

    /// Returns the frames that the lists of some CPUs keep before they grow: the low end of Linux's high watermark.
    pub fn kept(&self, cpus: u16) -> u64 {
        u64::from(cpus) * u64::from(Tuning::linux(&self.zone, u64::MAX).high_min)
    }

    /// Returns `true` if the command line says which machine it is.
    pub fn is_given(&self) -> bool {
        self.source == Source::Given
    }

    /// Returns the set-up of a system on some of the frames of a machine, or of a machine that has no other frames.
    pub fn setup(machine: Option<Machine>, ranges: &[FrameRange], cpus: u16) -> Setup<'_> {
        let setup = Setup::new(ranges, cpus);
        match machine {
            Some(machine) => setup.with_zone(machine.zone),
            None => setup,
        }
    }

    fn x86(frames: u64, cpus: u16, source: Source) -> Machine {
        let [dma, below] = DMA;
        let dma32 = frames.min(BELOW_4_GIB).saturating_sub(below);
        let normal = frames.saturating_sub(BELOW_4_GIB);
        let zones = [frames.min(dma), dma32, normal];
        let all = zones.iter().sum();
        let count = zones.iter().filter(|frames| **frames > 0).count() as u64;
        // Transparent huge pages raise the reserve, to at most a twentieth of memory.
        let reserve = LinuxZone::reserve(all).max((count * RESERVE).min(all / 20));
        let largest = zones.into_iter().max().unwrap_or(frames);
        Machine {
            frames,
            zone: LinuxZone::of(largest, all, reserve, cpus),
            room: None,
            source,
        }
    }

    fn recorded(machine: &trace::Machine, cpus: u16) -> Machine {
        let (frames, source) = (machine.total_kib / 4, Source::Trace);
        // Linux divides by the CPUs of the zone's node, and not by those that call.
        let on = |own: u16| if own == 0 { cpus } else { own };
        let mut own = Machine::x86(frames, on(machine.cpus), source);
        own.room = machine.free_kib.map(|kib| (kib / 4).min(LARGEST_ROOM));
        if let Some(zone) = machine.largest_zone() {
            let fraction = machine.setting("percpu_pagelist_high_fraction");
            own.zone = LinuxZone {
                frames: zone.managed,
                low: zone.low,
                cpus: on(zone.cpus),
                fraction: fraction.and_then(|text| text.parse().ok()).unwrap_or(0),
            };
        }
        own
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = size::frames(self.frames);
        match self.source {
            Source::Given => write!(out, "machine {memory}"),
            Source::Trace => write!(out, "machine {memory}, as recorded"),
            Source::Nobody => write!(out, "machine {memory}, assumed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use everybuddy::{Pfn, SystemSpec};

    use super::*;

    /// `/proc/zoneinfo` of two machines, as far as it is read: Linux 6.18 with two CPUs, and Linux 5.4 with two CPUs,
    /// whose lists had one fixed high watermark of six batches.
    const TEXTS: [&str; 2] = [
        "Node 0, zone      DMA\n pages free     3840\n low      20\n managed  3840\n \
         cpu: 0\n high:     0\n batch:    1\n high_min: 10\n high_max: 240\n cpu: 1\n\
         Node 0, zone    DMA32\n pages free     772682\n low      4231\n managed  772808\n \
         cpu: 0\n high:     2115\n batch:    63\n high_min: 2115\n high_max: 48300\n cpu: 1\n\
         Node 0, zone   Normal\n pages free     1856560\n low      16866\n managed  3080192\n \
         cpu: 0\n high:     8433\n batch:    63\n high_min: 8433\n high_max: 192512\n cpu: 1\n",
        "Node 0, zone      DMA\n pages free     3962\n low      83\n managed  3977\n \
         cpu: 0\n high:  0\n batch: 1\n cpu: 1\n\
         Node 0, zone    DMA32\n pages free     21173\n low      15872\n managed  758582\n \
         cpu: 0\n high:  378\n batch: 63\n cpu: 1\n",
    ];

    /// Returns batch and high watermarks of `linux-6` on the machine of a trace.
    fn tuning(recorded: &trace::Machine) -> [u64; 3] {
        let trace = trace::Trace {
            metadata: vec![recorded.entry()],
            ..trace::Trace::default()
        };
        let machine = Machine::new(&trace, None, 1);
        // In a room of 76 MiB, as small as that of a bundled trace.
        let ranges = [FrameRange::new(Pfn(0), 76 << 8)];
        let setup = Machine::setup(Some(machine), &ranges, 1);
        let spec: SystemSpec = "linux-6+percpu=locked".parse().unwrap();
        let Tuning {
            batch,
            high_min,
            high_max,
            ..
        } = spec.parameters(&setup).unwrap().tuning;
        [batch, high_min, high_max].map(u64::from)
    }

    fn shown(zone: &trace::MachineZone) -> [u64; 3] {
        [zone.batch, zone.high_min, zone.high_max]
    }

    /// Returns a machine that has one of the zones only.
    fn with(zone: &trace::MachineZone) -> trace::Machine {
        trace::Machine {
            total_kib: zone.managed * 4,
            zones: vec![zone.clone()],
            ..trace::Machine::default()
        }
    }

    #[test]
    fn a_recorded_machine_has_the_lists_that_its_kernel_shows() {
        let [new, old] = TEXTS.map(|text| trace::zones(text, |_| None));
        assert_eq!((new.len(), old.len()), (3, 2));
        for zone in &new {
            assert_eq!(tuning(&with(zone)), shown(zone), "{}", zone.name);
        }
        for zone in &old {
            assert_eq!(tuning(&with(zone))[0], zone.batch, "{}", zone.name);
        }
        // Of several zones, the largest.
        let machine = trace::Machine {
            zones: new.clone(),
            ..with(&new[0])
        };
        assert_eq!(tuning(&machine), shown(&new[2]));
        let fixed = trace::Machine {
            settings: vec![("percpu_pagelist_high_fraction".into(), "100".into())],
            ..machine
        };
        let high = new[2].managed / 100 / 2;
        assert_eq!(tuning(&fixed), [63, high, high]);
    }

    #[test]
    fn this_machine_has_the_lists_that_its_kernel_shows() {
        let Ok(text) = std::fs::read_to_string("/proc/zoneinfo") else {
            eprintln!("skipped: /proc/zoneinfo cannot be read");
            return;
        };
        let zones = trace::zones(&text, |_| None);
        if !text.contains("high_max:") || zones.iter().any(|zone| zone.node > 0) {
            eprintln!("skipped: the kernel is older than 6.7, or has several nodes");
            return;
        }
        let fraction = std::fs::read_to_string("/proc/sys/vm/percpu_pagelist_high_fraction");
        let name = "percpu_pagelist_high_fraction".to_string();
        let fraction = (name, fraction.unwrap_or_default().trim().to_string());
        for zone in &zones {
            let machine = trace::Machine {
                settings: vec![fraction.clone()],
                ..with(zone)
            };
            assert_eq!(tuning(&machine), shown(zone), "zone {}", zone.name);
        }
    }

    #[test]
    fn a_machine_that_is_only_a_size_is_like_one_that_was_recorded() {
        // A machine of 24 GiB with two CPUs, whose kernel shows 63, 10,081 and 337,141.
        let machine = Machine::x86(6 << 20, 2, Source::Given);
        let own = Tuning::linux(&machine.zone, u64::MAX);
        assert_eq!(own.batch, 63);
        for (own, shown) in [(own.high_min, 10_081), (own.high_max, 337_141)] {
            assert!(own.abs_diff(shown) * 30 < shown, "{own} instead of {shown}");
        }
        assert_eq!(machine.to_string(), "machine 24 GiB");
        let common = Machine::new(&trace::Trace::default(), None, 4);
        assert_eq!(common.to_string(), "machine 16 GiB, assumed");
        assert_eq!(common.zone.cpus, Machine::COMMON_CPUS);
        assert_eq!(common.room, None);
        assert_eq!(Machine::sized(None, 64).zone.cpus, 64);
        // Small machines have fewer zones.
        for frames in [1, 4096, 1 << 15, 3 << 18] {
            assert!(Machine::sized(Some(frames), 1).zone.frames <= frames);
        }
    }
}
