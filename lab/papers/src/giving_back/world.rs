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
    Block, Class, CpuId, Index, NoProbe, Order, Platform, Progress, Release, Report, Reporting,
    Request,
};
use everybuddy_measure::replay::host::{AnySystem, ReplayPlatform};
use everybuddy_measure::replay::outcome::mean;
use everybuddy_trace::StepKind;

use super::guest::Guest;

type OnPlatform = ReplayPlatform<NoProbe>;
type Word = <OnPlatform as Platform>::AtomicU64;

/// The order of the blocks that are counted.
pub(crate) const HUGE: u8 = 9;

/// Samples of the free blocks in a run.
const SAMPLES: u64 = 100;

/// An order and a delay; never, if there is none.
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
    /// Free blocks of [`HUGE`], on average over time.
    pub huge_blocks: f64,
    /// Requests that failed.
    pub refused: u64,
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
    if setting.delay_ns.is_some() {
        world.pass(u64::MAX)?;
        world.seen = Seen::default();
    }
    let mut blocks: Vec<Option<Index>> = vec![None; guest.blocks as usize];
    let mut due = None;
    let every = (guest.end_ns / SAMPLES).max(1);
    let mut sample = every;
    let mut samples = Vec::new();
    // The end is a step without work.
    let ends = guest.steps.iter().map(Some).chain([None]);
    for step in ends {
        let time = step.map_or(guest.end_ns, |step| step.time_ns);
        while due.is_some_and(|due| due <= time) || sample <= time {
            let pass = due.filter(|due| *due <= sample);
            if let Some(at) = pass {
                world.advance(at);
                let is_done = world.pass(pass_frames)?;
                due = setting
                    .delay_ns
                    .filter(|_| !is_done)
                    .map(|delay| at + delay);
            } else {
                samples.push(world.huge_blocks());
                sample += every;
            }
        }
        world.advance(time);
        let Some(step) = step else { break };
        let order = Order::new(step.order).ok_or("an order of the guest")?;
        let place = &mut blocks[step.block as usize];
        if step.kind == StepKind::Allocate {
            let class = u8::try_from(step.migratetype())
                .ok()
                .and_then(Class::from_value);
            *place = world.allocate(order, class.unwrap_or_default())?;
        } else if let Some(start) = *place {
            let at = Index(start.0 + step.offset());
            let release = match step.kind {
                StepKind::Free => Release::block(Block::new(at, order)),
                _ => Release::frames(at, order.frames()),
            };
            world.free(release, order)?;
            if step.kind.is_last_free() {
                *place = None;
            }
            due = due.or(setting.delay_ns.map(|delay| time + delay));
        }
    }
    world.seen.huge_blocks = mean(samples.into_iter());
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

    fn huge_blocks(&mut self) -> f64 {
        let order = Order::new(HUGE).unwrap_or(Order::TEN);
        self.system.snapshot(&mut self.cpu).available_blocks(order) as f64
    }

    fn allocate(&mut self, order: Order, class: Class) -> Result<Option<Index>, String> {
        let request = Request::order(order).with_class(class);
        let Ok(start) = self.system.allocate(&mut self.cpu, request) else {
            self.seen.refused += 1;
            return Ok(None);
        };
        let is_marked = self.reporting.allocated(start, 1) > 0;
        if is_marked && self.backing[start.as_usize()] == Backing::Here {
            return Err(format!("{start:?} is marked, but has memory"));
        }
        self.reporting.allocated(start, order.frames());
        for frame in &mut self.backing[start.as_usize()..][..order.frames() as usize] {
            match *frame {
                Backing::Never => {}
                Backing::Here => self.idle -= 1,
                Backing::Withdrawn => {
                    self.idle -= 1;
                    self.withdrawn -= 1;
                    self.seen.faulted += 1;
                }
            }
            *frame = Backing::Here;
        }
        Ok(Some(start))
    }

    fn free(&mut self, release: Release, order: Order) -> Result<(), String> {
        self.idle += u64::from(order.frames());
        let freed = self.system.free(&mut self.cpu, release);
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
