//! The parts above and below the results: title, machine, control bar, provenance.
//!
//! A recipient of the page learns in two sentences what was compared, and on which machine.
//!
//! # Invariants
//! Unknown facts are omitted.

use maud::{Markup, html};

use super::words::{known, memory};
use crate::report::Report;

/// Renders the top of the page.
pub(crate) fn masthead(report: &Report) -> Markup {
    let machine = &report.machine;
    html! {
        header.masthead {
            h1 { (report.title) }
            p.lede { (lede(report)) }
            @if !machine.quiet.is_empty() {
                p.warning[machine.was_busy].quiet[!machine.was_busy] { (machine.quiet) }
            }
        }
    }
}

/// Describes in two sentences what was compared and on which machine.
fn lede(report: &Report) -> String {
    let mut names: Vec<&str> = Vec::new();
    for system in report.traces.iter().flat_map(|trace| &trace.systems) {
        if !names.contains(&system.name.as_str()) {
            names.push(&system.name);
        }
    }
    let traces = match report.traces.len() {
        1 => "one trace".to_string(),
        count => format!("{count} traces"),
    };
    let peak = report.traces.iter().map(|trace| trace.peak_frames).max();
    let peak = memory(peak.unwrap_or(0));
    let mut text = match names.len() {
        0 => format!(
            "The calls that programs made to the kernel’s page allocator: {traces}, up to {peak} in use."
        ),
        count => format!(
            "{count} page-frame allocators. Each replays the same calls, in the same order, that real programs made to \
             their kernel: {traces}, up to {peak} in use."
        ),
    };
    let on = known(&report.machine);
    if !on.is_empty() && !names.is_empty() {
        text += &format!(" Measured on {}", on.join(", "));
        text += &match report.rounds {
            0 => ".".to_string(),
            rounds => format!(", in {rounds} rounds in which the systems take turns."),
        };
    }
    text
}

/// Renders the bar that stays visible: traces, systems, dark or light mode.
pub(crate) fn bar(report: &Report, anchors: &[String], systems: bool) -> Markup {
    html! {
        div.bar {
            nav.tabs aria-label="Traces" {
                @for (trace, anchor) in report.traces.iter().zip(anchors) {
                    a.tab href={ "#" (anchor) } data-trace=(anchor) { (trace.name) }
                }
            }
            button.theme #theme type="button" hidden { "Dark" }
            @if systems {
                details.legend #legend hidden {
                    summary { "Systems " span #legend-count {} }
                    div.chips #chips role="group" aria-label="Systems shown in all figures" {}
                }
            }
        }
    }
}

/// Describes how the page was made.
pub(crate) fn foot(report: &Report) -> Markup {
    html! {
        footer.foot {
            p {
                @if !report.command.is_empty() { "Made by " code { (report.command) } " " }
                @if !report.version.is_empty() { "with " (report.version) " " }
                @if !report.date.is_empty() { "on " (report.date) }
                @if report.traces.iter().any(|trace| !trace.systems.is_empty()) { ", seed " (report.seed) }
                "."
            }
            p { "Charts by plotly.js (MIT licence), which this file contains. The file makes no network requests." }
        }
    }
}
