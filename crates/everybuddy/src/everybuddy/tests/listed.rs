//! Frames in a CPU's list, which the planes call allocated.

use super::*;
use crate::platform::SharedCell;

const TREE: u32 = TREE_OF_TWO;

/// Calls `body` where CPU 0 has allocated the first tree, and has frame 3 in its list.
fn with_listed(body: impl FnOnce(&Trees<'_>, &mut Cpu, &mut Cpu)) {
    with_two_cpus(|system, zero, one| {
        allocate_frames(system, zero, TREE);
        system.free(zero, Release::frame(Index(3))).unwrap();
        body(system, zero, one);
    });
}

#[test]
fn a_listed_frame_is_buffered_and_allocated_first() {
    with_listed(|system, zero, _| {
        let order = Order::ZERO;
        let cpu = CpuId(0);
        let state = system.frame_state(Index(3));
        assert_eq!(state, Some(FrameState::Buffered { cpu, order }));
        assert_eq!(system.snapshot(zero).buffered_frames, 1);
        let counts = [0, 1].map(|cpu| system.buffered_frames(CpuId(cpu)));
        assert_eq!(counts, [1, 0]);
        let census = system.check(zero).unwrap();
        let rest = u64::from(TREE) - 1;
        assert_eq!((census.buffered, census.allocated), (1, rest));
        assert_eq!(system.allocate(zero, Request::FRAME), Ok(Index(3)));
        assert_eq!(system.check(zero).unwrap().buffered, 0);
    });
}

#[test]
fn another_cpu_gets_a_listed_frame_when_its_cpu_answers() {
    with_listed(|system, zero, one| {
        let hasty = Request::FRAME.with_flags(Flags::NO_WAIT);
        while system.allocate(one, hasty).is_ok() {}
        assert_eq!(system.allocate(one, hasty), BUSY);
        let frame = FrameRange::new(Pfn(3), 1);
        assert_eq!(system.try_allocate_at(one, frame), Err(RegionError::Busy));
        system.park(zero);
        assert_eq!(system.allocate(one, hasty), Ok(Index(3)));
        let refused = system.allocate(one, hasty);
        assert_eq!(refused, EXHAUSTED);
    });
}

#[test]
fn a_listed_frame_can_be_chosen_when_its_cpu_answers() {
    with_listed(|system, zero, one| {
        system.park(one);
        // A CPU announces its own list first.
        assert_eq!(
            system.try_allocate_at(zero, FrameRange::new(Pfn(3), 1)),
            Ok(Index(3))
        );
        system.free(zero, Release::frame(Index(5))).unwrap();
        system.park(zero);
        assert_eq!(
            system.allocate_at(one, FrameRange::new(Pfn(5), 1)),
            Ok(Index(5))
        );
        let taken = system.allocate_at(one, FrameRange::new(Pfn(3), 1));
        assert_eq!(taken, Err(RegionError::NotFree(Pfn(3))));
    });
}

#[test]
fn a_hole_above_the_first_fit_point_is_refused() {
    with_listed(|system, zero, one| {
        system.park(one);
        let hole = FrameRange::new(Pfn(u64::from(4 * TREE - 1)), 1);
        system.remove(zero, hole).unwrap();
        let refused = system.free(zero, Release::frame(Index(4 * TREE - 1)));
        assert_eq!(refused, Err(FreeError::Hole));
        let refused = system.free(zero, Release::frame(Index(4 * TREE)));
        assert_eq!(refused, Err(FreeError::Foreign));
    });
}

#[test]
fn a_bulk_enters_no_list_and_is_checked() {
    with_listed(|system, zero, one| {
        system.park(one);
        free_into_tree(system, zero, 9, 1);
        let releases = [8, 9].map(|frame| Release::frame(Index(frame)));
        let refused = system.free_bulk(zero, &releases).unwrap_err();
        assert_eq!((refused.index, refused.error), (1, FreeError::NotAllocated));
        assert_eq!(system.buffered_frames(CpuId(0)), 1);
        system.check(zero).unwrap();
    });
}

#[test]
fn a_chosen_frame_of_no_cpu_needs_no_answer() {
    with_listed(|system, _, one| {
        // CPU 0 keeps a frame and does not answer.
        let chosen = FrameRange::new(Pfn(u64::from(3 * TREE)), 1);
        assert_eq!(system.allocate_at(one, chosen), Ok(Index(3 * TREE)));
    });
}

#[test]
fn a_request_answers_although_the_list_has_a_frame() {
    with_listed(|system, zero, _| {
        let local = &system.locals[0];
        // As another CPU does that asks.
        local.close();
        assert_eq!(system.allocate(zero, Request::FRAME), Ok(Index(3)));
        let identity = local.identity.load(crate::platform::Ordering::Relaxed);
        assert_eq!(identity, local.id);
    });
}

#[test]
fn a_listed_frame_of_a_tree_without_an_owner_is_busy_and_not_allocated() {
    with_listed(|system, zero, one| {
        // CPU 0 owns at most two trees, and releases the first one.
        for _ in TREE..=3 * TREE {
            system.allocate(zero, Request::FRAME).unwrap();
        }
        system.free(zero, Release::frame(Index(7))).unwrap();
        assert_eq!(system.buffered_frames(CpuId(0)), 1);
        assert_eq!(system.locals[0].own_trees().min(), Some(1));
        let chosen = FrameRange::new(Pfn(7), 1);
        assert_eq!(system.try_allocate_at(one, chosen), Err(RegionError::Busy));
        assert_eq!(system.allocate_at(one, chosen), Err(RegionError::Busy));
        let allocated = system.try_allocate_at(one, FrameRange::new(Pfn(8), 1));
        assert_eq!(allocated, Err(RegionError::Busy));
    });
}

/// Blocks by order and kind, the one that was freed last first.
#[test]
fn blocks_have_lists_by_order_and_kind() {
    let request = |order, class| {
        let order = Order::new(order).unwrap();
        Request::order(order).with_class(class)
    };
    with_cpus((1 << 18, 0), (None, 10), |system, [zero, one]| {
        for order in 1..=8 {
            for class in [Class::Unmovable, Class::Movable] {
                let held = [(); 2].map(|()| system.allocate(zero, request(order, class)).unwrap());
                let order = Order::new(order).unwrap();
                let release = |start| Release::block(crate::Block::new(start, order));
                system.park(zero);
                system.free(zero, release(held[0])).unwrap();
                system.park(zero);
                // The first block is at the point.
                let again = system.allocate(zero, request(order.get(), class));
                assert_eq!(again, Ok(held[0]));
                system.free(zero, release(held[0])).unwrap();
                let cpu = CpuId(0);
                let state = system.frame_state(held[0]);
                assert_eq!(state, Some(FrameState::Buffered { cpu, order }));
                let last = Index(held[0].0 + order.frames() - 1);
                assert_eq!(system.frame_state(last), state);
                let listed = system.check(zero).unwrap().buffered;
                assert!(listed >= u64::from(order.frames()), "{order:?}");
                assert_eq!(system.buffered_frames(cpu), listed);
                let other = system.allocate(one, request(order.get(), class));
                assert_ne!(other, Ok(held[0]));
                system.free(one, release(other.unwrap())).unwrap();
                let again = system.allocate(zero, request(order.get(), class));
                assert_eq!(again, Ok(held[0]));
                for start in held {
                    system.free(zero, release(start)).unwrap();
                }
                for cpu in [&mut *zero, &mut *one] {
                    system.park(cpu);
                }
                assert_eq!(system.check(zero).unwrap().free, 1 << 18);
            }
        }
    });
}

/// In a shortage, when address does not decide.
#[test]
fn a_block_whose_buddy_is_free_enters_no_list_in_a_shortage() {
    with_own_tree(|system, cpu| {
        let pair = order(1);
        let [left, right, other] = [4, 6, 8].map(Index);
        let given = [(); 4].map(|()| system.allocate(cpu, Request::order(pair)).unwrap());
        assert_eq!(given, [Index(2), left, right, other]);
        let local = &system.locals[0];
        local.choose_by_fit(&system.shared);
        let listed = |start: Index| local.listed().any(|block| block == (start.0, pair));
        let free = |cpu: &mut _, start: Index| {
            let release = Release::block(crate::Block::new(start, pair));
            system.free(cpu, release).unwrap();
        };
        free_into_tree(system, cpu, left.0, 2);
        free(cpu, right);
        assert!(!listed(right));
        // The buddy is in the list.
        free(cpu, other);
        assert!(listed(other));
        assert_eq!(system.allocate(cpu, Request::order(pair)), Ok(other));
        system.check(cpu).unwrap();
    });
}

#[test]
fn a_full_list_of_blocks_ends_allocation_from_high_addresses() {
    with_system((1 << 18, 0), 1, (None, 10), |system| {
        let mut cpu: Cpu = NativeCpus::new(1).claim(CpuId(0)).unwrap();
        let three = order(3);
        // All blocks of 13 words: then the list is empty.
        let held: Vec<_> = (0..13 * 8)
            .map(|_| system.allocate(&mut cpu, Request::order(three)).unwrap())
            .collect();
        for start in &held[..17] {
            let release = Release::block(crate::Block::new(*start, three));
            system.free(&mut cpu, release).unwrap();
        }
        let list = system.locals[0].list(three, Kind::Staying).unwrap();
        assert!(list.is_full() && list.point.get() == 0);
        let given: Vec<_> = (0..17)
            .map(|_| system.allocate(&mut cpu, Request::order(three)).unwrap())
            .collect();
        assert!(given.iter().all(|start| held[..17].contains(start)));
        system.check(&mut cpu).unwrap();
    });
}

/// Memory in MiB, CPUs, and the most blocks of each order.
#[test]
fn lists_of_blocks_follow_the_memory_of_a_cpu() {
    for (mib, cpus, most) in [
        (1024, 1, [16, 16, 16, 16, 16, 8, 4, 2, 2]),
        (1024, 2, [16, 16, 16, 16, 8, 4, 2, 2, 2]),
        (1024, 8, [16, 16, 8, 4, 2, 2, 2, 2, 0]),
        (16 << 10, 8, [16, 16, 16, 16, 16, 16, 8, 4, 2]),
        (1, 8, [1, 0, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        let of = geometry::Dimensions {
            frames: mib << 8,
            cpus,
            tree: None,
        };
        for (order, most) in (1..).zip(most) {
            let heads = [2 * order + 2, 2 * order + 3];
            assert_eq!(
                heads.map(|head| of.listed(head)),
                [most; 2],
                "{mib} MiB, {cpus} CPUs"
            );
        }
    }
}

/// With 1 GiB and two CPUs, a CPU's list keeps two blocks of 2 MiB. They return to their trees when a shortage begins.
#[test]
fn a_freed_block_of_two_mib_is_allocated_again_unless_a_shortage_began() {
    with_cpus((1 << 18, 0), (None, 10), |system, [cpu, _]| {
        let nine = Request::order(order(9));
        let held = [(); 3].map(|()| system.allocate(cpu, nine).unwrap());
        let free = |cpu: &mut _, start| {
            let release = Release::block(crate::Block::new(start, order(9)));
            system.free(cpu, release).unwrap();
        };
        // The third one finds the list full. Small requests keep their tree.
        let frame = system.allocate(cpu, Request::FRAME).unwrap();
        let current = || system.locals[0].place(Kind::Staying).current.get();
        let before = current();
        held.iter().for_each(|start| free(cpu, *start));
        assert_eq!(current(), before);
        assert_eq!(system.buffered_frames(CpuId(0)), 2 * 512);
        assert_eq!(system.check(cpu).unwrap().buffered, 2 * 512);
        for start in [held[1], held[0]] {
            assert_eq!(system.allocate(cpu, nine), Ok(start));
        }
        free(cpu, held[0]);
        let local = &system.locals[0];
        local.choose_by_fit(&system.shared);
        assert_eq!(system.buffered_frames(CpuId(0)), 0);
        // Nor does a block enter the list that is freed meanwhile.
        free(cpu, held[1]);
        // The first block of all lies at no point above another one, and may.
        let [_, by_address] = [(); 2].map(|()| system.allocate(cpu, nine).unwrap());
        free(cpu, by_address);
        system.free(cpu, Release::frame(frame)).unwrap();
        assert_eq!(system.check(cpu).unwrap().free, (1 << 18) - 512);
    });
}

/// Memory in GiB, CPUs, and the entries of both lists of a CPU.
#[test]
fn lists_are_longer_where_memory_is_large() {
    for (gib, cpus, entries) in [
        (1, 1, 1024),
        (1, 16, 896),
        (16, 1, 16_384),
        (16, 8, 16_384),
        (16, 128, 1024),
        (512, 8, 16_384),
    ] {
        let of = geometry::Dimensions {
            frames: gib << 18,
            cpus,
            tree: None,
        };
        assert_eq!(of.list(), entries, "{gib} GiB, {cpus} CPUs");
    }
}

#[test]
fn a_free_that_no_list_can_hold_does_not_leave_the_current_tree() {
    with_two_cpus(|system, zero, _| {
        let order = order(2);
        let local = system.local(zero.id()).unwrap();
        let list = local.list(order, Kind::Staying).unwrap();
        assert_eq!(list.entries.len(), 0, "this memory is too small for a list");
        let place = local.place(Kind::Staying);
        let start = system.allocate(zero, Request::order(order)).unwrap();
        let tree = place.tree_for(order).get();
        assert_eq!(tree, system.shared.trees.tree_of(start.0));
        system
            .free(zero, Release::block(crate::Block::new(start, order)))
            .unwrap();
        assert_eq!(place.tree_for(order).get(), tree);
    });
}
