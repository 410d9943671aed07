//! What Spring Buddy's list predicts, moves and gives back: figure 7 of \[Spring\] step by step, in both directions.

use everybuddy::systems::Bound;
use everybuddy::{Counts, FrameRange, Hint, Index, Pfn, Release, Request};
use everybuddy_suite::{Cpu, System};

/// 256 MiB: a CPU that is alone may keep 16 MiB, 4096 frames.
const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 1 << 16)];

/// A task's request for, or release of, something in a region of which `left` frames are left.
const fn hint(task: u32, region: u32, left: u32) -> Hint {
    Hint { task, region, left }
}

/// A region whose end is unknown.
const fn endless(region: u32) -> Hint {
    hint(1, region, Hint::UNKNOWN)
}

/// One CPU of a system.
struct Bench<'a> {
    system: &'a System<'a>,
    cpu: &'a mut Cpu,
    held: Vec<Index>,
}

impl Bench<'_> {
    /// Requests frames one by one; returns what that moved.
    fn take(&mut self, count: u32, hint: Hint) -> Counts {
        self.cpu.probe().counts = Counts::default();
        for _ in 0..count {
            let request = Request::FRAME.with_hint(hint);
            self.held
                .push(self.system.allocate(self.cpu, request).unwrap());
        }
        self.cpu.probe().counts
    }

    /// Releases frames one by one; returns what that moved.
    fn free(&mut self, count: u32, hint: Hint) -> Counts {
        self.cpu.probe().counts = Counts::default();
        for _ in 0..count {
            let frame = self
                .held
                .pop()
                .expect("more is released than was requested");
            let release = Release::frame(frame).with_hint(hint);
            self.system.free(self.cpu, release).unwrap();
        }
        self.cpu.probe().counts
    }

    /// Releases what is left of a region, frame by frame.
    fn free_to_the_end(&mut self, region: u32, left: u32) -> Counts {
        let mut counts = Counts::default();
        for left in (1..=left).rev() {
            counts.add(&self.free(1, hint(1, region, left)));
        }
        counts
    }

    fn kept(&mut self) -> u64 {
        self.system.snapshot(self.cpu).buffered_frames
    }

    /// Allocates the given number of frames, and leaves none in the list.
    fn hold(&mut self, count: u32) {
        self.take(count, hint(9, 9, 9));
        self.system.drain(self.cpu);
    }
}

/// Runs `trial` on a CPU that is alone.
fn on(name: &str, trial: impl FnOnce(&mut Bench<'_>)) {
    everybuddy_suite::on_cpus(name, RANGES, |system, [cpu]| {
        trial(&mut Bench {
            system,
            cpu,
            held: Vec::new(),
        });
        system.check(cpu).unwrap();
    });
}

/// Nothing moved: all were hits.
fn nothing() -> Counts {
    Counts::default()
}

#[test]
fn figure_7_step_by_step() {
    on("spring", |bench| {
        bench.hold(10_000);
        // a: what a process releases is kept, and given back in bulk when the limit is reached.
        assert_eq!(bench.free(511, endless(1)), nothing());
        assert_eq!(bench.kept(), 511);
        let full = bench.free(1, endless(1));
        assert_eq!((full.drains, full.frames_drained), (1, 512));
        assert_eq!(bench.kept(), 0);
        // b, c: at this moment the list looks at the run and the region, and predicts what follows: as much again.
        assert_eq!((full.predictions, full.frames_predicted), (1, 512));
        // d: that is the limit now; twice as far into the run it is twice as wide.
        let full = bench.free(512, endless(1));
        assert_eq!((full.drains, full.frames_drained), (1, 512));
        assert_eq!((full.predictions, full.frames_predicted), (1, 1024));
        // e: what follows stays, without anything global.
        assert_eq!(bench.free(1023, endless(1)), nothing());
        assert_eq!(bench.kept(), 1023);
        let full = bench.free(1, endless(1));
        assert_eq!((full.drains, full.frames_drained), (1, 1024));
        assert_eq!(full.frames_predicted, 2048);
        // f: the run ends, and what was kept for it goes.
        assert_eq!(bench.free(700, endless(1)), nothing());
        let end = bench.free(1, endless(2));
        assert_eq!((end.drains, end.frames_drained), (1, 701));
        assert_eq!(bench.kept(), 0);
    });
}

#[test]
fn the_same_for_requests() {
    on("spring", |bench| {
        // A run that goes on is refilled by as much as it has had, up to a bound.
        let mut moved = Vec::new();
        for _ in 0..2000 {
            let counts = bench.take(1, endless(1));
            assert_eq!(counts.frames_refilled, counts.frames_predicted);
            if counts.refills > 0 {
                moved.push(counts.frames_refilled);
            }
        }
        assert_eq!(moved, [128, 128, 256, 512, 512, 512]);
        assert_eq!(bench.kept(), 48);
        // Another region: a new run, which begins with what is there.
        assert_eq!(bench.take(48, endless(2)), nothing());
        assert_eq!(bench.take(1, endless(2)).frames_refilled, 128);
        // A run in which many frames were refilled ends: the list returns what may not be needed.
        bench.take(600, endless(3));
        assert!(bench.kept() > 256);
        let end = bench.take(1, endless(4));
        assert_eq!((end.drains, bench.kept()), (1, 128));
        assert_eq!(bench.take(128, endless(4)), nothing());
        // So it does after releases, if they are more than a run of unknown length leaves.
        bench.hold(4000);
        bench.free(511, endless(5));
        assert_eq!(bench.take(1, endless(6)), nothing());
        bench.hold(4000);
        assert_eq!(bench.free(1624, endless(7)).drains, 2);
        assert_eq!(bench.kept(), 600);
        let end = bench.take(1, endless(8));
        assert_eq!((end.drains, end.frames_drained), (1, 471));
        assert_eq!(bench.kept(), 128);
    });
}

#[test]
fn a_region_ends_its_run() {
    on("spring", |bench| {
        // The refill that would go beyond the region brings what is left of it.
        bench.take(512, hint(1, 1, 712));
        assert_eq!(bench.kept(), 0);
        let last = bench.take(1, hint(1, 1, 200));
        assert_eq!(last.frames_predicted, 200);
        assert_eq!(bench.take(199, hint(1, 1, 199)), nothing());
        assert_eq!(bench.kept(), 0);
        // The small rest of the region does not make a refill smaller than an initial one.
        assert_eq!(bench.take(1, hint(1, 2, 3)).frames_refilled, 128);

        // Releases of a whole region: the last of them gives all back.
        bench.hold(3000);
        let counts = bench.free_to_the_end(3, 300);
        assert_eq!((counts.drains, counts.frames_drained), (1, 300));
        assert_eq!(bench.kept(), 0);
        // A longer one: by its limit, and at its end.
        let counts = bench.free_to_the_end(4, 700);
        assert_eq!((counts.drains, counts.frames_drained), (2, 700));
        // A few frames aren't worth it.
        let counts = bench.free_to_the_end(5, 63);
        assert_eq!((counts, bench.kept()), (nothing(), 63));
    });
}

#[test]
fn without_hints_the_run_so_far_is_enough() {
    on("spring", |bench| {
        let counts = bench.take(8192, Hint::NONE);
        assert_eq!((counts.refills, counts.drains), (18, 0));
        let counts = bench.free(8192, Hint::NONE);
        assert!(counts.drains <= 6, "{counts:?}");
        assert!(bench.kept() <= 4096);
        // Frames that are freed and requested again immediately never leave.
        for hint in [Hint::NONE, endless(1)] {
            bench.take(1, hint);
            for _ in 0..10_000 {
                assert_eq!(bench.free(1, hint), nothing());
                assert_eq!(bench.take(1, hint), nothing());
            }
        }
        // Also if it comes from elsewhere, after the first.
        bench.take(1, endless(2));
        bench.free(1, endless(3));
        for _ in 0..10_000 {
            assert_eq!(bench.take(1, endless(2)), nothing());
            assert_eq!(bench.free(1, endless(3)), nothing());
        }
    });
}

#[test]
fn after_requests_there_is_room_for_half_an_initial_limit_of_frees() {
    on("spring", |bench| {
        bench.hold(2000);
        // The refills of a run grow to 512 frames, which is also the initial limit.
        while bench.take(1, endless(1)).frames_refilled < 512 {}
        let kept = bench.kept();
        assert_eq!(kept, 511);
        assert_eq!(bench.free(255, endless(1)), nothing());
        assert_eq!(bench.kept(), kept + 255);
        assert_eq!(bench.free(2, endless(1)).drains, 1);
    });
}

#[test]
fn a_run_that_changes_its_direction_counts_what_was_a_hit() {
    on("spring", |bench| {
        bench.hold(4000);
        // The region's run is noticed at its first free, which is a hit, and again when the list is empty.
        assert_eq!(bench.free(399, endless(1)), nothing());
        assert_eq!(bench.free(1, endless(2)), nothing());
        assert_eq!(bench.take(400, endless(2)), nothing());
        assert_eq!(bench.take(1, endless(2)).frames_refilled, 400);
        // 399 frames are left, and half an initial limit has room. The last free of them makes the list full.
        assert_eq!(bench.free(255, endless(2)), nothing());
        let full = bench.free(1, endless(2));
        assert_eq!((full.frames_drained, full.frames_predicted), (655, 512));
        // These 256 frees count when the list is full again.
        assert_eq!(bench.free(511, endless(2)), nothing());
        let full = bench.free(1, endless(2));
        assert_eq!((full.frames_drained, full.frames_predicted), (512, 768));
    });
}

#[test]
fn a_run_of_requests_has_the_limit_of_what_it_leaves() {
    on("spring", |bench| {
        bench.hold(4000);
        // The limit of these frees is finally 1024.
        assert_eq!(bench.free(1024, endless(1)).frames_predicted, 512 + 1024);
        assert_eq!(bench.free(10, endless(1)), nothing());
        // A request of another region is served from the list, and sets the limit to that of 9 frames.
        assert_eq!(bench.take(1, endless(2)), nothing());
        assert_eq!(bench.free(502, endless(2)), nothing());
        assert_eq!(bench.free(1, endless(2)).frames_drained, 512);
    });
}

#[test]
fn a_run_of_requests_that_ends_leaves_less_than_two_first_refills() {
    on("spring", |bench| {
        // (Frames before the request of another region, what it drains.) The limit does not change.
        for (round, (frames, drained)) in [(256, 0), (257, 128)].into_iter().enumerate() {
            let region = 2 * round as u32;
            bench.hold(1000);
            assert_eq!(bench.take(1, endless(region)).frames_refilled, 128);
            assert_eq!(bench.free(frames - 127, endless(region)), nothing());
            let first = bench.take(1, endless(region + 1));
            assert_eq!(first.frames_drained, drained, "of {frames}");
            assert_eq!(bench.kept(), u64::from(frames) - 1 - drained);
        }
        // The same where the limit changes, since the last refill was larger.
        for (frames, drained) in [(256, 0), (257, 128)] {
            let region = 10 + frames;
            bench.hold(1000);
            while bench.take(1, endless(region)).frames_refilled < 512 {}
            assert_eq!(bench.take(511 - frames, endless(region)), nothing());
            let first = bench.take(1, endless(1));
            assert_eq!(first.frames_drained, drained, "of {frames}");
        }
    });
    // The smallest bounds: first refills of one frame, and lists of less than five.
    on("spring+high=5", |bench| {
        let mut moved = Vec::new();
        for _ in 0..5 {
            moved.push(bench.take(1, endless(1)).frames_refilled);
        }
        assert_eq!((moved, bench.kept()), (vec![1, 1, 2, 0, 4], 3));
        assert_eq!(bench.take(1, endless(2)).frames_drained, 1);
        assert_eq!(bench.kept(), 1);
    });
}

#[test]
fn a_run_of_frees_begins_with_an_empty_list_whatever_limit_fits() {
    on("spring+predict=region", |bench| {
        bench.hold(3000);
        // The limit is the end of the region, 1000 frames.
        assert_eq!(bench.free(599, hint(1, 1, 1000)), nothing());
        // So it would be for the next region, of which 400 frames are left after the first.
        assert_eq!(bench.free(1, hint(1, 2, 401)).frames_drained, 600);
        assert_eq!(bench.kept(), 0);
    });
}

#[test]
fn requests_that_outnumber_the_frees_of_a_run_end_it() {
    on("spring", |bench| {
        bench.hold(4000);
        assert_eq!(bench.free(512, endless(1)).frames_predicted, 512);
        // A parked list is examined although it is neither empty nor full: the run has 713 frees now.
        assert_eq!(bench.free(200, endless(1)), nothing());
        bench.system.park(bench.cpu);
        assert_eq!(bench.free(1, endless(1)), nothing());
        // Requests without hints are hits, and belong to no other run.
        assert_eq!(bench.take(50, Hint::NONE), nothing());
        bench.system.park(bench.cpu);
        assert_eq!(bench.free(1, endless(1)), nothing());
        // The free above has begun a run, and the limit is an initial one.
        assert_eq!(bench.kept(), 152);
        assert_eq!(bench.free(511 - 152, endless(1)), nothing());
        assert_eq!(bench.free(1, endless(1)).frames_drained, 512);
    });
}

#[test]
fn no_more_is_kept_than_the_bound() {
    for most in [1, 2, 3, 5, 64, 700, 5000] {
        on(&format!("spring+high={most}"), |bench| {
            bench.hold(20_000);
            for step in 0..20_000 {
                bench.free(1, endless(step / 9000));
                assert!(bench.kept() < most, "+high={most}");
            }
            for step in 0..20_000 {
                bench.take(1, endless(step / 9000));
                assert!(bench.kept() < most, "+high={most}");
            }
        });
    }
}

#[test]
fn the_bound_follows_from_memory() {
    let most = Bound::by_memory;
    assert_eq!(most(1 << 16, 1), 4096);
    assert_eq!(most(1 << 20, 2), 4096, "not more than 16 MiB");
    assert_eq!(most(1 << 14, 2), 512);
    assert_eq!(most(100, 4), 1);
    assert_eq!(most(1, 1), 1);
}

/// Moves of a mixed load: runs of several lengths, from several regions, in both directions.
fn mixed(bench: &mut Bench<'_>, hints: bool) -> Vec<Counts> {
    let mut counts = Vec::new();
    for round in 0..40u32 {
        let length = [3, 900, 40, 2500][round as usize % 4];
        for left in (1..=length).rev() {
            let own = hint(round % 3, round, left);
            let own = if hints { own } else { Hint::NONE };
            counts.push(bench.take(1, own));
        }
        for left in (1..=length - round % 2).rev() {
            let own = hint(round % 2, round / 2, left);
            let own = if hints { own } else { Hint::NONE };
            counts.push(bench.free(1, own));
        }
    }
    counts
}

#[test]
fn a_list_that_ignores_the_region_moves_what_it_moves_without_hints() {
    let moved = |name: &str, hints| {
        let mut counts = Vec::new();
        on(name, |bench| counts = mixed(bench, hints));
        counts
    };
    let plain = moved("spring", false);
    assert_eq!(moved("spring+predict=run", true), plain);
    assert_eq!(moved("spring+predict=run", false), plain);
    assert_eq!(moved("spring+predict=both", false), plain);
    assert_ne!(moved("spring", true), plain, "hints are used");
    let neither = moved("spring+predict=none", false);
    assert_eq!(moved("spring+predict=none", true), neither);
    assert_eq!(
        moved("spring+predict=region", false),
        neither,
        "no hint, no region"
    );
}

#[test]
fn without_the_run_so_far_the_region_decides() {
    let refills = |name: &str, left: u32| {
        let mut moved = Vec::new();
        on(name, |bench| {
            for at in 0..1500u32 {
                let left = if left == Hint::UNKNOWN {
                    left
                } else {
                    left - at
                };
                let counts = bench.take(1, hint(1, 1, left));
                if counts.refills > 0 {
                    moved.push(counts.frames_refilled);
                }
            }
        });
        moved
    };
    assert_eq!(refills("spring+predict=region", 1600), [512, 512, 512]);
    assert_eq!(refills("spring+predict=region", Hint::UNKNOWN), [128; 12]);
    assert_eq!(refills("spring+predict=none", 1600), [128; 12]);
    on("spring+predict=region", |bench| {
        // The limit is the region's end from the first time that the list examines the run.
        bench.hold(3000);
        let counts = bench.free_to_the_end(3, 2000);
        assert_eq!((counts.drains, counts.frames_drained), (1, 2000));
    });
    on("spring+predict=none", |bench| {
        bench.hold(3000);
        let counts = bench.free_to_the_end(3, 2000);
        assert_eq!((counts.drains, counts.frames_drained), (3, 1536));
    });
}

#[test]
fn the_first_refill_sets_the_other_sizes() {
    on("spring+batch=32", |bench| {
        let mut moved = Vec::new();
        for _ in 0..600 {
            let counts = bench.take(1, endless(1));
            if counts.refills > 0 {
                moved.push(counts.frames_refilled);
            }
        }
        assert_eq!(moved, [32, 32, 64, 128, 128, 128, 128]);
        bench.hold(1000);
        // The limit of a run of frees is four times the first refill.
        assert_eq!(bench.free(127, endless(2)), nothing());
        let full = bench.free(1, endless(2));
        assert_eq!((full.drains, full.frames_drained), (1, 128));
    });
}
