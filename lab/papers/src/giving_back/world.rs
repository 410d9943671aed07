//! A guest on a system, and its host: what is given back, and what is accessed again.
//!
//! The monitor's side of a report is simulated, so that every frame is known exactly.
//!
//! # Method
//! The steps of a guest run on one CPU, on a virtual clock. A free makes a pass due after the delay, as in Linux
//! (mm/page_reporting.c). A pass reports free blocks that were not reported, up to a number of frames; if it leaves
//! some, the next one is due after another delay. The host is known exactly: which frames have memory, and which were
//! withdrawn. A withdrawn frame that is allocated counts as a fault.
//!
//! Before the first step, everything was reported, and no frame has memory. What was never touched does not count as
//! given back.
//!
//! # Invariants
//! Marks agree with the host: a marked block has no memory. That is checked at each allocation. No time of the host is
//! measured: the same numbers come out each time.

use everybuddy::platform::{NativeCpu, NativeCpus};
use everybuddy::{
    Class, CpuId, Index, Order, Platform, Progress, Release, Report, Reporting, Request,
};
use everybuddy_measure::replay::host::{AnySystem, ReplayPlatform};
use everybuddy_measure::replay::watch::Watch;

use super::guest::Guest;

/// The order of a large block: 2 MiB.
pub(crate) const LARGE: Order = match Order::new(9) {
    Some(order) => order,
    None => Order::TEN,
};
/// The moments at which free memory is looked at, equally far apart in the time of a guest.
pub(crate) const SAMPLES: u32 = 100;

type OnPlatform = ReplayPlatform<Watch>;
type Word = <OnPlatform as Platform>::AtomicU64;

/// The smallest order that is reported, and the time from a free to a pass; without a time, nothing is reported.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub order: Order,
    pub delay_ns: Option<u64>,
}

/// What a run showed.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    /// Withdrawn frames that the guest has not accessed again, times nanoseconds.
    pub given: f64,
    /// Free frames that were accessed before, times nanoseconds: what a guest could give back at best.
    pub idle: f64,
    /// Withdrawn frames that were allocated.
    pub faulted: u64,
    /// Blocks that were reported.
    pub calls: u64,
    /// The share of free memory that is in no free block of [`LARGE`] frames, summed up over [`SAMPLES`] moments.
    pub unusable: f64,
}

/// What the host knows of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backing {
    /// The guest has never accessed it.
    Never,
    /// It has memory.
    Here,
    /// Its memory was withdrawn.
    Withdrawn,
}

/// A guest on a system, and its host.
struct World<'w, 's> {
    system: &'w AnySystem<'s, Watch>,
    cpu: NativeCpu<Watch>,
    reporting: Reporting<'w, OnPlatform>,
    backing: Vec<Backing>,
    /// Frames that are withdrawn, and frames that are free and were accessed.
    withdrawn: u64,
    idle: u64,
    /// The time up to which everything is summed up.
    now_ns: u64,
    /// The time between two looks at free memory, and how many there were.
    sample_ns: u64,
    samples: u32,
    seen: Seen,
}

/// Runs a guest.
pub(crate) fn perform(
    system: &AnySystem<'_, Watch>,
    guest: &Guest,
    setting: Setting,
    pass_frames: u64,
) -> Result<Seen, String> {
    let cpus = NativeCpus::new(1);
    let frames = system.span().frames();
    let words = Reporting::<OnPlatform>::words(setting.order, frames);
    let words: Vec<Word> = (0..words).map(|_| Word::new(0)).collect();
    let reporting = Reporting::new(system, setting.order, &words);
    let mut world = World {
        system,
        cpu: cpus
            .claim_probed(CpuId(0))
            .map_err(|error| error.to_string())?,
        reporting: reporting.map_err(|error| error.to_string())?,
        backing: vec![Backing::Never; frames as usize],
        withdrawn: 0,
        idle: 0,
        now_ns: 0,
        sample_ns: guest.end_ns / u64::from(SAMPLES),
        samples: 0,
        seen: Seen::default(),
    };
    world.pass(u64::MAX)?;
    world.seen = Seen::default();
    let mut blocks: Vec<Option<Index>> = vec![None; guest.blocks as usize];
    let mut due: Option<u64> = None;
    // The end is a step without work.
    let ends = guest.steps.iter().map(Some).chain([None]);
    for step in ends {
        let time = step.map_or(guest.end_ns, |step| step.time_ns);
        while let Some((at, delay_ns)) = due.zip(setting.delay_ns).filter(|due| due.0 <= time) {
            world.advance(at);
            let is_done = world.pass(pass_frames)?;
            due = (!is_done).then_some(at + delay_ns);
        }
        world.advance(time);
        let Some(step) = step else { break };
        let start = &mut blocks[step.block as usize];
        let order = Order::new(step.order).ok_or("a trace has a larger block")?;
        if step.kind.is_allocation() {
            let class = u8::try_from(step.migratetype()).ok();
            let class = class.and_then(Class::from_value).unwrap_or_default();
            *start = Some(world.allocate(order, class)?);
            continue;
        }
        let head = start.ok_or("the guest frees what it does not have")?;
        if step.kind.is_last_free() {
            *start = None;
        }
        world.free(Index(head.0 + step.offset()), order.frames())?;
        due = due.or(setting.delay_ns.map(|delay_ns| time + delay_ns));
    }
    Ok(world.seen)
}

impl World<'_, '_> {
    /// Sums up the time until `now_ns`.
    fn advance(&mut self, now_ns: u64) {
        while self.samples < SAMPLES && u64::from(self.samples + 1) * self.sample_ns <= now_ns {
            self.samples += 1;
            let free = self.system.snapshot(&mut self.cpu);
            self.seen.unusable += free.unusable_index(LARGE);
        }
        let passed = now_ns.saturating_sub(self.now_ns) as f64;
        self.seen.given += passed * self.withdrawn as f64;
        self.seen.idle += passed * self.idle as f64;
        self.now_ns = now_ns.max(self.now_ns);
    }

    fn allocate(&mut self, order: Order, class: Class) -> Result<Index, String> {
        let request = Request::order(order).with_class(class);
        let start = self.system.allocate(&mut self.cpu, request);
        let start = start.map_err(|error| format!("a request: {error}"))?;
        let frames = order.frames();
        let touched = (frames >> self.reporting.order().get()).max(1);
        let is_marked = self.reporting.allocated(start, frames) == touched;
        for backing in &mut self.backing[start.as_usize()..][..frames as usize] {
            match std::mem::replace(backing, Backing::Here) {
                Backing::Never => {}
                Backing::Here if is_marked => {
                    return Err(format!("{start:?} was reported, but has memory"));
                }
                Backing::Here => self.idle -= 1,
                Backing::Withdrawn => {
                    self.idle -= 1;
                    self.withdrawn -= 1;
                    self.seen.faulted += 1;
                }
            }
        }
        Ok(start)
    }

    fn free(&mut self, start: Index, frames: u32) -> Result<(), String> {
        self.idle += u64::from(frames);
        let freed = self
            .system
            .free(&mut self.cpu, Release::frames(start, frames));
        freed.map_err(|error| format!("a release: {error}"))
    }

    /// Reports all of memory, or until `most` frames were reported. Returns `true` if nothing is left.
    fn pass(&mut self, most: u64) -> Result<bool, String> {
        // Linux returns what its lists hold when a CPU is idle (vmstat_update), which is about as often.
        self.system.drain(&mut self.cpu);
        let mut reported = 0;
        // It looks at each block once, and may begin in the middle of memory. No request waits on one CPU.
        let mut budget = (self.backing.len() >> self.reporting.order().get()) as u32;
        loop {
            match self.reporting.take(self.system, &mut self.cpu, &mut budget) {
                Err(Progress::Idle) => {}
                Err(Progress::More) => return Ok(true),
                Ok(block) => {
                    let frames = block.order.frames();
                    for frame in &mut self.backing[block.start.as_usize()..][..frames as usize] {
                        if *frame == Backing::Here {
                            *frame = Backing::Withdrawn;
                            self.withdrawn += 1;
                        }
                    }
                    self.seen.calls += 1;
                    reported += u64::from(frames);
                    let put = self
                        .reporting
                        .put(self.system, &mut self.cpu, block, Report::Given);
                    put.map_err(|error| format!("a report: {error}"))?;
                    if reported >= most {
                        return Ok(false);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use everybuddy::SystemSpec;
    use everybuddy_measure::replay::host::Arena;
    use everybuddy_measure::replay::memory::Memory;

    use everybuddy_trace::{Step, StepKind};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Runs a guest in 4,096 frames.
    fn run(guest: &Guest, system: &str, setting: Setting, pass_frames: u64) -> Seen {
        let spec: SystemSpec = system.parse().expect("a system");
        let memory = Memory::fresh(4096);
        let seen = Arena::default().build_any(&spec, &memory, 1, |system| {
            perform(system, guest, setting, pass_frames)
        });
        seen.expect("a system").expect("a run")
    }

    fn after(order: u8, delay_ns: u64) -> Setting {
        Setting {
            order: Order::new(order).expect("an order"),
            delay_ns: Some(delay_ns),
        }
    }

    /// Returns a guest that holds all of its 4,096 frames until 1 s, frees them, requests 300 at 4 s, and ends at 6 s.
    fn guest() -> Guest {
        let mut guest = Guest::default();
        for _ in 0..4096 {
            guest.take(0, Class::Movable);
        }
        for block in 0..4096 {
            guest.give(SECOND, block);
        }
        for _ in 0..300 {
            guest.take(4 * SECOND, Class::Movable);
        }
        guest.end_ns = 6 * SECOND;
        guest
    }

    #[test]
    fn what_is_given_back_and_accessed_again_is_counted_exactly() {
        // Idle: 4,096 frames for 3 s, then 3,796 for 2 s.
        let idle = ((4096 * 3 + 3796 * 2) * SECOND) as f64;
        for system in ["bs", "mobility", "everybuddy"] {
            // All is withdrawn at 3 s, and 300 frames are accessed at 4 s.
            let seen = run(&guest(), system, after(9, 2 * SECOND), u64::MAX);
            assert_eq!(seen.given, ((4096 + 3796 * 2) * SECOND) as f64, "{system}");
            assert_eq!((seen.idle, seen.faulted), (idle, 300), "{system}");
            // Too late, and never.
            let never = Setting {
                delay_ns: None,
                ..after(9, 0)
            };
            for setting in [after(9, 8 * SECOND), never] {
                let seen = run(&guest(), system, setting, u64::MAX);
                assert_eq!((seen.given, seen.calls), (0.0, 0), "{system}");
                assert_eq!((seen.idle, seen.faulted), (idle, 0), "{system}");
            }
        }
    }

    #[test]
    fn a_pass_ends_after_its_frames_and_the_next_one_goes_on() {
        // Two blocks of 4 MiB are withdrawn at 2 s, and two at 3 s.
        let seen = run(&guest(), "bs", after(9, SECOND), 2048);
        assert_eq!(seen.given, ((2048 + 4096 + 3796 * 2) * SECOND) as f64);
        assert_eq!((seen.calls, seen.faulted), (4, 300));
    }

    #[test]
    fn blocks_and_parts_of_them_are_counted_by_frames() {
        let mut guest = guest();
        guest.steps.truncate(8192);
        let step = |time_ns, kind, order, operand| Step {
            time_ns,
            order,
            operand,
            kind,
            ..guest.steps[0]
        };
        // A block of 4 MiB, whose upper half is freed at 5 s.
        let last = [
            step(4 * SECOND, StepKind::Allocate, 10, 1),
            step(5 * SECOND, StepKind::FreePart, 9, 512),
        ];
        guest.steps.extend(last);
        let seen = run(&guest, "bs", after(9, SECOND), u64::MAX);
        // Four blocks of 4 MiB at 2 s, and the half at 6 s.
        assert_eq!((seen.faulted, seen.calls), (1024, 5));
        let idle = 4096 * 3 + 3072 * 2 + 512;
        assert_eq!(seen.idle, (idle * SECOND) as f64);
        let given = 4096 * 2 + 3072 * 2;
        assert_eq!(seen.given, (given * SECOND) as f64);
    }

    #[test]
    fn free_memory_outside_of_large_blocks_is_averaged_over_time() {
        // Everything is free at last, except that one frame of each 2 MiB stays from 3 s on.
        let mut guest = guest();
        guest.steps.truncate(8192);
        guest.steps.retain(|step| {
            let is_kept = step.kind == StepKind::Free && step.block % 512 == 7;
            !is_kept
        });
        let seen = run(&guest, "bs", after(9, SECOND), u64::MAX);
        // From 1 s to 6 s: 5 of 6, and nothing is free before.
        let share = seen.unusable / f64::from(SAMPLES);
        assert!((0.83..0.85).contains(&share), "{share}");
        assert_eq!(seen.calls, 0);
    }
}
