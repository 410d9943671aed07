//! A CPU that calls a system, and what it measures.
//!
//! Workloads and traces decide which calls are made. How a call is made and measured is the same for both.
//!
//! # Invariants
//! A CPU that waits for other CPUs outside of calls has parked itself, as an idle CPU of a kernel does: otherwise a CPU
//! that needs what is in its list would wait for it. The time is idle time and no part of a call. It may do the work of
//! services meanwhile.

use everybuddy::platform::CpuToken;
use everybuddy::{FrameAllocator, Index, Release, Request};
use everybuddy_measure::replay::random::Random;
use everybuddy_sim::{Sim, SimCpu};

use crate::counted::{Counted, LOOK};
use crate::program::frames;
use crate::services::{Crew, Spare};
use crate::timeline;

/// How fast CPUs make calls, and what is recorded of them.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// The mean number of instructions before an allocation, and before a free. They vary by a half.
    pub(crate) think: [u32; 2],
    /// The seed of their number.
    pub(crate) seed: u64,
    /// The instructions that each call executes around the allocator.
    pub(crate) around: u32,
    /// Whether everything that happens is recorded.
    pub(crate) is_recorded: bool,
    /// Whether the time at which each call ends is kept.
    pub(crate) keeps_ends: bool,
    /// The cycles in calls after which a CPU makes no more of them in a section; `None` if it makes all.
    pub(crate) cut_off: Option<u64>,
    /// Whether virtual CPUs that share a CPU of the machine take turns between calls only.
    pub(crate) whole_calls: bool,
}

/// A CPU that makes calls and thinks in between.
pub(crate) struct Caller<'t, 'c> {
    crew: &'t Crew<'t>,
    cpu: &'c mut SimCpu,
    random: Random,
    pace: Pace,
    /// The time in calls after which those of this section are cut off.
    left: u64,
    counted: Counted,
    spare: Spare,
    /// How often it has met the other CPUs.
    meetings: u64,
}

impl<'t, 'c> Caller<'t, 'c> {
    /// Creates the caller of a CPU.
    pub(crate) fn new(pace: Pace, crew: &'t Crew<'t>, cpu: &'c mut SimCpu) -> Self {
        Self {
            crew,
            random: Random::new(pace.seed << 16 | u64::from(cpu.id().0)),
            pace,
            left: u64::MAX,
            cpu,
            counted: Counted::default(),
            spare: Spare::default(),
            meetings: 0,
        }
    }

    /// Returns the position of the CPU.
    pub(crate) fn index(&self) -> usize {
        self.cpu.id().index()
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> u64 {
        self.cpu.now()
    }

    /// Notes that the load goes on: a call has ended, or a wait of bounded length.
    pub(crate) fn progress(&mut self) {
        self.cpu.progress();
    }

    /// Lets the machine forget what happened to lines, on all CPUs.
    pub(crate) fn mark(&mut self) {
        self.crew.marks.set(self.crew.marks.get() + 1);
        self.cpu.mark();
    }

    /// Forgets what was measured on this CPU, except that its calls were cut off: from here on it counts.
    pub(crate) fn begin(&mut self) {
        self.cpu.probe().start(self.pace.is_recorded);
        self.counted = Counted {
            start: self.cpu.now(),
            // Memory that was not freed before is missing now.
            is_cut_off: self.counted.is_cut_off,
            ..Counted::default()
        };
    }

    /// Begins a section of the load: from here on, the time in calls counts after which the others are cut off.
    pub(crate) fn begin_section(&mut self) {
        self.left = self.pace.cut_off.unwrap_or(u64::MAX);
        self.crew.cut_off[self.index()].set(false);
    }

    /// Returns `true` if the CPU makes no more calls of this section, and counts that.
    fn is_cut_off(&mut self) -> bool {
        let is_over = self.left == 0;
        if is_over {
            self.counted.is_cut_off = true;
            self.crew.cut_off[self.index()].set(true);
        }
        is_over
    }

    /// Returns `true` if the calls of another CPU are cut off, so that what this one waits for does not come, and
    /// counts that.
    pub(crate) fn waits_in_vain(&mut self, other: usize) -> bool {
        let is_over = self.crew.cut_off[other].get();
        self.counted.is_cut_off |= is_over;
        is_over
    }

    /// Notes that the CPU is done with what was to be measured. It may continue, and then still counts.
    pub(crate) fn done(&mut self) {
        self.counted.end = self.cpu.now();
    }

    /// Ends the measurement, and the calls of the CPU. While others go on, it may do the work of services.
    pub(crate) fn stop(mut self) -> Counted {
        self.counted.stop = self.cpu.now();
        self.park();
        self.crew.leave(self.meetings);
        if self.crew.serves_in_waits() {
            self.cpu.stand_aside();
            while self.crew.goes_on() {
                self.pass(LOOK);
            }
        }
        self.counted
    }

    /// Lets a random time of at most `cycles` pass, outside of calls.
    pub(crate) fn wait_up_to(&mut self, cycles: u64) {
        self.park();
        let until = self.cpu.now() + self.random.below(cycles + 1);
        while self.cpu.now() < until {
            self.progress();
            self.idle(LOOK);
        }
    }

    /// Thinks, then allocates. Returns `None` if the request is refused, or cut off.
    pub(crate) fn allocate(&mut self, request: Request) -> Option<Index> {
        if self.is_cut_off() {
            return None;
        }
        self.think(0);
        self.crew.used.before(self.cpu);
        self.cpu.path(self.crew.work.allocate(&request));
        let (given, cycles) =
            self.call(("allocate", 0), |system, cpu| system.allocate(cpu, request));
        self.counted.allocate.push(cycles);
        self.ended(0);
        self.counted.refused += u64::from(given.is_err());
        let start = given.ok()?;
        let frames = frames(request.size);
        self.crew.used.allocated(self.cpu, start.0, frames);
        Some(start)
    }

    /// Thinks, then frees. A free that is cut off leaves its frames allocated.
    pub(crate) fn free(&mut self, release: Release) {
        if self.is_cut_off() {
            return;
        }
        self.think(1);
        let frames = frames(release.size);
        self.crew.used.freed(self.cpu, release.start.0, frames);
        self.crew.used.before(self.cpu);
        self.cpu.path(self.crew.work.free(&release));
        let (freed, cycles) = self.call(("free", 1), |system, cpu| system.free(cpu, release));
        self.counted.free.push(cycles);
        self.ended(1);
        debug_assert!(freed.is_ok(), "{release:?}: {freed:?}");
    }

    /// Waits for all other CPUs.
    pub(crate) fn meet(&mut self) {
        self.park();
        let before = self.cpu.now();
        self.meetings += 1;
        self.crew.arrive();
        if self.crew.serves_in_waits() {
            while !self.crew.all_are_at(self.meetings) {
                self.pass(LOOK);
            }
        }
        self.cpu.barrier();
        self.counted.idle += self.cpu.now() - before;
    }

    /// Tells the system that this CPU makes no calls for a while.
    pub(crate) fn park(&mut self) {
        let before = self.cpu.now();
        self.cpu.path(self.crew.work.other);
        self.keep_core();
        self.crew.system.park(self.cpu);
        self.progress();
        self.share_core();
        self.record("park", false, before);
        self.spare.begin();
    }

    /// Calls the system, and returns the duration of the call with its result.
    fn call<T>(
        &mut self,
        (name, kind): (&'static str, usize),
        call: impl FnOnce(&dyn FrameAllocator<Sim>, &mut SimCpu) -> T,
    ) -> (T, u64) {
        let (locks, waits) = self.waits();
        // Waits outside of calls do not count.
        self.cpu.probe().take_waits();
        let before = self.cpu.now();
        self.keep_core();
        self.cpu.work(self.pace.around);
        let result = call(self.crew.system, self.cpu);
        self.crew.used.after(self.cpu);
        self.progress();
        let cycles = self.cpu.now() - before;
        self.left = self.left.saturating_sub(cycles);
        self.share_core();
        let (locks_after, waits_after) = self.waits();
        self.counted.locks += locks_after - locks;
        self.counted.contended[kind] += u64::from(waits_after > waits);
        self.counted.waits.extend(self.cpu.probe().take_waits());
        self.record(name, true, before);
        (result, cycles)
    }

    /// Begins a call.
    fn keep_core(&mut self) {
        if self.pace.whole_calls {
            self.cpu.disable_preemption();
        }
    }

    /// Ends a call.
    fn share_core(&mut self) {
        if self.pace.whole_calls {
            self.cpu.enable_preemption();
        }
    }

    /// Notes when a call ended: an allocation (0) or a free (1).
    fn ended(&mut self, kind: usize) {
        if self.pace.keeps_ends {
            self.counted.ends[kind].push(self.cpu.now());
        }
    }

    /// Returns how often this CPU has acquired a lock, and how often it has waited.
    fn waits(&mut self) -> (u64, u64) {
        let counts = &self.cpu.probe().counts;
        (counts.locks, counts.locks_contended + counts.ghosts)
    }

    /// Records a call that has just ended, if that is wanted.
    fn record(&mut self, call: &'static str, is_counted: bool, begin: u64) {
        if self.pace.is_recorded {
            let moments = &mut self.counted.moments;
            timeline::note(moments, self.cpu, (call, begin), (is_counted, false));
        }
    }

    /// Lets time pass, outside of calls, in a CPU that has parked itself and then looks whether it still has to wait.
    /// Returns `true` if it did a unit of the work of services instead.
    pub(crate) fn idle(&mut self, instructions: u32) -> bool {
        let before = self.cpu.now();
        let has_served = self.pass(instructions);
        self.counted.idle += self.cpu.now() - before;
        has_served
    }

    /// Lets the time of this many instructions pass, outside of calls, on a CPU that has parked itself.
    pub(crate) fn pause(&mut self, instructions: u32) {
        if !self.crew.serves_in_waits() {
            self.idle(instructions);
            return;
        }
        // How long an instruction takes here is not known otherwise.
        let before = self.cpu.now();
        self.cpu.work(instructions.min(LOOK));
        let first = self.cpu.now() - before;
        self.counted.idle += first;
        let until = before + first * u64::from(instructions) / u64::from(LOOK);
        while self.cpu.now() < until {
            self.idle(LOOK);
        }
    }

    /// Does a unit of the work of services, if callers do that and there is one, or lets time pass. Returns whether it
    /// did a unit.
    fn pass(&mut self, instructions: u32) -> bool {
        let (crew, spare) = (self.crew, &mut self.spare);
        let has_served = crew.serve_in_wait(self.cpu, spare, &mut self.counted);
        if !has_served {
            self.cpu.work(instructions);
        }
        has_served
    }

    /// Works before an allocation (0) or a free (1).
    fn think(&mut self, kind: usize) {
        let think = self.pace.think[kind];
        if think > 0 {
            let half = think / 2;
            let more = self.random.below(u64::from(think) + 1) as u32;
            self.cpu.work(half + more);
        }
    }
}
