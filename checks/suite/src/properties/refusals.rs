//! Requests for one frame while several CPUs allocate and free, and memory is never quite used up.
//!
//! # Invariants
//! A frame counts as asked for from before its request until after its free. While at most all frames are asked for, a
//! frame without a holder exists for each request, wherever it is: in the zone, in a list, or on its way.

use core::sync::atomic::{AtomicU64, Ordering};

use alloc::vec::Vec;

use everybuddy::{
    AllocateError, CpuToken, Flags, FrameRange, Index, Pfn, Platform, Release, Request, Setup,
    SystemSpec,
};

use super::{is_as_new, rounds};
use crate::{Host, Random};

/// The calls of each CPU in a round.
const CALLS: u64 = 100;

/// The frames that are asked for: in the low half their number, and in the high half how often it grew although all
/// frames were asked for.
struct Demand {
    word: AtomicU64,
    frames: u32,
}

impl Demand {
    /// Counts a request. Returns the state after it.
    fn ask(&self) -> u64 {
        let count = |word: u64| {
            let asked = word + 1;
            let exceeds = asked as u32 > self.frames;
            Some(asked + (u64::from(exceeds) << 32))
        };
        let order = Ordering::SeqCst;
        let before = self.word.fetch_update(order, order, count);
        before.ok().and_then(count).expect("a state follows")
    }

    /// Counts a free, or a request that was refused.
    fn give(&self) {
        self.word.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns `true` if more than all frames were asked for at some moment since a request, which left the state
    /// `asked`.
    fn exceeded_since(&self, asked: u64) -> bool {
        asked as u32 > self.frames || self.word.load(Ordering::SeqCst) >> 32 != asked >> 32
    }
}

/// How a CPU calls.
#[derive(Clone, Copy, Debug)]
enum Way {
    Waits,
    Hastens,
    Nests,
}

const WAYS: [Way; 4] = [Way::Waits, Way::Hastens, Way::Hastens, Way::Nests];

/// A request for one frame is refused as exhausted only if at some moment during the call all frames were held or asked
/// for by others, also if it must not wait, and if it is nested.
pub fn one_frame_is_exhausted_only_if_all_are_asked_for<P: Platform, H: Host<P>>(
    host: &H,
    spec: &SystemSpec,
) {
    for (frames, cpus) in [(16, 2), (50, 3), (512, 2), (131, 3)] {
        let ranges = [FrameRange::new(Pfn(0), frames)];
        host.build(spec, &Setup::new(&ranges, cpus), &mut |system| {
            let demand = Demand {
                word: AtomicU64::new(0),
                frames: frames as u32,
            };
            // The rounds of a CPU follow each other, so that the CPUs call simultaneously most of the time.
            host.run(cpus, |cpu| {
                let id = cpu.id();
                for round in 0..rounds() {
                    let mut random = Random(round << 8 | u64::from(id.0));
                    let mut held: Vec<Index> = Vec::new();
                    let share = frames / u64::from(cpus);
                    let mut goal = share;
                    let mut call = 0;
                    while call < CALLS {
                        let way = WAYS[random.below(4) as usize];
                        if (held.len() as u64) < goal {
                            // What a CPU needs at first says little.
                            call += u64::from(held.len() as u64 + 8 > share);
                            let asked = demand.ask();
                            let hasty = Request::FRAME.with_flags(Flags::NO_WAIT);
                            let result = match way {
                                Way::Waits => system.allocate(cpu, Request::FRAME),
                                Way::Hastens => system.allocate(cpu, hasty),
                                Way::Nests => system.allocate_nested(id, hasty),
                            };
                            match result {
                                Ok(frame) => held.push(frame),
                                Err(error) => {
                                    let is_right = match error {
                                        AllocateError::Exhausted => demand.exceeded_since(asked),
                                        error => error == AllocateError::Busy,
                                    };
                                    assert!(
                                        is_right,
                                        "CPU {} of {cpus}, {frames} frames, round {round}: {way:?}: {error:?} while \
                                         {} are asked for",
                                        id.0, asked as u32,
                                    );
                                    demand.give();
                                    call += 1;
                                    goal = held.len() as u64;
                                }
                            }
                            continue;
                        }
                        call += 1;
                        // Seldom more than its share, so that there is enough for all.
                        goal = share.saturating_sub(random.below(6)) + u64::from(random.chance(5));
                        if held.is_empty() {
                            continue;
                        }
                        let index = random.below(held.len() as u64) as usize;
                        let release = Release::frame(held.swap_remove(index));
                        let is_nested = matches!(way, Way::Nests);
                        if !(is_nested && system.free_nested(id, release).is_ok()) {
                            system.free(cpu, release).unwrap();
                        }
                        demand.give();
                        // Others may then be certain that no frame is free, until this CPU returns.
                        if random.chance(10) {
                            system.park(cpu);
                            (0..random.below(600)).for_each(|_| core::hint::spin_loop());
                        }
                    }
                    for frame in held {
                        system.free(cpu, Release::frame(frame)).unwrap();
                        demand.give();
                    }
                    system.park(cpu);
                }
            });
            host.run(1, |cpu| is_as_new(system, cpu, &ranges));
        });
    }
}
