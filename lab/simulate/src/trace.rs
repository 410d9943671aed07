//! A trace, and how its tasks are dealt out to CPUs.
//!
//! The tasks are dealt out round robin. If the trace has fewer tasks than there are CPUs, copies of it run at the same
//! time, each on blocks of its own.
//!
//! # Invariants
//! Each call of each copy belongs to one CPU, all calls of a task to the same one, and the calls of a CPU are in the
//! order of the trace.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use everybuddy::{Hint, Order};
use everybuddy_measure::Error;
use everybuddy_measure::replay::Script;
use everybuddy_measure::replay::script::{Move, MoveKind};
use everybuddy_trace::{LockWaits, Resolved};

/// The frames that each CPU needs so that systems with parts of memory for each CPU work: 8 MiB.
pub const LEAST_FRAMES: u32 = 2048;

/// A trace whose tasks can be dealt out.
#[derive(Clone, Debug)]
pub struct Traced {
    pub(crate) script: Script,
    /// For each move, the number of its task. Tasks are numbered by their first calls.
    task_of: Vec<u32>,
    tasks: u32,
    /// The distance of task and region ids of two copies.
    pub(crate) stride: u32,
    /// The frames of the memory of each copy, if they were given.
    frames: Option<u64>,
    /// The waits for the zone's lock that the kernel reported.
    recorded: Option<LockWaits>,
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
            recorded: None,
            script,
        })
    }

    /// Adds the waits for the zone's lock that the recorded kernel reported.
    #[must_use]
    pub fn with_recorded(self, recorded: Option<LockWaits>) -> Traced {
        Traced { recorded, ..self }
    }

    /// Returns the waits for the zone's lock that the recorded kernel reported, if they were recorded.
    pub fn recorded(&self) -> Option<&LockWaits> {
        self.recorded.as_ref()
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
            (own.block, own.operand, own.kind as u8, own.order().get()).hash(&mut hasher);
            (task, region, left).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns the calls in the order of the trace.
    pub(crate) fn moves(&self) -> &[Move] {
        // One lane: the script is for one thread.
        self.script.lanes.first().map_or(&[], |lane| &lane.moves)
    }

    /// Returns the number of copies on a number of CPUs: enough for each CPU to have a task.
    pub fn copies(&self, cpus: u16) -> u32 {
        u32::from(cpus).div_ceil(self.tasks)
    }

    /// Returns the most frames that can be in use at the same time on a number of CPUs, in any schedule.
    pub fn peak(&self, cpus: u16) -> u64 {
        Deal::new(self, cpus).most_frames()
    }

    /// Returns the frames of the memory of all copies on a number of CPUs: what was given, or 1.25 times what can be in
    /// use at the same time in any schedule, and at least 8 MiB for each CPU.
    pub fn memory(&self, cpus: u16) -> u64 {
        let frames = match self.frames {
            Some(frames) => frames * u64::from(self.copies(cpus)),
            None => {
                let most = self.peak(cpus);
                (most + most.div_ceil(4)).max(u64::from(LEAST_FRAMES) * u64::from(cpus))
            }
        };
        let block = self.script.largest_order.max(Order::TEN).frames();
        frames.next_multiple_of(u64::from(block))
    }
}

/// A call of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The position in the trace.
    pub(crate) at: u32,
    /// The copy.
    pub(crate) copy: u32,
}

/// A trace that was dealt out to CPUs.
#[derive(Debug)]
pub(crate) struct Deal<'t> {
    /// The trace.
    pub(crate) traced: &'t Traced,
    /// The number of copies.
    pub(crate) copies: u32,
    /// The calls of each CPU.
    pub(crate) turns: Vec<Vec<Turn>>,
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
}
