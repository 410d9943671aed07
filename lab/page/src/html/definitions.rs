//! The definition of each number, on the page itself.
//!
//! Readers do not look up a number whose definition is elsewhere; they guess.
//!
//! # Invariants
//! Every anchor that a figure or the table links to is defined here, once. A page without systems has only the
//! definitions of the traces' own numbers.

use maud::{Markup, PreEscaped, html};

use everybuddy_metrics::{Group, METRICS, Metric};

use crate::report::Report;

/// Anchor, name, formula (as HTML, may be empty), words.
type Definition = (&'static str, &'static str, &'static str, &'static str);

/// Definitions besides those of metrics that only apply to systems.
const OF_SYSTEMS: &[Definition] = &[
    (
        "def-timer",
        "Timer and its floor",
        "floor = p99.9 − p0.1 of empty measurements",
        "The clock is the processor’s time stamp counter. A single time up to the floor can’t be told from nothing: \
         tables show it as ≤, charts shade it.",
    ),
    (
        "def-map",
        "Maps of memory",
        "",
        "Every managed frame at a moment of the replay, 1,024 frames per row. A dashed line stands for eight or more \
         empty rows. By owner: the program whose task made the allocation; frames kept in lists are neither free nor \
         in use. By order: the size of the block that a frame is in, 2<sup>order</sup> frames. By owners in its 2 MiB: \
         how many processes have frames in the same region; what is in use from the start is one more.",
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
        "Successive calls of one task in one direction; other tasks may call in between. By region: for one address \
         region, where known; calls without a known region are left out and end no run.",
    ),
];

/// Returns the metrics that the page shows of systems.
fn metrics() -> impl Iterator<Item = &'static Metric> {
    let is_shown = |group| [Group::Time, Group::Inside, Group::Memory].contains(&group);
    METRICS.iter().filter(move |metric| is_shown(metric.group))
}

/// Returns the name of a metric as in a sentence.
pub(crate) fn name(metric: &str) -> String {
    metric.replace('_', " ")
}

/// Renders a sentence; what stands in back quotes is code.
pub(crate) fn words(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
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
                     come from a separate pass."
                    @if report.timer_floor_ns > 0.0 {
                        " The timer’s floor on this machine: " (format!("{:.0}", report.timer_floor_ns)) " ns."
                    }
                }
            }
            dl {
                @if systems {
                    @for metric in metrics() {
                        div id={ "def-" (metric.name) } tabindex="-1" {
                            dt { (metric.title()) }
                            @if !metric.formula.is_empty() { dd.formula { (metric.formula) } }
                            dd { (words(&metric.definition)) }
                        }
                    }
                }
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
