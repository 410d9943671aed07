//! Movable frames in the fragments between frames that stay.

use super::*;

const TREE: u32 = 1024;
/// The frames of an area.
const AREA: u32 = 512;

fn movable(order: u8) -> Request {
    let order = Order::new(order).unwrap();
    Request::order(order).with_class(Class::Movable)
}

fn allocate_movable(system: &Trees<'_>, cpu: &mut Cpu) -> u32 {
    system.allocate(cpu, movable(0)).unwrap().0
}

/// Calls `body` with a system of eight trees of two areas, of which the first two have frames that stay. Of each word
/// of these areas, `free` says how many frames are free.
fn with_fragments<const CPUS: usize>(
    free: [u32; 4],
    body: impl FnOnce(&Trees<'_>, [&mut Cpu; CPUS]),
) {
    with_cpus::<CPUS>((8 * TREE, 0), (Some(TREE), 10), |system, mut cpus| {
        let cpu = &mut *cpus[0];
        allocate_frames(system, cpu, 2 * TREE);
        for (area, free) in (0..).zip(free) {
            for word in 0..AREA / WORD {
                if free > 0 {
                    free_into_tree(system, cpu, area * AREA + word * WORD, free);
                }
            }
        }
        body(system, cpus.each_mut().map(|cpu| &mut **cpu));
        system.check(cpus[0]).unwrap();
    });
}

#[test]
fn movable_frames_fill_the_fullest_area_and_then_the_next_one() {
    // Of the first area too much is free, and of the last one too little.
    with_fragments([45, 32, 16, 5], |system, [cpu]| {
        for area in [2, 1] {
            for _ in 0..[0, 32, 16][area] * 8 {
                let frame = allocate_movable(system, cpu);
                assert_eq!(frame / AREA, area as u32);
            }
        }
        assert_eq!(allocate_movable(system, cpu) / TREE, 2);
    });
}

#[test]
fn frames_that_fill_an_area_break_no_whole_word() {
    with_fragments([0, 32, 0, 0], |system, [cpu]| {
        for word in 0..3 {
            free_into_tree(system, cpu, AREA + word * WORD + 32, 32);
        }
        let split = || system.shared.trees.headers[0].split.get();
        let before = split();
        assert_eq!(before, 0xf8ff);
        for _ in 0..5 * 32 {
            assert_eq!(allocate_movable(system, cpu) / AREA, 1);
        }
        assert_ne!(allocate_movable(system, cpu) / TREE, 0);
        assert_eq!(split(), before);
    });
}

#[test]
fn split_words_of_the_current_tree_come_first_and_the_first_fit_point_stays() {
    with_fragments([0, 0, 0, 0], |system, [cpu]| {
        // All of a word is listed, and used.
        let first = allocate_movable(system, cpu);
        assert_eq!(first / TREE, 2);
        let place = system.locals[0].place(Kind::Movable);
        let list = singles(system, 0, Kind::Movable);
        let state = || (place.current.get(), list.point.get());
        let before = state();
        (1..WORD).for_each(|_| assert_eq!(allocate_movable(system, cpu) / TREE, 2));
        free_into_tree(system, cpu, first, 1);
        // The first request searched in vain.
        system.locals[0].filling.note(true);
        for word in 0..8 {
            free_into_tree(system, cpu, AREA + word * WORD, 16);
        }
        assert_eq!(allocate_movable(system, cpu), first);
        assert_eq!(allocate_movable(system, cpu) / AREA, 1);
        assert_eq!(state(), before);
    });
}

#[test]
fn neither_larger_blocks_nor_frames_that_stay_nor_a_cpu_with_few_trees_fill_areas() {
    with_fragments([0, 32, 0, 0], |system, [cpu]| {
        let pair = system.allocate(cpu, movable(1)).unwrap();
        assert_eq!(pair.0 / TREE, 2);
        assert!(system.locals[0].filling.area().is_none());
    });
    // Three CPUs own at most two of the seven trees that CPUs may own.
    with_fragments::<3>([0, 32, 0, 0], |system, [cpu, ..]| {
        system.park(cpu);
        assert_eq!(allocate_movable(system, cpu) / TREE, 2);
    });
}

#[test]
fn a_cpu_fills_no_tree_of_another_one_nor_one_that_it_lost() {
    with_fragments::<1>([0, 32, 0, 0], |system, [cpu]| {
        allocate_movable(system, cpu);
        let local = &system.locals[0];
        assert_eq!(local.filling.area().map(|area| area.tree), Some(0));
        system.park(cpu);
        assert!(local.filling.area().is_none());
        let header = &system.shared.trees.headers[0];
        // As another CPU does.
        assert!(system.shared.claim(header, 2));
        assert_ne!(allocate_movable(system, cpu) / TREE, 0);
        system.shared.release(0, header);
    });
}

/// Another CPU took the frames that a search had seen, and left the tree marked as spent.
#[test]
fn a_tree_that_has_no_frames_any_more_is_not_filled_and_keeps_its_mark() {
    with_fragments::<1>([0, 0, 0, 0], |system, [cpu]| {
        system.park(cpu);
        assert!(system.shared.is_marked(0));
        let area = filling::Filled {
            tree: 0,
            words: 0xff,
        };
        assert!(!system.own_for_filling(&system.locals[0], area));
        assert!(system.shared.is_unowned(&system.shared.trees.headers[0]));
        assert!(system.shared.is_marked(0));
    });
}

#[test]
fn a_cpu_fills_nothing_in_a_shortage() {
    with_fragments([0, 32, 0, 0], |system, [cpu]| {
        allocate_movable(system, cpu);
        let local = &system.locals[0];
        local.choose_by_fit(&system.shared);
        assert!(local.filling.area().is_none());
        system.park(cpu);
        local.choose_by_fit(&system.shared);
        system.allocate(cpu, movable(0)).unwrap();
        assert!(local.filling.area().is_none());
    });
}

/// Each search in vain doubles the number of requests that skip it, up to 64.
#[test]
fn searches_in_vain_become_rare() {
    let filling = filling::Filling::<Native>::new(0);
    let mut searches = Vec::new();
    for request in 0..300 {
        if filling.may_search() {
            searches.push(request);
            filling.note(false);
        }
    }
    let gaps = searches.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.eq([3, 5, 9, 17, 33, 65, 65, 65]), "{searches:?}");
    filling.note(true);
    assert!(filling.may_search() && filling.may_search());
}
