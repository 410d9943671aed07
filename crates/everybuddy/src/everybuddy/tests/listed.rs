//! Frames in a CPU's list, which the planes call allocated.

use super::*;

const TREE: u32 = TREE_OF_TWO;

/// Calls `body` where CPU 0 has allocated the first tree, and has frame 3 in its list.
fn with_listed(
    body: impl FnOnce(&OwnedTrees<'_, Native>, &mut NativeCpu<NoProbe>, &mut NativeCpu<NoProbe>),
) {
    with_two_cpus(|system, zero, one| {
        for _ in 0..TREE {
            system.allocate(zero, Request::FRAME).unwrap();
        }
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
        assert_eq!(system.allocate(one, hasty), Err(AllocateError::Busy));
        let frame = FrameRange::new(Pfn(3), 1);
        assert_eq!(system.try_allocate_at(one, frame), Err(RegionError::Busy));
        system.park(zero);
        assert_eq!(system.allocate(one, hasty), Ok(Index(3)));
        let refused = system.allocate(one, hasty);
        assert_eq!(refused, Err(AllocateError::Exhausted));
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
