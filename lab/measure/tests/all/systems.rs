//! What is observed on systems agrees with what they did.

use std::collections::HashSet;

use everybuddy::platform::NativeCpus;
use everybuddy::systems::Presplit;
use everybuddy::{Block, CpuId, Order, Release, Request, SystemSpec};
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::{AnySystem, Arena, listed};
use everybuddy_measure::replay::memory::{Initial, Memory};
use everybuddy_measure::replay::script::Script;
use everybuddy_measure::replay::watch::{ReadableProbe, Watch};
use everybuddy_measure::replay::{ComparePlan, compare};
use everybuddy_trace::{Event, Need, ORDERS, Op, Sizes, Trace, resolve};

#[test]
fn requests_that_were_foreseen_split_nothing() {
    let orders = [0u8, 3, 0, 9, 1, 0, 5, 5, 2, 0].map(|order| Order::new(order).unwrap());
    let mut need = Need {
        requests: orders.len() as u64,
        blocks: [0; ORDERS],
    };
    for order in orders {
        need.blocks[order.index()] += 1;
    }
    let sizes = Sizes {
        first: vec![need],
        ..Sizes::default()
    };
    let splits = |requests| {
        let mut arena = Arena::default();
        let blocks = everybuddy_trace::division(&sizes, 4096, requests, 10);
        arena.divide(Presplit::new(blocks));
        let memory = Memory::fresh(4096);
        let spec = "serewa".parse().unwrap();
        let count = |system: &AnySystem<'_, Watch>| {
            let cpus = NativeCpus::new(1);
            let mut cpu = cpus.claim_probed(CpuId(0)).unwrap();
            for order in orders {
                system.allocate(&mut cpu, Request::order(order)).unwrap();
                for service in 0..system.services().len() {
                    system.serve(&mut cpu, service, 64);
                }
            }
            cpu.probe().read().splits
        };
        let counted = arena.build_any(&spec, &memory, 1, count);
        counted.unwrap()
    };
    assert!(splits(0) > 0);
    assert_eq!(splits(10), 0);
}

#[test]
fn the_search_of_lists_ends_only_when_it_has_all_of_them() {
    let mut arena = Arena::default();
    let mut found = 0;
    for row in everybuddy::systems::ROWS {
        let spec = SystemSpec::of(row);
        let compare = |system: &AnySystem<'_, Watch>| {
            let cpus = NativeCpus::new(2);
            for id in [0, 1] {
                let mut cpu = cpus.claim_probed(CpuId(id)).unwrap();
                let orders = [Order::ZERO, Order::new(2).unwrap()].into_iter();
                let blocks = orders.cycle().take(400).map(|order| Block {
                    start: system.allocate(&mut cpu, Request::order(order)).unwrap(),
                    order,
                });
                let blocks: Vec<Block> = blocks.collect();
                for block in blocks.iter().step_by(3) {
                    system.free(&mut cpu, Release::block(*block)).unwrap();
                }
                let buffered = system.snapshot(&mut cpu).buffered_frames;
                let all = listed(system, u64::MAX);
                assert_eq!(listed(system, buffered), all, "{}", row.name);
                found += all.len();
            }
        };
        let memory = Memory::fresh(1 << 16);
        arena.build_any(&spec, &memory, 2, compare).unwrap();
    }
    assert!(found > 0);
}

#[test]
fn what_maps_show_agrees_with_what_was_counted() {
    let mut trace = Trace::default();
    for i in 0..400u64 {
        trace.events.push(Event::new(i, 0, 1, Op::Allocate, i, 0));
    }
    for i in 0..300u64 {
        trace.events.push(Event::new(400 + i, 0, 1, Op::Free, i, 0));
    }
    let script = Script::new("small", &resolve(&trace).unwrap(), None).unwrap();
    let plan = ComparePlan {
        systems: ["bs", "lbs-31", "linux-6"]
            .map(|name| name.parse().unwrap())
            .to_vec(),
        memory: None,
        initial: Initial::Fresh,
        seed: 1,
        rounds: 1,
        touches: true,
    };
    let timer = Timer::calibrated();
    let compared = compare(&script, &plan, &timer, &mut Arena::default(), || ()).unwrap();
    for outcome in &compared.systems {
        let (detail, end) = (&outcome.detail, outcome.samples.last().unwrap().snapshot);
        let listed: HashSet<u32> = detail
            .listed
            .last()
            .unwrap()
            .frames
            .iter()
            .copied()
            .collect();
        assert_eq!(listed.len() as u64, end.buffered_frames, "{}", outcome.spec);
        assert_eq!(listed.is_empty(), outcome.spec.name() == "bs");
        // At the fullest moment and at the end, in addition to the regular ones.
        let moments = detail.listed.iter().map(|listed| listed.position);
        assert!(moments.clone().any(|position| position == 400) && moments.max() == Some(700));
        // Live blocks are disjoint, and in no list.
        let living: HashSet<u32> = detail.places[300..].iter().copied().collect();
        assert_eq!(living.len(), 100);
        assert!(living.is_disjoint(&listed));
        let calls: u64 = detail.latency[0]
            .histogram
            .iter()
            .map(|bin| bin.calls)
            .sum();
        assert_eq!((calls, detail.latency[1].successive.len()), (400, 300));
    }
}
