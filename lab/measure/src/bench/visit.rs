//! One visit: a workload on a new allocator, on its threads.
//!
//! All rules for preparing threads, synchronizing them and validating sections are in this module.
//!
//! Sections are repeated on the same memory; the first round warms up. A section is valid if no thread was switched
//! out during it, all CPUs were [`Steady`] before and after it, and the threads overlapped for at least half of the
//! longest time. Otherwise its round is repeated, up to a limit.
//!
//! # Invariants
//! All threads run the same number of rounds, based on the observations of all threads.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use everybuddy::Order;
use everybuddy_workload::{Part, Section, Setting, Variant};

use super::contender::Contender;
use super::meeting::Meeting;
use super::perform::{Belt, Pot, Stamps, Tools, Work, requests};
use super::round_trip::Line;
use crate::refusals::Refusals;
use crate::replay::background_load;
use crate::replay::clock::Timer;
use crate::replay::steady::Steady;
use crate::touched::Touched;

/// Orders whose blocks are counted at the end.
pub const LARGE_ORDERS: [u8; 2] = [9, 10];

/// The parameters of a visit.
#[derive(Clone, Copy)]
pub(crate) struct Visit<'v> {
    pub(crate) variant: &'v Variant,
    pub(crate) setting: Setting,
    pub(crate) timer: &'v Timer,
    /// The number of valid rounds to measure.
    pub(crate) repeats: u32,
    /// Whether the first round only warms up, and disturbed rounds are repeated.
    pub(crate) is_timed: bool,
    /// Nanoseconds after which a section that can end anywhere is ended.
    pub(crate) budget: f64,
    /// The memory behind the frames, if they are used.
    pub(crate) touched: Option<&'v Touched>,
}

/// The result of a visit.
#[derive(Clone, Debug, Default)]
pub struct Visited {
    /// Nanoseconds per item of each valid section, by part: elapsed, and of CPU time, NaN if that is unknown.
    pub times: Vec<(Part, [f64; 2])>,
    /// The same for invalid sections.
    pub disturbed: Vec<(Part, [f64; 2])>,
    /// The regions of 2 MiB that the last working set spans, over the fewest.
    pub spread: Option<f64>,
    /// Nanoseconds of a cache line from the first thread to the second one and back; `None` with one thread.
    pub round_trip: Option<f64>,
    /// Operations per item: two for a pair by one thread.
    pub operations: f64,
    /// Requests in all rounds, and those that failed.
    pub refusals: Refusals,
    /// Failed frees, 0 unless the allocator is broken.
    pub failed: u64,
    /// Blocks of the [`LARGE_ORDERS`] orders that could still be allocated at the end.
    pub large_blocks: Vec<(u8, u64)>,
    /// Bytes of metadata, if known.
    pub metadata_bytes: Option<usize>,
}

/// One section as observed by one thread.
struct Seen {
    part: Part,
    stamps: Stamps,
    cpu: f64,
    /// Whether the thread was switched out, or its CPU was not steady.
    was_disturbed: bool,
}

/// The results of one thread.
#[derive(Default)]
struct ThreadResult {
    /// The sections of each round.
    rounds: Vec<Vec<Seen>>,
    refusals: Refusals,
    failed: u64,
    operations: f64,
    round_trip: Option<f64>,
    large_blocks: Vec<(u8, u64)>,
}

impl Visit<'_> {
    /// The maximum number of attempted rounds per valid round.
    const MAX_RETRIES: u32 = 4;

    fn warm(&self) -> u32 {
        u32::from(self.is_timed && !self.variant.counts_large_blocks)
    }

    fn most(&self) -> u32 {
        if self.is_timed && !self.variant.counts_large_blocks {
            1 + self.repeats * Self::MAX_RETRIES
        } else {
            self.repeats
        }
    }
}

impl Visit<'_> {
    /// Runs the workload. Returns `None` if the contender cannot run it, and an error if a thread failed.
    pub(crate) fn call(&self, contender: &dyn Contender) -> Option<Result<Visited, &'static str>> {
        if self.variant.largest > contender.max_order() {
            return None;
        }
        let threads = self.setting.threads;
        let meeting = Meeting::new(threads);
        let belts: Vec<Belt> = (0..threads.div_ceil(2)).map(|_| Belt::new()).collect();
        let pot = Pot::default();
        let line = Line::default();
        let disturbed: Vec<AtomicBool> = (0..self.most()).map(|_| AtomicBool::new(false)).collect();
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let work = |number: u16| {
            if let Some(core) = cores.get(usize::from(number)) {
                core_affinity::set_for_current(*core);
            }
            let belt = &belts[usize::from(number / 2)];
            let (timer, pot, touched) = (self.timer, &pot, self.touched);
            let tools = Tools {
                timer,
                belt,
                pot,
                touched,
            };
            self.work(contender, number, (&meeting, &line), tools, &disturbed)
        };
        let thread_results: Option<Vec<ThreadResult>> = thread::scope(|scope| {
            let work = &work;
            let spawn = |number| scope.spawn(move || work(number));
            let threads: Vec<_> = (0..threads).map(spawn).collect();
            let joined = threads.into_iter().map(|t| t.join().ok().flatten());
            // All threads are joined, even after a failure.
            joined.collect::<Vec<_>>().into_iter().collect()
        });
        let thread_results = thread_results.ok_or("a thread of the benchmark failed");
        Some(thread_results.map(|thread_results| {
            let mut visited = self.sum_up(&thread_results);
            visited.metadata_bytes = contender.metadata_bytes();
            visited
        }))
    }

    /// Waits for the other threads, if any, and allows them to drain this thread's lists.
    fn wait(&self, worker: &mut dyn Work, meeting: &Meeting) -> Option<()> {
        if self.setting.threads == 1 {
            return Some(());
        }
        worker.park();
        meeting.meet()
    }

    /// Runs one thread.
    fn work(
        &self,
        contender: &dyn Contender,
        number: u16,
        (meeting, line): (&Meeting, &Line),
        tools: Tools<'_>,
        disturbed: &[AtomicBool],
    ) -> Option<ThreadResult> {
        let guard = meeting.guard();
        let mut program = self.variant.program(&self.setting, number);
        let mut worker = contender.worker(number, program.slots(), tools)?;
        for turn in 0..self.setting.threads {
            if turn == number {
                for body in program.prepare() {
                    worker.perform(body, u64::MAX);
                }
            }
            worker.park();
            meeting.meet()?;
        }
        for body in program.settle() {
            worker.perform(body, u64::MAX);
            worker.park();
            meeting.meet()?;
        }
        worker.take_counts();
        let mut thread_result = ThreadResult::default();
        match number {
            _ if !self.is_timed || self.setting.threads == 1 => {}
            0 => thread_result.round_trip = Some(line.send(self.timer, meeting)?),
            1 => line.answer(meeting)?,
            _ => {}
        }
        worker.watch(true);
        let budget = self.timer.ticks(self.budget);
        let steady = self.is_timed.then(|| Steady::on(usize::from(number)));
        let is_steady = || steady.is_none_or(Steady::is_steady);
        let mut counted = 0;
        let mut round = 0;
        while round < self.most() && counted < self.repeats {
            let sections = program.round();
            let mut seen = Vec::with_capacity(sections.len());
            let mut is_calm = is_steady();
            for section in &sections {
                thread_result.operations = operations_per_item(section);
                let before = background_load::switches();
                self.wait(&mut *worker, meeting)?;
                let start = background_load::cpu_time();
                let stamps = worker.perform(&section.body, budget);
                let cpu = background_load::cpu_time() - start;
                let requests = requests(&section.body, &stamps);
                thread_result.refusals.requests.join(&requests);
                let was_switched = background_load::switches() != before;
                let was_steady = std::mem::replace(&mut is_calm, is_steady());
                let was_disturbed = was_switched || !was_steady || !is_calm;
                if was_disturbed {
                    // Relaxed: read after the next barrier.
                    disturbed[round as usize].store(true, Ordering::Relaxed);
                }
                seen.push(Seen {
                    part: section.part,
                    stamps,
                    cpu,
                    was_disturbed,
                });
            }
            thread_result.rounds.push(seen);
            self.wait(&mut *worker, meeting)?;
            let is_warm_up = round < self.warm();
            if !is_warm_up && (!self.is_timed || !disturbed[round as usize].load(Ordering::Relaxed))
            {
                counted += 1;
            }
            round += 1;
        }
        worker.watch(false);
        let (requests, refused) = worker.take_counts();
        debug_assert_eq!(requests, thread_result.refusals.requests.total());
        thread_result.refusals.refused = refused;
        if self.variant.counts_large_blocks && number == 0 {
            let orders = LARGE_ORDERS.iter().filter_map(|order| Order::new(*order));
            for order in orders.filter(|order| *order <= contender.max_order()) {
                thread_result
                    .large_blocks
                    .push((order.get(), worker.count_large_blocks(order)));
            }
        }
        worker.park();
        meeting.meet()?;
        worker.clear();
        thread_result.failed = worker.finish();
        guard.disarm();
        Some(thread_result)
    }

    fn sum_up(&self, thread_results: &[ThreadResult]) -> Visited {
        let mut visited = Visited::default();
        for thread_result in thread_results {
            visited.refusals.join(&thread_result.refusals);
            visited.failed += thread_result.failed;
            visited.large_blocks.extend(&thread_result.large_blocks);
        }
        let Some(first) = thread_results.first() else {
            return visited;
        };
        visited.operations = first.operations;
        visited.round_trip = first.round_trip;
        for (round, sections) in first.rounds.iter().enumerate().skip(self.warm() as usize) {
            for (index, section) in sections.iter().enumerate() {
                let all: Vec<&Seen> = thread_results
                    .iter()
                    .map(|h| &h.rounds[round][index])
                    .collect();
                let (nanos, is_together) = together(&all, self.timer);
                let Some(nanos) = nanos else { continue };
                let is_calm = is_together && !all.iter().any(|seen| seen.was_disturbed);
                let times = if is_calm {
                    &mut visited.times
                } else {
                    &mut visited.disturbed
                };
                times.push((section.part, [nanos, self.cpu(&all)]));
                visited.spread = section.stamps.spread.or(visited.spread);
            }
        }
        visited
    }
}

impl Visit<'_> {
    /// Returns the CPU time per item of a section, over all threads. Making caches cold would count.
    fn cpu(&self, all: &[&Seen]) -> f64 {
        let items = |seen: &&Seen| {
            seen.stamps
                .marks
                .iter()
                .map(|mark| f64::from(mark.1))
                .sum::<f64>()
        };
        match self.touched {
            Some(memory) if memory.is_cold() => f64::NAN,
            _ => all.iter().map(|seen| seen.cpu).sum::<f64>() / all.iter().map(items).sum::<f64>(),
        }
    }
}

fn operations_per_item(section: &Section) -> f64 {
    use everybuddy_workload::Body;
    match section.body {
        Body::Pairs { .. } | Body::Batches { .. } | Body::Replace { .. } => 2.0,
        Body::Touch { .. } if section.part == Part::Pair => 2.0,
        _ => 1.0,
    }
}

/// Returns the nanoseconds per item while all threads were running, and whether that was at least half of the longest
/// time.
fn together(all: &[&Seen], timer: &Timer) -> (Option<f64>, bool) {
    let ends = |seen: &&Seen| {
        let marks = &seen.stamps.marks;
        Some((marks.first()?.0, marks.last()?.0))
    };
    let spans: Option<Vec<(u64, u64)>> = all.iter().map(ends).collect();
    let Some(spans) = spans else {
        return (None, false);
    };
    let start = spans.iter().map(|span| span.0).max().unwrap_or(0);
    let end = spans.iter().map(|span| span.1).min().unwrap_or(0);
    let longest = spans.iter().map(|span| span.1 - span.0).max().unwrap_or(0);
    let is_together = end.saturating_sub(start) * 2 >= longest;
    let within = |window: RangeInclusive<u64>| {
        let (mut ticks, mut items, mut marks) = (0, 0, 0);
        for seen in all {
            for pair in seen.stamps.marks.windows(2) {
                if window.contains(&pair[0].0) && window.contains(&pair[1].0) {
                    ticks += pair[1].0 - pair[0].0;
                    items += u64::from(pair[1].1);
                    marks += 1;
                }
            }
        }
        let nanos = timer.sum(ticks as f64, marks);
        (items > 0).then(|| nanos / items as f64)
    };
    match within(start..=end) {
        Some(nanos) if is_together => (Some(nanos), true),
        _ => (within(0..=u64::MAX), false),
    }
}
