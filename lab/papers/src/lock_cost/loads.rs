//! The loads: many frames in order, the same with a first-level cache that was displaced, and a trace.
//!
//! # Invariants
//! A load frees all that it allocates. The time is that of the shortest pass, or of the shortest passes of each part.

use std::hint::black_box;

use everybuddy::{Block, FrameAllocator, Index, Order, Platform, Release, Request};
use serde::Deserialize;

use crate::components::Number;
use everybuddy_measure::Error;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::script::{MoveKind, Script};

/// A number of frames that are allocated, and then freed in the same order.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stream {
    frames: u32,
}

/// The same, but before each call other memory is read, so that the first-level cache holds nothing else.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Displaced {
    frames: u32,
    /// The size of the other memory.
    bytes: u32,
    /// The share of the calls, the slowest ones, that interrupts may have delayed, and which do not count.
    left_out: f64,
}

/// A call of a trace.
#[derive(Clone, Copy)]
struct Call {
    block: u32,
    order: Order,
    allocates: bool,
}

/// The calls of a trace.
pub(super) struct Calls {
    all: Vec<Call>,
    blocks: u32,
}

/// The calls that are timed together. A disturbance of one part does not disturb the shortest times of the others.
const PART: usize = 4096;

// Not inlined: a program calls a function of its allocator.

#[inline(never)]
fn allocate<P: Platform, F: FrameAllocator<P>>(
    system: &F,
    cpu: &mut P::Cpu,
    order: Order,
) -> Option<Index> {
    system.allocate(cpu, Request::order(order)).ok()
}

#[inline(never)]
fn allocate_frame<P: Platform, F: FrameAllocator<P>>(
    system: &F,
    cpu: &mut P::Cpu,
) -> Option<Index> {
    system.allocate(cpu, Request::FRAME).ok()
}

#[inline(never)]
fn free<P: Platform, F: FrameAllocator<P>>(
    system: &F,
    cpu: &mut P::Cpu,
    start: Index,
    order: Order,
) -> bool {
    system
        .free(cpu, Release::block(Block { start, order }))
        .is_ok()
}

#[inline(never)]
fn free_frame<P: Platform, F: FrameAllocator<P>>(
    system: &F,
    cpu: &mut P::Cpu,
    start: Index,
) -> bool {
    system.free(cpu, Release::frame(start)).is_ok()
}

/// Returns the error of a system that did not serve a call.
fn refused(what: &str) -> String {
    format!("{what} failed")
}

/// Returns the times of a load that allocates as often as it frees.
fn halves(nanos: [f64; 2]) -> Vec<Number> {
    let [allocate, free] = nanos;
    vec![
        ("allocate", "latency", allocate),
        ("free", "latency", free),
        ("all", "latency", (allocate + free) / 2.0),
    ]
}

impl Stream {
    /// Returns the nanoseconds of a call.
    pub(super) fn time<P: Platform>(
        &self,
        system: &impl FrameAllocator<P>,
        cpu: &mut P::Cpu,
        timer: &Timer,
        passes: u32,
        shrink: usize,
    ) -> Result<Vec<Number>, String> {
        let mut frames = vec![Index(0); (self.frames as usize / shrink).max(1)];
        let mut least = [u64::MAX; 2];
        for _ in 0..passes {
            let start = timer.now();
            for frame in &mut frames {
                let own = allocate_frame::<P, _>(system, cpu);
                *frame = own.ok_or_else(|| refused("an allocation"))?;
            }
            let between = timer.now();
            for frame in &frames {
                if !free_frame::<P, _>(system, cpu, *frame) {
                    return Err(refused("a free"));
                }
            }
            let end = timer.now();
            least[0] = least[0].min(between.saturating_sub(start));
            least[1] = least[1].min(end.saturating_sub(between));
        }
        Ok(halves(least.map(|ticks| {
            timer.sum(ticks as f64, 1) / frames.len() as f64
        })))
    }
}

impl Displaced {
    /// Returns the nanoseconds of a call.
    pub(super) fn time<P: Platform>(
        &self,
        system: &impl FrameAllocator<P>,
        cpu: &mut P::Cpu,
        timer: &Timer,
        passes: u32,
        shrink: usize,
    ) -> Result<Vec<Number>, String> {
        let mut frames = vec![Index(0); (self.frames as usize / shrink).max(1)];
        let other = vec![1u64; self.bytes as usize / size_of::<u64>()];
        let displace = || {
            // One word of each line of 64 bytes.
            let lines = black_box(&other).iter().step_by(8);
            black_box(lines.fold(0, |sum: u64, word| sum.wrapping_add(*word)));
        };
        let mut least = [f64::INFINITY; 2];
        for _ in 0..passes {
            let mut ticks = [Vec::new(), Vec::new()];
            for frame in &mut frames {
                displace();
                let start = timer.start();
                let own = allocate_frame::<P, _>(system, cpu);
                ticks[0].push(timer.stop(start));
                *frame = own.ok_or_else(|| refused("an allocation"))?;
            }
            for frame in &frames {
                let frame = black_box(*frame);
                displace();
                let start = timer.start();
                let freed = free_frame::<P, _>(system, cpu, frame);
                ticks[1].push(timer.stop(start));
                if !freed {
                    return Err(refused("a free"));
                }
            }
            for (least, ticks) in least.iter_mut().zip(&mut ticks) {
                *least = least.min(self.mean(ticks, timer));
            }
        }
        Ok(halves(least))
    }

    /// Returns the mean in nanoseconds without the slowest calls.
    fn mean(&self, ticks: &mut [u32], timer: &Timer) -> f64 {
        ticks.sort_unstable();
        let count = (ticks.len() as f64 * (1.0 - self.left_out)).ceil() as usize;
        let kept = &ticks[..count.clamp(1, ticks.len())];
        let sum = kept.iter().map(|ticks| f64::from(*ticks)).sum();
        timer.sum_of_singles(sum, kept.len()) / kept.len() as f64
    }
}

impl Calls {
    /// Returns the calls of a script of one thread.
    ///
    /// # Errors
    /// A usage error if the trace frees parts of blocks.
    pub(super) fn of(script: &Script) -> Result<Self, Error> {
        let mut all = Vec::new();
        for own in script.lanes.iter().flat_map(|lane| &lane.moves) {
            let allocates = match own.kind {
                MoveKind::Allocate => true,
                MoveKind::Free => false,
                MoveKind::FreePart => {
                    let name = &script.name;
                    return Err(Error::usage(format!(
                        "trace {name}: frees parts of blocks, and this experiment only whole ones"
                    )));
                }
            };
            all.push(Call {
                block: own.block,
                order: own.order(),
                allocates,
            });
        }
        Ok(Self {
            all,
            blocks: script.blocks,
        })
    }

    /// Returns the nanoseconds of a call, with the loop around it.
    pub(super) fn time<P: Platform>(
        &self,
        system: &impl FrameAllocator<P>,
        cpu: &mut P::Cpu,
        timer: &Timer,
        passes: u32,
    ) -> Result<Vec<Number>, String> {
        let mut starts = vec![Index(0); self.blocks as usize];
        let mut least = vec![u64::MAX; self.all.len().div_ceil(PART)];
        let left = self.left();
        for _ in 0..passes {
            for (part, least) in self.all.chunks(PART).zip(&mut least) {
                let start = timer.now();
                for call in part {
                    perform::<P>(system, cpu, *call, &mut starts)?;
                }
                *least = (*least).min(timer.now().saturating_sub(start));
            }
            for call in &left {
                perform::<P>(system, cpu, *call, &mut starts)?;
            }
        }
        let ticks: u64 = least.iter().sum();
        let nanos = timer.sum(ticks as f64, least.len()) / self.all.len().max(1) as f64;
        Ok(vec![("all", "latency", nanos)])
    }

    /// Returns the frees of what the trace leaves allocated.
    fn left(&self) -> Vec<Call> {
        let mut left = vec![None; self.blocks as usize];
        for call in &self.all {
            let free = Call {
                allocates: false,
                ..*call
            };
            left[call.block as usize] = call.allocates.then_some(free);
        }
        left.into_iter().flatten().collect()
    }
}

/// Performs a call of a trace.
#[inline(always)]
fn perform<P: Platform>(
    system: &impl FrameAllocator<P>,
    cpu: &mut P::Cpu,
    call: Call,
    starts: &mut [Index],
) -> Result<(), String> {
    let start = &mut starts[call.block as usize];
    let single = call.order == Order::ZERO;
    if call.allocates {
        let own = if single {
            allocate_frame::<P, _>(system, cpu)
        } else {
            allocate::<P, _>(system, cpu, call.order)
        };
        *start = own.ok_or_else(|| refused("an allocation"))?;
        return Ok(());
    }
    let freed = if single {
        free_frame::<P, _>(system, cpu, *start)
    } else {
        free::<P, _>(system, cpu, *start, call.order)
    };
    freed.then_some(()).ok_or_else(|| refused("a free"))
}
