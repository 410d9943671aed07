//! A system with two CPUs and 256 MiB, shared by tests of frames that change CPUs.

use everybuddy::platform::NativeCpus;
use everybuddy::{Counts, FrameRange, Index, Pfn, Release, Request, Setup};
use everybuddy_suite::{Cpu, System, claim, on};

/// 256 MiB: a magazine has 31 frames.
pub(crate) const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 1 << 16)];

/// Runs `body` with a system and the tokens of two CPUs. Returns the events that both counted.
pub(crate) fn with(name: &str, body: impl FnOnce(&System<'_>, &mut Cpu, &mut Cpu)) -> Counts {
    on(name, &Setup::new(RANGES, 2), |system| {
        let cpus = NativeCpus::new(2);
        let [mut first, mut second] = [0, 1].map(|cpu| claim(&cpus, cpu));
        body(system, &mut first, &mut second);
        let mut counts = first.probe().counts;
        counts.add(&second.probe().counts);
        // All frames are free again and coalesced.
        system.park(&mut second);
        system.quiesce(&mut first).unwrap();
        let census = system.check(&mut first).unwrap();
        assert_eq!((census.free, census.buffered), (1 << 16, 0), "{name}");
        assert_eq!(system.snapshot(&mut first).free_blocks[10], 64, "{name}");
        counts
    })
}

/// Allocates frames one by one.
pub(crate) fn allocate(system: &System<'_>, cpu: &mut Cpu, frames: u64) -> Vec<Index> {
    let frame = |_| system.allocate(cpu, Request::FRAME).unwrap();
    (0..frames).map(frame).collect()
}

/// Frees frames one by one.
pub(crate) fn free(system: &System<'_>, cpu: &mut Cpu, frames: &[Index]) {
    for frame in frames {
        system.free(cpu, Release::frame(*frame)).unwrap();
    }
}
