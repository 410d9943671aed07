//! The page of experiments as HTML: contents, and a section for each experiment.
//!
//! Readers of a paper's claim see the result immediately, and can check it down to the numbers before any script
//! runs: only the figures need one.
//!
//! # Invariants
//! Every experiment, claim, table and figure of the study is shown; no information is conveyed by colour alone.

mod claims;
mod tables;
mod top;

use maud::{Markup, PreEscaped, html};

use super::shell::Shell;
use super::words;
use crate::pack;
use crate::study::{Experiment, Figure, Study};

/// The style sheet.
pub(super) const STYLE: &str = styles! {
    "theme" "page" "table" "figure" "study" "print"
};

/// The script. The files share one scope; the last one starts the page.
pub(super) const SCRIPT: &str = scripts! {
    "format" "parcel" "dom" "looks" "state" "chart" "theme" "window" "study" "study_main"
};

/// Renders the document.
pub(crate) fn document(study: &Study, library: &str) -> Markup {
    let names = study.experiments.iter().map(|own| own.name.as_str());
    let anchors = words::anchors("experiment", names);
    let shell = Shell {
        title: &study.title,
        style: STYLE,
        script: SCRIPT,
        floor_ns: 0.0,
    };
    let above = html! {
        (top::masthead(study))
        (top::bar(study, &anchors))
    };
    let results = html! {
        (top::contents(study, &anchors))
        @for (own, anchor) in study.experiments.iter().zip(&anchors) { (section(own, anchor)) }
        @if study.experiments.is_empty() { p { "This page has no experiments." } }
    };
    let below = html! {
        (top::foot(study))
        script #library type="application/gzip" { (PreEscaped(library)) }
        @for (own, anchor) in study.experiments.iter().zip(&anchors) {
            @if let Some(figure) = &own.figure {
                script id={ (anchor) "-data" } type="application/gzip" { (PreEscaped(parcel(figure))) }
            }
        }
    };
    shell.around(&above, &results, &below)
}

/// Encodes the data of a figure for the page.
pub(super) fn parcel(figure: &Figure) -> String {
    // Plain data with text keys always becomes JSON. If it did not, the page would report an error.
    pack::pack(&serde_json::to_vec(figure).unwrap_or_default())
}

/// Renders the section of one experiment.
fn section(own: &Experiment, anchor: &str) -> Markup {
    html! {
        section.experiment id=(anchor) aria-labelledby={ (anchor) "-name" } {
            header.about {
                p.name { code { (own.name) } }
                h2 id={ (anchor) "-name" } { (own.title) }
                p.facts { span { "Source: " b { (own.source) } } }
            }
            (claims::claims(own))
            @if let Some(figure) = &own.figure { (self::figure(&own.title, figure, anchor)) }
            (tables::tables(own))
            @if !own.remarks.is_empty() { p.remarks { (own.remarks) } }
            p.measured {
                @if !own.measured.is_empty() { (own.measured) " " }
                "Command: " code { "everybuddy reproduce " (own.name) }
            }
        }
    }
}

/// Renders the container of a figure.
pub(super) fn figure(title: &str, figure: &Figure, anchor: &str) -> Markup {
    // A panel that is alone in its row spans the whole row.
    let last = figure.panels.len().wrapping_sub(1);
    let class = |at: usize| {
        if at == last && at.is_multiple_of(2) {
            "panel full"
        } else {
            "panel"
        }
    };
    html! {
        figure.fig id={ (anchor) "-figure" } data-parcel={ (anchor) "-data" }
            aria-label={ "Figure: " (title) } {
            ul.key {}
            div.panels {
                @for (at, panel) in figure.panels.iter().enumerate() {
                    div class=(class(at)) data-panel=(at) {
                        h4 { (panel.title) }
                        p.axis { (panel.y.label) }
                        div.plot {}
                    }
                }
            }
            figcaption.note { (figure.note) }
        }
    }
}
