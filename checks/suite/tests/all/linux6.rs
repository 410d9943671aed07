//! What the lists of current Linux move, call by call, against its rules on plain numbers.

use everybuddy::platform::NativeCpus;
use everybuddy::{CpuToken, FrameRange, Index, Order, Pfn, Release, Request, Setup};
use everybuddy_suite::{claim, on};
use proptest::prelude::*;

/// The orders that have a list.
const ORDERS: [u8; 5] = [0, 1, 2, 3, 9];

/// Linux's variables of one CPU: `pcp->batch`, `high_min`, `high_max`, `high`, `count`, `free_count`, `alloc_factor`,
/// and whether the last free was of an order from 1 to 3. The lists are numbers of blocks.
#[derive(Clone, Copy, Debug)]
struct Rules {
    batch: u32,
    high_min: u32,
    high_max: u32,
    high: u32,
    count: u32,
    free_count: u32,
    alloc_factor: u32,
    freed_higher: bool,
    lists: [u32; 5],
}

impl Rules {
    fn new(batch: u32, high_min: u32, high_max: u32) -> Self {
        Self {
            batch,
            high_min,
            high_max,
            high: high_min,
            count: 0,
            free_count: 0,
            alloc_factor: 0,
            freed_higher: false,
            lists: [0; 5],
        }
    }

    /// Serves a request from a list. Returns the frames of the refill, if there is one.
    fn allocate(&mut self, list: usize) -> u32 {
        let order = ORDERS[list];
        self.free_count /= 2;
        if self.lists[list] > 0 {
            self.lists[list] -= 1;
            self.count -= 1 << order;
            return 0;
        }
        // With a higher watermark, this refill would not have been necessary.
        let factor = if order == 0 { self.alloc_factor } else { 0 };
        let mut frames = self.batch * 2u32.pow(factor);
        self.high = self.high_max.min(self.high + frames);
        if order == 0 {
            let room = i64::from(self.high) - i64::from(self.count) - i64::from(self.batch);
            let most = room.max(self.batch.into()) as u32;
            if frames <= most {
                self.alloc_factor = 5.min(self.alloc_factor + 1);
            }
            frames = frames.min(most);
        }
        let blocks = match frames {
            1 => 1,
            _ => 2.max(frames / 2u32.pow(order.into())),
        };
        self.lists[list] = blocks - 1;
        self.count += (blocks - 1) << order;
        blocks << order
    }

    /// Frees a block into a list. Returns the frames of the drain, if there is one.
    fn free(&mut self, list: usize) -> u32 {
        let order = ORDERS[list];
        let is_higher = (1..=3).contains(&order);
        let is_crowding =
            is_higher && self.freed_higher && self.free_count >= self.batch + self.high_min / 2;
        self.freed_higher = is_higher;
        self.alloc_factor /= 2;
        self.lists[list] += 1;
        self.count += 1 << order;
        if self.free_count < 32 * self.batch {
            self.free_count += 1 << order;
        }
        let high = self.high;
        let wanted = if is_crowding {
            self.high = high.saturating_sub(32 * self.batch).max(self.high_min);
            self.count.min(32 * self.batch)
        } else if self.count < high {
            return 0;
        } else {
            let needed = self.free_count + self.batch;
            self.high = high.max(needed.clamp(self.high_min, self.high_max));
            self.free_count.clamp(self.batch, high - self.batch)
        };
        // One list after the other.
        let (mut moved, mut turn) = (0, list);
        while moved < wanted {
            if self.lists[turn] > 0 {
                self.lists[turn] -= 1;
                moved += 1 << ORDERS[turn];
            } else {
                turn = (turn + 1) % 5;
            }
        }
        self.count -= moved;
        moved
    }
}

/// A run of requests (`true`) or of frees: the list, and the number of frames.
type Run = (bool, usize, u32);

/// Compares each call of some runs with the rules.
fn follow((frames, cpus, name): (u32, u16, &str), mut rules: Rules, runs: &[Run]) {
    let ranges = [FrameRange::new(Pfn(0), frames.into())];
    on(name, &Setup::new(&ranges, cpus), |system| {
        let mut cpu = claim(&NativeCpus::new(cpus), 0);
        let mut held: [Vec<Index>; 5] = Default::default();
        let mut held_frames = 0;
        for (allocates, list, count) in runs {
            let (list, order) = (*list, Order::new(ORDERS[*list]).unwrap());
            for _ in 0..count.div_ceil(order.frames()) {
                let before = cpu.probe().counts;
                let expected = if *allocates {
                    // Far from a shortage, which would drain the lists.
                    if held_frames + order.frames() > frames / 4 {
                        break;
                    }
                    held[list].push(system.allocate(&mut cpu, Request::order(order)).unwrap());
                    held_frames += order.frames();
                    (rules.allocate(list), 0)
                } else {
                    let Some(head) = held[list].pop() else { break };
                    let block = everybuddy::Block::new(head, order);
                    system.free(&mut cpu, Release::block(block)).unwrap();
                    held_frames -= order.frames();
                    (0, rules.free(list))
                };
                let now = cpu.probe().counts;
                let moved = (
                    (now.frames_refilled - before.frames_refilled) as u32,
                    (now.frames_drained - before.frames_drained) as u32,
                );
                assert_eq!(moved, expected, "{order:?}, then {rules:?}");
                assert_eq!(system.buffered_frames(cpu.id()), u64::from(rules.count));
            }
        }
        system.check(&mut cpu).unwrap();
    });
}

/// A free of two frames, which asks whether the lists are full, raises the high watermark only if they are.
#[test]
fn a_list_that_is_not_full_keeps_its_high_watermark() {
    let runs = [
        (true, 0, 1300),
        (true, 1, 6),
        // The second of two blocks in a run of frees empties the lists, and lowers the high watermark to 252.
        (false, 0, 300),
        (false, 1, 4),
        // 305 frames were freed then. The next block finds few in the lists.
        (false, 0, 1),
        (false, 1, 2),
        (false, 0, 400),
    ];
    follow((1 << 18, 8, "linux-6"), Rules::new(63, 252, 4096), &runs);
}

proptest! {
    /// Each call moves what the rules say: how many frames a refill brings, when a drain comes, and how many it takes.
    #[test]
    fn linux_6_moves_what_linux_moves(
        (frames, cpus, name, batch, high_min, high_max) in prop::sample::select(vec![
            (1u32 << 10, 1, "linux-6", 1, 80, 128),
            (1 << 15, 1, "linux-6", 7, 452, 4096),
            (1 << 16, 2, "linux-6", 15, 320, 4096),
            (1 << 18, 8, "linux-6", 63, 252, 4096),
            (1 << 16, 2, "linux-6+fraction=64", 15, 512, 512),
        ]),
        runs in prop::collection::vec(
            (any::<bool>(), prop::sample::select(vec![0usize, 0, 0, 1, 2, 3, 4]), prop_oneof![1u32..4, 1u32..600]),
            1..40,
        ),
    ) {
        follow((frames, cpus, name), Rules::new(batch, high_min, high_max), &runs);
    }
}
