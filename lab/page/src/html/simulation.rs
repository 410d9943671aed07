//! The page of a simulation as HTML: a section for each load, and the machine.
//!
//! Readers see how far each system scales and what stops it, and at the end what the machine is made of.
//!
//! # Invariants
//! Every table and figure of the simulation is shown. No title claims a measurement: they come with the data.

use maud::{Markup, PreEscaped, html};

use super::shell::Shell;
use super::study::{SCRIPT, STYLE, figure, parcel};
use super::words;
use crate::simulation::{Cell, Grid, Lines, Load, Simulation};

/// Renders the document.
pub(crate) fn document(simulation: &Simulation, library: &str) -> Markup {
    let names = simulation.loads.iter().map(|own| own.name.as_str());
    let anchors = words::anchors("load", names);
    let has_overview = !simulation.overview.lines.is_empty();
    let has_machine = !simulation.machine.lines.is_empty();
    let shell = Shell {
        title: &simulation.title,
        style: STYLE,
        script: SCRIPT,
        floor_ns: 0.0,
    };
    let above = html! {
        header.masthead {
            h1 { (simulation.title) }
            p.lede { (simulation.about) }
        }
        div.bar {
            nav.tabs aria-label="Workloads and traces" {
                @if has_overview { a.tab href="#limits" { "Limits" } }
                @for (own, anchor) in simulation.loads.iter().zip(&anchors) {
                    a.tab href={ "#" (anchor) } { (own.name) }
                }
                @if has_machine { a.tab href="#machine" { "Machine" } }
            }
            button.theme #theme type="button" hidden { "Dark" }
        }
    };
    let results = html! {
        @if has_overview {
            section.experiment #limits aria-labelledby="limits-name" {
                header.about { h2 #limits-name { (simulation.overview.title) } }
                (grid(&simulation.overview))
                div.measure.wide { h3 { (simulation.causes.title) } (table(&simulation.causes)) }
            }
        }
        @for (own, anchor) in simulation.loads.iter().zip(&anchors) { (section(own, anchor)) }
        @if has_machine {
            section.experiment #machine aria-labelledby="machine-name" {
                header.about { h2 #machine-name { (simulation.machine.title) } }
                (table(&simulation.machine))
            }
        }
    };
    let below = html! {
        (foot(simulation))
        script #library type="application/gzip" { (PreEscaped(library)) }
        @for (own, anchor) in simulation.loads.iter().zip(&anchors) {
            script id={ (anchor) "-data" } type="application/gzip" { (PreEscaped(parcel(&own.figure))) }
        }
    };
    shell.around(&above, &results, &below)
}

/// Renders the section of one load.
fn section(own: &Load, anchor: &str) -> Markup {
    html! {
        section.experiment id=(anchor) aria-labelledby={ (anchor) "-name" } {
            header.about {
                p.name { code { (own.name) } }
                h2 id={ (anchor) "-name" } { (own.title) }
            }
            (figure(&own.title, &own.figure, anchor))
            div.tables {
                @for lines in &own.tables {
                    div.measure.wide { h3 { (lines.title) } (table(lines)) }
                }
            }
            @if !own.remarks.is_empty() { p.remarks { (own.remarks) } }
        }
    }
}

/// Returns `true` if a column has words, which are aligned on the left.
fn has_words(lines: &Lines, at: usize) -> bool {
    let mut texts = lines.lines.iter().filter_map(|line| line.get(at));
    texts.any(|text| text.starts_with(char::is_alphabetic))
}

/// Renders a table, without its title.
fn table(lines: &Lines) -> Markup {
    html! {
        div.scroller role="region" tabindex="0" aria-label=(lines.title) {
            table.plain {
                thead {
                    tr {
                        @for (at, head) in lines.heads.iter().enumerate() {
                            th.words[has_words(lines, at)] scope="col" { (head) }
                        }
                    }
                }
                tbody {
                    @for line in &lines.lines {
                        tr {
                            @for (at, text) in line.iter().enumerate() {
                                @if at == 0 { th scope="row" { (text) } } @else {
                                    td.words[has_words(lines, at)] { (text) }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if !lines.note.is_empty() { p.note { (lines.note) } }
    }
}

/// Renders a grid, without its title.
fn grid(grid: &Grid) -> Markup {
    html! {
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
        p.note { (grid.note) }
    }
}

/// Returns how much of the accent's colour a cell has. Text stays readable on the darkest one.
fn dark(cell: &Cell) -> String {
    format!("{:.0}%", cell.shade * 60.0)
}

/// Describes how the page was made.
fn foot(simulation: &Simulation) -> Markup {
    html! {
        footer.foot {
            p {
                "Made by " code { (simulation.command) } " with " (simulation.version) " on " (simulation.date) "."
            }
            p { "Charts by plotly.js (MIT licence), which this file contains. The file makes no network requests." }
        }
    }
}
