//! The parts above and below the experiments: title, machine, contents with verdicts, provenance.
//!
//! A recipient of the page learns within a minute what was tested, on which machine, and with what result.
//!
//! # Invariants
//! Unknown facts are omitted.

use maud::{Markup, html};

use super::claims;
use crate::html::words::known;
use crate::study::{Claim, Study};

/// Renders the top of the page.
pub(super) fn masthead(study: &Study) -> Markup {
    let machine = &study.machine;
    html! {
        header.masthead {
            h1 { (study.title) }
            p.lede { (lede(study)) }
            p.verdicts { (claims::counts(all(study))) }
            @if study.shrink > 1 {
                p.warning {
                    "Everything was shortened " (study.shrink) " times as a smoke test: these numbers are not \
                     measurements, and claims are not judged."
                }
            }
            @if !machine.quiet.is_empty() {
                p.warning[machine.was_busy].quiet[!machine.was_busy] { (machine.quiet) }
            }
        }
    }
}

fn all(study: &Study) -> impl Iterator<Item = &Claim> + Clone {
    study.experiments.iter().flat_map(|own| &own.claims)
}

/// Describes in two sentences what was tested and on which machine.
fn lede(study: &Study) -> String {
    let experiments = match study.experiments.len() {
        1 => "One experiment of a paper".to_string(),
        count => format!("{count} experiments of papers"),
    };
    let claims = match all(study).count() {
        1 => "one claim".to_string(),
        count => format!("{count} claims"),
    };
    let mut text = format!(
        "{experiments} on buddy systems, repeated. The results are shown next to the published numbers, \
         with {claims} that the program checks."
    );
    let on = known(&study.machine);
    if !on.is_empty() {
        text += &format!(" Measured on {}.", on.join(", "));
    }
    text
}

/// Renders the bar that stays visible: experiments, dark or light mode.
pub(super) fn bar(study: &Study, anchors: &[String]) -> Markup {
    html! {
        div.bar {
            nav.tabs aria-label="Experiments" {
                a.tab href="#contents" { "Contents" }
                @for (own, anchor) in study.experiments.iter().zip(anchors) {
                    a.tab href={ "#" (anchor) } { (own.name) }
                }
            }
            button.theme #theme type="button" hidden { "Dark" }
        }
    }
}

/// Renders the list of all experiments with their verdicts.
pub(super) fn contents(study: &Study, anchors: &[String]) -> Markup {
    html! {
        nav.overview #contents aria-labelledby="contents-name" {
            h2 #contents-name { "Contents" }
            ol {
                @for (own, anchor) in study.experiments.iter().zip(anchors) {
                    li {
                        a href={ "#" (anchor) } { (own.title) }
                        span.where { (own.source) }
                        span.verdicts {
                            @if own.claims.is_empty() { span.none { "no claims" } }
                            (claims::counts(own.claims.iter()))
                        }
                    }
                }
            }
            p.note {
                "✓ pass: confirmed. ≠ known deviation: not confirmed, with a known reason. ✗ fail: not confirmed in \
                 any round. ? inconclusive: the rounds disagree, or there are no numbers. – not judged: the run was \
                 shortened."
            }
        }
    }
}

/// Describes how the page was made.
pub(super) fn foot(study: &Study) -> Markup {
    html! {
        footer.foot {
            p {
                @if !study.command.is_empty() { "Made by " code { (study.command) } " " }
                @if !study.version.is_empty() { "with " (study.version) " " }
                @if !study.date.is_empty() { "on " (study.date) ", " }
                "seed " (study.seed)
                @if study.timer_ns > 0.0 {
                    "; reading the clock costs " (format!("{:.1}", study.timer_ns)) " ns"
                }
                "."
            }
            p { "Charts by plotly.js (MIT licence), which this file contains. The file makes no network requests." }
        }
    }
}
