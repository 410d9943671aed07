//! Tables, and numbers next to what was expected of them.
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

use super::coded;
use crate::document::{Beside, Cell, Column, Grid, Table};
use crate::html::words::{few, groups};

/// A table with more columns spans the whole width of the page.
const NARROW: usize = 6;

/// Renders a table with its title.
pub(super) fn table(table: &Table) -> Markup {
    let compared = table.columns.iter().any(|column| column.beside.is_some());
    let is_wide =
        !compared && (table.columns.len() > NARROW || table.columns.iter().any(has_words));
    let inside = html! {
        @if table.names.is_empty() { p.note { "No measurements." } } @else {
            div.scroller role="region" tabindex="0" aria-label=(table.title) {
                @if compared { (down(table)) } @else { (across(table)) }
            }
        }
        @if !table.note.is_empty() { p.note { (coded(&table.note)) } }
    };
    html! {
        @if table.is_folded {
            details.data { summary { (table.title) } (inside) }
        } @else {
            div.measure.wide[is_wide] {
                @if !table.title.is_empty() { h3 { (coded(&table.title)) } }
                (inside)
            }
        }
    }
}

/// Returns `true` if a column has words, which are aligned on the left.
fn has_words(column: &Column) -> bool {
    let mut texts = column.texts.iter();
    texts.any(|text| text.starts_with(char::is_alphabetic))
}

/// Returns the classes that apply, if any does: cells are many.
fn classes<const N: usize>(all: [(&str, bool); N]) -> Option<String> {
    let names = all.into_iter().filter(|own| own.1);
    let names: Vec<&str> = names.map(|own| own.0).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

fn number(column: &Column, at: usize) -> Markup {
    let is_best = column.best.get(at) == Some(&true);
    html! {
        td class=[classes([("best", is_best), ("words", has_words(column))])] {
            (column.texts.get(at).map_or("", String::as_str))
            @if is_best { span.hidden { " (best)" } }
        }
    }
}

/// Renders one line per system and one column per source.
fn across(table: &Table) -> Markup {
    let has_both = table.columns.iter().any(|own| !own.head[1].is_empty());
    let heads = |line: usize| table.columns.iter().map(move |own| own.head[line].as_str());
    html! {
        table.systems {
            thead {
                @if has_both {
                    tr.groups {
                        td {}
                        @for (source, span) in groups(heads(0)) { th colspan=(span) scope="colgroup" { (source) } }
                    }
                }
                tr {
                    th scope="col" { (table.first) }
                    @for (head, column) in heads(usize::from(has_both)).zip(&table.columns) {
                        th class=[classes([("words", has_words(column))])] scope="col" { (head) }
                    }
                }
            }
            tbody {
                @for (at, name) in table.names.iter().enumerate() {
                    tr class=[classes([("apart", !table.competing.contains(&at))])] {
                        th scope="row" { (name) }
                        @for column in &table.columns { (number(column, at)) }
                    }
                }
            }
        }
    }
}

/// The number of a line, if there is one.
fn of(values: &[Option<f64>], at: usize) -> Option<f64> {
    values.get(at).copied().flatten()
}

/// Renders a group of lines per source, with the expected value next to each number.
fn down(table: &Table) -> Markup {
    let mut besides = table.columns.iter().filter_map(|own| own.beside.as_ref());
    let is_there = |column: &Column, at: usize| {
        let expected = column.beside.as_ref().map(|own| of(&own.expected, at));
        !column.texts[at].is_empty() || expected.flatten().is_some()
    };
    html! {
        table.systems.compared {
            thead {
                tr {
                    th scope="col" { (table.first) }
                    th scope="col" { "here" }
                    th scope="col" { (besides.next().map_or("", |own| &own.by)) }
                    th scope="col" { "ratio" }
                    th scope="col" { "difference" }
                }
            }
            @for column in &table.columns {
                tbody {
                    tr.group { th colspan="5" scope="rowgroup" { (column.head[0]) " · " (column.head[1]) } }
                    @for (at, name) in table.names.iter().enumerate() {
                        @if is_there(column, at) {
                            tr {
                                th scope="row" { (name) }
                                (number(column, at))
                                (beside(column.beside.as_ref(), at))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the expected value, the ratio to it, and the difference.
fn beside(own: Option<&Beside>, at: usize) -> Markup {
    let expected = own.and_then(|own| of(&own.expected, at));
    let both = own.and_then(|own| of(&own.values, at)).zip(expected);
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

/// Renders a grid.
pub(super) fn grid(grid: &Grid) -> Markup {
    html! {
        @if !grid.title.is_empty() { h3 { (grid.title) } }
        div.scroller role="region" tabindex="0" aria-label=(grid.title) {
            table.grid {
                thead {
                    tr {
                        td {}
                        @for head in &grid.heads { th scope="col" { span { (head) } } }
                    }
                }
                tbody {
                    @for (name, cells) in &grid.lines {
                        tr {
                            th scope="row" { (name) }
                            @for cell in cells {
                                td title=(cell.title) style={ "--dark:" (dark(cell)) } { (cell.text) }
                            }
                        }
                    }
                }
            }
        }
        p.note { (coded(&grid.note)) " Hold the pointer over a cell to see more." }
    }
}

/// Returns how much of the accent's colour a cell has. Text stays readable on the darkest one.
fn dark(cell: &Cell) -> String {
    format!("{:.0}%", cell.shade * 60.0)
}
