//! Nested calls, from a handler that interrupts an operation: at every access of every operation, on every system.
//!
//! A handler has no token, and finds the allocator in the middle of an operation of its own CPU. It must not hang, and
//! must not get a frame that is in use.
//!
//! # Invariants
//! After each run every frame that is not held can be allocated, and when all were freed memory is whole.

use std::cell::{Cell, RefCell};

use everybuddy::platform::CpuToken;
use everybuddy::systems::ZoneKind;
use everybuddy::{AllocateError, Block, CpuId, Flags, FreeError, Index, Order, Release, Request};
use everybuddy_sim::{Flat, Machine, Region, SimCpu};

use crate::common::{System, with_memory};
use crate::steps::{FRAMES, Held, PROGRAMS, Program, prepare, small_systems};

/// What a handler does.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// Allocates a block of this order and keeps it.
    Allocate(u8),
    /// Frees the block that was allocated last, or the one that was allocated first: it is elsewhere in memory.
    Free,
    FreeOldest,
    /// Allocates a block of this order and frees it.
    Both(u8),
    /// Allocates a run of five frames and frees a part of it.
    Run,
}

const CALLS: [Call; 8] = [
    Call::Allocate(0),
    Call::Free,
    Call::Allocate(3),
    Call::FreeOldest,
    Call::Both(0),
    Call::Run,
    Call::Allocate(5),
    Call::Both(2),
];

/// What handlers hold and did.
struct Handler<'a> {
    system: &'a System<'a>,
    held: &'a Held,
    own: RefCell<Vec<Block>>,
    /// Calls that succeeded, and calls that found a lock held.
    served: Cell<u32>,
    busy: Cell<u32>,
}

impl Handler<'_> {
    fn call(&self, cpu: CpuId, call: Call) {
        match call {
            Call::Allocate(order) => _ = self.allocate(cpu, order),
            Call::Free => self.free(cpu, usize::MAX),
            Call::FreeOldest => self.free(cpu, 0),
            Call::Both(order) => {
                if self.allocate(cpu, order) {
                    self.free(cpu, usize::MAX);
                }
            }
            Call::Run => self.run(cpu),
        }
    }

    fn count(&self, is_busy: bool) {
        let count = if is_busy { &self.busy } else { &self.served };
        count.set(count.get() + 1);
    }

    fn refused(&self, error: AllocateError) {
        let documented = [AllocateError::Exhausted, AllocateError::Busy];
        assert!(documented.contains(&error), "{error:?}");
        self.count(error == AllocateError::Busy);
    }

    fn allocate(&self, cpu: CpuId, order: u8) -> bool {
        let order = Order::new(order).unwrap();
        match self.system.allocate_nested(cpu, Request::order(order)) {
            Ok(start) => {
                self.held.add(start, order);
                self.own.borrow_mut().push(Block { start, order });
                self.count(false);
                true
            }
            Err(error) => {
                self.refused(error);
                false
            }
        }
    }

    /// Frees the block at a position, at most the last one.
    fn free(&self, cpu: CpuId, at: usize) {
        let Some(last) = self.own.borrow().len().checked_sub(1) else {
            return;
        };
        let block = self.own.borrow_mut().remove(at.min(last));
        self.held.remove(block);
        let freed = self.system.free_nested(cpu, Release::block(block));
        if freed.is_err() {
            assert_eq!(freed, Err(FreeError::Busy));
            self.held.add(block.start, block.order);
            self.own.borrow_mut().push(block);
        }
        self.count(freed.is_err());
    }

    fn run(&self, cpu: CpuId) {
        let start = match self.system.allocate_nested(cpu, Request::frames(5)) {
            Ok(start) => start,
            Err(error) => return self.refused(error),
        };
        let frames = (0..5).map(|frame| Block {
            start: everybuddy::Index(start.0 + frame),
            order: Order::ZERO,
        });
        let frames: Vec<Block> = frames.collect();
        for frame in &frames {
            self.held.add(frame.start, frame.order);
        }
        // Three of them; the others are freed one by one later.
        for frame in &frames[..3] {
            self.held.remove(*frame);
        }
        let freed = self.system.free_nested(cpu, Release::frames(start, 3));
        let mut own = self.own.borrow_mut();
        if freed.is_err() {
            assert_eq!(freed, Err(FreeError::Busy));
            for frame in &frames[..3] {
                self.held.add(frame.start, frame.order);
                own.push(*frame);
            }
        }
        own.extend_from_slice(&frames[3..]);
        self.count(freed.is_err());
    }
}

/// Interrupts CPU 0 at the accesses given while it executes a program. Returns the number of its accesses, and how many
/// calls of handlers were served and how many were refused as busy.
fn interrupt(
    name: &str,
    program: &Program,
    accesses: impl Iterator<Item = u64>,
    calls: impl Fn(usize) -> Call,
) -> (u64, u32, u32) {
    with_memory(name, 2, FRAMES, 0, |region, system| {
        interrupt_on(system, region, program, accesses, calls)
    })
}

fn interrupt_on(
    system: &System<'_>,
    region: Region,
    program: &Program,
    accesses: impl Iterator<Item = u64>,
    calls: impl Fn(usize) -> Call,
) -> (u64, u32, u32) {
    let machine = Machine::new(2).cost(Flat::new(10)).limit(1 << 36);
    let mut machine = accesses.fold(machine, |machine, access| {
        machine.interrupt(CpuId(0), access)
    });
    let held = Held::default();
    let handler = Handler {
        system,
        held: &held,
        own: RefCell::new(Vec::new()),
        served: Cell::new(0),
        busy: Cell::new(0),
    };
    let own = machine.outside(|cpus| {
        let mut own = prepare(program.before, cpus, system, &held);
        // Blocks for handlers to free.
        let kept = own[0].blocks.split_off(own[0].blocks.len() / 2);
        *handler.own.borrow_mut() = kept;
        own
    });
    let own = own.map(|own| Cell::new(Some(own)));
    let count = Cell::new(0);
    let handle = |cpu: CpuId| {
        let call = calls(count.get());
        count.set(count.get() + 1);
        handler.call(cpu, call);
    };
    let report = machine.run_interrupted(region, handle, |cpu: &mut SimCpu| {
        let own = &mut own[cpu.id().index()].take().unwrap();
        if cpu.id() == CpuId(0) {
            for step in program.steps {
                own.step(cpu, system, &held, *step);
            }
            system.park(cpu);
            return (cpu.accesses(), core::mem::take(&mut own.blocks));
        }
        // The other CPU finds every frame that is not held.
        cpu.work(1 << 30);
        while own.allocate(cpu, system, &held, (0, Flags::NONE)) {}
        assert_eq!(held.frames(), FRAMES, "a frame is lost");
        (0, core::mem::take(&mut own.blocks))
    });
    let report = report.unwrap_or_else(|error| panic!("{:?}: {error}", program.before));
    machine.outside(|cpus: &mut [SimCpu]| {
        let blocks = report.results.iter().flat_map(|(_, blocks)| blocks);
        let own = handler.own.borrow();
        for block in blocks.chain(own.iter()) {
            held.remove(*block);
            system.free(&mut cpus[0], Release::block(*block)).unwrap();
        }
        assert_eq!(held.frames(), 0);
        cpus.iter_mut().for_each(|cpu| system.park(cpu));
        system.quiesce(&mut cpus[0]).unwrap();
        assert_eq!(system.check(&mut cpus[0]).unwrap().free, FRAMES);
    });
    (
        report.results[0].0,
        handler.served.get(),
        handler.busy.get(),
    )
}

/// Interrupts each program at accesses, with calls in turn: each call has one of `every` accesses.
fn handlers_call_everywhere(every: u64) {
    for (row, name) in small_systems() {
        let (mut served, mut busy) = (0, 0);
        for program in &PROGRAMS {
            let none = core::iter::empty();
            let (accesses, ..) = interrupt(&name, program, none, |_| Call::Free);
            for access in 1..=accesses {
                for (at, call) in (0..).zip(CALLS) {
                    if access % every == at % every {
                        let once = core::iter::once(access);
                        let counts = interrupt(&name, program, once, |_| call);
                        served += counts.1;
                        busy += counts.2;
                    }
                }
            }
            // Many in one run, with all calls in turn.
            for first in 0..CALLS.len() {
                let many = (1..=2 * accesses).step_by(23 + first);
                interrupt(&name, program, many, |at| CALLS[(first + at) % CALLS.len()]);
            }
        }
        // Without locks and owners there is nothing to be busy.
        let may_be_busy = row.obstacles().next().is_some() || row.zone() == ZoneKind::Owned;
        assert!(
            served > 0 && (busy > 0) == may_be_busy,
            "{name}: {served} served, {busy} busy"
        );
    }
}

#[test]
fn a_handler_may_call_at_any_access() {
    handlers_call_everywhere(16);
}

#[test]
#[ignore = "`ci/stress.sh schedules` runs it"]
fn every_call_at_every_access() {
    handlers_call_everywhere(1);
}

/// A free into an unassigned space changes the lists of its shard, and so does a handler that interrupts it. There are
/// two shards, and both spaces are in the second one.
#[test]
fn a_handler_and_a_free_change_the_lists_of_the_same_shard() {
    let name = "is+order=2+space=16KiB+shards=2";
    let (served, busy) = (Cell::new(0), Cell::new(0));
    for access in 1..=40 {
        with_memory(name, 1, 32, 0, |region, system| {
            let mut machine = Machine::new(1).limit(1 << 36).interrupt(CpuId(0), access);
            machine.outside(|cpus: &mut [SimCpu]| {
                (0..32).for_each(|_| _ = system.allocate(&mut cpus[0], Request::FRAME).unwrap());
            });
            // The CPU keeps space 4, from which the last frames came.
            let handle = |cpu| match system.free_nested(cpu, Release::frame(Index(24))) {
                Ok(()) => served.set(served.get() + 1),
                Err(error) => {
                    assert_eq!(error, FreeError::Busy);
                    busy.set(busy.get() + 1);
                }
            };
            let report = machine.run_interrupted(region, handle, |cpu: &mut SimCpu| {
                system.free(cpu, Release::frame(Index(20))).unwrap();
            });
            report.unwrap();
            machine.outside(|cpus: &mut [SimCpu]| {
                let checked = system.check(&mut cpus[0]);
                checked.unwrap_or_else(|error| panic!("access {access}: {error:?}"));
            });
        });
    }
    assert!(served.get() > 0, "{served:?} served, {busy:?} busy");
    assert!(busy.get() > 0, "{served:?} served, {busy:?} busy");
}

/// Interrupts a CPU at each access while it allocates and frees one frame of otherwise free memory. `call` gets a frame
/// that is free all the time.
fn while_nearly_all_is_free(name: &str, call: &dyn Fn(&System<'_>, CpuId, Index)) {
    // Two trees or page blocks, and a CPU that keeps none of them.
    const FRAMES: u64 = 256;
    let run = |access: u64, victim: Option<Index>| {
        with_memory(name, 2, FRAMES, 0, |region, system| {
            let mut machine = Machine::new(1).limit(1 << 36).interrupt(CpuId(0), access);
            let used = Cell::new(Index(0));
            let handle = |cpu| {
                if let Some(victim) = victim {
                    call(system, cpu, victim);
                }
            };
            let report = machine.run_interrupted(region, handle, |cpu: &mut SimCpu| {
                let frame = system.allocate(cpu, Request::FRAME).unwrap();
                used.set(frame);
                system.free(cpu, Release::frame(frame)).unwrap();
                system.park(cpu);
                cpu.accesses()
            });
            let accesses = report
                .unwrap_or_else(|error| panic!("{name}: {error}"))
                .results[0];
            machine.outside(|cpus: &mut [SimCpu]| {
                system.quiesce(&mut cpus[0]).unwrap();
                let free = system.check(&mut cpus[0]).unwrap().free;
                assert_eq!(free, FRAMES, "{name}: access {access}");
            });
            (used.get(), accesses)
        })
    };
    let (used, accesses) = run(u64::MAX, None);
    let victim = Index(used.0 ^ 9);
    for access in 1..=accesses {
        run(access, Some(victim));
    }
}

#[test]
fn a_handler_cannot_free_a_free_frame() {
    for (_, name) in small_systems() {
        while_nearly_all_is_free(&name, &|system, cpu, victim| {
            let freed = system.free_nested(cpu, Release::frame(victim));
            assert!(freed.is_err(), "{name}");
        });
    }
}

#[test]
fn memory_is_not_exhausted_for_a_handler_while_nearly_all_of_it_is_free() {
    for (_, name) in small_systems() {
        for frames in [1, 2, 8] {
            while_nearly_all_is_free(&name, &|system, cpu, _| {
                match system.allocate_nested(cpu, Request::frames(frames)) {
                    Ok(start) => {
                        let release = Release::frames(start, frames);
                        let freed = system.free_nested(cpu, release);
                        // A frame that cannot be freed now would be missing at the end.
                        assert_eq!(freed, Ok(()), "{name}");
                    }
                    Err(error) => assert_eq!(error, AllocateError::Busy, "{name}"),
                }
            });
        }
    }
}
