//! Tests of Serewa's queues against a simple model, and of how memory is divided initially.
//!
//! The conformance suite sees requests and frees. These tests see the queue slot by slot, with services that release
//! areas in another order than they took them, and memory before the first request.
//!
//! # Invariants
//! The same areas leave a queue in the order in which they entered it.

use std::borrow::ToOwned;
use std::collections::VecDeque;
use std::format;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use crate::arena::{Arena, ArenaPlan};
use crate::frame::{Index, Order, Pfn};
use crate::frame_table::{FrameTable, Record, Tag};
use crate::platform::{CpuId, NativeCpus, Spin};
use crate::probe::{Counts, Queue};
use crate::region::FrameRange;
use crate::request::{Release, Request};
use crate::serewa::Presplit;
use crate::serewa::area::Area;
use crate::serewa::queue::{AreaQueue, Contents, TakenSlot};
use crate::serewa::request_slots::{RequestSlots, Served};
use crate::structure::StructureKind;
use crate::systems::{
    SerewaBits, SerewaLists, SerewaTrees, Setup, SystemSpec, build_as, metadata_layout,
};
use crate::{AllocateError, FrameAllocator, Native};

type Counting = Native<Spin, Counts>;

const FRAMES: u32 = 1 << 18;

/// Runs `test` on an empty ring.
fn with_ring<R>(
    slots: u32,
    test: impl FnOnce(AreaQueue<'_, Counting>, FrameTable<'_, Counting>) -> R,
) -> R {
    let plan = ArenaPlan::default().slice::<Record<Counting>>(FRAMES as usize);
    let plan = AreaQueue::<Counting>::plan(plan, slots);
    let mut memory = vec![MaybeUninit::uninit(); plan.bytes().unwrap() + crate::LINE];
    let mut arena = Arena::new(crate::arena::Memory::new(&mut memory));
    let records = arena
        .slice("record", FRAMES as usize, |_| Record::new(Tag::INTERIOR))
        .unwrap();
    let table = FrameTable::new(records);
    let queue = AreaQueue::new(&mut arena, table, Queue::Linking, slots, false).unwrap();
    test(queue, table)
}

proptest! {
    #[test]
    fn a_ring_is_a_bounded_queue(
        bits in 0u32..5,
        steps in prop::collection::vec((0u8..4, 0u32..FRAMES, 0u32..=18), 1..600)
    ) {
        with_ring(1 << bits, |queue, table| {
            let probe = &mut Counts::default();
            let mut waiting: VecDeque<Area> = VecDeque::new();
            let mut taken: Vec<(TakenSlot, Area)> = Vec::new();
            for (what, start, order) in steps {
                match what {
                    0 | 1 => {
                        // A slot that is still worked on is not filled again, wherever it lies.
                        let used = waiting.len() + taken.len();
                        let start = table.frame(Index(start)).unwrap();
                        let area = Area { start, frames: 1 << order };
                        let pushed = queue.push(area, false, probe);
                        prop_assert!(pushed || used > 0, "an empty ring has room");
                        prop_assert!(!pushed || used < 1 << bits, "a full ring has none");
                        if taken.is_empty() {
                            prop_assert_eq!(pushed, used < 1 << bits);
                        }
                        if pushed {
                            waiting.push_back(area);
                        }
                    }
                    2 => {
                        let oldest = queue.take(probe);
                        prop_assert_eq!(oldest.as_ref().map(|(_, area)| *area), waiting.pop_front());
                        taken.extend(oldest);
                    }
                    _ if taken.is_empty() => {}
                    _ => {
                        let (slot, area) = taken.swap_remove(start as usize % taken.len());
                        queue.keep(&slot, None, probe);
                        prop_assert!(queue.areas().filter(|other| *other == area).count() <= 1 << bits);
                        queue.release(slot, probe);
                    }
                }
                let frames = |area: &Area| u64::from(area.frames);
                let own: u64 = waiting.iter().map(frames).sum();
                let others: u64 = taken.iter().map(|(_, area)| frames(area)).sum();
                prop_assert_eq!(queue.frames(), own + others);
                let contents = match (waiting.is_empty(), taken.is_empty()) {
                    (false, _) => Contents::Waiting,
                    (true, false) => Contents::InHand,
                    (true, true) => Contents::Nothing,
                };
                prop_assert_eq!(queue.contents(), contents);
            }
            prop_assert_eq!(probe.queue_longest <= 1 << bits, true);
            Ok(())
        })?;
    }

    #[test]
    fn an_area_is_cut_into_its_blocks_largest_first(order in 1u32..=18, given in 1u32..FRAMES) {
        let (frames, given) = (1 << order, given % (1 << order));
        prop_assume!(given > 0);
        with_ring(1, |_, table| {
            let start = table.frame(Index(given)).unwrap();
            let mut rest = Some(Area { start, frames: frames - given });
            let mut end = frames;
            let mut last = Order::LIMIT;
            while let Some(area) = rest {
                let (next, head, order) = area.split_last();
                prop_assert!(head.index().is_aligned(order) && order <= last);
                prop_assert_eq!(head.index().0 + order.frames(), end);
                (end, last, rest) = (head.index().0, order, next);
            }
            prop_assert_eq!(end, given);
            Ok(())
        })?;
    }
}

#[test]
fn an_answer_that_comes_too_late_stays_with_the_manager() {
    with_ring(1, |_, table| {
        let plan = RequestSlots::<Counting>::plan(ArenaPlan::default(), 2);
        let mut memory = vec![MaybeUninit::uninit(); plan.bytes().unwrap() + crate::LINE];
        let arena = &mut Arena::new(crate::arena::Memory::new(&mut memory));
        let slots = &RequestSlots::<Counting>::new(arena, 2).unwrap();
        let (cpu, order) = (CpuId(1), Order::new(3).unwrap());
        assert!(
            slots.call(table, cpu, order, 5).is_none(),
            "no manager was seen"
        );
        let nothing = slots.serve(|_, _, _| unreachable!());
        assert!(matches!(nothing, Served::Nothing));
        let left = &AtomicBool::new(false);
        let late = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A slow manager has not seen the request when the caller gives up: the caller asks again.
                let answer = std::iter::repeat_with(|| slots.call(table, cpu, order, 5));
                assert_eq!(answer.flatten().next(), Some(Err(AllocateError::Busy)));
                // The slot belongs to the manager.
                assert!(slots.call(table, cpu, Order::ZERO, 1).is_none());
                left.store(true, Ordering::Release);
            });
            let answer = |served, order, frames| {
                assert_eq!((served, order, frames), (cpu, Order::new(3).unwrap(), 5));
                while !left.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                Ok(table.frame(Index(8)).unwrap())
            };
            loop {
                match slots.serve(answer) {
                    Served::Nothing => std::thread::yield_now(),
                    Served::Answered => panic!("the caller has left"),
                    Served::Late(late) => return late,
                }
            }
        });
        assert_eq!(
            late.run.map(|(head, frames)| (head.index(), frames)),
            Some((Index(8), 5))
        );
        assert!(slots.owes(None) && slots.owes(Some(CpuId(0))));
        assert!(!slots.owes(Some(cpu)), "a manager does not wait for itself");
        late.release();
        assert!(!slots.owes(None));
    });
}

/// Asks for blocks of these orders, and returns the remnants after each request, and the free blocks before the first.
fn first(text: &str, division: Option<&Presplit>, orders: &[u8]) -> (Vec<u64>, Vec<u32>) {
    let ranges = [FrameRange::new(Pfn(0), 4096)];
    let setup = Setup::new(&ranges, 1);
    let setup = match division {
        Some(division) => setup.with_presplit(division),
        None => setup,
    };
    let spec: SystemSpec = text.parse().unwrap();
    let layout = metadata_layout::<Counting>(&spec, &setup).unwrap();
    let mut memory = vec![MaybeUninit::uninit(); crate::Memory::room(layout)];
    let memory = (&mut memory[..]).into();
    let system: &dyn FrameAllocator<Counting> = match spec
        .parameters(&setup)
        .unwrap()
        .composition
        .structure
    {
        StructureKind::Trees => build_as::<_, SerewaTrees<'_, _>>(&spec, &setup, memory).unwrap(),
        StructureKind::Lists => build_as::<_, SerewaLists<'_, _>>(&spec, &setup, memory).unwrap(),
        StructureKind::Bits => build_as::<_, SerewaBits<'_, _>>(&spec, &setup, memory).unwrap(),
        other => panic!("Serewa's system has no {other:?}"),
    };
    let cpus = NativeCpus::new(1);
    let mut cpu = cpus.claim_probed::<Counts>(CpuId(0)).unwrap();
    let before = system.snapshot(&mut cpu).free_blocks.to_vec();
    let remnants = orders.iter().map(|order| {
        let request = Request::order(Order::new(*order).unwrap());
        system.allocate(&mut cpu, request).unwrap();
        system.check(&mut cpu).unwrap();
        cpu.probe().queued
    });
    (remnants.collect(), before)
}

#[test]
fn memory_that_was_divided_for_the_first_requests_serves_them_without_a_remnant() {
    let orders = [10, 0, 0, 3, 9, 0, 3, 1];
    let mut wanted = [0; Order::LIMIT.index() + 1];
    orders
        .iter()
        .for_each(|order| wanted[usize::from(*order)] += 1);
    let division = Presplit::new(wanted);
    for spec in ["serewa", "serewa+structure=list", "serewa+structure=bitmap"] {
        let (queued, before) = first(spec, Some(&division), &orders);
        assert_eq!(
            queued.last(),
            Some(&0),
            "{spec}: no request left a remnant: {queued:?}"
        );
        for (order, wanted) in wanted.iter().enumerate() {
            assert!(before[order] >= *wanted, "{spec}: {before:?}");
        }
        let frames: u32 = before
            .iter()
            .zip(0..)
            .map(|(blocks, order)| blocks << order)
            .sum();
        assert_eq!(frames, 4096, "{spec}: nothing is lost by dividing");
        for (text, division) in [
            (spec.to_owned(), None),
            (format!("{spec}+division=off"), Some(&division)),
        ] {
            let (queued, before) = first(&text, division, &orders);
            assert_eq!(before[10], 4, "{text}: memory is in largest blocks");
            assert!(queued.last() > Some(&0), "{text}: requests leave remnants");
        }
    }
}

#[test]
fn a_division_that_memory_can_not_give_is_given_as_far_as_it_goes() {
    let mut wanted = [0; Order::LIMIT.index() + 1];
    (wanted[0], wanted[18], wanted[4]) = (1 << 20, 7, 3);
    let (_, before) = first("serewa", Some(&Presplit::new(wanted)), &[0]);
    let frames: u32 = before
        .iter()
        .zip(0..)
        .map(|(blocks, order)| blocks << order)
        .sum();
    assert_eq!((frames, before[4]), (4096, 3));
    assert_eq!(before[0], 4096 - 3 * 16);
}

#[test]
fn a_given_block_is_made_of_the_parts_that_memory_was_divided_into() {
    let mut wanted = [0; Order::LIMIT.index() + 1];
    wanted[0] = 4096;
    let division = Presplit::new(wanted);
    let ranges = [FrameRange::new(Pfn(0), 4096)];
    let setup = Setup::new(&ranges, 1).with_presplit(&division);
    let spec: SystemSpec = "serewa".parse().unwrap();
    let layout = metadata_layout::<Counting>(&spec, &setup).unwrap();
    let mut memory = vec![MaybeUninit::uninit(); crate::Memory::room(layout)];
    let memory = (&mut memory[..]).into();
    let system: &SerewaTrees<'_, Counting> = build_as(&spec, &setup, memory).unwrap();
    let cpus = crate::platform::NativeCpus::new(1);
    let mut cpu = cpus.claim_probed(CpuId(0)).unwrap();
    let given = system.allocate_at(&mut cpu, FrameRange::new(Pfn(64), 24));
    assert_eq!(given, Ok(Index(64)));
    system.check(&mut cpu).unwrap();
    for (start, order) in [(64, 4), (80, 3)] {
        let block = crate::Block::new(Index(start), Order::new(order).unwrap());
        system.free(&mut cpu, Release::block(block)).unwrap();
    }
    let census = system.check(&mut cpu).unwrap();
    assert_eq!(census.free + census.queued, 4096);
}

#[test]
fn linking_has_a_thread_of_its_own_unless_it_waits_for_an_idle_cpu() {
    let ranges = [FrameRange::new(Pfn(0), 4096)];
    let setup = Setup::new(&ranges, 1);
    let own_threads = |spec: &str| -> Vec<(&str, bool)> {
        let spec: SystemSpec = spec.parse().unwrap();
        let layout = metadata_layout::<Counting>(&spec, &setup).unwrap();
        let mut memory = vec![MaybeUninit::uninit(); crate::Memory::room(layout)];
        let memory = (&mut memory[..]).into();
        let system: &SerewaTrees<'_, Counting> = build_as(&spec, &setup, memory).unwrap();
        let services = system.services().iter();
        services.map(|own| (own.name, own.own_thread)).collect()
    };
    let [dividing, manager] = [("dividing", true), ("manager", true)];
    for (spec, linking) in [("serewa", true), ("serewa+linking=idle", false)] {
        let expected = [dividing, ("linking", linking)];
        assert_eq!(own_threads(spec), expected, "{spec}");
        let with_manager = [dividing, ("linking", linking), manager];
        let spec = format!("{spec}+manager=thread");
        assert_eq!(own_threads(&spec), with_manager, "{spec}");
    }
}
