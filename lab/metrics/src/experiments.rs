//! The metrics that only experiments measure.
//!
//! As `table`, apart from it because the two together would be too long a file.
//!
//! # Invariants
//! As `table`.

use crate::Better::{Higher, Lower, Neither};
use crate::Group::Experiment;
use crate::table::{OF_COUNTS, VALUE, metrics};
use crate::{Metric, SHARE};

/// Statistics of a ratio, with every seed or in every round.
const RATIOS: &[&str] = &["mean", "ci95", "p50", "min", "max"];

/// Statistics of something that every round has, with the rounds themselves.
const ROUNDS: &[&str] = &["p50", "min", "max", "value"];

metrics! {
    /// Mean time of an allocation, a free, or both (`all`), in cycles, as papers print it.
    Experiment, "cycles", "cycles", "cycles", Lower, &["mean"], "latency * clock of the simulated machine";
    /// Time of the experiment's examined system in units of this system's time; below 1 if the examined one is faster.
    Experiment, "relative_time", "relative time", "1", Neither, &["mean"],
        "mean latency of the examined system / mean latency of this one";
    /// Of all pairs of systems that a paper's table puts into an order, at the same load and number of CPUs, the
    /// share that is in the same order here. Pairs whose numbers in the paper differ by at most 5% do not count. `A
    /// against B` counts that pair of systems only. `one fixed order` is a trivial predictor, the order of the systems'
    /// means.
    Experiment, "orders_kept", "orders kept", SHARE, Higher, &["rate", "count"], "pairs in the same order / pairs";
    /// Error over all cells of a paper's table; 0.1 is about 10%, and 1.6 a factor of 5. `scaled`: after the one
    /// factor that makes it smallest, so that only the shape is judged. A subject `A as B` is a trivial predictor: it
    /// takes what is simulated for B as the prediction for A.
    Experiment, "log_error", "log error", "1", Lower, &["value", "scaled"], "sqrt(mean (ln(here / paper))^2)";
    /// Refills (`allocate`) and drains (`free`) of per-CPU lists: their number, and the frames that each moves. Bulk
    /// calls during one call of a program count once, with their mean.
    Experiment, "bulk_frames", "frames moved", "frames", Neither, &["count", "mean", "stddev"],
        "stddev = sqrt(sum n^2 / count - mean^2)";
    /// Order of the call during which a list was refilled or drained. Lists that keep single frames only move blocks
    /// of order 0; lists of several orders drain in turns, starting with this one.
    Experiment, "bulk_order", "order moved", "1", Neither, &["count", "mean", "stddev"];
    /// The share of memory that is free when a request is refused; the mean over all refusals.
    Experiment, "external_fragmentation", "free when refused", SHARE, Lower, &["mean", "ci95"],
        "units in free blocks / units of memory";
    /// The share of memory without requested data when a request is refused: free memory, and what rounding adds to
    /// live blocks. The mean over all refusals.
    Experiment, "total_fragmentation", "lost when refused", SHARE, Lower, &["mean", "ci95"],
        "1 - units asked for and live / units of memory";
    /// From when a lock is wanted to when it is acquired; median of the rounds, with the mean of each round in a row
    /// of its own. The timer's mean cost is subtracted from the mean; the standard deviation contains the timer's
    /// own.
    Experiment, "lock_wait", "lock wait", "ns", Lower, &["mean", "stddev"];
    /// From when a lock is acquired to when it is released; median of the rounds, with the mean of each round in a
    /// row of its own. The timer's mean cost is subtracted from the mean; the standard deviation contains the timer's
    /// own. A lock that is released between two blocks of a batch counts as two acquisitions.
    Experiment, "lock_hold", "lock hold", "ns", Lower, &["mean", "stddev"];
    /// Time that a call spends waiting for locks and holding them: of all CPUs together, per call. It is what a hold
    /// policy trades: a lock that is released more often is held for a shorter time, and acquired more often.
    Experiment, "lock_time", "lock time", "ns", Lower, ROUNDS, "(waits + holds) / calls";
    /// Acquisitions of locks per call. With `hold=when-contended` the number varies with the other load.
    Experiment, "acquisitions_per_call", "locks per call", "1", Lower, ROUNDS, "acquisitions / calls";
    /// Time from the first call of a replay to the last, per call of all threads. Waiting and the replay's own work
    /// are included.
    Experiment, "replay_time", "replay time", "ns", Lower, ROUNDS, "time of the whole replay / calls";
    /// How many times as fast a call is as with the experiment's base, the first system or `lbs-31`, in the same
    /// round.
    Experiment, "speedup", "speedup", "1", Higher, ROUNDS, "time of a call of the base / time of a call";
    /// Share of the requests that are for a single frame (iBuddy, figure 3).
    Experiment, "single_frames", "single frames", SHARE, Neither, VALUE, "requests of order 0 / requests";
    /// Waits and holds above 50 us, which are left out: a thread was switched out. Median of the rounds.
    Experiment, "locks_disturbed", "left out", "1", Lower, &["count"];
    /// Share of memory that was asked for, granted and not yet freed, over 200 samples.
    Experiment, "live_share", "live", SHARE, Higher, &["mean"], "frames asked for and live / frames managed";
    /// Share of a fresh memory, from which nothing is freed, that is allocated when the first request is refused;
    /// mean of 10 seeds.
    Experiment, "peak_frames", "peak", SHARE, Higher, &["rate"];
    /// Requests that found no block of their order and broke a larger one, of as many as the source names, and their
    /// share of these requests.
    Experiment, "broken_blocks", "broken blocks", SHARE, Lower, &["count", "rate"];
    /// Blocks split before the first request, because memory is divided beforehand.
    Experiment, "start_splits", "splits at the start", "1", Lower, &["count"];
    /// `stages`: what a stage changes. Above 0 memory is more fragmented when the stage ends than when it began.
    Experiment, "fragmentation_change", "change", "1", Neither, &["mean"],
        "fragmentation rate at the end of the stage - at the end of the stage before";
    /// Share of a list's predictions that were longer than the rest of the run.
    Experiment, "prediction_excess", "too long", SHARE, Neither, VALUE,
        "predictions with predicted > came / predictions";
    /// What a predicting list leaves when runs end, in units of what a list of fixed length leaves (Spring Buddy,
    /// figure 11). The system names that length after the `/`. `chosen elsewhere` is the variant that comes nearest
    /// to the figure on the other traces.
    Experiment, "residual_ratio", "residual ratio", "1", Neither, VALUE,
        "residual of the list / residual of a list of fixed length";
    /// How many times as long the runs of frees of a trace are as its runs of allocations, on average over runs
    /// (Spring Buddy, table II).
    Experiment, "run_length_ratio", "frees / allocations", "1", Neither, VALUE,
        "mean run of frees / mean run of allocations";
    /// By how many doublings a list's prediction is wrong, and the number of predictions. `came` is the number of
    /// single frames of the same run from this call on.
    Experiment, "prediction_error", "error", "1", Lower, &["mean", "count"], "|log2((predicted + 1) / (came + 1))|";
    /// Operations of a call on free blocks. `rate`: the share of the calls with as many as the number after `@`.
    Experiment, "operations", "operations", "1", Lower, OF_COUNTS, "list operations + map operations";
    /// Blocks split and pairs of buddies coalesced, per call.
    Experiment, "splits_and_coalescings", "splits + coalescings", "1", Lower, &["mean"];
    /// Most coalescings of one free N orders above the freed block, N being the row's order; expected: 2^(N + 1).
    /// Without an order: at any order; expected: 2. Source `search`: of the worst free that was found.
    Experiment, "delays_per_class", "delays per class", "1", Lower, &["max"];
    /// Operations of a system / those of `bs` with the same seed.
    Experiment, "operations_over_bs", "operations / bs", "1", Lower, &["mean", "ci95"];
    /// Operations of a system / those of `watermark` with the same seed.
    Experiment, "operations_over_watermark", "operations / watermark", "1", Lower, &["mean", "ci95"];
    /// Mean latency of a system / that of `bs` with the same seed or in the same round.
    Experiment, "latency_over_bs", "latency / bs", "1", Lower, RATIOS;
    /// Median time of a dependent load from a cache line that another core wrote last.
    Experiment, "line_transfer", "line", "ns", Lower, &["p50"];
    /// (Mean latency of a system - that of `bs` in the same round) / `line_transfer`.
    Experiment, "latency_in_transfers", "more than bs", "1", Lower, RATIOS;
    /// Mean latency of a system / that of `watermark` with the same seed.
    Experiment, "latency_over_watermark", "latency / watermark", "1", Lower, &["mean", "ci95"];
    /// Time of a call if each call and each operation on lists and on the map has a fixed cost. Both costs are fitted
    /// on two means that the source printed.
    Experiment, "predicted_latency", "predicted latency", "ns", Neither, &["mean", "stddev", "published"];
    /// Mean latency with the calls that were interrupted: those above 50 us, whose thread was switched out or waited
    /// for one that was.
    Experiment, "latency_disturbed", "latency, all", "ns", Lower, &["mean"];
    /// Share of the calls that were interrupted; median of the rounds.
    Experiment, "calls_disturbed", "interrupted", SHARE, Lower, &["rate"];
    /// Time of all services together per operation of the trace, or per pair, without interrupted units.
    Experiment, "background_work", "background work", "ns", Lower, &["mean"];
    /// The callers' mean latency + background work, per operation or per pair.
    Experiment, "total_work", "total work", "ns", Lower, &["mean"];
    /// Total work of a system / that of `bs` in the same round.
    Experiment, "total_work_over_bs", "total work / bs", "1", Lower, RATIOS;
    /// The arena size at which `bs` refuses as often as in the paper, under M/M/m.
    Experiment, "arena", "arena", "B", Neither, VALUE;
    /// Requests refused in a run, of 74,000 or as many as the source names; `rate`: the share of the runs that refuse
    /// no more than the paper's share. `emulation`: in the whole run.
    Experiment, "refusals", "refusals", "1", Lower, &["mean", "ci95", "p5", "p50", "p95", "rate"];
    /// Memory that is used when it grows by 256 bytes whenever a request needs it.
    Experiment, "peak_memory", "peak memory", "B", Lower, &["mean", "ci95"];
    /// Peak memory of a system / that of `bs` on the same calls.
    Experiment, "peak_memory_ratio", "peak / bs", "1", Lower, &["mean", "ci95", "max"];
    /// Peak memory of a system minus that of `bs`, in the worst run.
    Experiment, "peak_memory_excess", "peak - bs", "B", Lower, &["max"];
    /// Reads and writes of words that the store of free blocks keeps, per call of the function itself; `all`: per
    /// iteration of the main loop; `allocate`, `free`: per call, of all words that the system shares. Passing a node
    /// of a queue is one step, of a tree one or two.
    Experiment, "steps", "steps", "1", Lower, &["mean", "ci95", "p99", "p999", "max"];
    /// Steps of merging first / steps of splitting first, with the same seed.
    Experiment, "steps_ratio", "steps ratio", "1", Neither, &["mean", "ci95"], "case 2 / case 1";
    /// Time of merging first / time of splitting first, in the same round; expected: the paper's.
    Experiment, "time_ratio", "time ratio", "1", Neither, &["mean", "ci95"], "case 2 / case 1";
    /// How often a thread that looks 100 times a second finds the function running; expected: the paper's profile.
    Experiment, "time_share", "share of time", SHARE, Neither, &["rate"];
    /// Memory that the monitor withdrew and that the guest has not accessed again, times the seconds. Never touched
    /// memory does not count.
    Experiment, "given_back", "given back", "GiB s", Higher, &["mean", "ci95"], "sum of withdrawn GiB * time";
    /// `given_back` as a share of what a guest could give back at best: without any delay, frame by frame.
    Experiment, "given_share", "given back", SHARE, Higher, &["mean", "ci95"],
        "given back / (GiB that are free and were accessed * time)";
    /// Withdrawn memory that the guest allocates again, so that the monitor must provide it again, by frames.
    Experiment, "faulted_again", "faulted again", "GiB", Lower, &["mean", "ci95"];
    /// Blocks that the guest reports to the monitor.
    Experiment, "report_calls", "reports", "1", Lower, &["mean", "ci95"];
    /// Memory that is faulted again with the short delay / with the long one; expected: faults of the source's
    /// monitor per round.
    Experiment, "fault_ratio", "faults ratio", "1", Neither, &["mean", "ci95"], "faults at 250 ms / faults at 2 s";
}
