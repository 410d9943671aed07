//! The properties of CPUs: those that a system was not set up for, and those that go offline.

use everybuddy::systems::{ListAccess, ListKind, ZoneKind};
use everybuddy::{
    AllocateError, Block, BulkFreeError, CpuId, CpuToken, Flags, FrameRange, FreeError, Index, Pfn,
    Platform, RegionError, Release, Request, Setup, SystemSpec,
};

use spin::Mutex;

use super::is_as_new;
use crate::free_frames;
use crate::{Host, Shadow, order};

/// A call by a CPU beyond the setup's is refused with a typed error, and changes nothing.
pub fn unknown_cpus_are_refused<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(4096), 256)];
    const UNKNOWN: CpuId = CpuId(2);
    let setup = Setup::new(RANGES, 2).with_reach(FrameRange::new(Pfn(4096), 1024));
    host.build(spec, &setup, &mut |system| {
        let reserved = FrameRange::new(Pfn(4096 + 255), 1);
        let before = Mutex::new(None);
        host.run(1, |cpu| {
            system.reserve(cpu, reserved).unwrap();
            let frame = system.allocate(cpu, Request::FRAME).unwrap();
            let start = system.allocate(cpu, Request::order(order(2))).unwrap();
            let run = system.allocate(cpu, Request::frames(7)).unwrap();
            let held = (frame, Block::new(start, order(2)), run);
            let state = (system.check(cpu).unwrap(), system.snapshot(cpu));
            *before.lock() = Some((held, state));
        });
        let (held, state) = before.into_inner().expect("CPU 0 has run");
        let (frame, block, run) = held;
        let releases = [
            Release::frame(frame),
            Release::block(block),
            Release::frames(run, 7),
            Release::frames(run, 3),
        ];
        host.run(3, |cpu| {
            if cpu.id() != UNKNOWN {
                return;
            }
            let refused = AllocateError::NoSuchCpu;
            for request in [
                Request::FRAME,
                Request::order(order(3)),
                Request::frames(5),
                Request::FRAME.with_flags(Flags::NO_WAIT),
            ] {
                assert_eq!(system.allocate(cpu, request), Err(refused));
                let mut out = [Index(0); 4];
                let given = system.allocate_bulk(cpu, request, &mut out);
                assert_eq!(given, Err(refused));
                assert_eq!(system.allocate_bulk(cpu, request, &mut []), Ok(0));
                for unknown in [UNKNOWN, CpuId(u16::MAX)] {
                    assert_eq!(system.allocate_nested(unknown, request), Err(refused));
                }
            }
            for release in releases {
                let refused = FreeError::NoSuchCpu;
                assert_eq!(system.free(cpu, release), Err(refused));
                let bulk = BulkFreeError {
                    index: 0,
                    error: refused,
                };
                assert_eq!(system.free_bulk(cpu, &[release, release]), Err(bulk));
                assert_eq!(system.free_nested(UNKNOWN, release), Err(refused));
                assert_eq!(system.free_bulk(cpu, &[]), Ok(()));
            }
            let refused_range = Err(RegionError::NoSuchCpu);
            let hole = FrameRange::new(Pfn(4096 + 512), 8);
            assert_eq!(system.add(cpu, hole), refused_range);
            let free = FrameRange::new(Pfn(4096 + 250), 1);
            assert_eq!(system.remove(cpu, free), refused_range);
            assert_eq!(system.reserve(cpu, free), refused_range);
            assert_eq!(system.unreserve(cpu, reserved), refused_range);
            assert_eq!(system.quiesce(cpu), Err(refused));
            assert_eq!(system.drain_parked(cpu, CpuId(0)), Err(refused));
            assert_eq!(system.drain_parked(cpu, UNKNOWN), Err(refused));
            // These have no errors to return.
            system.drain(cpu);
            system.park(cpu);
            assert_eq!(system.buffered_frames(UNKNOWN), 0);
            assert_eq!(system.check(cpu).unwrap(), state.0);
            assert_eq!(system.snapshot(cpu).free_frames(), state.1.free_frames());
        });
        host.run(1, |cpu| {
            assert_eq!(system.check(cpu).unwrap(), state.0);
            assert_eq!(system.snapshot(cpu).free_blocks, state.1.free_blocks);
            let refused = Err(AllocateError::NoSuchCpu);
            assert_eq!(system.drain_parked(cpu, UNKNOWN), refused);
            for release in &releases[..3] {
                system.free(cpu, *release).unwrap();
            }
            system.unreserve(cpu, reserved).unwrap();
            is_as_new(system, cpu, RANGES);
        });
    });
}

/// A CPU that goes offline is parked; another CPU drains its list. When it comes back, its list works as before.
pub fn offline_cpus_are_drained<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 512)];
    const OFFLINE: CpuId = CpuId(1);
    let setup = Setup::new(RANGES, 2);
    let composition = spec
        .parameters(&setup)
        .expect("it can be built")
        .composition;
    host.build(spec, &setup, &mut |system| {
        for _ in 0..2 {
            host.run(2, |cpu| {
                if cpu.id() == OFFLINE {
                    let frames = [(); 40].map(|()| system.allocate(cpu, Request::FRAME).unwrap());
                    free_frames(system, cpu, frames);
                    // A list that predicts keeps nothing after a long run of frees, but some for the next request.
                    let frame = system.allocate(cpu, Request::FRAME).unwrap();
                    system.free(cpu, Release::frame(frame)).unwrap();
                }
            });
            let kept = system.buffered_frames(OFFLINE);
            let listed = composition.zone == ZoneKind::Owned;
            assert_eq!(kept > 0, listed || composition.list != ListKind::None);
            // It may still be at work: only a lock protects its list then.
            if kept > 0 && composition.access == ListAccess::Token {
                host.run(1, |cpu| {
                    let busy = Err(AllocateError::Busy);
                    assert_eq!(system.drain_parked(cpu, OFFLINE), busy);
                    assert_eq!(system.buffered_frames(OFFLINE), kept);
                });
            }
            host.run(2, |cpu| {
                if cpu.id() == OFFLINE {
                    system.park(cpu);
                }
            });
            host.run(1, |cpu| {
                for _ in 0..2 {
                    assert_eq!(system.drain_parked(cpu, OFFLINE), Ok(()));
                    assert_eq!(system.buffered_frames(OFFLINE), 0);
                }
                assert_eq!(system.check(cpu).unwrap().allocated, 0);
                // All memory is there without asking any CPU.
                let request = Request::FRAME.with_flags(Flags::NO_WAIT);
                let frames = [(); 512].map(|()| system.allocate(cpu, request).unwrap());
                free_frames(system, cpu, frames);
                // A CPU can drain itself this way, too.
                assert_eq!(system.drain_parked(cpu, cpu.id()), Ok(()));
                assert_eq!(system.buffered_frames(cpu.id()), 0);
                is_as_new(system, cpu, RANGES);
            });
        }
    });
}

/// CPUs park and come back while another CPU drains them: no frame is lost or allocated twice.
pub fn cpus_return_while_they_are_drained<P: Platform, H: Host<P>>(host: &H, spec: &SystemSpec) {
    const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 512)];
    host.build(spec, &Setup::new(RANGES, 3), &mut |system| {
        let shadow = Shadow::new(512);
        host.run(3, |cpu| {
            for round in 0..200 {
                if cpu.id() == CpuId(0) {
                    for other in [1, 2] {
                        let drained = system.drain_parked(cpu, CpuId(other));
                        assert!(matches!(drained, Ok(()) | Err(AllocateError::Busy)));
                    }
                    continue;
                }
                let owner = u32::from(cpu.id().0);
                let frames = [(); 5].map(|()| system.allocate(cpu, Request::FRAME).unwrap());
                for frame in frames {
                    shadow.take(frame, 1, owner);
                }
                for frame in frames {
                    shadow.give(frame, 1, owner);
                    system.free(cpu, Release::frame(frame)).unwrap();
                }
                if round % 3 != 0 {
                    system.park(cpu);
                }
            }
            system.park(cpu);
        });
        host.run(1, |cpu| is_as_new(system, cpu, RANGES));
    });
}
