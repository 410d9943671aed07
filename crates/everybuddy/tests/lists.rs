//! What the per-CPU lists move and when, held against a plain deque and against the papers' numbers.

mod suite;

use std::collections::VecDeque;

use everybuddy::platform::{Hosted, NativeCpus, Spin};
use everybuddy::{
    Block, Counts, CpuId, CpuToken, FrameAllocator, FrameRange, Order, Pfn, Platform, Release,
    Request, Setup, WithSystem,
};
use proptest::prelude::*;
use suite::build;

type Counted = Hosted<Spin, Counts>;
type Cpu = <Counted as Platform>::Cpu;

/// 256 MiB: the batch is 31.
const RANGES: &[FrameRange] = &[FrameRange::new(0, 1 << 16)];

/// Runs `body` with a system of this name, one CPU's token, and what it counted so far.
fn with(
    name: &str,
    body: impl FnOnce(
        &dyn Fn(&mut Cpu, u32) -> Vec<Pfn>,
        &dyn Fn(&mut Cpu, &[Pfn]),
        &dyn Fn(&mut Cpu),
        &mut Cpu,
    ),
) {
    struct Run<B>(B);
    impl<B> WithSystem<Counted> for Run<B>
    where
        B: FnOnce(
            &dyn Fn(&mut Cpu, u32) -> Vec<Pfn>,
            &dyn Fn(&mut Cpu, &[Pfn]),
            &dyn Fn(&mut Cpu),
            &mut Cpu,
        ),
    {
        type Output = ();
        fn call<A: FrameAllocator<Counted>>(self, _: &'static str, system: &A) {
            let cpus = NativeCpus::new(1);
            let mut cpu = cpus.claim(CpuId(0)).unwrap();
            let take = |cpu: &mut Cpu, count: u32| -> Vec<Pfn> {
                (0..count)
                    .map(|_| system.allocate(cpu, Request::FRAME).unwrap())
                    .collect()
            };
            let give = |cpu: &mut Cpu, frames: &[Pfn]| {
                for frame in frames {
                    system.free(cpu, Release::frame(*frame)).unwrap();
                }
            };
            let park = |cpu: &mut Cpu| system.park(cpu);
            (self.0)(&take, &give, &park, &mut cpu);
            system.check(&mut cpu).unwrap();
        }
    }
    build::<Counted, _>(&name.parse().unwrap(), &Setup::new(RANGES, 1), Run(body));
}

#[test]
fn lbs_31_moves_batches_of_31_at_its_marks() {
    with("lbs-31", |take, give, _, cpu| {
        // Empty: each refill brings 31, the first of which is the answer.
        let mut held = take(cpu, 1);
        assert_eq!((cpu.probe().refills, cpu.probe().frames_refilled), (1, 31));
        held.extend(take(cpu, 30));
        assert_eq!(cpu.probe().refills, 1, "30 hits");
        held.extend(take(cpu, 1));
        assert_eq!(cpu.probe().refills, 2);
        held.extend(take(cpu, 186 - 32));
        assert_eq!(
            (held.len(), cpu.probe().refills, cpu.probe().drains),
            (186, 6, 0)
        );
        // The release that fills the list to its high mark gives a batch back.
        give(cpu, &held[..185]);
        assert_eq!(cpu.probe().drains, 0);
        give(cpu, &held[185..]);
        assert_eq!((cpu.probe().drains, cpu.probe().frames_drained), (1, 31));
        // One lock for each batch, none for a hit.
        assert_eq!(cpu.probe().locks, 7);
        assert_eq!(cpu.probe().bypasses_order0, 0);
    });
}

#[test]
fn lbs_1_goes_past_the_list_at_its_marks() {
    with("lbs-1", |take, give, _, cpu| {
        let held = take(cpu, 200);
        assert_eq!((cpu.probe().refills, cpu.probe().bypasses_order0), (0, 200));
        give(cpu, &held[..186]);
        assert_eq!(cpu.probe().bypasses_order0, 200, "186 frames are kept");
        give(cpu, &held[186..]);
        assert_eq!((cpu.probe().drains, cpu.probe().bypasses_order0), (0, 214));
        take(cpu, 186);
        assert_eq!(cpu.probe().bypasses_order0, 214, "and serve 186 requests");
        take(cpu, 1);
        assert_eq!(cpu.probe().bypasses_order0, 215);
    });
}

#[test]
fn a_parked_list_is_kept_for_its_cpu() {
    for name in ["lbs-31", "spring", "linux-6"] {
        with(name, |take, give, park, cpu| {
            let held = take(cpu, 3);
            give(cpu, &held);
            park(cpu);
            let refills = cpu.probe().refills;
            let again = take(cpu, 3);
            assert_eq!(
                cpu.probe().refills,
                refills,
                "{name}: what was freed last is given first"
            );
            assert_eq!(again.iter().rev().copied().collect::<Vec<_>>(), held);
        });
    }
}

#[test]
fn larger_orders_go_straight_through() {
    struct Larger;
    impl WithSystem<Counted> for Larger {
        type Output = Counts;
        fn call<A: FrameAllocator<Counted>>(self, _: &'static str, system: &A) -> Counts {
            let cpus = NativeCpus::new(1);
            let mut cpu: Cpu = cpus.claim(CpuId(0)).unwrap();
            for order in 1..=10 {
                let order = Order::new(order).unwrap();
                let start = system.allocate(&mut cpu, Request::order(order)).unwrap();
                system
                    .free(&mut cpu, Release::block(Block::new(start, order)))
                    .unwrap();
            }
            *cpu.probe()
        }
    }
    let setup = Setup::new(RANGES, 1);
    for name in ["lbs-31", "lbs-1", "fixlazy-744", "spring"] {
        let counts = build::<Counted, _>(&name.parse().unwrap(), &setup, Larger);
        assert_eq!((counts.bypasses_larger, counts.refills), (20, 0), "{name}");
    }
    // Today's lists keep orders 1 to 3 and 9.
    let counts = build::<Counted, _>(&"linux-6".parse().unwrap(), &setup, Larger);
    assert_eq!((counts.bypasses_larger, counts.refills), (12, 4));
}

#[test]
fn linux_6_refills_double_and_drains_follow_the_run() {
    with("linux-6", |take, give, _, cpu| {
        let mut moved = Vec::new();
        let mut held = Vec::new();
        while moved.len() < 4 {
            let before = cpu.probe().frames_refilled;
            held.extend(take(cpu, 1));
            let refilled = cpu.probe().frames_refilled - before;
            if refilled > 0 {
                moved.push(refilled);
            }
        }
        assert!(moved.windows(2).all(|pair| pair[1] >= pair[0]), "{moved:?}");
        assert!(
            moved[3] >= 4 * moved[0],
            "{moved:?}: doubling while nothing is freed"
        );
        held.extend(take(cpu, 20_000));
        give(cpu, &held);
        let counts = *cpu.probe();
        assert!(counts.drains > 0);
        assert!(
            counts.frames_drained / counts.drains > moved[0],
            "a long run drains more than a batch"
        );
    });
}

proptest! {
    /// The list is Linux's: a deque that is refilled at its cold end and drained from there.
    #[test]
    fn the_list_is_a_deque(runs in prop::collection::vec((any::<bool>(), 1u32..300), 1..40)) {
        with("lbs-31+batch=7+high=20", |take, give, _, cpu| {
            let mut list = VecDeque::new();
            let mut held = Vec::new();
            for (allocate, count) in runs {
                for _ in 0..count {
                    if allocate {
                        let refills = cpu.probe().refills;
                        let frame = take(cpu, 1)[0];
                        let refilled = cpu.probe().refills - refills;
                        match list.pop_back() {
                            Some(Some(expected)) => assert_eq!((frame, refilled), (expected, 0)),
                            // One of those that a refill brought in: which, only the zone knows.
                            Some(None) => assert_eq!(refilled, 0),
                            None => {
                                assert_eq!(refilled, 1);
                                list.extend([None; 6]);
                            }
                        }
                        held.push(frame);
                    } else if let Some(frame) = held.pop() {
                        let drains = cpu.probe().drains;
                        give(cpu, &[frame]);
                        list.push_back(Some(frame));
                        let full = list.len() >= 20;
                        assert_eq!(cpu.probe().drains, drains + u64::from(full));
                        if full {
                            list.drain(..7);
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn each_cpu_knows_what_it_keeps() {
    struct Sum;
    impl WithSystem<Counted> for Sum {
        type Output = [u64; 2];
        fn call<A: FrameAllocator<Counted>>(self, _: &'static str, system: &A) -> [u64; 2] {
            let cpus = NativeCpus::new(2);
            let [mut first, mut second] = [0, 1].map(|cpu| cpus.claim(CpuId(cpu)).unwrap());
            for _ in 0..40 {
                system.allocate(&mut first, Request::FRAME).unwrap();
            }
            let frame = system.allocate(&mut second, Request::FRAME).unwrap();
            system.free(&mut second, Release::frame(frame)).unwrap();
            let kept = [0, 1].map(|cpu| system.buffered_frames(CpuId(cpu)));
            let sum = system.snapshot(&mut first).buffered_frames;
            assert_eq!(kept.iter().sum::<u64>(), sum);
            assert_eq!(system.buffered_frames(CpuId(2)), 0, "there is no such CPU");
            kept
        }
    }
    let kept =
        |name: &str| build::<Counted, _>(&name.parse().unwrap(), &Setup::new(RANGES, 2), Sum);
    // Two batches less 40 frames, and one batch.
    assert_eq!(kept("lbs-31"), [22, 31]);
    assert_eq!(kept("bs"), [0, 0]);
    kept("linux-6");
}
