//! The programs that the papers measure, as generators of their page requests.
//!
//! The papers' tables are about whole programs: stream, sysbench, a build. Their traces are not published. What the
//! papers say about each program is its memory, its number of requests, how fast it makes them, how many of them follow
//! each other in one region, and what share of them a per-CPU list serves. These generators have those numbers.
//!
//! # Invariants
//! Nothing here was adjusted to the papers' times. Where a paper gives no number, [`IBUDDY`] and [`SPRING`] say what is
//! assumed, and why. Assumed of all programs:
//!
//! - Half of the requests that a paper counts are frees.
//! - Frames are freed in the order in which they were allocated, as when a mapping or a process ends.
//! - A rate includes all the work between two requests. The time that an allocator takes is added to it.
//!
//! Assumed of processes: 1.6 % of their requests are of orders 1 to 4, since \[iBuddy\] counts 98.4 % of single frames.

use everybuddy::{Order, Size};

use self::Shape::{Processes, Whole};
use crate::churn::Mix;
use crate::random::Random;
use crate::{Body, Pace, Part, Program, Runs, Section, Setting, Step};

/// The frames of 1 GiB.
const GIB: u32 = 1 << 18;

/// What a program does with its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// All threads together allocate this many frames, each its share, and free them at the end.
    Whole(u32),
    /// Each thread runs processes, one after the other: a process allocates some frames and frees them when it
    /// ends. The number is geometrically distributed, with this mean.
    Processes(u32),
    /// Each thread allocates this many frames, and frees them at the end.
    Each(u32),
    /// Requests of a function, up to an order.
    By {
        program: fn(&Setting, u16) -> Program,
        largest: Order,
    },
}

/// A program that is measured elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    /// The name of the variant.
    pub(crate) name: &'static str,
    /// What it does, in a few words.
    pub(crate) summary: &'static str,
    pub(crate) shape: Shape,
    /// The cycles between two calls.
    pub(crate) pace: Pace,
    /// The requests that follow each other in a region; `None` if the paper does not say.
    pub(crate) runs: Option<Runs>,
}

/// Frames that all threads together allocate in a round of processes.
const ALLOCATED: u32 = 400_000;

/// The cycles between two frees, in all programs. Assumed: nearly all frees are made when a mapping or a process ends,
/// where the kernel does little else for each frame.
const FREE: u32 = 300;

/// The cycles between two allocations of a program that touches new memory and does nothing else. Assumed: a page fault
/// with a cleared frame, and the first write to all of it.
const TOUCH: u32 = 4000;

/// The cycles between two allocations of a program that makes this many requests per second on a machine of this many
/// MHz, of which half are frees.
const fn rate(mhz: u64, per_second: u64) -> Pace {
    Pace {
        allocate: (2 * mhz * 1_000_000 / per_second) as u32 - FREE,
        free: FREE,
    }
}

/// The pace of a program that makes this many thousand requests in this many seconds on the 2,930 MHz that \[iBuddy\]
/// states. The machine file has the clock of the processor, 2,933 MHz; the difference is 0.1 %.
const fn total(thousands: u64, seconds: u64) -> Pace {
    rate(2930, thousands * 1000 / seconds)
}

/// The pace of a program that touches new memory and does nothing else.
pub(crate) const TOUCHING: Pace = Pace {
    allocate: TOUCH,
    free: FREE,
};

const fn runs(allocate: u32, free: u32) -> Option<Runs> {
    Some(Runs { allocate, free })
}

/// Makes programs: the name, the summary, the shape, the pace and the runs of each.
macro_rules! published {
    ($($name:literal, $summary:literal, $shape:expr, $pace:expr, $runs:expr;)+) => {
        &[$(Published {
            name: $name,
            summary: $summary,
            shape: $shape,
            pace: $pace,
            runs: $runs,
        }),+]
    };
}
pub(crate) use published;

/// The programs of \[iBuddy\], table 1.
///
/// Section 6.1 gives memory and requests: 3 GiB and 1.5 million for stream, so that each frame is allocated and freed
/// once; 4 GiB and 2.1 million for sysbench; 32 million for ramspeed. Assumed: passes of 1 GiB in ramspeed, as in
/// \[Spring\]. The other three programs run many processes. Their size follows from the share of frames that a list
/// with a batch of 31 serves (figure 2, 11 to 73 %): unixbench has the largest (section 6.3). Assumed: the build has
/// the smallest, and dbench 40 %. The mean time between requests follows from their number and from durations that the
/// paper does not state. Assumed: 40 minutes of one thread for the build, 28 minutes for unixbench, 12 for dbench.
pub(crate) const IBUDDY: &[Published; 6] = published! {
    "ibuddy:stream", "3 GiB, written once", Whole(3 * GIB), TOUCHING, None;
    "ibuddy:sysbench-memory", "4 GiB, written once", Whole(4 * GIB), TOUCHING, None;
    "ibuddy:ramspeed", "a pass over 1 GiB", Whole(GIB), TOUCHING, None;
    "ibuddy:kernel-compile", "processes of 1,200 blocks on average", Processes(1200), total(95_000, 40 * 60), None;
    "ibuddy:unixbench", "processes of 105 blocks on average", Processes(105), total(1_500_000, 28 * 60), None;
    "ibuddy:dbench", "files of 270 blocks on average", Processes(270), total(99_000, 12 * 60), None;
};

/// The programs of \[Spring\], section IV-A.
///
/// This section and table II give memory, requests per second and the requests that follow each other in a region.
/// Assumed: the rates are those of one thread. If they were those of all 24, then a thread would make a request every
/// 65,000 cycles or more, and locks could not be contended as the paper reports. Assumed for linux-scalability and
/// threadtest, whose memory is not given: 1 GiB, and 100,000 objects of 1 KiB for each thread and iteration.
pub(crate) const SPRING: &[Published; 5] = published! {
    "spring:ramspeed", "a pass over 1 GiB", Whole(GIB), rate(2400, 400_000), runs(2265, 16_930);
    // Three arrays of 100 million numbers of 8 bytes.
    "spring:stream", "three arrays of 100 million numbers", Whole(585_938), rate(2400, 880_000), runs(122, 976);
    "spring:linux-scalability", "1 GiB of small objects", Whole(GIB), rate(2400, 260_000), runs(2500, 10_011);
    "spring:threadtest", "objects of 1 KiB, allocated and freed",
        Whole(24 * 25_000), rate(2400, 810_000), runs(6242, 74_249);
    "spring:sysbench", "blocks of 2 GiB, written once", Whole(2 * GIB), rate(2400, 350_000), runs(4836, 68_491);
};

impl Published {
    /// Creates the program of a thread.
    pub(crate) fn program(&self, setting: &Setting, thread: u16) -> Program {
        match self.shape {
            Shape::Whole(frames) => {
                let threads = u32::from(setting.threads.max(1));
                whole(setting, setting.count(frames) / threads)
            }
            // Not much shortened: what a list of a CPU serves depends on it.
            Shape::Each(frames) => whole(setting, setting.count(frames).max(frames / 8)),
            Shape::Processes(mean) => processes(setting, thread, mean),
            Shape::By { program, .. } => program(setting, thread),
        }
    }

    /// Returns the largest order that it requests.
    pub(crate) const fn largest(&self) -> Order {
        match self.shape {
            Shape::Whole(_) | Shape::Each(_) => Order::ZERO,
            Shape::Processes(_) => Mix::LARGEST,
            Shape::By { largest, .. } => largest,
        }
    }
}

/// A thread allocates frames, and frees them.
fn whole(setting: &Setting, frames: u32) -> Program {
    // A thread may hold the frames that another one is about to free, too.
    let blocks = frames.min(setting.share() / 2).max(1);
    Program::new(blocks, Vec::new(), move || {
        Section::fill_and_free(Order::ZERO, (0..blocks).collect()).to_vec()
    })
}

fn processes(setting: &Setting, thread: u16, mean: u32) -> Program {
    let threads = u32::from(setting.threads.max(1));
    let allocated = (setting.count(ALLOCATED) / threads).max(1);
    // With larger orders a process may hold twice as many frames as it has slots.
    let most = (8 * mean).min(setting.share() / 2).max(1);
    let mut random = Random::new(setting.seed, thread);
    Program::of_part(Part::Operation, most, Vec::new(), move || {
        let mut steps = Vec::new();
        let mut left = allocated;
        while left > 0 {
            // The last process is not cut: sizes stay what they are, however much is shortened.
            let blocks = size(&mut random, mean).min(most);
            left = left.saturating_sub(blocks);
            steps.extend((0..blocks).map(|slot| Step::Allocate {
                slot,
                size: Size::Order(Mix::Mostly.order(|limit| random.below(limit))),
            }));
            steps.extend((0..blocks).map(|slot| Step::Free { slot }));
        }
        Body::Steps(steps)
    })
}

/// Returns a geometrically distributed number of at least one.
pub(crate) fn size(random: &mut Random, mean: u32) -> u32 {
    let stop = 1.0 / f64::from(mean.max(2));
    let blocks = random.share().ln() / (1.0 - stop).ln();
    1 + (blocks as u32).min(u32::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> impl Iterator<Item = &'static Published> {
        IBUDDY.iter().chain(SPRING)
    }

    fn find(name: &str) -> Option<&'static Published> {
        programs().find(|own| own.name == name)
    }

    /// The share of single frames that do not cross the border of a list with a batch of 31 and a high watermark of
    /// 186.
    fn service_ratio(name: &str) -> f64 {
        let setting = Setting {
            frames: 4 * GIB,
            threads: 1,
            seed: 1,
            shrink: 1,
        };
        let mut program = find(name).unwrap().program(&setting, 0);
        let mut is_single = vec![false; program.slots() as usize];
        let (mut list, mut moved, mut calls) = (0i64, 0i64, 0i64);
        let sections = program.round();
        for step in sections.iter().flat_map(|section| section.body.steps()) {
            match step {
                Step::Allocate { slot, size } => {
                    is_single[slot as usize] = size == Size::Order(Order::ZERO);
                    if !is_single[slot as usize] {
                        continue;
                    }
                    if list == 0 {
                        (list, moved) = (31, moved + 31);
                    }
                    list -= 1;
                }
                Step::Free { slot } if is_single[slot as usize] => {
                    list += 1;
                    if list >= 186 {
                        (list, moved) = (list - 31, moved + 31);
                    }
                }
                _ => continue,
            }
            calls += 1;
        }
        1.0 - moved as f64 / calls as f64
    }

    #[test]
    fn lists_serve_the_share_that_the_paper_states() {
        for (name, share) in [
            ("ibuddy:stream", 0.0..0.01),
            ("ibuddy:sysbench-memory", 0.0..0.01),
            ("ibuddy:ramspeed", 0.0..0.01),
            ("ibuddy:kernel-compile", 0.09..0.13),
            ("ibuddy:unixbench", 0.71..0.75),
            ("ibuddy:dbench", 0.38..0.42),
        ] {
            let own = service_ratio(name);
            assert!(share.contains(&own), "{name}: {own}");
        }
    }

    #[test]
    fn programs_make_as_many_requests_as_the_paper_states() {
        let setting = Setting {
            frames: 32 * GIB,
            threads: 8,
            seed: 1,
            shrink: 1,
        };
        let requests = |name: &str| -> u64 {
            let each = (0..8).map(|thread| {
                let mut program = find(name).unwrap().program(&setting, thread);
                let sections = program.round();
                sections
                    .iter()
                    .map(|own| own.body.operations())
                    .sum::<u64>()
            });
            each.sum()
        };
        let near = |name: &str, paper: f64| {
            let own = requests(name) as f64;
            assert!((own / paper - 1.0).abs() < 0.06, "{name}: {own}");
        };
        near("ibuddy:stream", 1.5e6);
        near("ibuddy:sysbench-memory", 2.1e6);
        // 61 passes.
        near("ibuddy:ramspeed", 3.2e7 / 61.0);
    }

    #[test]
    fn the_pace_is_the_papers_rate() {
        for (name, per_second) in [
            ("spring:ramspeed", 4.0e5),
            ("spring:stream", 8.8e5),
            ("spring:linux-scalability", 2.6e5),
            ("spring:threadtest", 8.1e5),
            ("spring:sysbench", 3.5e5),
        ] {
            let pace = find(name).unwrap().pace;
            let own = 2.0 * 2.4e9 / f64::from(pace.allocate + pace.free);
            assert!((own / per_second - 1.0).abs() < 0.001, "{name}: {own}");
        }
    }

    #[test]
    fn processes_have_the_same_sizes_on_any_number_of_threads() {
        let mean = |threads, shrink| {
            let setting = Setting {
                frames: 32 * GIB,
                threads,
                seed: 3,
                shrink,
            };
            let (mut blocks, mut processes) = (0, 0);
            for thread in 0..threads {
                let mut program = find("ibuddy:kernel-compile")
                    .unwrap()
                    .program(&setting, thread);
                for section in program.round() {
                    let steps: Vec<Step> = section.body.steps().collect();
                    let is_begin = |step: &Step| matches!(step, Step::Allocate { slot: 0, .. });
                    processes += steps.iter().filter(|step| is_begin(step)).count();
                    blocks += steps.len() / 2;
                }
            }
            blocks as f64 / processes as f64
        };
        // The process that ends a round is longer than others: the more so, the fewer there are.
        assert!((mean(1, 1) / 1200.0 - 1.0).abs() < 0.1, "{}", mean(1, 1));
        assert!(mean(32, 8) >= 0.9 * 1200.0, "{}", mean(32, 8));
    }

    #[test]
    fn a_program_fits_its_memory_and_frees_all() {
        for (frames, threads) in [(4096, 4), (1 << 20, 24)] {
            let setting = Setting {
                frames,
                threads,
                seed: 2,
                shrink: 100,
            };
            for own in programs() {
                let mut program = own.program(&setting, 1);
                let (mut held, mut most) = (vec![0; program.slots() as usize], 0);
                for section in program.round().iter().chain(&program.round()) {
                    for step in section.body.steps() {
                        match step {
                            Step::Allocate { slot, size } => {
                                let Size::Order(order) = size else {
                                    panic!("{size:?}")
                                };
                                assert_eq!(held[slot as usize], 0);
                                held[slot as usize] = order.frames();
                            }
                            Step::Free { slot } => held[slot as usize] = 0,
                            other => panic!("{other:?}"),
                        }
                        let now = held.iter().sum::<u32>();
                        most = most.max(now);
                    }
                }
                // Larger orders are rare, so a process hardly exceeds its slots.
                let share = frames / u32::from(threads);
                assert!(most > 0 && most <= share, "{}: {most}", own.name);
                assert!(held.iter().all(|frames| *frames == 0), "{}", own.name);
            }
        }
    }
}
