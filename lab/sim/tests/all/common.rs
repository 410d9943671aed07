//! What the tests share: systems on the virtual machine, and random numbers.

use core::mem::MaybeUninit;

use everybuddy::{FrameAllocator, FrameRange, Memory, Pfn, Setup, SystemSpec};
use everybuddy_sim::{CostModel, Machine, Region, Report, Sim, SimCpu, SimError, build_any};
use everybuddy_suite::platform::memory_for;

/// A system on the virtual machine.
pub(crate) type System<'s> = dyn FrameAllocator<Sim> + 's;

/// Builds a system in the memory given.
pub(crate) fn build(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: &mut [MaybeUninit<u8>],
    visitor: &mut dyn FnMut(&dyn FrameAllocator<Sim>),
) {
    match build_any(spec, setup, Memory::new(memory)) {
        Ok(system) => visitor(system),
        Err(error) => panic!("{spec}: {error}"),
    }
}

/// Builds `system` for `cpus` CPUs and `frames` frames in memory that begins `shift` bytes after a line,
/// and calls `body` with it and the region of its memory.
pub(crate) fn with_memory<T>(
    system: &str,
    cpus: u16,
    frames: u64,
    shift: usize,
    body: impl FnOnce(Region, &System<'_>) -> T,
) -> T {
    let ranges = [FrameRange::new(Pfn(0), frames)];
    let setup = Setup::new(&ranges, cpus);
    let spec: SystemSpec = system.parse().unwrap();
    let bytes = memory_for::<Sim>(&spec, &setup).len();
    let mut memory = vec![MaybeUninit::uninit(); bytes + 64 + shift];
    let memory = &mut memory[shift..];
    let region = Region::of(memory);
    let (mut body, mut result) = (Some(body), None);
    build(&spec, &setup, memory, &mut |system| {
        let body = body.take().expect("a visitor is called once");
        result = Some(body(region, system));
    });
    result.expect("a visitor is called")
}

/// Runs a program without a region, which ends.
pub(crate) fn ran<T>(
    mut machine: Machine<impl CostModel>,
    body: impl Fn(&mut SimCpu) -> T,
) -> Report<T> {
    machine.run(Region::NONE, body).unwrap()
}

/// Runs a program without a region, which does not end.
pub(crate) fn failed<T: core::fmt::Debug>(
    mut machine: Machine<impl CostModel>,
    body: impl Fn(&mut SimCpu) -> T,
) -> SimError {
    machine.run(Region::NONE, body).unwrap_err()
}

/// Marsaglia's xorshift64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}
