//! Runs from the point of view of a CPU's buffer: the ends of batches of requests.
//!
//! A buffer belongs to a CPU, not to a task. The frames that it contains at the end of a batch are the residual, and
//! computing it requires the ends of batches.
//!
//! Only single frames form such runs. Larger blocks, and parts of blocks, bypass a buffer of single frames: they
//! neither lengthen a run nor end it. A request with an unknown region provides no information about regions, so it
//! does not end a run either (page tables are allocated in the middle of a region's faults).
//!
//! # Invariants
//! Every allocation or free of a single frame belongs to exactly one run.

use std::collections::HashMap;

use crate::resolve::{Step, StepKind};

/// Consecutive requests for single frames on one CPU, of the same kind, by one task for one region, without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRun {
    /// Whether the requests allocate.
    pub allocates: bool,
    /// Number of requests.
    pub length: u32,
    /// Position of the first among the steps.
    pub first: u32,
    /// Position of the last among the steps.
    pub last: u32,
}

impl CpuRun {
    /// A pause of this many nanoseconds without a request on the CPU ends a run.
    pub const PAUSE: u64 = 1_000_000;
}

/// A run that may continue.
struct Open {
    run: CpuRun,
    task: u32,
    /// The first known region; 0 until one is known.
    region: u32,
    time_ns: u64,
}

impl Open {
    fn goes_on(&self, step: &Step) -> bool {
        let same_region = step.region == 0 || self.region == 0 || step.region == self.region;
        self.task == step.task
            && self.run.allocates == step.kind.is_allocation()
            && same_region
            && step.time_ns.saturating_sub(self.time_ns) < CpuRun::PAUSE
    }
}

/// Returns all runs, ordered by the position of their last request; `cpu` returns the CPU of a step.
///
/// The end of the trace ends all runs.
pub fn cpu_runs(steps: &[Step], cpu: impl Fn(&Step) -> u16) -> Vec<CpuRun> {
    let mut open: HashMap<u16, Open> = HashMap::new();
    let mut runs = Vec::new();
    for (position, step) in (0u32..).zip(steps) {
        if step.order != 0 || !matches!(step.kind, StepKind::Allocate | StepKind::Free) {
            continue;
        }
        let cpu = cpu(step);
        if let Some(own) = open.get_mut(&cpu).filter(|own| own.goes_on(step)) {
            own.run.length += 1;
            own.run.last = position;
            own.time_ns = step.time_ns;
            own.region = if own.region == 0 {
                step.region
            } else {
                own.region
            };
            continue;
        }
        let begun = Open {
            run: CpuRun {
                allocates: step.kind.is_allocation(),
                length: 1,
                first: position,
                last: position,
            },
            task: step.task,
            region: step.region,
            time_ns: step.time_ns,
        };
        runs.extend(open.insert(cpu, begun).map(|ended| ended.run));
    }
    runs.extend(open.into_values().map(|ended| ended.run));
    runs.sort_unstable_by_key(|run| run.last);
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step for a single frame.
    fn step(time_ns: u64, task: u32, region: u32, kind: StepKind) -> Step {
        Step {
            time_ns,
            block: 0,
            task,
            region,
            left: 0,
            operand: 0,
            cpu: 0,
            order: 0,
            kind,
        }
    }

    fn lengths(steps: &[Step]) -> Vec<(bool, u32)> {
        let runs = cpu_runs(steps, |step| step.cpu);
        assert_eq!(
            runs.iter().map(|run| run.length as usize).sum::<usize>(),
            steps.iter().filter(|step| step.order == 0).count()
        );
        runs.iter().map(|run| (run.allocates, run.length)).collect()
    }

    #[test]
    fn task_region_direction_and_a_pause_end_a_run() {
        use StepKind::{Allocate, Free};
        let a = |time, task, region| step(time, task, region, Allocate);
        // Each line differs in one property only.
        assert_eq!(lengths(&[a(0, 1, 5), a(1, 1, 5)]), [(true, 2)]);
        assert_eq!(lengths(&[a(0, 1, 5), a(1, 2, 5)]), [(true, 1), (true, 1)]);
        assert_eq!(lengths(&[a(0, 1, 5), a(1, 1, 6)]), [(true, 1), (true, 1)]);
        let freed = step(1, 1, 5, Free);
        assert_eq!(lengths(&[a(0, 1, 5), freed]), [(true, 1), (false, 1)]);
        let pause = CpuRun::PAUSE;
        assert_eq!(lengths(&[a(0, 1, 5), a(pause - 1, 1, 5)]), [(true, 2)]);
        assert_eq!(
            lengths(&[a(0, 1, 5), a(pause, 1, 5)]),
            [(true, 1), (true, 1)]
        );
    }

    #[test]
    fn what_is_unknown_or_larger_ends_nothing() {
        use StepKind::Allocate;
        let a = |region| step(0, 1, region, Allocate);
        assert_eq!(lengths(&[a(5), a(0), a(5)]), [(true, 3)]);
        assert_eq!(lengths(&[a(0), a(5), a(0), a(6)]), [(true, 3), (true, 1)]);
        let larger = Step { order: 3, ..a(9) };
        assert_eq!(lengths(&[a(5), larger, a(5)]), [(true, 2)]);
    }

    #[test]
    fn each_cpu_has_its_own() {
        let on = |cpu| Step {
            cpu,
            ..step(0, u32::from(cpu), 1, StepKind::Allocate)
        };
        let steps = [on(0), on(1), on(0), on(1)];
        assert_eq!(lengths(&steps), [(true, 2), (true, 2)]);
        // On one CPU they interrupt each other.
        assert_eq!(cpu_runs(&steps, |_| 0).len(), 4);
    }
}
