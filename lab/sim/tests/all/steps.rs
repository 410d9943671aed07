//! Short programs on small memory, for the tests that do something at each of their accesses.
//!
//! The programs reach the paths of a system: hits, refills and drains, splits and merges, services, and a request that
//! finds frames only in the list of a parked CPU.
//!
//! # Invariants
//! A block that is given while a CPU or a handler holds one of its frames fails the test.

use std::cell::RefCell;

use everybuddy::systems::{ListKind, ROWS, Row, ZoneKind};
use everybuddy::{AllocateError, Block, Flags, Index, Order, Release, Request};

use everybuddy_sim::SimCpu;

use crate::common::System;

/// Frames of memory: eight blocks of the largest order, and four buddy spaces.
pub(crate) const FRAMES: u64 = 256;

/// A system in little memory, with short lists.
fn small(row: &Row) -> String {
    let mut name = format!("{}+order=5", row.name);
    for (key, value) in [("space", "256KiB"), ("high", "12"), ("batch", "2")] {
        let applies = match key {
            "space" => row.zone() == ZoneKind::Spaces,
            "batch" => matches!(
                row.list,
                ListKind::Linux | ListKind::PcpBuddy | ListKind::Magazines
            ),
            _ => row.list != ListKind::None,
        };
        if row.takes(key) && applies {
            name += &format!("+{key}={value}");
        }
    }
    name
}

/// The systems, and those of them whose lists have locks.
pub(crate) fn small_systems() -> impl Iterator<Item = (&'static Row, String)> {
    ROWS.iter().flat_map(|row| {
        let name = small(row);
        let locked = row.takes("percpu").then(|| format!("{name}+percpu=locked"));
        let names = [Some(name), locked].into_iter().flatten();
        names.map(move |name| (row, name))
    })
}

/// An operation of CPU 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Allocates a block of this order.
    Allocate(u8),
    /// Frees the block that was allocated last.
    Free,
    /// Frees the frame that was allocated first.
    FreeOldest,
    /// Drains its list.
    Drain,
    /// Runs a step of each service.
    Serve,
    /// Parks.
    Park,
}

/// What both CPUs have done before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing.
    Nothing,
    /// Both hold frames, and have some in their lists.
    Use,
    /// CPU 0 holds all that it gets, and CPU 1 is parked with frames in its list.
    Shortage,
}

/// A program of CPU 0.
pub(crate) struct Program {
    pub(crate) before: Before,
    pub(crate) steps: &'static [Step],
}

use Step::{Allocate, Drain, Free, FreeOldest, Park, Serve};

#[rustfmt::skip]
const STEPS: &[Step] = &[
    Allocate(0), Allocate(0), Allocate(3), Free, Free, Serve, Allocate(5), Free, Serve, Free, Drain, Park,
];

#[rustfmt::skip]
pub(crate) const PROGRAMS: [Program; 3] = [
    Program { before: Before::Nothing, steps: STEPS },
    Program { before: Before::Use, steps: &[
        Allocate(0), Allocate(3), FreeOldest, FreeOldest, FreeOldest, FreeOldest, FreeOldest, Free, FreeOldest,
        FreeOldest, FreeOldest, FreeOldest, Serve, Serve, Allocate(2), Free, Drain, Park,
    ] },
    Program { before: Before::Shortage, steps: &[Allocate(0), Free, Allocate(1), FreeOldest, Park] },
];

/// The blocks that the CPUs hold.
#[derive(Default)]
pub(crate) struct Held {
    blocks: RefCell<Vec<Block>>,
}

impl Held {
    pub(crate) fn add(&self, start: Index, order: Order) {
        let block = Block { start, order };
        let overlaps = |other: &Block| {
            let end = |block: &Block| block.start.0 + block.order.frames();
            other.start.0 < end(&block) && block.start.0 < end(other)
        };
        let mut blocks = self.blocks.borrow_mut();
        let twice = blocks.iter().find(|other| overlaps(other));
        assert_eq!(twice, None, "{block:?} was given twice");
        blocks.push(block);
    }

    /// Returns the number of frames.
    pub(crate) fn frames(&self) -> u64 {
        let blocks = self.blocks.borrow();
        blocks
            .iter()
            .map(|block| u64::from(block.order.frames()))
            .sum()
    }

    pub(crate) fn remove(&self, block: Block) {
        let mut blocks = self.blocks.borrow_mut();
        let place = blocks.iter().position(|other| *other == block).unwrap();
        blocks.remove(place);
    }
}

/// What a CPU holds, in the order in which it was allocated.
#[derive(Default)]
pub(crate) struct Own {
    pub(crate) blocks: Vec<Block>,
}

impl Own {
    pub(crate) fn allocate(
        &mut self,
        cpu: &mut SimCpu,
        system: &System<'_>,
        held: &Held,
        request: (u8, Flags),
    ) -> bool {
        let order = Order::new(request.0).unwrap();
        match system.allocate(cpu, Request::order(order).with_flags(request.1)) {
            Ok(start) => {
                held.add(start, order);
                self.blocks.push(Block { start, order });
                true
            }
            Err(error) => {
                let expected = [AllocateError::Exhausted, AllocateError::Busy];
                assert!(expected.contains(&error), "{error:?}");
                false
            }
        }
    }

    fn free(&mut self, cpu: &mut SimCpu, system: &System<'_>, held: &Held, at: usize) {
        if at < self.blocks.len() {
            let block = self.blocks.remove(at);
            held.remove(block);
            system.free(cpu, Release::block(block)).unwrap();
        }
    }

    pub(crate) fn step(&mut self, cpu: &mut SimCpu, system: &System<'_>, held: &Held, step: Step) {
        match step {
            Allocate(order) => _ = self.allocate(cpu, system, held, (order, Flags::NONE)),
            Free => self.free(cpu, system, held, self.blocks.len().wrapping_sub(1)),
            FreeOldest => self.free(cpu, system, held, 0),
            Drain => system.drain(cpu),
            Serve => {
                let services = 0..system.services().len();
                services.for_each(|service| _ = system.serve(cpu, service, 1));
            }
            Park => system.park(cpu),
        }
    }

    pub(crate) fn free_all(&mut self, cpu: &mut SimCpu, system: &System<'_>, held: &Held) {
        while !self.blocks.is_empty() {
            self.free(cpu, system, held, self.blocks.len() - 1);
        }
    }
}

/// Brings a system into the state in which a program begins.
pub(crate) fn prepare(
    before: Before,
    cpus: &mut [SimCpu],
    system: &System<'_>,
    held: &Held,
) -> [Own; 2] {
    let mut own = [Own::default(), Own::default()];
    if before == Before::Nothing {
        return own;
    }
    for (own, cpu) in own.iter_mut().zip(cpus.iter_mut()) {
        for order in [0, 0, 0, 1, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0] {
            own.allocate(cpu, system, held, (order, Flags::NONE));
        }
        (0..4).for_each(|_| own.free(cpu, system, held, 0));
    }
    if before == Before::Shortage {
        own[1].free_all(&mut cpus[1], system, held);
        (0..9).for_each(|_| _ = own[1].allocate(&mut cpus[1], system, held, (0, Flags::NONE)));
        own[1].free_all(&mut cpus[1], system, held);
        system.park(&mut cpus[1]);
        while own[0].allocate(&mut cpus[0], system, held, (0, Flags::NO_WAIT)) {}
    }
    own
}
