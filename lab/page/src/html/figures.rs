//! The layout of the figures: heading, caption, definitions, empty panels, data.
//!
//! The structure of the page exists before any script runs, and can be tested without a browser. The scripts in
//! `assets/script/` draw into the panels, under the same names.
//!
//! # Invariants
//! A figure whose numbers no system has is omitted: a trace may have no systems, and stored rows have only some
//! numbers.

use maud::{Markup, html};

use super::say;
use crate::report::{Report, System, Trace};

/// A figure.
pub(crate) struct Figure {
    pub(crate) key: &'static str,
    title: &'static str,
    /// Name, heading, and width (one of two columns, or both).
    panels: &'static [(&'static str, &'static str, Width)],
    /// Anchors of definitions, with names.
    definitions: &'static [(&'static str, &'static str)],
    needs: Need,
}

impl Figure {
    /// Returns the heading.
    pub(crate) fn name(&self) -> &'static str {
        self.title
    }
}

/// What a figure shows.
#[derive(Clone, Copy, PartialEq)]
enum Need {
    /// The trace itself.
    Trace,
    /// The times of single calls, by length.
    Histograms,
    /// The times of single calls over the trace.
    Sections,
    /// The times of successive calls.
    Window,
    /// Misses of lists.
    Misses,
    /// Acquired locks.
    Locks,
    /// Free memory over the trace.
    Samples,
    /// The owners of frames at some moments.
    Maps,
}

impl Need {
    /// Returns `true` if a trace has it: at least one of its systems, unless it is about the trace itself.
    fn is_met(self, trace: &Trace) -> bool {
        let any = |has: &dyn Fn(&System) -> bool| trace.systems.iter().any(has);
        match self {
            Need::Trace => true,
            Need::Histograms => any(&|own| own.latency.iter().any(|of| !of.histogram.is_empty())),
            Need::Sections => {
                any(&|own| own.latency.iter().any(|of| !of.over_trace.p50.is_empty()))
            }
            Need::Window => any(&|own| own.latency.iter().any(|of| !of.window.ns.is_empty())),
            Need::Misses => any(&|own| own.miss_rate.is_some()),
            Need::Locks => any(&|own| own.locks_per_call.is_some()),
            Need::Samples => any(&|own| !own.samples.positions.is_empty()),
            Need::Maps => any(&|own| !own.maps.is_empty()),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Width {
    Half,
    Full,
}
use Width::{Full, Half};

/// All figures, in the order of the page.
#[rustfmt::skip]
pub(crate) const FIGURES: &[Figure] = &[
    Figure { key: "latency", title: "Latency of calls", needs: Need::Histograms,
        panels: &[("allocate", "Allocations", Half), ("free", "Frees", Half)],
        definitions: &[("def-latency", "latency"), ("def-timer", "timer")] },
    Figure { key: "pace", title: "Latency over the trace", needs: Need::Sections,
        panels: &[("over", "", Full)],
        definitions: &[("def-latency", "latency")] },
    Figure { key: "window", title: "Call by call", needs: Need::Window,
        panels: &[("left", "", Half), ("right", "", Half)],
        definitions: &[("def-latency", "latency"), ("def-timer", "timer")] },
    Figure { key: "lists", title: "Requests served by per-CPU lists", needs: Need::Misses,
        panels: &[("service", "Service ratio", Half), ("miss", "Miss rate", Half)],
        definitions: &[("def-service_ratio", "service ratio"), ("def-miss_rate", "miss rate")] },
    Figure { key: "contention", title: "Locks and waiting", needs: Need::Locks,
        panels: &[("locks", "Locks acquired per 1,000 calls", Half), ("waits", "Contention rate", Half)],
        definitions: &[("def-lock_acquisitions", "locks"), ("def-contention_rate", "contention rate")] },
    Figure { key: "blocks", title: "Free 4 MiB blocks over the trace", needs: Need::Samples,
        panels: &[("blocks", "", Full)],
        definitions: &[("def-free_blocks", "free blocks")] },
    Figure { key: "unusable", title: "Unusable free memory", needs: Need::Samples,
        panels: &[("unusable", "", Full)],
        definitions: &[("def-unusable_index", "unusable free space index")] },
    Figure { key: "kept", title: "Frames in lists and domains", needs: Need::Samples,
        panels: &[
            ("buffered", "Frames in lists", Half), ("domains", "Domains", Half),
            ("allocate", "Left in a list when a run of allocations ends", Half),
            ("free", "Left in a list when a run of frees ends", Half),
        ],
        definitions: &[
            ("def-buffered_frames", "frames in lists"), ("def-domains", "domains"), ("def-residual", "residual"),
        ] },
    Figure { key: "map", title: "Memory map, frame by frame", needs: Need::Maps,
        panels: &[("left", "", Half), ("right", "", Half)],
        definitions: &[("def-map", "how to read a map")] },
    Figure { key: "demand", title: "Requests of the trace", needs: Need::Trace,
        panels: &[
            ("live", "Memory in use over time", Half),
            ("orders", "Orders: share of allocations, and of frames", Half),
            ("lifetimes", "Time from allocation to free", Half), ("contexts", "Context of the allocation", Half),
        ],
        definitions: &[("def-trace", "trace statistics")] },
    Figure { key: "runs", title: "Lengths of runs of calls", needs: Need::Trace,
        panels: &[
            ("task-allocate", "Allocations, by task", Half), ("task-free", "Frees, by task", Half),
            ("region-allocate", "Allocations, by address region", Half),
            ("region-free", "Frees, by address region", Half),
        ],
        definitions: &[("def-runs", "run")] },
];

/// Returns the figures of a trace, with their numbers.
pub(crate) fn of(trace: &Trace) -> impl Iterator<Item = (usize, &'static Figure)> + '_ {
    let shown = FIGURES.iter().filter(|figure| figure.needs.is_met(trace));
    (1..).zip(shown)
}

/// Renders the figures of a trace.
pub(crate) fn figures(report: &Report, trace: &Trace, anchor: &str, maps: &Markup) -> Markup {
    html! {
        @for (number, figure) in of(trace) {
            figure.fig id={ (anchor) "-" (figure.key) } data-figure=(figure.key)
                aria-labelledby={ (anchor) "-" (figure.key) "-title" } {
                figcaption {
                    h3 id={ (anchor) "-" (figure.key) "-title" } {
                        a.number href={ "#" (anchor) "-" (figure.key) } aria-label={ "Link to figure " (number) } {
                            (number)
                        }
                        (figure.title)
                    }
                    p.say {
                        (say::sentence(figure.key, report, trace)) " "
                        span.defs {
                            @for (at, (target, name)) in figure.definitions.iter().enumerate() {
                                @if at > 0 { " · " }
                                a href={ "#" (target) } { (name) }
                            }
                        }
                    }
                    @if figure.key == "map" { (maps) }
                }
                div.controls {}
                ul.key {}
                div.panels {
                    @for (panel, heading, width) in figure.panels {
                        div.panel.full[*width == Full] data-panel=(panel) {
                            @if !heading.is_empty() { h4 { (heading) } }
                            div.plot role=(if figure.key == "map" { "group" } else { "img" })
                                aria-label={ (figure.title) @if !heading.is_empty() { ": " (heading) } } {}
                        }
                    }
                }
                @if figure.key == "latency" { (super::percentiles::table(report, trace)) }
                @if figure.key == "runs" { (super::runs::table(trace)) }
                details.data {
                    summary { "Data" }
                    div.rows {}
                }
            }
        }
    }
}
