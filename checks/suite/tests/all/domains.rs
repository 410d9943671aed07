//! Elastic domains: what is left of them when it is quiet, many CPUs that extend the spring, and misuse.
//!
//! The paper promises that the fragmentation of a quiet system is the standard buddy's. Here that is tested block for
//! block, whatever was done before. A frame may also be freed into any domain, so two CPUs that free the same frame at
//! the same moment share no lock.
//!
//! # Invariants
//! Each test of splitting and merging domains counts that both happen many times. Interleavings that the machine does
//! not produce are not covered; see `everybuddy-model`.

use std::sync::Barrier;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use everybuddy::platform::NativeCpus;
use everybuddy::{
    AllocateError, Block, Counts, CpuToken, Event, FrameRange, FrameState, FreeError, Index, Order,
    Pfn, Release, Request, Setup,
};
use everybuddy_suite::platform::give_way;
use everybuddy_suite::{Cpu, Random, Shadow, System, on, order};

/// Claims a CPU that every now and then lets others run while a domain is held: few processors would else take turns,
/// and hardly ever find each other in one.
fn claim(set: &NativeCpus, id: u16) -> Cpu {
    let mut cpu = everybuddy_suite::claim(set, id);
    let mut events = 0u32;
    cpu.probe().listener = Some(Box::new(move |event| {
        if matches!(event, Event::Split(_) | Event::Coalesce(_)) {
            events += 1;
            if events.is_multiple_of(11) {
                std::thread::yield_now();
            }
        }
    }));
    cpu
}

/// Systems of all kinds over domains.
const SPECS: &[&str] = &[
    "spring-core+order=3",
    "spring-core+order=3+idle=1",
    "spring-core+order=3+spring=locked+idle=1",
    "spring-core",
    "spring-fixlazy-186+batch=2+high=3",
    "bs+zone=domains+order=3",
];

/// Adds up what CPUs counted.
fn sum(all: &Mutex<Counts>, cpu: &mut Cpu) {
    all.lock().unwrap().add(&cpu.probe().counts);
}

/// Returns the heads of all free blocks, each once.
fn heads(system: &System<'_>) -> Vec<Index> {
    let frames = (0..system.span().frames()).map(Index);
    let heads = frames.filter(|pfn| match system.frame_state(*pfn) {
        Some(FrameState::Free { head }) => head == *pfn,
        _ => false,
    });
    heads.collect()
}

/// Makes exactly `free` of all frames free in a standard buddy; returns the heads and numbers of its free blocks.
fn standard(system: &System<'_>, free: &[bool]) -> (Vec<Index>, Vec<u32>) {
    let mut cpu = everybuddy_suite::claim(&NativeCpus::new(1), 0);
    while system.allocate(&mut cpu, Request::FRAME).is_ok() {}
    for (frame, _) in (0..).zip(free).filter(|(_, free)| **free) {
        system.free(&mut cpu, Release::frame(Index(frame))).unwrap();
    }
    let snapshot = system.snapshot(&mut cpu);
    (heads(system), snapshot.free_blocks.to_vec())
}

/// Random programs on several CPUs; then quiet, and a comparison with the standard buddy.
struct Quiet<'a> {
    cpus: u16,
    rounds: u64,
    seed: u64,
    counts: &'a Mutex<Counts>,
}

/// What one CPU does in a round of random requests, each frame of which it finally holds.
fn work(
    system: &System<'_>,
    cpu: &mut Cpu,
    shadow: &Shadow,
    random: &mut Random,
    held: &mut Vec<(Index, u32)>,
) {
    let owner = u32::from(cpu.id().0);
    for _ in 0..150 {
        let request = match random.below(10) {
            0 => {
                let frames = 1 + random.below(7) as u32;
                Some((Request::frames(frames), frames))
            }
            1..=4 => {
                let size = order(random.below(4) as u8);
                Some((Request::order(size), size.frames()))
            }
            _ => None,
        };
        if let Some((request, frames)) = request {
            match system.allocate(cpu, request) {
                Ok(start) => {
                    shadow.take(start, frames, owner);
                    held.push((start, frames));
                }
                Err(error) => assert_eq!(error, AllocateError::Exhausted),
            }
        } else if !held.is_empty() {
            let (start, frames) = held.swap_remove(random.below(held.len() as u64) as usize);
            let part = if random.chance(20) {
                1 + random.below(u64::from(frames)) as u32
            } else {
                frames
            };
            shadow.give(start, part, owner);
            system.free(cpu, Release::frames(start, part)).unwrap();
            if part < frames {
                held.push((Index(start.0 + part), frames - part));
            }
        }
    }
}

impl Quiet<'_> {
    fn run(self, name: &str, system: &System<'_>) {
        let frames = system.span().frames();
        let (set, shadow) = (NativeCpus::new(self.cpus), Shadow::new(frames));
        let held: Vec<_> = (0..self.cpus).map(|_| Mutex::new(Vec::new())).collect();
        for round in 0..self.rounds {
            std::thread::scope(|scope| {
                for id in 0..self.cpus {
                    let (set, shadow, held) = (&set, &shadow, &held[usize::from(id)]);
                    let mut random = Random(self.seed ^ (round << 8) ^ u64::from(id));
                    scope.spawn(move || {
                        let mut cpu = claim(set, id);
                        work(
                            system,
                            &mut cpu,
                            shadow,
                            &mut random,
                            &mut held.lock().unwrap(),
                        );
                        system.park(&mut cpu);
                        sum(self.counts, &mut cpu);
                        set.release(cpu);
                    });
                }
            });
            let mut cpu = claim(&set, 0);
            system.check(&mut cpu).unwrap();
            system.quiesce(&mut cpu).unwrap();
            let census = system.check(&mut cpu).unwrap();
            let mut free = vec![true; frames as usize];
            for (start, frames) in held.iter().flat_map(|held| held.lock().unwrap().clone()) {
                free[start.as_usize()..][..frames as usize].fill(false);
            }
            let count = free.iter().filter(|free| **free).count() as u64;
            assert_eq!((census.free, census.buffered), (count, 0), "{name}");
            let setup = [FrameRange::new(Pfn(0), u64::from(frames))];
            let spec = format!("bs+order={}", system.max_order().get());
            let (heads_of_standard, blocks) = on(&spec, &Setup::new(&setup, 1), |system| {
                standard(system, &free)
            });
            assert_eq!(heads(system), heads_of_standard, "{name}, round {round}");
            assert_eq!(
                system.snapshot(&mut cpu).free_blocks.to_vec(),
                blocks,
                "{name}"
            );
            system.park(&mut cpu);
            sum(self.counts, &mut cpu);
            set.release(cpu);
        }
    }
}

#[test]
fn a_quiet_system_is_block_for_block_a_standard_buddy() {
    let counts = Mutex::default();
    for (seed, spec) in (0..).zip(SPECS) {
        let start = std::time::Instant::now();
        for frames in [64, 777, 4096] {
            let ranges = [FrameRange::new(Pfn(0), frames)];
            let quiet = Quiet {
                cpus: 4,
                rounds: 8,
                seed,
                counts: &counts,
            };
            on(spec, &Setup::new(&ranges, 4), |system| {
                quiet.run(spec, system)
            });
        }
        println!("{spec}: {:.1?}", start.elapsed());
    }
    let counts = counts.into_inner().unwrap();
    assert!(counts.extensions > 0 && counts.merges > 0, "{counts:?}");
}

/// Many CPUs hammer, then all is quiet; over and over.
struct Hammer {
    cpus: u16,
    rounds: usize,
}

impl Hammer {
    fn run(self, name: &str, system: &System<'_>) -> Counts {
        let set = NativeCpus::new(self.cpus);
        let counts = Mutex::new(Counts::default());
        let shadow = Shadow::new(system.span().frames());
        let gate = Barrier::new(usize::from(self.cpus));
        let at_start = Mutex::new(None);
        std::thread::scope(|scope| {
            for id in 0..self.cpus {
                let (set, counts, gate, shadow) = (&set, &counts, &gate, &shadow);
                let at_start = &at_start;
                scope.spawn(move || {
                    let mut cpu = claim(set, id);
                    if id == 0 {
                        *at_start.lock().unwrap() = Some(system.snapshot(&mut cpu));
                    }
                    for round in 0..self.rounds {
                        gate.wait();
                        let mut random = Random((round as u64) << 16 | u64::from(id));
                        hammer(system, &mut cpu, shadow, &mut random);
                        system.park(&mut cpu);
                        gate.wait();
                        // Quiet: one looks, the others wait.
                        if id == 0 {
                            system.quiesce(&mut cpu).unwrap();
                            let census = system.check(&mut cpu).unwrap();
                            assert_eq!(census.free, u64::from(system.span().frames()));
                            let snapshot = system.snapshot(&mut cpu);
                            assert_eq!(Some(snapshot), *at_start.lock().unwrap(), "{name}");
                            system.park(&mut cpu);
                        }
                    }
                    sum(counts, &mut cpu);
                    set.release(cpu);
                });
            }
        });
        counts.into_inner().unwrap()
    }
}

/// Allocations and releases of the orders 0 to 3.
fn hammer(system: &System<'_>, cpu: &mut Cpu, shadow: &Shadow, random: &mut Random) {
    let owner = u32::from(cpu.id().0);
    let mut held: Vec<Block> = Vec::new();
    for _ in 0..24 {
        let size = order(random.below(4) as u8);
        if held.len() < 4 && random.chance(60) {
            match system.allocate(cpu, Request::order(size)) {
                Ok(start) => {
                    shadow.take(start, size.frames(), owner);
                    held.push(Block::new(start, size));
                }
                Err(error) => assert_eq!(error, AllocateError::Exhausted),
            }
        } else if !held.is_empty() {
            let block = held.swap_remove(random.below(held.len() as u64) as usize);
            shadow.give(block.start, block.order.frames(), owner);
            system.free(cpu, Release::block(block)).unwrap();
        }
    }
    for block in held {
        shadow.give(block.start, block.order.frames(), owner);
        system.free(cpu, Release::block(block)).unwrap();
    }
}

fn many_cpus_extend_and_each_quiet_ends_in_one_domain(rounds: usize) {
    for spec in [
        "spring-core+order=5",
        "spring-core+order=5+idle=1",
        "spring-core+order=5+spring=locked",
    ] {
        let ranges = [FrameRange::new(Pfn(0), 8000)];
        let start = std::time::Instant::now();
        let hammer = Hammer { cpus: 64, rounds };
        let counts = on(spec, &Setup::new(&ranges, 64), |system| {
            hammer.run(spec, system)
        });
        let Counts {
            ghosts,
            extensions,
            merges,
            ..
        } = counts;
        println!(
            "{spec}: {rounds} rounds, {ghosts} ghosts, {extensions} extensions, {merges} merges, {:.1?}",
            start.elapsed()
        );
        assert!(extensions > 0 && merges > 0);
        // Each domain that was made is gone.
        assert_eq!(extensions, merges);
    }
}

#[test]
fn sixty_four_cpus_extend_and_each_quiet_ends_in_one_domain() {
    many_cpus_extend_and_each_quiet_ends_in_one_domain(250);
}

/// Run by `ci/stress.sh`.
#[test]
#[ignore = "a thousand rounds: half a minute where others work, too"]
fn sixty_four_cpus_extend_and_compress_a_thousand_times() {
    many_cpus_extend_and_each_quiet_ends_in_one_domain(1000);
}

/// One CPU wants all memory as one block, now and then; its parts lie in several domains.
struct Large<'a>(&'a AtomicU64);

impl Large<'_> {
    fn run(self, name: &str, system: &System<'_>) -> Counts {
        let set = NativeCpus::new(4);
        let (done, counts) = (AtomicBool::new(false), Mutex::new(Counts::default()));
        let holding = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for id in 1..4u16 {
                let (set, counts, done, holding) = (&set, &counts, &done, &holding);
                scope.spawn(move || {
                    let mut cpu = claim(set, id);
                    while !done.load(Ordering::Relaxed) {
                        // No other CPU requests while one holds frames: then the large block exists, in parts.
                        if holding.fetch_add(1, Ordering::SeqCst) < 1 << 16 {
                            for _ in 0..8 {
                                let frame = system.allocate(&mut cpu, Request::FRAME).unwrap();
                                system.free(&mut cpu, Release::frame(frame)).unwrap();
                            }
                        }
                        holding.fetch_sub(1, Ordering::SeqCst);
                        std::thread::yield_now();
                    }
                    sum(counts, &mut cpu);
                });
            }
            let (set, counts, done, holding) = (&set, &counts, &done, &holding);
            scope.spawn(move || {
                let mut cpu = claim(set, 0);
                let all = system.max_order();
                for _ in 0..200 {
                    // No frame is held from here on; but domains may be held by CPUs that only free.
                    while holding
                        .compare_exchange(0, 1 << 16, Ordering::SeqCst, Ordering::SeqCst)
                        .is_err()
                    {
                        std::thread::yield_now();
                    }
                    let start = system.allocate(&mut cpu, Request::order(all));
                    let start = start.unwrap_or_else(|error| panic!("{name}: {error}"));
                    self.0.fetch_add(1, Ordering::Relaxed);
                    system
                        .free(&mut cpu, Release::block(Block::new(start, all)))
                        .unwrap();
                    holding.fetch_sub(1 << 16, Ordering::SeqCst);
                    for _ in 0..20 {
                        std::thread::yield_now();
                    }
                }
                done.store(true, Ordering::Relaxed);
                sum(counts, &mut cpu);
            });
        });
        counts.into_inner().unwrap()
    }
}

#[test]
fn a_large_request_finds_its_halves_in_two_domains() {
    let ranges = [FrameRange::new(Pfn(0), 32)];
    let served = AtomicU64::new(0);
    let mut all = Counts::default();
    for spec in ["spring-core+order=5", "bs+zone=domains+order=5+lock=ticket"] {
        all.add(&on(spec, &Setup::new(&ranges, 4), |system| {
            Large(&served).run(spec, system)
        }));
    }
    assert_eq!(served.into_inner(), 400);
    assert!(all.extensions > 0 && all.merges > 0, "{all:?}");
}

/// Four CPUs take all there is, over and over.
struct Everything;

impl Everything {
    fn run(self, name: &str, system: &System<'_>) -> Counts {
        let frames = system.span().frames();
        let (set, shadow) = (NativeCpus::new(4), Shadow::new(frames));
        let (gate, counts) = (Barrier::new(4), Mutex::new(Counts::default()));
        std::thread::scope(|scope| {
            for id in 0..4u16 {
                let (set, shadow, gate, counts) = (&set, &shadow, &gate, &counts);
                scope.spawn(move || {
                    let mut cpu = claim(set, id);
                    for round in 0..200 {
                        gate.wait();
                        let mut held = Vec::new();
                        let error = loop {
                            match system.allocate(&mut cpu, Request::FRAME) {
                                Ok(frame) => {
                                    shadow.take(frame, 1, u32::from(id));
                                    held.push(frame);
                                }
                                Err(error) => break error,
                            }
                            if round % 2 == 0 {
                                std::thread::yield_now();
                            }
                        };
                        assert_eq!(error, AllocateError::Exhausted, "{name}");
                        // The CPU that fails first has nothing to free yet: all frames are allocated.
                        gate.wait();
                        assert_eq!(shadow.taken(), frames as usize, "{name}, round {round}");
                        gate.wait();
                        for frame in held {
                            shadow.give(frame, 1, u32::from(id));
                            system.free(&mut cpu, Release::frame(frame)).unwrap();
                        }
                    }
                    system.park(&mut cpu);
                    sum(counts, &mut cpu);
                });
            }
        });
        counts.into_inner().unwrap()
    }
}

#[test]
fn a_request_fails_only_when_every_frame_is_held() {
    let ranges = [FrameRange::new(Pfn(0), 64)];
    let mut all = Counts::default();
    for spec in SPECS {
        // Draining lists needs answers of their owners, and a CPU that waits at a barrier does not answer.
        if spec.contains("fixlazy") {
            continue;
        }
        all.add(&on(spec, &Setup::new(&ranges, 4), |system| {
            Everything.run(spec, system)
        }));
    }
    assert!(all.extensions > 0 && all.merges > 0, "{all:?}");
}

/// Two CPUs free the same block at the same moment.
struct Twice<'a>(&'a AtomicU64);

impl Twice<'_> {
    fn run(self, name: &str, system: &System<'_>) {
        const ROUNDS: usize = 4000;
        let set = NativeCpus::new(2);
        let size = order(1);
        let blocks: Vec<Block> = {
            let mut cpu = claim(&set, 0);
            let mut get = || system.allocate(&mut cpu, Request::order(size)).unwrap();
            let blocks = (0..ROUNDS).map(|_| Block::new(get(), size)).collect();
            set.release(cpu);
            blocks
        };
        let believed: Vec<_> = (0..ROUNDS).map(|_| AtomicU64::new(0)).collect();
        // Both are at the same block at the same moment.
        let turn = [AtomicUsize::new(0), AtomicUsize::new(0)];
        std::thread::scope(|scope| {
            for id in 0..2u16 {
                let (set, blocks, believed, turn) = (&set, &blocks, &believed, &turn);
                scope.spawn(move || {
                    let (own, other) = (usize::from(id), usize::from(1 - id));
                    let mut cpu = claim(set, id);
                    for (round, block) in blocks.iter().enumerate() {
                        turn[own].store(round, Ordering::Release);
                        let mut attempt = 0;
                        while turn[other].load(Ordering::Acquire) < round {
                            give_way(attempt);
                            attempt += 1;
                        }
                        match system.free(&mut cpu, Release::block(*block)) {
                            Ok(()) => {
                                believed[round].fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => assert_eq!(error, FreeError::NotAllocated, "{name}"),
                        }
                    }
                    turn[own].store(ROUNDS, Ordering::Release);
                    set.release(cpu);
                });
            }
        });
        for (round, believed) in believed.iter().enumerate() {
            assert_eq!(believed.load(Ordering::Relaxed), 1, "{name}, round {round}");
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        let mut cpu = claim(&set, 0);
        system.quiesce(&mut cpu).unwrap();
        let free = system.check(&mut cpu).unwrap().free;
        assert_eq!(free, u64::from(system.span().frames()), "{name}");
        let largest = Order::up_to(system.max_order()).next_back().unwrap();
        assert!(system.snapshot(&mut cpu).available_blocks(largest) > 0);
    }
}

#[test]
fn of_two_releases_at_the_same_moment_one_is_believed() {
    let ranges = [FrameRange::new(Pfn(0), 8192)];
    let believed = AtomicU64::new(0);
    for spec in ["spring-core+order=5", "spring-core+order=5+idle=1"] {
        on(spec, &Setup::new(&ranges, 2), |system| {
            Twice(&believed).run(spec, system)
        });
    }
    assert_eq!(believed.into_inner(), 8000);
}

/// A nested request cannot wait for other domains. With only one it knows that memory is exhausted.
#[test]
fn a_nested_request_that_searched_the_only_domain_is_exhausted() {
    let ranges = [FrameRange::new(Pfn(0), 16)];
    let setup = Setup::new(&ranges, 2);
    everybuddy_suite::on("spring-core+order=3", &setup, |system| {
        let mut cpu = everybuddy_suite::claim(&NativeCpus::new(2), 0);
        for _ in 0..16 {
            system.allocate(&mut cpu, Request::FRAME).unwrap();
        }
        assert_eq!(system.snapshot(&mut cpu).domains, 1);
        let nested = system.allocate_nested(cpu.id(), Request::FRAME);
        assert_eq!(nested, Err(AllocateError::Exhausted));
    });
}
