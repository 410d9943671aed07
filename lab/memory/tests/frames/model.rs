//! Windows and blocks of arbitrary memories, compared with counts that look at every frame of every window.

use everybuddy_memory::frames::snapshot::ZoneFrames;
use everybuddy_memory::frames::{Blocks, Kind, Snapshot, Verdict, ZoneWindows};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::of_kinds;

/// A zone of runs of equal classes, mostly free and movable ones, so that large windows occur.
fn zone() -> impl Strategy<Value = ZoneFrames> {
    let kind = prop_oneof![
        8 => Just(Kind::Free),
        4 => Just(Kind::Anonymous),
        4 => Just(Kind::Cache),
        2 => Just(Kind::Unknown),
        1 => Just(Kind::OnList),
        2 => proptest::sample::select(&Kind::ALL[..]),
    ];
    let length = prop_oneof![3 => 1..8usize, 2 => 1..600usize, 1 => Just(512usize)];
    let start = prop_oneof![0..3u64, 0..5000u64, Just(4096u64), Just(1u64 << 20)];
    (start, vec((kind, length), 0..24), 0..2000u64).prop_map(|(start, runs, on_lists)| {
        let kinds: Vec<Kind> = runs
            .into_iter()
            .flat_map(|(kind, length)| vec![kind; length])
            .collect();
        let mut zone = of_kinds(start, kinds);
        zone.on_lists = on_lists;
        zone
    })
}

/// Returns the frames of each window of an order.
fn windows(zone: &ZoneFrames, order: u32) -> Vec<&[Kind]> {
    let size = 1u64 << order;
    let (start, end) = (
        zone.extent.span().start,
        zone.extent.span().start + zone.kinds.len() as u64,
    );
    let mut at = start.next_multiple_of(size);
    let mut windows = Vec::new();
    while at + size <= end {
        let window = &zone.kinds[(at - start) as usize..(at - start + size) as usize];
        if !window.iter().any(|kind| kind.is_absent()) {
            windows.push(window);
        }
        at += size;
    }
    windows
}

/// Returns the free blocks of each order: at each free frame, the largest aligned free run.
fn runs(zone: &ZoneFrames, largest: u32) -> Vec<u64> {
    let mut blocks = vec![0; largest as usize + 1];
    let start = zone.extent.span().start;
    let is_free = |at: u64, size: u64| {
        let range = (at - start) as usize..(at - start + size) as usize;
        zone.kinds
            .get(range)
            .is_some_and(|kinds| kinds.iter().all(|kind| *kind == Kind::Free))
    };
    let mut at = start;
    while at < start + zone.kinds.len() as u64 {
        let fits = |order: &u32| at.is_multiple_of(1 << order) && is_free(at, 1 << order);
        match (0..=largest).rev().find(fits) {
            Some(order) => {
                blocks[order as usize] += 1;
                at += 1 << order;
            }
            None => at += 1,
        }
    }
    blocks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn windows_are_those_of_the_model(zone in zone(), largest in 0..13u32) {
        let counted = ZoneWindows::of(&zone, largest);
        prop_assert_eq!(counted.orders.len(), largest as usize + 1);
        for (order, counted) in (0..).zip(&counted.orders) {
            let windows = windows(&zone, order);
            let count = |is: &dyn Fn(&[Kind]) -> bool| windows.iter().filter(|window| is(window)).count() as u64;
            let open = |window: &[Kind]| window.iter().all(|kind| *kind == Kind::Free || kind.is_movable());
            let blocked = |window: &[Kind]| window.iter().any(|kind| kind.is_pinned());
            prop_assert_eq!(counted.windows, windows.len() as u64);
            prop_assert_eq!(counted.free, count(&|window| window.iter().all(|kind| *kind == Kind::Free)));
            prop_assert_eq!(counted.open, count(&open));
            prop_assert_eq!(counted.blocked, count(&blocked));
            let drainable = |window: &[Kind]| {
                let is_free = |kind: &Kind| matches!(kind, Kind::Free | Kind::OnList) || kind.is_movable();
                !open(window) && window.iter().all(is_free)
            };
            prop_assert_eq!(counted.drainable, count(&drainable));
            let groups = counted.open + counted.drainable + counted.unsure_windows() + counted.blocked;
            prop_assert_eq!(counted.windows, groups);
            // Those that need the fewest frames first, one by one.
            let unsure = windows.iter().filter(|window| !open(window) && !drainable(window) && !blocked(window));
            let unknown = |window: &&&[Kind]| window.iter().filter(|kind| **kind == Kind::Unknown).count() as u64;
            let mut needed: Vec<u64> = unsure.map(|window| unknown(&window)).collect();
            needed.sort_unstable();
            let mut left = zone.on_lists.saturating_sub(zone.count(Kind::OnList));
            let opened = needed.iter().take_while(|frames| {
                let enough = **frames <= left;
                left = left.saturating_sub(**frames);
                enough
            });
            prop_assert_eq!(counted.perhaps(), opened.count() as u64);
            for holder in &counted.holders {
                let has = |window: &[Kind]| window.contains(&holder.kind);
                let alone = |window: &[Kind]| {
                    has(window)
                        && window.iter().all(|kind| {
                            *kind == holder.kind || *kind == Kind::Free || kind.is_movable()
                        })
                };
                prop_assert_eq!(holder.blocks, count(&has));
                prop_assert_eq!(holder.alone, count(&alone));
                prop_assert_eq!(holder.frames, zone.kinds.iter().filter(|kind| **kind == holder.kind).count() as u64);
            }
            let named = counted.holders.iter().any(|holder| holder.blocks > 0);
            prop_assert_eq!(named, counted.blocked > 0);
        }
    }

    #[test]
    fn free_blocks_are_the_largest_aligned_runs(zone in zone(), largest in 0..12u32) {
        let counted = ZoneWindows::of(&zone, 12);
        prop_assert_eq!(counted.free_blocks(largest), runs(&zone, largest));
    }

    #[test]
    fn moved_pages_need_room(zone in zone(), kept in 0..500u64) {
        let free = zone.count(Kind::Free) + zone.count(Kind::OnList);
        let cache = zone.count(Kind::Cache);
        for order in &ZoneWindows::of(&zone, 10).orders {
            let moving = order.by_moving(kept);
            let dropping = order.by_dropping(kept);
            prop_assert!(moving.least <= moving.most && dropping.least <= dropping.most);
            prop_assert!(moving.least <= dropping.least && moving.most <= dropping.most);
            prop_assert!(moving.least << order.order <= free.saturating_sub(kept));
            prop_assert!(dropping.least << order.order <= (free + cache).saturating_sub(kept));
            prop_assert!(dropping.least <= order.open + order.drainable);
            prop_assert!(order.by_moving(0).least >= order.free);
            prop_assert!(dropping.most <= order.windows - order.blocked);
        }
    }

    #[test]
    fn blocks_agree_with_windows(zone in zone(), order in 0..11u32) {
        let windows = ZoneWindows::of(&zone, order).orders.remove(order as usize);
        let snapshot = Snapshot::of(vec![zone], 4096);
        let blocks = Blocks::of(&snapshot, order);
        let blocks_of = |is: &dyn Fn(&Verdict) -> bool| {
            blocks.zones[0].blocks.iter().filter(|verdict| is(verdict)).count() as u64
        };
        let count = |verdict: Verdict| blocks_of(&|own| *own == verdict);
        prop_assert_eq!(count(Verdict::Free), windows.free);
        let open = count(Verdict::Free) + count(Verdict::Dropping) + count(Verdict::Moving);
        prop_assert_eq!(open, windows.open);
        prop_assert_eq!(count(Verdict::Draining), windows.drainable);
        prop_assert_eq!(count(Verdict::Perhaps), windows.unsure_windows());
        prop_assert_eq!(blocks_of(&|own| matches!(own, Verdict::Held(_))), windows.blocked);
        for (at, block) in blocks.zones[0].blocks.iter().enumerate() {
            if let Verdict::Held(kind) = block {
                prop_assert!(kind.is_pinned());
            }
            let first = (blocks.zones[0].first + ((at as u64) << order)).max(snapshot.zones[0].extent.span().start);
            prop_assert_eq!(blocks.position(0, first), Some(at));
        }
    }
}
