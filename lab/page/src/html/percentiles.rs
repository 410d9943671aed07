//! The table of all latencies, with more columns than the table of systems.
//!
//! Every measured time can be read and copied without JavaScript.
//!
//! # Invariants
//! A time below the timer's resolution is marked as such; a time that was not measured is not shown.

use maud::{Markup, html};

use super::words::{count, short};
use crate::report::{Latency, Report, Trace};

/// Renders the table, collapsed.
pub(crate) fn table(report: &Report, trace: &Trace) -> Markup {
    let heads = ["mean", "stddev", "p50", "p99", "p99.9", "longest"];
    html! {
        details.percentiles {
            summary { "All percentiles, in ns" }
            div.scroller role="region" tabindex="0" aria-label={ "Percentiles on " (trace.name) } {
                table.plain {
                    thead {
                        tr {
                            td {}
                            @for group in ["allocate", "free"] { th colspan="6" scope="colgroup" { (group) } }
                        }
                        tr {
                            th scope="col" { "system" }
                            @for head in heads.iter().chain(&heads) { th scope="col" { (head) } }
                        }
                    }
                    tbody {
                        @for system in &trace.systems {
                            tr {
                                th scope="row" { (system.name) }
                                @for latency in &system.latency {
                                    @for text in texts(latency, report.timer_floor_ns) { td { (text) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn texts(latency: &Latency, floor: f64) -> [String; 6] {
    let Some(mean) = latency.mean.filter(|mean| mean.is_finite()) else {
        return Default::default();
    };
    let seen = |value: Option<f64>| match value.filter(|value| value.is_finite()) {
        Some(value) if value < 99.5 => short(value),
        Some(value) => count(value.round() as u64),
        None => format!("≤{floor:.0}"),
    };
    [
        short(mean),
        seen(latency.stddev),
        seen(latency.p50),
        seen(latency.p99),
        seen(latency.p999),
        seen(latency.max),
    ]
}
