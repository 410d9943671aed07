//! Shared test code: memory for a system, and random numbers.
#![allow(dead_code, unreachable_pub)]

use core::mem::MaybeUninit;

use everybuddy::{FrameRange, Setup, SystemSpec, WithSystem, metadata_layout, with_system};
use everybuddy_sim::{Region, Sim};

/// Builds `system` for `cpus` CPUs and `frames` frames in memory that begins `shift` bytes after a cache line, and
/// calls the visitor that `make` creates for the region.
pub fn with_memory<V: WithSystem<Sim>>(
    system: &str,
    cpus: u16,
    frames: u64,
    shift: usize,
    make: impl FnOnce(Region) -> V,
) -> V::Output {
    let ranges = [FrameRange::new(0, frames)];
    let setup = Setup::new(&ranges, cpus);
    let spec: SystemSpec = system.parse().unwrap();
    let bytes = metadata_layout::<Sim>(&spec, &setup).unwrap().size();
    let mut memory = vec![MaybeUninit::uninit(); bytes + 64 + shift];
    let memory = &mut memory[shift..];
    let region = Region::of(memory);
    with_system(&spec, &setup, memory, make(region)).unwrap()
}

/// Marsaglia's xorshift64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}
