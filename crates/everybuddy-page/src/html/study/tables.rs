//! What came out, beside what was expected.
//!
//! Exists so that a number of a paper and the number of here can be compared by reading, not by calculating:
//! their ratio and their difference stand beside them.
//!
//! A table with nothing to compare has a column for each source, as in the terminal. One with something to compare
//! goes down the page instead, a group of lines for each source: so a number, what was expected, ratio and
//! difference fit beside each other on a telephone, and ratios stand above each other.
//!
//! Invariant: where nothing was expected there are no empty columns for it.

use maud::{Markup, html};

use crate::html::words::few;
use crate::study::{Column, Experiment, Printed, Table};

/// With more columns a table has all of the page's width.
const NARROW: usize = 6;

/// All tables of an experiment.
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
            @if table.names.is_empty() { p.note { "Nothing was measured." } } @else {
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

/// Headings over columns beside each other of the same source, each with how many it spans.
fn groups(table: &Table) -> Vec<(&str, usize)> {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for column in &table.columns {
        match groups.last_mut() {
            Some((source, span)) if *source == column.source => *span += 1,
            _ => groups.push((&column.source, 1)),
        }
    }
    groups
}

/// A line for each system, a column for each source.
fn across(table: &Table) -> Markup {
    html! {
        table.systems {
            thead {
                tr.groups {
                    td {}
                    @for (source, span) in groups(table) {
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

/// A group of lines for each source, beside each number what was expected.
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

/// What was expected, the ratio to it, and the difference.
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

/// A difference with its sign; of nothing, none.
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
