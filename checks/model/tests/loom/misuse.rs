//! A frame that two CPUs free at the same time, under loom.
//!
//! A hit detects a double free by a tag that it reads and then writes, without a lock. Two CPUs that free the same
//! frame simultaneously may therefore both succeed. The guarantees are then:
//!
//! - at least one of the frees succeeds;
//! - the tag names one of the lists. Once both frees have returned, and every CPU that hands out frames has observed
//!   this (through any ordering), the frame is handed out to only one holder: the other list discards the frame when
//!   it reaches it, and counts that.
//!
//! There is no guarantee for a CPU that hands out the frame, or drains it to the zone, *while* the other free is
//! still in progress. The tag of the late free then overwrites the new holder's tag (or a link of the zone's list).
//! The last models show that both occur.

use everybuddy::{Release, Request};
use everybuddy_model::{ALL, Loom, Machine, Memory, Plain, Scope, Shared, Worker, weak};

/// Both CPUs free the same frame simultaneously; then they allocate all frames in turn.
fn raced(memory: Memory, spec: &'static str) {
    Scope::new(memory, spec, ALL).exhaust(2, 2, |machine| {
        // Both lists are open and empty, so both frees are hits.
        machine.on(1, |w| {
            w.churn(0);
            w.drain();
        });
        let frame = machine.on(0, |w| w.allocate_untracked(Request::FRAME));
        machine.on(0, |w| w.drain());
        let accepted = std::sync::Mutex::new(0);
        let race = |w: &mut Worker<'_, Loom>| {
            let ok = w.try_free_untracked(Release::frame(frame));
            *accepted.lock().unwrap() += u32::from(ok);
        };
        machine.at_once(&[&race, &race]);
        assert!((1..=2).contains(&*accepted.lock().unwrap()));
        // The ledger ends the test if a frame is handed out twice.
        let blocks: Vec<_> = (0..2)
            .map(|cpu| {
                machine.on(cpu, |w| {
                    let block = w.try_allocate(0);
                    w.park();
                    block
                })
            })
            .collect();
        for (cpu, block) in (0..).zip(blocks) {
            machine.on(cpu, |w| {
                block.into_iter().for_each(|block| w.free(block));
                w.park();
            });
        }
        machine.on(1, |w| w.park());
    });
}

#[test]
fn a_raced_double_free_gives_the_frame_to_one_holder() {
    raced(Plain, "lbs-31+batch=1+high=3+order=0");
    raced(Shared, "lbs-31+batch=1+high=3+order=0");
    raced(Plain, "lbs-31+batch=1+high=3+order=0+percpu=locked");
    raced(Plain, "spring+high=3+order=0");
    raced(Shared, "spring+high=3+order=0");
    raced(Plain, "linux-6+order=0");
    raced(Plain, "linux-6+order=0+percpu=locked");
    raced(Plain, "lbs-31+batch=2+high=4+order=1+drain=merged");
    raced(Plain, "pcp-buddy+order=0");
    raced(Plain, "magazines+batch=1+order=0");
    raced(Shared, "magazines+batch=1+order=0");
}

/// The bytes are plain memory, so a race for one is a race to loom: only the relaxed model has these schedules.
#[test]
fn a_raced_double_free_by_a_byte_gives_the_frame_to_one_holder() {
    raced(Shared, "everybuddy+order=0");
}

/// Both CPUs free the same block simultaneously. Then each allocates a block, frees a part of it if `parts` says so,
/// and frees the rest. Of the two frees, at most `most` succeed.
fn raced_block(spec: &'static str, (frames, order): (u64, u8), parts: bool, most: u32) {
    let preemptions = everybuddy_model::bound(&[2, 3]);
    Scope::new(Shared, spec, preemptions).exhaust(frames, 2, move |machine| {
        let size = everybuddy::Order::new(order).unwrap();
        machine.on(1, |w| {
            w.churn(order);
            w.drain();
        });
        let start = machine.on(0, |w| w.allocate_untracked(Request::order(size)));
        machine.on(0, |w| w.drain());
        let accepted = std::sync::Mutex::new(0);
        let race = |w: &mut Worker<'_, Loom>| {
            let block = everybuddy::Block::new(start, size);
            let ok = w.try_free_untracked(Release::block(block));
            *accepted.lock().unwrap() += u32::from(ok);
        };
        machine.at_once(&[&race, &race]);
        assert!((1..=most).contains(&*accepted.lock().unwrap()));
        let blocks: Vec<_> = (0..2)
            .map(|cpu| {
                machine.on(cpu, |w| {
                    let block = w.try_allocate(order);
                    if let Some(block) = block
                        && parts
                    {
                        w.free_frames(block.start, size.frames() / 2);
                    }
                    w.park();
                    block
                })
            })
            .collect();
        for (cpu, block) in (0..).zip(blocks) {
            machine.on(cpu, |w| {
                match block {
                    Some(block) if parts => {
                        let half = size.frames() / 2;
                        w.free_frames(everybuddy::Index(block.start.0 + half), half);
                    }
                    Some(block) => w.free(block),
                    None => (),
                }
                w.park();
            });
        }
        machine.on(1, |w| w.park());
    });
}

#[test]
fn of_two_raced_frees_of_a_large_block_one_is_refused() {
    for parts in [false, true] {
        raced_block("everybuddy+order=6", (64, 6), parts, 1);
        raced_block("everybuddy+order=7+tree=256KiB", (128, 7), parts, 1);
    }
}

/// The next holder frees all of it: no part. Only blocks of two frames are in lists here; the explorer's tests have
/// lists of larger ones.
#[test]
fn a_raced_double_free_of_a_small_block_gives_it_to_one_holder() {
    raced_block("everybuddy+order=1", (64, 1), false, 2);
    raced_block("everybuddy+order=3", (64, 3), false, 2);
}

#[test]
fn without_lists_one_of_two_raced_releases_is_refused() {
    Scope::new(Plain, "bs+order=0", ALL).exhaust(2, 2, |machine| {
        let frame = machine.on(0, |w| w.allocate_untracked(Request::FRAME));
        let accepted = std::sync::Mutex::new(0);
        let race = |w: &mut Worker<'_, Loom>| {
            let ok = w.try_free_untracked(Release::frame(frame));
            *accepted.lock().unwrap() += u32::from(ok);
        };
        machine.at_once(&[&race, &race]);
        assert_eq!(*accepted.lock().unwrap(), 1);
    });
}

/// Like `raced`, but each CPU continues immediately.
fn late(
    then: impl Fn(&mut Worker<'_, Loom>, bool) + Copy + Send + Sync + 'static,
    at_end: impl Fn(&Machine<'_, Loom>) + Send + Sync + 'static,
) {
    weak::explore(Plain, None, move || {
        Machine::build("lbs-31+batch=1+high=3+order=0", 2, 2, |machine| {
            machine.on(1, |w| {
                w.churn(0);
                w.drain();
            });
            let frame = machine.on(0, |w| w.allocate_untracked(Request::FRAME));
            machine.on(0, |w| w.drain());
            let race = |w: &mut Worker<'_, Loom>| {
                let accepted = w.try_free_untracked(Release::frame(frame));
                then(w, accepted);
            };
            machine.park_after(&[&race, &race]);
            at_end(machine);
        });
    });
}

#[test]
#[should_panic(expected = "was handed out to")]
fn a_late_release_may_give_a_frame_twice() {
    let go_on = |w: &mut Worker<'_, Loom>, accepted| {
        if accepted {
            w.try_allocate(0);
        }
    };
    late(go_on, |_| ());
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "order 0 at index 0x1"))]
#[cfg_attr(not(debug_assertions), should_panic(expected = "link is wrong"))]
fn a_late_release_may_break_a_list_of_the_zone() {
    late(
        |w, _| w.drain(),
        |machine| {
            machine.on(0, |w| w.check());
        },
    );
}
