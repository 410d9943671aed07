//! The table of run lengths.
//!
//! A mean and a maximum show at a glance what a histogram does not.
//!
//! # Invariants
//! Unknown values (no regions in the trace) have no row.

use maud::{Markup, html};

use super::words::{count, percent, short};
use crate::report::Trace;

/// Renders the table.
pub(crate) fn table(trace: &Trace) -> Markup {
    let statistics = &trace.statistics;
    let kinds = [
        ("by task", &statistics.task_runs),
        ("by task and region", &statistics.region_runs),
    ];
    html! {
        div.scroller role="region" tabindex="0" aria-label={ "Run lengths of " (trace.name) } {
            table.plain {
                thead {
                    tr {
                        th scope="col" { "runs" }
                        @for head in ["number", "mean", "median", "p90", "p99", "longest", "calls in runs ≥ 64"] {
                            th scope="col" { (head) }
                        }
                    }
                }
                tbody {
                    @for (kind, runs) in kinds {
                        @for (name, run) in ["allocations ", "frees "].iter().zip(runs) {
                            @if run.runs > 0 {
                                tr {
                                    th scope="row" { (name) (kind) }
                                    td { (count(run.runs)) }
                                    td { (short(run.mean)) }
                                    td { (count(run.median)) }
                                    td { (count(run.p90)) }
                                    td { (count(run.p99)) }
                                    td { (count(run.max)) }
                                    td { (percent(run.long_share)) " %" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
