//! The definition of each number, on the page itself.
//!
//! # Purpose
//!
//! Readers do not look up a number whose definition is elsewhere; they guess.
//!
//! # Invariants
//!
//! Every anchor that a figure or the table links to is defined here, once. A page without systems has only the
//! definitions of the traces' own numbers.

use maud::{Markup, PreEscaped, html};

use crate::report::Report;

/// Anchor, name, formula (as HTML, may be empty), explanation.
type Definition = (&'static str, &'static str, &'static str, &'static str);

/// Definitions for pages with systems.
const OF_SYSTEMS: &[Definition] = &[
    (
        "def-latency",
        "Latency",
        "mean = (Σ <i>t</i>(segment) − segments × timer) / calls",
        "The time of a call alone: looking up the block, waiting for other threads and noting results lie outside. \
         Means come from segments of up to 64 calls in one direction; percentiles, the longest and each single time \
         come from calls timed one by one, less the timer’s median cost. pN: so many of 100 (or 1,000) calls took at \
         most this; a time that occurred. On one thread, each call counts with the median of its repetitions, so a \
         thread that was switched out is not in it, and what the allocator does in every round is.",
    ),
    (
        "def-timer",
        "Timer and its floor",
        "floor = p99.9 − p0.1 of empty measurements",
        "The clock is the processor’s time stamp counter. A single time up to the floor can’t be told from nothing: \
         tables show it as ≤, charts shade it.",
    ),
    (
        "def-throughput",
        "Throughput",
        "calls of the trace / time of the whole replay",
        "A pass of its own, almost without timestamps. The replay’s own work and waiting are included.",
    ),
    (
        "def-service",
        "Service ratio (served)",
        "1 − frames that crossed / order-0 calls",
        "Frames cross the border between a CPU’s list and the core when a list is refilled or drained, and when they \
         go past it one by one. Negative if more move than are asked for. 0 without lists.",
    ),
    (
        "def-miss",
        "Miss rate",
        "order-0 calls that entered the core / order-0 calls",
        "Refills, drains and calls that go past the list. Not 1 − service ratio: a refill is one miss and moves a \
         whole batch. 100 % without lists.",
    ),
    (
        "def-residual",
        "Residual (left)",
        "mean of frames in the CPU’s list at the end of a run",
        "A run here is at least two requests for single frames on one CPU, of one task, region and direction, with no \
         pause above 1 ms. What is left after it was fetched for nothing, or waits for nobody. 0 without lists.",
    ),
    (
        "def-locks",
        "Locks",
        "1,000 × locks taken / calls",
        "Counted in a pass that is not timed.",
    ),
    (
        "def-contention",
        "Contention rate",
        "contended calls / calls; of visits: contended visits / visits of the core",
        "A call is contended if at least one lock was not had at once, or if the CPU waited for a part of a domain. \
         Systems with good lists visit the core seldom, so the second rate says how the core does when it is asked. \
         It varies from run to run.",
    ),
    (
        "def-blocks",
        "Free 4 MiB blocks",
        "⌊frames in free blocks of order ≥ 10 / 1,024⌋",
        "Blocks that could be given at once, without touching any list; sampled about 200 times.",
    ),
    (
        "def-unusable",
        "Unusable free space index",
        "F(<i>j</i>) = 1 − Σ<sub><i>i</i> ≥ <i>j</i></sub> <i>k<sub>i</sub></i> 2<sup><i>i</i></sup> / free frames",
        "k<sub>i</sub> is the number of free blocks of order i. Frames in lists count as free and as unusable. 0: all \
         free memory can serve an order j; 1: none can.",
    ),
    (
        "def-domains",
        "Domains",
        "",
        "Parts that free memory is divided into; blocks of different parts never merge. 1 for one zone, the number of \
         spaces for spaces, and changing where domains are elastic.",
    ),
    (
        "def-buffered",
        "Frames kept in lists",
        "",
        "Frames that the lists of all CPUs hold at a moment: free, but not for others, and no part of a larger block.",
    ),
    (
        "def-refused",
        "Refused",
        "",
        "Requests for which no block was found, although the trace’s program got its memory.",
    ),
    (
        "def-metadata",
        "Metadata (B/frame)",
        "all metadata of the system / managed frames",
        "",
    ),
    (
        "def-map",
        "Maps of memory",
        "",
        "Every managed frame at a moment of the replay, 1,024 frames a row. By owner: the program whose task made the \
         allocation; frames kept in lists are neither free nor in use. By order: the size of the block that a frame \
         is in, 2<sup>order</sup> frames.",
    ),
];

/// Definitions of the statistics of a trace.
const OF_TRACES: &[Definition] = &[
    (
        "def-trace",
        "Trace statistics",
        "",
        "Of the calls alone, whatever serves them. An order is a block’s size: 2<sup>order</sup> frames of 4 KiB. A \
         life is the time from an allocation to its free, one for each free; blocks that are never freed have none.",
    ),
    (
        "def-runs",
        "Run",
        "share of length 2<sup>i</sup> = calls in runs of 2<sup>i</sup> to 2<sup>i+1</sup> − 1 / calls",
        "Successive calls of one task in one direction, whoever else calls in between. By region: for one address \
         region, where known; calls without a known region are left out and end no run.",
    ),
];

/// Returns the name of the definition at an anchor, as it appears in a sentence.
pub(crate) fn name(anchor: &str) -> String {
    let definition = OF_SYSTEMS.iter().find(|one| one.0 == anchor);
    let mut letters = definition.map_or("", |one| one.1).chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// Renders the appendix.
pub(crate) fn appendix(report: &Report, systems: bool) -> Markup {
    let of_systems = if systems { OF_SYSTEMS } else { &[] };
    html! {
        section.definitions #definitions aria-labelledby="definitions-title" {
            h2 #definitions-title { "Definitions" }
            @if systems {
                p {
                    "All systems perform exactly the calls of the trace, each pass on a newly built system. Counts \
                     come from a separate pass. Frames are never touched, so cache misses are rarer than in a kernel."
                    @if report.timer_floor_ns > 0.0 {
                        " The timer’s floor on this machine: " (format!("{:.0}", report.timer_floor_ns)) " ns."
                    }
                }
            }
            dl {
                @for (anchor, name, formula, words) in of_systems.iter().chain(OF_TRACES) {
                    div id=(anchor) tabindex="-1" {
                        dt { (name) }
                        @if !formula.is_empty() { dd.formula { (PreEscaped(formula)) } }
                        @if !words.is_empty() { dd { (PreEscaped(words)) } }
                    }
                }
            }
        }
    }
}
