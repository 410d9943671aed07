//! All calls of the interface together: several threads exchange tokens and frames, in memory that comes and goes.
//!
//! The other properties call few functions at a time, by threads that keep their CPUs. `ci/tsan.sh` runs this one on
//! cells of plain memory, where ThreadSanitizer reports each access that nothing orders.
//!
//! # Invariants
//! What the test shares between its threads orders as little as possible, since each order that it adds hides a race:
//! the owners of frames are relaxed words, and only a token, frames or a range that change hands are ordered.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use everybuddy::platform::{CpuToken, NativeCpus, Spin, Waiting};
use everybuddy::{
    AllocateError, Block, Class, CpuId, Flags, FrameRange, FreeError, Index, Node, Order, Pfn,
    Place, Progress, RegionError, Release, Request, Run, Setup, Size, SystemSpec, Visit,
};
use everybuddy_suite::platform::waiting_by;
use everybuddy_suite::{
    Cpu, Random, Shadow, System, all_at_once, any, claim, for_each_spec, rounds,
};

/// Two trees of `everybuddy` and a part, with a hole, and a part that comes later.
const RANGES: &[FrameRange] = &[
    FrameRange::new(Pfn(0x1400), 5000),
    FrameRange::new(Pfn(0x3000), 0x1000),
];
/// All frames that can be added.
const REACH: FrameRange = FrameRange::new(Pfn(0x1400), 0x3000);
/// A CPU more than threads: there is always a token to change to.
const CPUS: u16 = 4;
const THREADS: u16 = 3;
/// The steps of a thread in each round.
const STEPS: u32 = 10;

/// Lets other threads run, and never sleeps: a CPU that neither calls nor parks is waited for in vain, and often.
fn let_others_run(attempt: u32) {
    assert!(attempt < 1 << 20, "the awaited event does not occur");
    match attempt {
        0..4 => Spin::pause(attempt),
        _ => std::thread::yield_now(),
    }
}

/// What all threads share.
struct Stage<'s> {
    system: &'s System<'s>,
    cpus: &'s NativeCpus,
    shadow: Shadow,
    /// Allocations that change hands, as [`Held::to_word`]; 0 if there is none.
    handed: [AtomicU64; 16],
}

/// Frames that a thread has allocated.
#[derive(Clone, Copy)]
struct Held {
    start: Index,
    frames: u32,
    /// They are a whole allocation, and not a part of one.
    is_whole: bool,
}

impl Held {
    fn to_word(self) -> u64 {
        u64::from(self.start.0) << 32 | u64::from(self.frames) << 1 | u64::from(self.is_whole)
    }

    fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self {
            start: Index((word >> 32) as u32),
            frames: word as u32 >> 1,
            is_whole: word & 1 == 1,
        })
    }

    /// Returns the release: of a block by its order, of anything else by its number of frames.
    fn release(self, largest: Order) -> Release {
        let order = Order::covering(self.frames).filter(|order| *order <= largest);
        match order {
            Some(order)
                if self.is_whole
                    && order.frames() == self.frames
                    && self.start.is_aligned(order) =>
            {
                Release::block(Block::new(self.start, order))
            }
            _ => Release::frames(self.start, self.frames),
        }
    }
}

/// A thread.
struct Actor<'s> {
    stage: &'s Stage<'s>,
    cpu: Cpu,
    random: Random,
    held: Vec<Held>,
    /// What the thread has removed, and has reserved.
    removed: Vec<FrameRange>,
    reserved: Vec<FrameRange>,
}

/// Asserts that a request was refused for a reason that other CPUs can give.
fn refused(error: AllocateError) {
    use AllocateError::{Busy, Exhausted};
    assert!(matches!(error, Exhausted | Busy), "{error}");
}

/// Claims the token of any CPU.
fn claim_any(cpus: &NativeCpus, random: &mut Random) -> Cpu {
    loop {
        match cpus.claim_probed(CpuId(random.below(CPUS.into()) as u16)) {
            Ok(cpu) => return cpu,
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// Changes a range that the thread owns, which succeeds as soon as no other CPU is in the way.
fn again(mut change: impl FnMut() -> Result<(), RegionError>) {
    loop {
        match change() {
            Ok(()) => return,
            Err(RegionError::Busy) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Counts a thread that acts until it is dropped, also by a failed assertion.
struct Acting<'s>(&'s AtomicU16);

impl Drop for Acting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Actor<'_> {
    fn keep(&mut self, start: Index, frames: u32) {
        self.stage.shadow.take(start, frames, 0);
        self.held.push(Held {
            start,
            frames,
            is_whole: true,
        });
    }

    /// Returns a request, and its number of frames.
    fn request(&mut self) -> (Request, u32) {
        let random = &mut self.random;
        let largest = self.stage.system.max_order();
        let most = u64::from(largest.get());
        let request = match random.below(22) {
            0..8 => Request::FRAME,
            8..15 => Request::order(Order::new(random.below(most.min(5) + 1) as u8).unwrap()),
            15 => Request::order(Order::new(random.below(most + 1) as u8).unwrap()),
            16 | 17 => Request::frames(1 + random.below(largest.frames().min(60).into()) as u32),
            18 => Request::frames(1 + random.below(largest.frames().min(600).into()) as u32),
            // Whole words of 64 frames, often not a power of two.
            _ => Request::frames((64 + 64 * random.below(8) as u32).min(largest.frames())),
        };
        let class = [Class::Unmovable, Class::Movable, Class::Reclaimable];
        let request = request.with_class(class[random.below(3) as usize]);
        let request = if random.chance(20) {
            request.with_flags(Flags::NO_WAIT)
        } else {
            request
        };
        let frames = match request.size {
            Size::Order(order) => order.frames(),
            Size::Frames(frames) => frames.0,
        };
        (request, frames)
    }

    /// Returns a range of at most `most` frames that may be free.
    fn range(&mut self, most: u64) -> FrameRange {
        let first = REACH.start.0 + self.random.below(REACH.frames - most);
        // Half of them are groups of whole words.
        let first = first & if self.random.chance(50) { !63 } else { !0 };
        FrameRange::new(Pfn(first).max(REACH.start), 1 + self.random.below(most))
    }

    fn allocate(&mut self) {
        let system = self.stage.system;
        let (request, frames) = self.request();
        let got = match self.random.below(40) {
            0..4 => system.allocate_nested(self.cpu.id(), request),
            4 => {
                let limit = REACH.start.0 + self.random.below(REACH.frames);
                let place = Place {
                    node: Node::Preferred(0),
                    ..Place::ANYWHERE.below(Pfn(limit))
                };
                system.allocate_in(&mut self.cpu, request, &place)
            }
            _ => system.allocate(&mut self.cpu, request),
        };
        match got {
            Ok(start) => self.keep(start, frames),
            Err(error) => refused(error),
        }
    }

    /// Frees a whole allocation, or the first part of one.
    fn free(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let system = self.stage.system;
        let index = self.random.below(self.held.len() as u64) as usize;
        let mut held = self.held.swap_remove(index);
        if self.random.chance(20) {
            let all = held.frames;
            held.frames = 1 + self.random.below(u64::from(all)) as u32;
            if held.frames < all {
                held.is_whole = false;
                self.held.push(Held {
                    start: Index(held.start.0 + held.frames),
                    frames: all - held.frames,
                    is_whole: false,
                });
            }
        }
        self.stage.shadow.give(held.start, held.frames, 0);
        let release = held.release(system.max_order());
        let freed = match self.random.below(8) {
            0 => system.free_nested(self.cpu.id(), release),
            1 => system.free_zeroed(&mut self.cpu, release),
            _ => system.free(&mut self.cpu, release),
        };
        match freed {
            Ok(()) => {}
            Err(FreeError::Busy) => {
                self.stage.shadow.take(held.start, held.frames, 0);
                self.held.push(held);
            }
            Err(error) => panic!("{release:?}: {error}"),
        }
    }

    /// Allocates and frees many at a time.
    fn many(&mut self) {
        let system = self.stage.system;
        match self.random.below(3) {
            0 => {
                let (request, frames) = self.request();
                let mut out = [Index(0); 40];
                match system.allocate_bulk(&mut self.cpu, request, &mut out) {
                    Ok(given) => out[..given].iter().for_each(|at| self.keep(*at, frames)),
                    Err(error) => refused(error),
                }
            }
            1 => {
                let mut out = [Run::default(); 20];
                let frames = 1 + self.random.below(300) as u32;
                match system.allocate_runs(&mut self.cpu, frames, Order::ZERO, &mut out) {
                    Ok(runs) => out[..runs]
                        .iter()
                        .for_each(|run| self.keep(run.start, run.frames)),
                    Err(error) => refused(error),
                }
            }
            _ => {
                let from = self.held.len().saturating_sub(30);
                let shadow = &self.stage.shadow;
                let release = |held: Held| {
                    shadow.give(held.start, held.frames, 0);
                    held.release(system.max_order())
                };
                let releases: Vec<_> = self.held.drain(from..).map(release).collect();
                system.free_bulk(&mut self.cpu, &releases).unwrap();
            }
        }
    }

    /// Leaves an allocation to another thread, and frees what another one left.
    fn hand_over(&mut self) {
        let slot = self.random.below(self.stage.handed.len() as u64) as usize;
        let given = self.held.pop().map_or(0, Held::to_word);
        // Release and acquire: the next holder of frames comes after the last one.
        let taken = self.stage.handed[slot].swap(given, Ordering::AcqRel);
        self.held.extend(Held::from_word(taken));
    }

    /// Allocates given frames, and lets memory come and go.
    fn ranges(&mut self) {
        let system = self.stage.system;
        let cpu = &mut self.cpu;
        match self.random.below(6) {
            0 => {
                let range = self.range(40);
                let cpu = &mut self.cpu;
                let got = if self.random.chance(50) {
                    system.allocate_at(cpu, range)
                } else {
                    system.try_allocate_at(cpu, range)
                };
                if let Ok(start) = got {
                    self.keep(start, range.frames as u32);
                }
            }
            1 => {
                let range = self.range(300);
                if system.remove(&mut self.cpu, range).is_ok() {
                    self.removed.push(range);
                }
            }
            2 => {
                let range = self.range(100);
                if system.reserve(&mut self.cpu, range).is_ok() {
                    self.reserved.push(range);
                }
            }
            3 => {
                if let Some(range) = self.removed.pop() {
                    again(|| system.add(cpu, range));
                }
            }
            4 => {
                if let Some(range) = self.reserved.pop() {
                    again(|| system.unreserve(cpu, range));
                }
            }
            _ => {
                let order = Order::new(2).unwrap().min(system.max_order());
                let (mut visits, mut kept) = (0, None);
                system.visit_free(cpu, order, &mut |block| {
                    visits += 1;
                    match visits {
                        1 => Visit::Return,
                        2 => Visit::ReturnZeroed,
                        _ => {
                            kept = Some(block.start);
                            Visit::KeepAndStop
                        }
                    }
                });
                if let Some(start) = kept {
                    self.keep(start, order.frames());
                }
            }
        }
    }

    /// Drains lists, runs services, and looks at the state, which is a hint.
    fn look_and_drain(&mut self) {
        let system = self.stage.system;
        let other = CpuId(self.random.below(CPUS.into()) as u16);
        let (cpu, random) = (&mut self.cpu, &mut self.random);
        match random.below(12) {
            0 | 1 => system.drain(cpu),
            2 | 3 => system.park(cpu),
            4 | 5 => {
                let drained = system.drain_parked(cpu, other);
                assert!(matches!(drained, Ok(()) | Err(AllocateError::Busy)));
            }
            6 => {
                let settled = system.quiesce(cpu);
                assert!(matches!(settled, Ok(()) | Err(AllocateError::Busy)));
            }
            7 => {
                let free = system.snapshot(cpu).free_frames();
                assert!(free <= REACH.frames);
            }
            8 => {
                let (request, _) = self.request();
                system.shortage(&mut self.cpu, request);
            }
            9 => {
                system.buffered_frames(other);
                system.owns_frames();
            }
            10 => {
                for _ in 0..20 {
                    let frame = Index(random.below(u64::from(system.span().frames())) as u32);
                    system.frame_state(frame);
                    system.is_zeroed(frame, 1);
                }
            }
            _ => {
                for (number, service) in system.services().iter().enumerate() {
                    if !service.own_thread {
                        system.serve(cpu, number, 8);
                    }
                }
            }
        }
    }

    /// Goes on as another CPU. The thread parks its CPU first, but not always.
    fn change_cpu(self) -> Self {
        let Self {
            stage,
            mut cpu,
            mut random,
            held,
            removed,
            reserved,
        } = self;
        if random.chance(80) {
            stage.system.park(&mut cpu);
        }
        assert!(stage.cpus.release(cpu));
        Self {
            stage,
            cpu: claim_any(stage.cpus, &mut random),
            random,
            held,
            removed,
            reserved,
        }
    }

    /// Allocates or frees, so that the threads together hold less than half of the memory.
    fn act_alone(&mut self) {
        let held: u32 = self.held.iter().map(|held| held.frames).sum();
        if held > 1500 || self.random.chance(45) {
            return self.free();
        }
        let (request, frames) = self.request();
        if let Ok(start) = self.stage.system.allocate(&mut self.cpu, request) {
            self.keep(start, frames);
        }
    }

    fn act(mut self, steps: u32, number: u16) {
        for step in 0..steps {
            // Every other time the threads do what orders them least: no memory is scarce, and nothing is drained.
            if step / 40 % 2 == 1 {
                self.act_alone();
                continue;
            }
            // At first two threads take all, then all give back, and so on.
            let fill = match (step / 60 + u32::from(number)) % 3 {
                0 => 35,
                _ => 75,
            };
            match self.random.below(100) {
                0..70 if self.random.chance(fill) => self.allocate(),
                0..70 => self.free(),
                70..78 => self.many(),
                78..84 => self.hand_over(),
                84..89 => self.ranges(),
                89..96 => self.look_and_drain(),
                _ => self = self.change_cpu(),
            }
        }
        let system = self.stage.system;
        for held in self.held {
            self.stage.shadow.give(held.start, held.frames, 0);
            let release = held.release(system.max_order());
            system.free(&mut self.cpu, release).unwrap();
        }
        for range in self.removed {
            again(|| system.add(&mut self.cpu, range));
        }
        for range in self.reserved {
            again(|| system.unreserve(&mut self.cpu, range));
        }
        system.park(&mut self.cpu);
        assert!(self.stage.cpus.release(self.cpu));
    }
}

/// Runs services until no thread acts any more.
fn serve(system: &System<'_>, acting: &AtomicU16) {
    let services = system.services();
    let cpus = NativeCpus::new(CPUS + services.len() as u16);
    all_at_once(services.len() as u16, |number| {
        if !services[usize::from(number)].own_thread {
            return;
        }
        let mut cpu = claim(&cpus, CPUS + number);
        while acting.load(Ordering::Relaxed) > 0 {
            if system.serve(&mut cpu, number.into(), 64) == Progress::Idle {
                std::thread::yield_now();
            }
        }
    });
}

/// Lets all threads act, and checks that all is free then.
fn mixed(spec: &SystemSpec, seed: u64, steps: u32) {
    any(
        spec,
        &Setup::new(RANGES, CPUS).with_reach(REACH),
        |system| {
            let cpus = &NativeCpus::new(CPUS);
            let stage = Stage {
                system,
                cpus,
                shadow: Shadow::new(system.span().frames()),
                handed: Default::default(),
            };
            let acting = AtomicU16::new(THREADS);
            all_at_once(THREADS + 1, |number| {
                if number == THREADS {
                    return serve(system, &acting);
                }
                let mut random = Random(seed << 8 | u64::from(number));
                let actor = Actor {
                    stage: &stage,
                    cpu: claim_any(cpus, &mut random),
                    random,
                    held: Vec::new(),
                    removed: Vec::new(),
                    reserved: Vec::new(),
                };
                let _acting = Acting(&acting);
                waiting_by(let_others_run, || actor.act(steps, number));
            });
            for id in (0..CPUS).rev() {
                let mut cpu = claim(cpus, id);
                if id == 0 {
                    for handed in &stage.handed {
                        if let Some(held) = Held::from_word(handed.load(Ordering::Relaxed)) {
                            stage.shadow.give(held.start, held.frames, 0);
                            let release = held.release(system.max_order());
                            system.free(&mut cpu, release).unwrap();
                        }
                    }
                    assert_eq!(stage.shadow.taken(), 0);
                    system.quiesce(&mut cpu).unwrap();
                    let census = system.check(&mut cpu).unwrap();
                    let all: u64 = RANGES.iter().map(|range| range.frames).sum();
                    assert_eq!((census.free, census.allocated), (all, 0), "{spec}");
                }
                system.park(&mut cpu);
            }
        },
    );
}

/// `EVERYBUDDY_SYSTEMS` names the systems, separated by commas: by default those of the suite.
#[test]
fn all_calls_at_once() {
    let steps = STEPS * rounds() as u32;
    match std::env::var("EVERYBUDDY_SYSTEMS") {
        Ok(names) => names
            .split(',')
            .for_each(|name| mixed(&name.parse().unwrap(), 1, steps)),
        Err(_) => for_each_spec(|spec| mixed(spec, 1, steps)),
    }
}
