//! The zone of a machine, as far as the parameters of Linux's lists follow from it.
//!
//! What a CPU's list keeps follows from the machine and not from the memory that happens to be managed: a program that
//! runs in a corner of a large machine has the lists of that machine.
//!
//! # Source
//! Linux 6.12, `mm/page_alloc.c`: what it computes for the watermarks of a zone, rewritten from its behaviour.
//!
//! # Invariants
//! Nothing here depends on the managed memory.

/// A zone of memory, and the CPUs that share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinuxZone {
    /// Frames of 4 KiB that Linux manages in the zone.
    pub frames: u64,
    /// The zone's low watermark, in frames.
    pub low: u64,
    /// The CPUs of the zone's node.
    pub cpus: u16,
    /// Linux's `percpu_pagelist_high_fraction`; 0 if the high watermark tunes itself.
    pub fraction: u32,
}

impl LinuxZone {
    /// Returns the only zone of a machine. Linux keeps a reserve that grows with the square root of memory.
    pub fn alone(frames: u64, cpus: u16) -> LinuxZone {
        LinuxZone::of(frames, frames, LinuxZone::reserve(frames), cpus)
    }

    /// Returns one of the zones of a machine that has `all` frames and keeps `reserve` of them: the zone keeps its
    /// share.
    pub fn of(frames: u64, all: u64, reserve: u64, cpus: u16) -> LinuxZone {
        // A reserve has at most 2^18 frames, and a machine fewer than 2^46. A kernel cannot divide 128 bits.
        let min = reserve.saturating_mul(frames) / all.max(1);
        // Linux's distance between two watermarks: a quarter of the lowest, or a thousandth of the zone.
        let low = min.saturating_add((min / 4).max(frames / 1000));
        LinuxZone {
            frames,
            low,
            cpus,
            fraction: 0,
        }
    }

    /// Returns the frames that Linux keeps in reserve on a machine without transparent huge pages: `min_free_kbytes`.
    pub fn reserve(all: u64) -> u64 {
        let kib = all.saturating_mul(4);
        kib.saturating_mul(16).isqrt().clamp(128, 262_144) / 4
    }
}
