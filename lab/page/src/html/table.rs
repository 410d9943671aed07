//! The table of systems on a trace, and the answer above it.
//!
//! These are the first things that readers see. The table is plain HTML, so it works without JavaScript; with it,
//! the columns can be sorted.
//!
//! # Invariants
//! A column without numbers is omitted. The best value of a column is marked by more than colour, and only if the
//! mark is informative.

use everybuddy_metrics::Better;
use maud::{Markup, html};

use super::definitions;
use super::words::groups;
use crate::report::{Answer, Column, Report, Trace};

/// Renders the answer.
pub(crate) fn answer(answer: &Answer, anchor: &str) -> Markup {
    html! {
        section.answer aria-labelledby={ (anchor) "-answer" } {
            h3 id={ (anchor) "-answer" } { "Answer" }
            p.first { (definitions::words(&answer.summary)) }
            @for text in [&answer.matters, &answer.next] {
                @if !text.is_empty() { p { (definitions::words(text)) } }
            }
            dl {
                @for (name, text) in &answer.systems { div { dt { (name) } dd { (text) } } }
            }
            @if !answer.slower.is_empty() { p { (definitions::words(&answer.slower)) } }
            p.note { "Unknown: " (definitions::words(&answer.limits)) }
            p.note { (definitions::words(&answer.rule)) }
        }
    }
}

/// Renders the table.
pub(crate) fn table(report: &Report, trace: &Trace) -> Markup {
    let columns = &trace.table.columns;
    let has_overhead = columns.iter().any(|column| !column.overhead.is_empty());
    html! {
        div.scroller role="region" tabindex="0" aria-label={ "Systems on " (trace.name) } {
            table.systems {
                thead {
                    tr.groups {
                        td {}
                        @for (group, wide) in groups(columns.iter().map(|column| column.head[0].as_str())) {
                            th colspan=(wide) scope="colgroup" { (group) }
                        }
                    }
                    tr {
                        th scope="col" data-sort="text" { span.head { "system" } }
                        @for column in columns {
                            th scope="col" data-sort=(if column.better == Better::Higher { "higher" } else { "lower" })
                                title=(column.legend) { span.head { (heading(column)) } }
                        }
                    }
                }
                (lines(trace, false))
                (lines(trace, true))
                @if has_overhead {
                    tfoot {
                        tr {
                            th scope="row" { "replay overhead" }
                            @for column in columns { td { (column.overhead) } }
                        }
                    }
                }
            }
        }
        p.note {
            "★ best of its column. ↓ lower is better, ↑ higher is better. "
            @if trace.systems.iter().any(|system| system.is_apart) {
                "Grey systems are not judged: no kernel has such lists without locks. "
            }
            @if report.timer_floor_ns > 0.0 {
                "≤" (format!("{:.0}", report.timer_floor_ns)) " is below the resolution of this timer. "
            }
            @if has_overhead {
                "“Replay overhead” is the same replay without an allocator: its time is included in the numbers \
                 above it. "
            }
            "Columns: "
            @for (at, column) in columns.iter().enumerate() {
                @if columns[..at].iter().all(|other| other.metric != column.metric) {
                    @if at > 0 { ", " }
                    a href={ "#def-" (column.metric) } { (definitions::name(&column.metric)) }
                }
            }
            "."
        }
        details.parameters {
            summary { "Effective parameters of each system on this memory" }
            dl {
                @for system in &trace.systems { div { dt { (system.name) } dd { (system.parameters) } } }
            }
        }
    }
}

/// Renders the lines of the systems that compete, or of those that do not. These stay below when the others are sorted.
fn lines(trace: &Trace, is_apart: bool) -> Markup {
    let systems = trace.systems.iter().enumerate();
    let mut own = systems
        .filter(|(_, system)| system.is_apart == is_apart)
        .peekable();
    html! {
        @if !is_apart || own.peek().is_some() {
            tbody.apart[is_apart] {
                @for (at, system) in own {
                    tr data-system=(system.name) {
                        th scope="row" title=(system.parameters) { (system.name) }
                        @for column in &trace.table.columns { (cell(column, at)) }
                    }
                }
            }
        }
    }
}

/// Renders the second line of a heading: the unit or what tells the column from others, and the direction.
fn heading(column: &Column) -> Markup {
    let arrow = match column.better {
        Better::Lower => "↓",
        Better::Higher => "↑",
        Better::Neither => "",
    };
    html! { (column.head[1]) " " span.unit { (arrow) } }
}

fn cell(column: &Column, at: usize) -> Markup {
    let value = column
        .values
        .get(at)
        .copied()
        .flatten()
        .filter(|value| value.is_finite());
    let is_best = column.best.get(at).copied().unwrap_or(false);
    html! {
        td.best[is_best] data-value=[value] {
            @if let Some(text) = column.texts.get(at) { (text) }
            @if is_best { span.hidden { " (best)" } }
        }
    }
}
