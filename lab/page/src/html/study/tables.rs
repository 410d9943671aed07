//! Measured results next to the expected values.
//!
//! A paper's number and the measured number can be compared by reading, not by calculating: their ratio and their
//! difference are next to them.
//!
//! A table without expected values has one column per source, as in the terminal. A table with expected values grows
//! downwards instead, with one group of lines per source. A number, its expected value, the ratio and the difference
//! then fit on a telephone, and the ratios are aligned vertically.
//!
//! # Invariants
//! If there are no expected values, there are no empty columns for them.

use maud::{Markup, html};

use crate::html::words::{few, groups};
use crate::study::{Column, Experiment, Printed, Table};

/// A table with more columns spans the whole width of the page.
const NARROW: usize = 6;

/// Renders all tables of an experiment.
pub(super) fn tables(own: &Experiment) -> Markup {
    html! {
        @if !own.tables.is_empty() {
            div.tables { @for table in &own.tables { (one(table)) } }
        }
        @if let Some(printed) = &own.printed { (self::printed(printed)) }
    }
}

fn is_compared(column: &Column) -> bool {
    column.expected.iter().any(Option::is_some)
}

fn one(table: &Table) -> Markup {
    let compared = table.columns.iter().any(is_compared);
    html! {
        div.measure.wide[!compared && table.columns.len() > NARROW] {
            h3 { (table.title) }
            @if table.names.is_empty() { p.note { "No measurements." } } @else {
                div.scroller role="region" tabindex="0" aria-label=(table.title) {
                    @if compared { (down(table)) } @else { (across(table)) }
                }
            }
        }
    }
}

/// The number of a line, if there is one.
fn of(values: &[Option<f64>], at: usize) -> Option<f64> {
    values.get(at).copied().flatten()
}

fn number(column: &Column, at: usize) -> Markup {
    html! {
        td.best[column.best == Some(at)] {
            (of(&column.values, at).map_or(String::new(), few))
            @if column.best == Some(at) { span.hidden { " (best)" } }
        }
    }
}

/// Renders one line per system and one column per source.
fn across(table: &Table) -> Markup {
    html! {
        table.systems {
            thead {
                tr.groups {
                    td {}
                    @for (source, span) in groups(table.columns.iter().map(|column| column.source.as_str())) {
                        th colspan=(span) scope="colgroup" { (source) }
                    }
                }
                tr {
                    th scope="col" { "system" }
                    @for column in &table.columns { th scope="col" { (column.what) } }
                }
            }
            tbody {
                @for (at, name) in table.names.iter().enumerate() {
                    tr {
                        th scope="row" { (name) }
                        @for column in &table.columns { (number(column, at)) }
                    }
                }
            }
        }
    }
}

/// Renders a group of lines per source, with the expected value next to each number.
fn down(table: &Table) -> Markup {
    let by = table.columns.iter().find(|column| is_compared(column));
    html! {
        table.systems.compared {
            thead {
                tr {
                    th scope="col" { "system" }
                    th scope="col" { "here" }
                    th scope="col" { (by.map_or("", |column| &column.by)) }
                    th scope="col" { "ratio" }
                    th scope="col" { "difference" }
                }
            }
            @for column in &table.columns {
                tbody {
                    tr.group { th colspan="5" scope="rowgroup" { (column.source) " · " (column.what) } }
                    @for (at, name) in table.names.iter().enumerate() {
                        @if of(&column.values, at).or(of(&column.expected, at)).is_some() {
                            tr { th scope="row" { (name) } (number(column, at)) (beside(column, at)) }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the expected value, the ratio to it, and the difference.
fn beside(column: &Column, at: usize) -> Markup {
    let expected = of(&column.expected, at);
    let both = of(&column.values, at).zip(expected);
    let ratio = both
        .filter(|both| both.1 != 0.0)
        .map(|(own, other)| own / other);
    let difference = both.map(|(own, other)| own - other);
    html! {
        td.beside { (expected.map_or(String::new(), few)) }
        td.beside { (ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))) }
        td.beside { (difference.map_or(String::new(), signed)) }
    }
}

/// Formats a difference with its sign; zero has no sign.
fn signed(difference: f64) -> String {
    match difference {
        own if own > 0.0 => format!("+{}", few(own)),
        own if own < 0.0 => format!("−{}", few(-own)),
        own => few(own),
    }
}

fn printed(printed: &Printed) -> Markup {
    html! {
        details.data {
            summary { (printed.title) }
            div.scroller.tall role="region" tabindex="0" aria-label=(printed.title) {
                table.plain {
                    thead { tr { @for head in &printed.heads { th scope="col" { (head) } } } }
                    tbody {
                        @for line in &printed.lines { tr { @for text in line { td { (text) } } } }
                    }
                }
            }
        }
    }
}
