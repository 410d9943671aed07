//! The page as HTML: everything that can be read without JavaScript, and placeholders for the rest.
//!
//! The page has a structure that readers, printers and screen readers can rely on before any script runs.
//!
//! # Invariants
//! Every text from outside goes through the template, which escapes it; data is base64. The content security policy
//! forbids every request ([`shell`]).

/// Joins the scripts of a page in a function of their own.
macro_rules! scripts {
    ($($name:literal)+) => {
        concat!(
            "\"use strict\";\n(() => {\n",
            $(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/script/", $name, ".js")),)+
            "})();\n",
        )
    };
}

/// Joins the styles of a page.
macro_rules! styles {
    ($($name:literal)+) => {
        concat!($(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/style/", $name, ".css"))),+)
    };
}

mod definitions;
pub(crate) mod document;
mod figures;
mod head;
mod percentiles;
mod runs;
mod say;
mod shell;
mod table;
mod words;

pub(crate) use words::few;

use maud::{Markup, PreEscaped, html};

use self::shell::Shell;
use self::words::{count, memory, noun};
use crate::pack::Parcel;
use crate::report::{Report, Trace};

/// The style sheet.
const STYLE: &str = styles! {
    "theme" "page" "table" "figure" "print"
};

/// The script. The files share one scope; the last one starts the page.
const SCRIPT: &str = scripts! {
    "format" "parcel" "dom" "looks" "state" "chart" "bars" "latency" "inside" "fragmentation"
    "demand" "map_paint" "map" "rows" "sort" "tabs" "legend" "theme" "window" "draw" "main"
};

/// Renders the document. `parcels` are those of the report's traces.
pub(crate) fn document(report: &Report, library: &str, parcels: &[Parcel]) -> Markup {
    let anchors = words::anchors(
        "trace",
        report.traces.iter().map(|trace| trace.name.as_str()),
    );
    let systems = report.traces.iter().any(|trace| !trace.systems.is_empty());
    let shell = Shell {
        title: &report.title,
        style: STYLE,
        script: SCRIPT,
        floor_ns: report.timer_floor_ns,
    };
    let above = html! {
        (head::masthead(report))
        (head::bar(report, &anchors, systems))
    };
    let results = html! {
        @for ((trace, anchor), parcel) in report.traces.iter().zip(&anchors).zip(parcels) {
            (section(report, trace, anchor, parcel))
        }
        @if report.traces.is_empty() { p { "This report has no traces." } }
    };
    let below = html! {
        (definitions::appendix(report, systems))
        (head::foot(report))
        (parcels_of(library, parcels))
    };
    shell.around(&above, &results, &below)
}

/// Renders the library and the data, each in an element that the browser does not execute.
fn parcels_of(library: &str, parcels: &[Parcel]) -> Markup {
    html! {
        script #library type="application/gzip" { (PreEscaped(library)) }
        @for (at, parcel) in parcels.iter().enumerate() {
            script id={ "numbers-" (at) } type="application/gzip" { (PreEscaped(&parcel.numbers)) }
            @for (moment, map) in parcel.maps.iter().enumerate() {
                script id={ "map-" (at) "-" (moment) } type="application/gzip" { (PreEscaped(map)) }
            }
        }
    }
}

/// Renders the section of one trace.
fn section(report: &Report, trace: &Trace, anchor: &str, parcel: &Parcel) -> Markup {
    let maps = maps_left_out(parcel);
    html! {
        section.trace id=(anchor) aria-labelledby={ (anchor) "-name" } {
            header.about {
                h2 id={ (anchor) "-name" } { (trace.name) }
                p.facts { (facts(trace)) }
                @if !trace.dealt.is_empty() { p.dealt { (trace.dealt) } }
                nav.contents aria-label={ "Figures of " (trace.name) } {
                    ol {
                        @for (_, figure) in figures::of(trace) {
                            li { a href={ "#" (anchor) "-" (figure.key) } { (figure.name()) } }
                        }
                    }
                }
            }
            @if let Some(answer) = &trace.answer { (table::answer(answer, anchor)) }
            @if !trace.systems.is_empty() { (table::table(report, trace)) }
            div.figures { (figures::figures(report, trace, anchor, &maps)) }
        }
    }
}

fn facts(trace: &Trace) -> Markup {
    html! {
        span { b { (count(trace.calls)) } " calls" }
        span { "peak " b { (memory(trace.peak_frames)) } }
        @if trace.managed_frames > 0 { span { "managed " b { (memory(trace.managed_frames)) } } }
        span { b { (trace.cpus) } " " (noun(trace.cpus, "CPU")) }
        @if trace.threads > 0 {
            span { b { (trace.threads) } " " (noun(trace.threads, "thread")) }
        }
    }
}

/// Renders the note about omitted maps.
fn maps_left_out(parcel: &Parcel) -> Markup {
    let (kept, given) = (parcel.maps.len(), parcel.moments_given);
    html! {
        @if kept < given {
            p.note.left-out {
                "To limit its size, this file contains "
                @if kept == 0 { "none" } @else { (kept) }
                " of the " (given) " recorded memory maps."
            }
        }
    }
}
