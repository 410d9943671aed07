//! A guest on a system, and its host: what is given back, and what is accessed again.
//!
//! # Purpose
//!
//! The monitor's side of a report is simulated, so that every frame is known exactly.
//!
//! # Method
//!
//! The steps of a guest run on one CPU, on a virtual clock. A free makes a pass due after the delay, as in Linux
//! (mm/page_reporting.c). A pass reports free blocks that were not reported, up to a number of frames; if it leaves some,
//! the next one is due after another delay. The host is known exactly: which frames have memory, and which were
//! withdrawn. A withdrawn frame that is allocated counts as a fault.
//!
//! Before the first step, everything was reported, and no frame has memory. What was never touched does not count as
//! given back.
//!
//! # Invariants
//!
//! Marks agree with the host: a marked block has no memory. That is checked at each allocation. No time of the host is
//! measured: the same numbers come out each time.

use everybuddy::platform::{AtomicWord, NativeCpu, NativeCpus};
use everybuddy::{
    Class, CpuId, Index, NoProbe, Order, Platform, Progress, Release, Report, Reporting, Request,
};
use everybuddy_measure::replay::host::{AnySystem, ReplayPlatform};

use super::guest::{Call, Guest};

type OnPlatform = ReplayPlatform<NoProbe>;
type Word = <OnPlatform as Platform>::AtomicU64;

/// The smallest order that is reported, and the time from a free to a pass.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub order: Order,
    pub delay_ns: u64,
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
    system: &'w AnySystem<'s, NoProbe>,
    cpu: NativeCpu<NoProbe>,
    reporting: Reporting<'w, OnPlatform>,
    backing: Vec<Backing>,
    /// Frames that are withdrawn, and frames that are free and were accessed.
    withdrawn: u64,
    idle: u64,
    /// The time up to which everything is summed up.
    now_ns: u64,
    seen: Seen,
}

/// Runs a guest.
pub(crate) fn perform(
    system: &AnySystem<'_, NoProbe>,
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
        cpu: cpus.claim(CpuId(0)).map_err(|error| error.to_string())?,
        reporting: reporting.map_err(|error| error.to_string())?,
        backing: vec![Backing::Never; frames as usize],
        withdrawn: 0,
        idle: 0,
        now_ns: 0,
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
        while let Some(at) = due.filter(|due| *due <= time) {
            world.advance(at);
            let is_done = world.pass(pass_frames)?;
            due = (!is_done).then_some(at + setting.delay_ns);
        }
        world.advance(time);
        let Some(step) = step else { break };
        let place = &mut blocks[step.block as usize];
        match (step.call, place.take()) {
            (Call::Allocate(class), None) => *place = Some(world.allocate(class)?),
            (Call::Free, Some(frame)) => {
                world.free(frame)?;
                due = due.or(Some(time + setting.delay_ns));
            }
            _ => return Err("the guest frees what it does not have".to_string()),
        }
    }
    Ok(world.seen)
}

impl World<'_, '_> {
    /// Sums up the time until `now_ns`.
    fn advance(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.now_ns) as f64;
        self.seen.given += passed * self.withdrawn as f64;
        self.seen.idle += passed * self.idle as f64;
        self.now_ns = now_ns.max(self.now_ns);
    }

    fn allocate(&mut self, class: Class) -> Result<Index, String> {
        let request = Request::FRAME.with_class(class);
        let frame = self.system.allocate(&mut self.cpu, request);
        let frame = frame.map_err(|error| format!("a request: {error}"))?;
        let is_marked = self.reporting.allocated(frame, 1) > 0;
        let backing = &mut self.backing[frame.as_usize()];
        match std::mem::replace(backing, Backing::Here) {
            Backing::Never => {}
            Backing::Here if is_marked => {
                return Err(format!("{frame:?} was reported, but has memory"));
            }
            Backing::Here => self.idle -= 1,
            Backing::Withdrawn => {
                self.idle -= 1;
                self.withdrawn -= 1;
                self.seen.faulted += 1;
            }
        }
        Ok(frame)
    }

    fn free(&mut self, frame: Index) -> Result<(), String> {
        self.idle += 1;
        let freed = self.system.free(&mut self.cpu, Release::frame(frame));
        freed.map_err(|error| format!("a release: {error}"))
    }

    /// Reports until the end of memory, or until `most` frames were reported. Returns `true` if nothing is left.
    fn pass(&mut self, most: u64) -> Result<bool, String> {
        // Linux returns what its lists hold when a CPU is idle (vmstat_update), which is about as often.
        self.system.drain(&mut self.cpu);
        let (mut reported, mut ends) = (0, 0);
        // A pass may begin in the middle of memory.
        while ends < 2 {
            let mut budget = u32::MAX;
            match self.reporting.take(self.system, &mut self.cpu, &mut budget) {
                Err(Progress::Idle) => ends += 1,
                Err(Progress::More) => return Err("a request waits".to_string()),
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
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use everybuddy::SystemSpec;
    use everybuddy_measure::replay::host::Arena;
    use everybuddy_measure::replay::memory::Memory;

    use super::super::guest::Step;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Runs a guest that holds all of its 4,096 frames until 1 s, frees them, requests 300 at 4 s, and ends at 6 s.
    fn run(system: &str, order: u8, delay_ns: u64, pass_frames: u64) -> Seen {
        let step = |time_ns, block, call| Step {
            time_ns,
            block,
            call,
        };
        let movable = Call::Allocate(Class::Movable);
        let taken = (0..4096).map(|block| step(0, block, movable));
        let freed = (0..4096).map(|block| step(SECOND, block, Call::Free));
        let again = (4096..4396).map(|block| step(4 * SECOND, block, movable));
        let guest = Guest {
            steps: taken.chain(freed).chain(again).collect(),
            blocks: 4396,
            end_ns: 6 * SECOND,
        };
        let spec: SystemSpec = system.parse().expect("a system");
        let order = Order::new(order).expect("an order");
        let setting = Setting { order, delay_ns };
        let memory = Memory::fresh(4096);
        let seen = Arena::default().build_any(&spec, &memory, 1, |system| {
            perform(system, &guest, setting, pass_frames)
        });
        seen.expect("a system").expect("a run")
    }

    #[test]
    fn what_is_given_back_and_accessed_again_is_counted_exactly() {
        // Idle: 4,096 frames for 3 s, then 3,796 for 2 s.
        let idle = ((4096 * 3 + 3796 * 2) * SECOND) as f64;
        for system in ["bs", "mobility", "everybuddy"] {
            // All is withdrawn at 3 s, and 300 frames are accessed at 4 s.
            let seen = run(system, 9, 2 * SECOND, u64::MAX);
            assert_eq!(seen.given, ((4096 + 3796 * 2) * SECOND) as f64, "{system}");
            assert_eq!((seen.idle, seen.faulted), (idle, 300), "{system}");
            // Too late.
            let seen = run(system, 9, 8 * SECOND, u64::MAX);
            assert_eq!((seen.given, seen.calls), (0.0, 0), "{system}");
            assert_eq!((seen.idle, seen.faulted), (idle, 0), "{system}");
        }
    }

    #[test]
    fn a_pass_ends_after_its_frames_and_the_next_one_goes_on() {
        // Two blocks of 4 MiB are withdrawn at 2 s, and two at 3 s.
        let seen = run("bs", 9, SECOND, 2048);
        assert_eq!(seen.given, ((2048 + 4096 + 3796 * 2) * SECOND) as f64);
        assert_eq!((seen.calls, seen.faulted), (4, 300));
    }
}
