//! Combines several traces into one.
//!
//! Long-term effects require more than one program: one after another, or all concurrently on one memory.
//!
//! # Invariants
//! A combined trace contains each call of its parts once, in the order of its part; no two parts share a block, a
//! thread or a region.

use std::collections::BTreeMap;

use everybuddy_trace::{Resolved, Step, StepKind};

/// Shortens a trace to the first `1 / shrink` of its calls.
pub fn cut(mut trace: Resolved, shrink: u32) -> Resolved {
    let length = trace.steps.len().div_ceil(shrink.max(1) as usize);
    trace.steps.truncate(length);
    recounted(trace.steps)
}

/// Concatenates traces, on the same CPUs.
pub fn in_sequence(traces: &[Resolved]) -> Resolved {
    let mut steps = Vec::new();
    let mut base = Base::default();
    for trace in traces {
        steps.extend(trace.steps.iter().map(|step| base.of(step)));
        base.pass(trace, false);
    }
    recounted(steps)
}

/// Runs all traces concurrently, each on its own CPUs. Their clocks are stretched so that all end at the same time.
pub fn at_once(traces: &[Resolved]) -> Resolved {
    let mut timed: Vec<(f64, Step)> = Vec::new();
    let mut base = Base::default();
    for trace in traces {
        let end = trace.steps.last().map_or(1, |step| step.time_ns.max(1)) as f64;
        let of = |step: &Step| (step.time_ns as f64 / end, base.of(step));
        timed.extend(trace.steps.iter().map(of));
        base.pass(trace, true);
    }
    // Stable: each part keeps its order.
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut steps: Vec<Step> = timed.into_iter().map(|(_, step)| step).collect();
    number(&mut steps);
    recounted(steps)
}

/// Adds the frees of all blocks that are live at the end, in the order of their allocations, each on the CPU of its
/// allocation.
pub fn emptied(mut trace: Resolved) -> Resolved {
    let mut live: BTreeMap<u32, Live> = BTreeMap::new();
    for step in &trace.steps {
        match step.kind {
            StepKind::Allocate => {
                let parts = Vec::new();
                live.insert(step.block, Live { step: *step, parts });
            }
            StepKind::FreePart => {
                if let Some(own) = live.get_mut(&step.block) {
                    own.parts.push((step.offset(), step.order));
                }
            }
            StepKind::Free | StepKind::FreeLastPart => {
                live.remove(&step.block);
            }
        }
    }
    for own in live.into_values() {
        own.free_into(&mut trace.steps);
    }
    recounted(trace.steps)
}

/// A block that is live at the end.
struct Live {
    step: Step,
    /// The freed parts: offset and order.
    parts: Vec<(u32, u8)>,
}

impl Live {
    fn free_into(&self, steps: &mut Vec<Step>) {
        if self.parts.is_empty() {
            let kind = StepKind::Free;
            let operand = 0;
            steps.push(Step {
                kind,
                operand,
                ..self.step
            });
            return;
        }
        let is_free = |frame: u32| {
            let mut parts = self.parts.iter();
            parts.any(|(offset, order)| (*offset..*offset + (1 << order)).contains(&frame))
        };
        let left: Vec<u32> = (0..1 << self.step.order).filter(|f| !is_free(*f)).collect();
        for (at, frame) in left.iter().enumerate() {
            steps.push(Step {
                kind: if at + 1 == left.len() {
                    StepKind::FreeLastPart
                } else {
                    StepKind::FreePart
                },
                operand: *frame,
                order: 0,
                ..self.step
            });
        }
    }
}

/// The first numbers of the next part.
#[derive(Default)]
struct Base {
    block: u32,
    task: u32,
    region: u32,
    cpu: u16,
}

impl Base {
    fn of(&self, step: &Step) -> Step {
        Step {
            block: step.block + self.block,
            task: step.task.wrapping_add(self.task),
            region: match step.region {
                0 => 0,
                region => region.wrapping_add(self.region),
            },
            cpu: step.cpu + self.cpu,
            ..*step
        }
    }

    fn pass(&mut self, trace: &Resolved, own_cpus: bool) {
        let most = |of: fn(&Step) -> u32| trace.steps.iter().map(of).max().unwrap_or(0);
        self.block += trace.blocks;
        self.task = self.task.wrapping_add(most(|step| step.task) + 1);
        self.region = self.region.wrapping_add(most(|step| step.region) + 1);
        if own_cpus {
            self.cpu += most(|step| u32::from(step.cpu)) as u16 + 1;
        }
    }
}

/// Numbers blocks by the order of their allocations.
fn number(steps: &mut [Step]) {
    let mut numbers = BTreeMap::new();
    for step in steps {
        let next = numbers.len() as u32;
        step.block = *numbers.entry(step.block).or_insert(next);
    }
}

/// Creates a trace from its steps.
fn recounted(steps: Vec<Step>) -> Resolved {
    let mut counted = Resolved::default();
    let (mut frames, mut blocks) = (0u64, 0u32);
    for step in &steps {
        match step.kind {
            StepKind::Allocate => {
                frames += step.frames();
                blocks += 1;
                counted.blocks = counted.blocks.max(step.block + 1);
                counted.largest_order = counted.largest_order.max(step.order);
            }
            _ => frames -= step.frames(),
        }
        blocks -= u32::from(step.kind.is_last_free());
        counted.peak_frames = counted.peak_frames.max(frames);
        counted.peak_blocks = counted.peak_blocks.max(blocks);
        counted.cpus = counted.cpus.max(u32::from(step.cpu) + 1);
    }
    (counted.final_frames, counted.final_blocks) = (frames, blocks);
    Resolved { steps, ..counted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy_trace::{Event, Op, Trace, resolve};

    fn trace() -> Resolved {
        // Movable: a free has no class.
        let event = |time, cpu, op, pfn, order| Event {
            migratetype: if op == Op::Allocate { 1 } else { -1 },
            ..Event::new(time, cpu, 7, op, pfn, order)
        };
        let events = vec![
            event(0, 0, Op::Allocate, 0, 2),
            event(1, 1, Op::Allocate, 8, 0),
            event(2, 1, Op::Free, 2, 0),
            event(3, 0, Op::Allocate, 16, 3),
            event(9, 0, Op::Free, 16, 3),
        ];
        resolve(&Trace {
            name: "t".to_string(),
            events,
            ..Trace::default()
        })
        .unwrap()
    }

    #[test]
    fn parts_keep_their_calls() {
        let one = trace();
        let (sequence, once) = (
            in_sequence(&[one.clone(), one.clone()]),
            at_once(&[one.clone(), one.clone()]),
        );
        for merged in [&sequence, &once] {
            assert_eq!(merged.steps.len(), 2 * one.steps.len());
            assert_eq!(merged.blocks, 2 * one.blocks);
            assert_eq!(merged.final_frames, 2 * one.final_frames);
            // Blocks are numbered by the order of their allocations.
            let allocated = merged.steps.iter().filter(|s| s.kind.is_allocation());
            assert!(
                allocated
                    .zip(0..)
                    .all(|(step, number)| step.block == number)
            );
        }
        assert_eq!((sequence.cpus, once.cpus), (2, 4));
        assert_eq!(sequence.peak_frames, 4 + one.peak_frames);
        assert_eq!(once.peak_frames, 2 * one.peak_frames);
        let empty = emptied(sequence);
        assert_eq!((empty.final_frames, empty.final_blocks), (0, 0));
        // Each frame of a block is freed once, at its place.
        let mut freed = BTreeMap::<u32, Vec<u32>>::new();
        for step in empty.steps.iter().filter(|step| !step.kind.is_allocation()) {
            let frames = step.offset()..step.offset() + step.frames() as u32;
            freed.entry(step.block).or_default().extend(frames);
        }
        for step in empty.steps.iter().filter(|step| step.kind.is_allocation()) {
            let mut frames = freed.remove(&step.block).unwrap();
            frames.sort_unstable();
            assert!(frames.into_iter().eq(0..step.frames() as u32), "{step:?}");
            assert_eq!((step.offset(), step.migratetype()), (0, 1));
        }
        assert_eq!(cut(one, 2).steps.len(), 3);
    }
}
