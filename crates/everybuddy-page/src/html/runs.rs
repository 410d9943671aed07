//! The table of run lengths.
//!
//! Exists because a mean beside a longest run says what no histogram says at a glance.
//!
//! Invariant: what is unknown (no regions in the trace) has no row.

use maud::{Markup, html};

use super::words::{count, percent, short};
use crate::report::Trace;

/// Makes the table.
pub(crate) fn table(trace: &Trace) -> Markup {
    let statistics = &trace.statistics;
    let kinds = [
        ("of a task", &statistics.task_runs),
        ("of a task for a region", &statistics.region_runs),
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
