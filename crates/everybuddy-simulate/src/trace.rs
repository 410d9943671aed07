//! A trace as a load.
//!
//! # Purpose
//!
//! The tasks of a trace are dealt out to the CPUs, and each CPU makes the calls of its tasks in the order of the trace,
//! as fast as the system and the time between calls permit. If the trace has fewer tasks than there are CPUs, copies of
//! it run at the same time, each on blocks of its own, and begin at different times. Nothing has warmed up: the first
//! call is measured.
//!
//! # Invariants
//!
//! A free waits until its block is allocated. There is no deadlock: an allocation never waits, and each CPU follows the
//! order of the trace. So a chain of CPUs that wait for each other leads to ever earlier calls, and ends at a CPU that
//! does not wait.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use everybuddy::{Block, FrameAllocator, Hint, Order, Pfn, Release, Request, Size};
use everybuddy_measure::Error;
use everybuddy_measure::replay::Script;
use everybuddy_measure::replay::adapter::{PENDING, REFUSED};
use everybuddy_measure::replay::memory::Random;
use everybuddy_measure::replay::script::{Move, MoveKind};
use everybuddy_sim::{Caches, Machine, Region, Report, Sim, SimCpu, SimError};
use everybuddy_trace::Resolved;

use crate::caller::{Caller, Counted, LOOK};
use crate::cell::CellPlan;

/// A CPU that has waited for long looks less often: the next look comes after this share of the wait.
const PATIENCE: u64 = 64;
/// Copies begin at random within this many calls ...
const STAGGER: u64 = 1000;
/// ... but within this share of a copy's calls.
const STAGGER_SHARE: u64 = 10;

/// The frames that each CPU needs so that systems with parts of memory for each CPU work: 8 MiB.
pub const LEAST_FRAMES: u64 = 2048;

/// A trace whose tasks can be dealt out.
#[derive(Clone, Debug)]
pub struct Traced {
    script: Script,
    /// For each move, the number of its task. Tasks are numbered by their first calls.
    task_of: Vec<u32>,
    tasks: u32,
    /// The distance of task and region ids of two copies.
    stride: u32,
    /// The frames of the memory of each copy, if they were given.
    frames: Option<u64>,
}

impl Traced {
    /// Prepares a trace. Each copy has `frames` frames of memory; without them, [`memory`](Self::memory) follows from
    /// the trace.
    ///
    /// # Errors
    /// A usage error for a trace without calls.
    pub fn new(name: &str, resolved: &Resolved, frames: Option<u64>) -> Result<Traced, Error> {
        let script = Script::new(name, resolved, Some(1))?;
        let moves = script.lanes.first().map_or(&[][..], |lane| &lane.moves);
        if moves.is_empty() {
            return Err(Error::usage(format!("trace {name} has no calls")));
        }
        let mut known = HashMap::new();
        let mut stride = 0;
        let task_of = moves.iter().map(|own| {
            let next = known.len() as u32;
            let ids = [own.hint.task, own.hint.region];
            let ids = ids.into_iter().filter(|id| *id != Hint::UNKNOWN);
            stride = ids.fold(stride, u32::max);
            *known.entry(own.hint.task).or_insert(next)
        });
        Ok(Traced {
            task_of: task_of.collect(),
            tasks: known.len() as u32,
            stride: stride.wrapping_add(1),
            frames,
            script,
        })
    }

    /// Returns the name of the trace.
    pub fn name(&self) -> &str {
        &self.script.name
    }

    /// Returns the number of tasks.
    pub fn tasks(&self) -> u32 {
        self.tasks
    }

    /// Returns a number that depends on all calls. It is the same in all runs of the same build.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for own in self.moves() {
            let Hint { task, region, left } = own.hint;
            (own.block, own.offset, own.kind as u8, own.order().get()).hash(&mut hasher);
            (task, region, left).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn moves(&self) -> &[Move] {
        // One lane: the script is for one thread.
        self.script.lanes.first().map_or(&[], |lane| &lane.moves)
    }

    /// Returns the number of copies on a number of CPUs: enough for each CPU to have a task.
    pub fn copies(&self, cpus: u16) -> u32 {
        u32::from(cpus).div_ceil(self.tasks)
    }

    /// Returns the frames of the memory of all copies on a number of CPUs: what was given, or 1.25 times what can be in
    /// use at the same time in any schedule, and at least 8 MiB for each CPU.
    pub fn memory(&self, cpus: u16) -> u64 {
        let frames = match self.frames {
            Some(frames) => frames * u64::from(self.copies(cpus)),
            None => {
                let most = Deal::new(self, cpus).most_frames();
                (most + most.div_ceil(4)).max(LEAST_FRAMES * u64::from(cpus))
            }
        };
        let block = self.script.largest_order.max(Order::TEN).frames();
        frames.next_multiple_of(u64::from(block))
    }
}

/// A call of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    at: u32,
    copy: u32,
}

/// A trace that was dealt out to CPUs.
#[derive(Debug)]
pub(crate) struct Deal<'t> {
    traced: &'t Traced,
    copies: u32,
    /// The calls of each CPU.
    turns: Vec<Vec<Turn>>,
}

impl<'t> Deal<'t> {
    /// Deals the tasks of all copies out, round robin.
    pub(crate) fn new(traced: &'t Traced, cpus: u16) -> Deal<'t> {
        let copies = traced.copies(cpus);
        let mut deal = Deal {
            traced,
            copies,
            turns: vec![Vec::new(); usize::from(cpus)],
        };
        for at in 0..traced.task_of.len() as u32 {
            for copy in 0..copies {
                let cpu = deal.cpu(Turn { at, copy });
                deal.turns[cpu].push(Turn { at, copy });
            }
        }
        deal
    }

    /// Returns the CPU that makes a call.
    fn cpu(&self, Turn { at, copy }: Turn) -> usize {
        let task = u64::from(self.traced.task_of[at as usize]);
        let task = task + u64::from(copy) * u64::from(self.traced.tasks);
        (task % self.turns.len() as u64) as usize
    }

    /// Returns a number of frames that suffices in any schedule: what all CPUs have allocated and not freed themselves
    /// at their fullest moments.
    pub(crate) fn most_frames(&self) -> u64 {
        let blocks = self.traced.script.blocks as usize;
        let mut owners = vec![u16::MAX; blocks * self.copies as usize];
        for (cpu, turns) in self.turns.iter().enumerate() {
            for turn in turns {
                let own = &self.traced.moves()[turn.at as usize];
                if own.kind == MoveKind::Allocate {
                    owners[turn.copy as usize * blocks + own.block as usize] = cpu as u16;
                }
            }
        }
        let fullest = |(cpu, turns): (usize, &Vec<Turn>)| {
            let (mut frames, mut most) = (0u64, 0);
            for turn in turns {
                let own = &self.traced.moves()[turn.at as usize];
                let owner = owners[turn.copy as usize * blocks + own.block as usize];
                let size = u64::from(own.order().frames());
                match own.kind {
                    MoveKind::Allocate => frames += size,
                    _ if usize::from(owner) == cpu => frames -= size,
                    _ => {}
                }
                most = most.max(frames);
            }
            most
        };
        self.turns.iter().enumerate().map(fullest).sum()
    }

    /// Returns the instructions after which each copy begins.
    fn starts(&self, seed: u64, think: u32) -> Vec<u64> {
        let calls = self.traced.moves().len() as u64 * u64::from(self.copies);
        let of_one = calls / self.turns.len() as u64 / STAGGER_SHARE;
        let within = of_one.min(STAGGER) * u64::from(think.max(LOOK));
        let mut random = Random::new(seed);
        // A single copy has nobody to differ from.
        let of = |_| {
            if self.copies > 1 {
                random.below(within)
            } else {
                0
            }
        };
        (0..self.copies).map(of).collect()
    }
}

/// Runs a trace that was dealt out to the CPUs of the machine.
pub(crate) fn run(
    plan: &CellPlan<'_>,
    deal: &Deal<'_>,
    system: &dyn FrameAllocator<Sim>,
    machine: &mut Machine<Caches>,
    region: Region,
) -> Result<Report<Counted>, SimError> {
    let blocks = deal.traced.script.blocks as usize;
    let places = vec![PENDING; blocks * deal.copies as usize];
    let places = RefCell::new(places);
    let starts = deal.starts(plan.seed, plan.think);
    machine.run(region, |cpu: &mut SimCpu| {
        let thread = Thread {
            caller: Caller::new(plan, system, cpu),
            deal,
            places: &places,
        };
        thread.run(&starts)
    })
}

/// The tasks of a CPU.
struct Thread<'t, 'c> {
    caller: Caller<'t, 'c>,
    deal: &'t Deal<'t>,
    /// The first frame of each block of each copy.
    places: &'t RefCell<Vec<u32>>,
}

impl Thread<'_, '_> {
    fn run(mut self, starts: &[u64]) -> Counted {
        self.caller.meet();
        self.caller.mark();
        self.caller.begin();
        let turns = &self.deal.turns[self.caller.index()];
        if let Some(first) = turns.first() {
            let start = starts[first.copy as usize];
            self.caller.idle(start.min(u64::from(u32::MAX)) as u32);
        }
        for turn in turns {
            self.call(*turn);
        }
        self.caller.end()
    }

    fn call(&mut self, turn: Turn) {
        let traced = self.deal.traced;
        let own = &traced.moves()[turn.at as usize];
        let place = turn.copy as usize * traced.script.blocks as usize + own.block as usize;
        let hint = hint(own, turn.copy.wrapping_mul(traced.stride));
        if own.kind == MoveKind::Allocate {
            let request = Request {
                size: Size::Order(own.order()),
                hint,
                ..Request::FRAME
            };
            let given = self.caller.allocate(request);
            self.places.borrow_mut()[place] = given.map_or(REFUSED, |start| start.0);
            return;
        }
        let start = match self.wait_for(place) {
            REFUSED => return,
            start => Pfn(start + own.offset),
        };
        let release = match own.kind {
            MoveKind::FreePart => Release::frames(start, own.order().frames()),
            _ => Release::block(Block::new(start, own.order())),
        };
        self.caller.free(release.with_hint(hint));
    }

    /// Waits for the allocation of a block, and returns its first frame.
    fn wait_for(&mut self, place: usize) -> u32 {
        let mut waited = 0;
        loop {
            match self.places.borrow()[place] {
                PENDING => {}
                start => return start,
            }
            if waited == 0 {
                self.caller.park();
            }
            let next = (waited / PATIENCE).clamp(u64::from(LOOK), u64::from(u32::MAX));
            self.caller.idle(next as u32);
            waited += next;
        }
    }
}

/// Returns the hint of a call for a copy whose tasks and regions are this far from those of the trace.
fn hint(own: &Move, distance: u32) -> Hint {
    let moved = |id| match id {
        Hint::UNKNOWN => id,
        id => id.wrapping_add(distance),
    };
    Hint {
        task: moved(own.hint.task),
        region: moved(own.hint.region),
        left: own.hint.left,
    }
}

#[cfg(test)]
mod tests;
