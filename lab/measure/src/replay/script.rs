//! A trace prepared for replay.
//!
//! The timed loop reads one small array from front to back. Blocks, hints, CPUs and orders are looked up here, once.
//!
//! A **lane** contains the moves of one thread, in trace order. A **segment** is a run of consecutive moves of the
//! same kind in a lane. It is short enough to be timed as a whole, and all work that does not belong to the allocator
//! (waiting for other threads, looking up frames) is done between segments.
//!
//! # Invariants
//! 1. Segments cover the moves of their lane, in order, without gaps.
//! 2. A segment has at most [`Segment::LONGEST`] moves, which span less than [`Segment::WIDEST`] events of the trace:
//!    the gate's window must be wider than that.

use std::collections::BTreeSet;

use everybuddy::{Class, Flags, Hint, Order};
use everybuddy_trace::{Context, Owners, Resolved, Step, StepKind, cpu_runs};
use everybuddy_workload::Use;

use crate::Error;
use crate::refusals::ByOrder;

/// A trace prepared for replay on a number of threads.
#[derive(Clone, Debug)]
pub struct Script {
    /// The name of the trace.
    pub name: String,
    /// The moves of each thread.
    pub lanes: Vec<Lane>,
    /// The assignment of moves to CPUs.
    pub assignment: Assignment,
    /// The number of CPUs of the replay.
    pub cpus: u16,
    /// The number of moves of all lanes.
    pub events: u32,
    /// The time of the recording on all CPUs that made calls: nanoseconds from the first call to the last, times the
    /// CPUs. 0 if all calls have the same time.
    pub recorded_ns: u64,
    /// The number of allocated blocks.
    pub blocks: u32,
    /// The maximum number of frames in use, in trace order.
    pub peak_frames: u64,
    /// Frames in use after the last move.
    pub final_frames: u64,
    /// The largest order that is allocated.
    pub largest_order: Order,
    /// Whether the trace states the class of any block.
    pub has_classes: bool,
    /// The owner of each block; without blocks, owners are not followed.
    pub owners: Owners,
}

/// The rule that determines the CPU of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// One thread performs everything in trace order, on the trace's CPUs.
    InOrder,
    /// Each CPU of the trace is a thread.
    TraceCpus,
    /// The CPU is the thread id of the trace modulo the number of CPUs, because the requested number of CPUs differs
    /// from the trace's.
    TaskModulo,
}

/// The moves of one thread.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// The CPUs that the thread acts as; a move refers to one by its position here.
    pub cpus: Vec<u16>,
    /// The moves, in order.
    pub moves: Vec<Move>,
    /// The moves, divided into runs of the same kind.
    pub segments: Vec<Segment>,
    /// The ends of runs of requests for single frames, in order.
    pub ends: Vec<RunEnd>,
}

/// The end of a run from the point of view of a buffer: see [`everybuddy_trace::CpuRun`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The last move, as a position in [`Lane::moves`].
    pub at: u32,
    /// The number of requests.
    pub length: u32,
}

/// One allocation or free: 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// The number of the block.
    pub block: u32,
    /// For frees the offset, for allocations the flags and the use: see [`offset`](Self::offset),
    /// [`flags`](Self::flags) and [`used`](Self::used).
    pub operand: u32,
    /// The hint that a kernel would provide.
    pub hint: Hint,
    /// The CPU, as a position in [`Lane::cpus`].
    pub token: u16,
    /// The order that is allocated or freed, as a byte: see [`order`](Self::order).
    order: u8,
    /// The kind of the move.
    pub kind: MoveKind,
}

/// The kinds of moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MoveKind {
    /// Allocates a block.
    Allocate,
    /// Frees a whole block.
    Free,
    /// Frees a part of a block.
    FreePart,
}

/// A run of moves of the same kind.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// The first move, as a position in [`Lane::moves`].
    pub first: u32,
    /// The number of moves.
    pub moves: u32,
    /// The position of the first move in the trace.
    pub position: u32,
    /// Whether the moves allocate.
    pub allocates: bool,
    /// Whether free memory is sampled here.
    pub sampled: bool,
    /// Whether memory is mapped frame by frame here.
    pub mapped: bool,
}

impl Segment {
    /// The maximum number of moves of a segment: enough to make a timestamp cheap, few enough to stay close to the
    /// trace's order.
    pub const LONGEST: usize = 64;
    /// The maximum number of events of the trace that a segment may span.
    pub const WIDEST: u32 = 256;
}

impl Script {
    /// Returns the number of requests of each order.
    pub fn requests(&self) -> ByOrder {
        let mut requests = ByOrder::default();
        let moves = self.lanes.iter().flat_map(|lane| &lane.moves);
        for own in moves.filter(|own| own.kind == MoveKind::Allocate) {
            requests.add(own.order(), 1);
        }
        requests
    }

    /// Returns a property of each block, by its number, from the request for it. O(moves).
    pub fn of_blocks<T: Clone + Default>(&self, of: impl Fn(&Move) -> T) -> Vec<T> {
        let mut all = vec![T::default(); self.blocks as usize];
        let moves = self.lanes.iter().flat_map(|lane| &lane.moves);
        for own in moves.filter(|own| own.kind == MoveKind::Allocate) {
            all[own.block as usize] = of(own);
        }
        all
    }

    /// The approximate number of samples of free memory in a replay, at equal distances in the trace, each by the
    /// thread that reaches its position.
    pub const SAMPLES: u32 = 200;
    /// Memory is mapped after each of this number of equal parts of the calls, and at the fullest moment.
    pub const MAPS: usize = 8;
    /// The maximum number of threads of a replay.
    pub const MOST_THREADS: u16 = 256;

    /// Prepares a trace: for one thread in trace order, or for the given number of threads.
    ///
    /// # Errors
    /// Returns a usage error for a number of threads, or of the trace's CPUs, that cannot be replayed.
    pub fn new(name: &str, resolved: &Resolved, threads: Option<u16>) -> Result<Script, Error> {
        let present: BTreeSet<u16> = resolved.steps.iter().map(|step| step.cpu).collect();
        let present: Vec<u16> = present.into_iter().collect();
        let dense = |step: &Step| present.binary_search(&step.cpu).unwrap_or(0);
        let most = usize::from(Self::MOST_THREADS);
        let (lanes, assignment) = match threads {
            None if present.len() > everybuddy::platform::NativeCpus::MAX => {
                let most = everybuddy::platform::NativeCpus::MAX;
                return Err(Error::usage(format!(
                    "trace {name} uses {} CPUs, more than {most}\nhelp: replay it with --cpus N",
                    present.len()
                )));
            }
            None => {
                let cpus = (0..present.len() as u16).collect();
                (
                    vec![Lane {
                        cpus,
                        ..Lane::default()
                    }],
                    Assignment::InOrder,
                )
            }
            Some(threads) if threads == 0 || usize::from(threads) > most => {
                return Err(Error::usage(format!(
                    "--cpus {threads}: choose a number from 1 to {most}"
                )));
            }
            Some(threads) => {
                let lane = |cpu| Lane {
                    cpus: vec![cpu],
                    ..Lane::default()
                };
                let same = usize::from(threads) == present.len();
                let assignment = if same {
                    Assignment::TraceCpus
                } else {
                    Assignment::TaskModulo
                };
                ((0..threads).map(lane).collect(), assignment)
            }
        };
        let mut script = Script {
            name: name.to_string(),
            cpus: lanes.iter().map(|lane| lane.cpus.len() as u16).sum(),
            lanes,
            assignment,
            events: resolved.steps.len() as u32,
            recorded_ns: match &resolved.steps[..] {
                [first, .., last] => last
                    .time_ns
                    .saturating_sub(first.time_ns)
                    .saturating_mul(present.len() as u64),
                _ => 0,
            },
            blocks: resolved.blocks,
            peak_frames: resolved.peak_frames,
            final_frames: resolved.final_frames,
            // A trace contains no larger order.
            largest_order: Order::new(resolved.largest_order).unwrap_or(Order::LIMIT),
            has_classes: resolved.steps.iter().any(|step| step.migratetype() >= 0),
            owners: Owners::default(),
        };
        // The CPU of a call in the replay, whichever lane performs it.
        let modulus = script.lanes.len() as u32;
        let runs = cpu_runs(&resolved.steps, |step| match assignment {
            Assignment::TaskModulo => (step.task % modulus) as u16,
            _ => step.cpu,
        });
        let mut runs = runs.into_iter().peekable();
        let interval = (script.events / Self::SAMPLES).max(1);
        let moments = moments(&resolved.steps);
        for (position, step) in resolved.steps.iter().enumerate() {
            let (lane, token) = match assignment {
                Assignment::InOrder => (0, dense(step)),
                Assignment::TraceCpus => (dense(step), 0),
                Assignment::TaskModulo => (step.task as usize % script.lanes.len(), 0),
            };
            let sampled = (position as u32).is_multiple_of(interval);
            let lane = &mut script.lanes[lane];
            let mapped = moments.contains(&position);
            let next = Move::new(step, token as u16);
            lane.push(position as u32, sampled, mapped, next);
            while let Some(ended) = runs.next_if(|run| run.last == position as u32) {
                lane.ends.push(RunEnd {
                    at: lane.moves.len() as u32 - 1,
                    length: ended.length,
                });
            }
        }
        Ok(script)
    }
}

impl Lane {
    /// Adds a move to the last segment if it fits; a move at a memory map starts a new segment.
    fn push(&mut self, position: u32, sampled: bool, mapped: bool, next: Move) {
        let allocates = next.kind == MoveKind::Allocate;
        match self.segments.last_mut() {
            Some(last)
                if last.allocates == allocates
                    && !mapped
                    && (last.moves as usize) < Segment::LONGEST
                    && position - last.position < Segment::WIDEST =>
            {
                last.moves += 1;
                last.sampled |= sampled;
            }
            _ => {
                let first = self.moves.len() as u32;
                self.segments.push(Segment {
                    first,
                    moves: 1,
                    position,
                    allocates,
                    sampled,
                    mapped,
                });
            }
        }
        self.moves.push(next);
    }

    /// Returns the numbers of allocations and of frees.
    pub fn directions(&self) -> [usize; 2] {
        let allocate = self
            .moves
            .iter()
            .filter(|m| m.kind == MoveKind::Allocate)
            .count();
        [allocate, self.moves.len() - allocate]
    }
}

/// Returns the moments of the memory maps: at equal distances in calls, and the fullest moment.
fn moments(steps: &[Step]) -> Vec<usize> {
    let mut moments: Vec<usize> = (1..Script::MAPS)
        .map(|i| steps.len() * i / Script::MAPS)
        .collect();
    let (mut frames, mut most, mut fullest) = (0, 0, 0);
    for (position, step) in steps.iter().enumerate() {
        if step.kind.is_allocation() {
            frames += step.frames()
        } else {
            frames -= step.frames()
        }
        if frames > most {
            (most, fullest) = (frames, position + 1);
        }
    }
    moments.push(fullest);
    moments.sort_unstable();
    moments.dedup();
    moments
}

impl Move {
    /// Returns the first frame that is freed, relative to the block. For frees.
    #[inline(always)]
    pub fn offset(&self) -> u32 {
        self.operand
    }

    /// Returns the flags of the request: its class. For allocations.
    #[inline(always)]
    pub fn flags(&self) -> Flags {
        Flags::from_bits(self.operand as u8)
    }

    /// Returns what the program does with each frame of the block, as far as the trace tells. For allocations.
    pub fn used(&self) -> Use {
        match self.operand >> 8 {
            0 => Use::Line,
            1 => Use::Zeroed,
            _ => Use::Read,
        }
    }

    /// Returns the order that is allocated or freed.
    #[inline(always)]
    pub fn order(&self) -> Order {
        Order::new(self.order).unwrap_or(Order::LIMIT)
    }

    /// Converts a step of a trace. Only this function depends on the trace's types.
    fn new(step: &Step, token: u16) -> Move {
        let known = |value: u32| if value == 0 { Hint::UNKNOWN } else { value };
        Move {
            block: step.block,
            operand: match step.kind {
                // A class that is not known is that of a request that names none.
                StepKind::Allocate => {
                    let class = u8::try_from(step.migratetype()).ok();
                    let class = class.and_then(Class::from_value).unwrap_or_default();
                    u32::from(Flags::NONE.with_class(class).bits()) | used(step) << 8
                }
                _ => step.offset(),
            },
            hint: Hint {
                task: step.task,
                region: known(step.region),
                left: known(step.left),
            },
            token,
            order: step.order,
            kind: match step.kind {
                StepKind::Allocate => MoveKind::Allocate,
                StepKind::Free => MoveKind::Free,
                StepKind::FreePart | StepKind::FreeLastPart => MoveKind::FreePart,
            },
        }
    }
}

/// Returns the number of what [`Move::used`] returns.
///
/// A frame for a fault is cleared or copied into: a user's, or a page table. What is movable in a system call is page
/// cache, which is filled and read. Other memory of the kernel is written in a line. Without a context, what is movable
/// or of unknown class is a user's.
fn used(step: &Step) -> u32 {
    /// The class of memory that a process can access.
    const MOVABLE: i8 = 1;
    match (step.context(), step.migratetype()) {
        (Context::SystemCall, MOVABLE) => 2,
        (Context::SystemCall | Context::Interrupt | Context::Exiting, _) => 0,
        (Context::Unknown, 0 | 2) => 0,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy_trace::{Event, Op, Trace, resolve};

    fn trace() -> Resolved {
        let mut events = Vec::new();
        for i in 0..1000u64 {
            let cpu = if i % 3 == 0 { 7 } else { 2 };
            events.push(Event::new(i, cpu, i as u32 % 5, Op::Allocate, i, 0));
        }
        for i in 0..999u64 {
            events.push(Event::new(1000 + i, 2, i as u32 % 5, Op::Free, i, 0));
        }
        resolve(&Trace {
            name: "t".into(),
            events,
            ..Trace::default()
        })
        .unwrap()
    }

    #[test]
    fn a_request_has_the_class_of_its_trace() {
        let events = (0..).zip([0, 1, 2, -1, 7]).map(|(at, migratetype)| Event {
            migratetype,
            ..Event::new(at, 0, 1, Op::Allocate, at, 0)
        });
        let trace = Trace {
            events: events.collect(),
            ..Trace::default()
        };
        let script = Script::new("t", &resolve(&trace).unwrap(), None).unwrap();
        let classes = script.lanes[0].moves.iter().map(|own| own.flags().class());
        use Class::{Movable, Reclaimable, Unmovable};
        let expected = [Unmovable, Movable, Reclaimable, Unmovable, Unmovable];
        assert!(classes.eq(expected));
    }

    #[test]
    fn the_use_of_a_block_follows_from_context_and_class() {
        use Context::{Interrupt, KernelFault, SystemCall, Unknown, UserFault};
        let all = [
            (UserFault, 1, Use::Zeroed),
            (UserFault, 0, Use::Zeroed),
            (KernelFault, 1, Use::Zeroed),
            (SystemCall, 1, Use::Read),
            (SystemCall, 0, Use::Line),
            (Interrupt, 1, Use::Line),
            (Unknown, 1, Use::Zeroed),
            (Unknown, 2, Use::Line),
            (Unknown, -1, Use::Zeroed),
        ];
        let events = (0..).zip(all).map(|(at, (context, migratetype, _))| Event {
            migratetype,
            context: context as u8,
            ..Event::new(at, 0, 1, Op::Allocate, at, 0)
        });
        let trace = Trace {
            events: events.collect(),
            ..Trace::default()
        };
        let script = Script::new("t", &resolve(&trace).unwrap(), None).unwrap();
        let uses = script.lanes[0].moves.iter().map(Move::used);
        assert!(uses.eq(all.map(|own| own.2)));
    }

    #[test]
    fn segments_cover_the_lanes() {
        let resolved = trace();
        assert_eq!(size_of::<Move>(), 24);
        for threads in [None, Some(1), Some(2), Some(3)] {
            let script = Script::new("t", &resolved, threads).unwrap();
            assert_eq!(script.lanes.len(), threads.map_or(1, usize::from));
            let mut moves = 0;
            for lane in &script.lanes {
                let mut next = 0;
                for segment in &lane.segments {
                    assert_eq!(segment.first, next);
                    assert!((1..=Segment::LONGEST as u32).contains(&segment.moves));
                    next += segment.moves;
                    let of = &lane.moves[segment.first as usize..next as usize];
                    assert!(
                        of.iter()
                            .all(|m| (m.kind == MoveKind::Allocate) == segment.allocates)
                    );
                }
                assert_eq!(next as usize, lane.moves.len());
                assert_eq!(lane.directions().iter().sum::<usize>(), lane.moves.len());
                let last = lane.moves.len() as u32 - 1;
                let ends: Vec<u32> = lane.ends.iter().map(|end| end.at).collect();
                assert!(ends.is_sorted() && ends.iter().all(|at| *at <= last));
                let in_runs: u32 = lane.ends.iter().map(|end| end.length).sum();
                assert_eq!(in_runs as usize, lane.moves.len());
                moves += next;
            }
            assert_eq!(moves, script.events);
        }
        let script = Script::new("t", &resolved, Some(2)).unwrap();
        assert_eq!((script.assignment, script.cpus), (Assignment::TraceCpus, 2));
        assert!(Script::new("t", &resolved, Some(0)).is_err());
        assert!(Script::new("t", &resolved, Some(257)).is_err());
    }
}
