//! Claims and their verdicts.
//!
//! A claim, its verdict and the numbers behind it are shown together.
//!
//! # Invariants
//! A verdict is a mark, a word and a colour, never a colour alone.

use maud::{Markup, html};

use super::coded;

use crate::document::{Claim, Verdict};

/// The number of cases shown before the rest of a passing claim is collapsed.
const SHOWN: usize = 2;

/// Returns the mark of a verdict, its word, and its CSS class.
pub(super) fn look(verdict: Verdict) -> (&'static str, &'static str, &'static str) {
    match verdict {
        Verdict::Pass => ("✓", "pass", "pass"),
        Verdict::KnownDeviation => ("≠", "known deviation", "deviation"),
        Verdict::Fail => ("✗", "fail", "fail"),
        Verdict::Inconclusive => ("?", "inconclusive", "inconclusive"),
        Verdict::NotJudged => ("–", "not judged", "not-judged"),
    }
}

/// Renders the verdict as a badge.
fn badge(verdict: Verdict) -> Markup {
    let (mark, word, class) = look(verdict);
    html! { span class={ "verdict " (class) } { span.mark aria-hidden="true" { (mark) } " " (word) } }
}

/// Renders the number of each verdict among some claims as badges.
pub(super) fn counts<'c>(claims: impl Iterator<Item = &'c Claim> + Clone) -> Markup {
    let count = |verdict| claims.clone().filter(|own| own.verdict == verdict).count();
    html! {
        @for verdict in Verdict::ALL {
            @let count = count(verdict);
            @if count > 0 {
                @let (mark, word, class) = look(verdict);
                span class={ "verdict " (class) } {
                    span.mark aria-hidden="true" { (mark) } " " (count) " " (word)
                }
                " "
            }
        }
    }
}

/// Renders claims.
pub(super) fn claims(own: &[Claim]) -> Markup {
    html! {
        @if !own.is_empty() {
            ul.claims aria-label="Claims" {
                @for claim in own { (one(claim)) }
            }
        }
    }
}

fn one(claim: &Claim) -> Markup {
    let folded = claim.verdict == Verdict::Pass && claim.cases.len() > SHOWN;
    html! {
        li {
            (badge(claim.verdict))
            div.said {
                p { (coded(&claim.text)) }
                @if let (Some(why), Verdict::KnownDeviation) = (&claim.why, claim.verdict) {
                    p.why { "Why: " (coded(why)) }
                }
                @if folded {
                    details.data {
                        summary { (claim.cases.len()) " cases" }
                        (cases(claim))
                    }
                } @else { (cases(claim)) }
            }
        }
    }
}

fn cases(claim: &Claim) -> Markup {
    let beyond = claim.beyond.iter();
    let beyond = beyond.map(|text| (Verdict::Fail, format!("further off than recorded: {text}")));
    let cases: Vec<(Verdict, String)> = claim.cases.iter().cloned().chain(beyond).collect();
    html! {
        @if !cases.is_empty() {
            ul.cases {
                @for (verdict, text) in &cases {
                    @let (mark, word, class) = look(*verdict);
                    li {
                        span class={ "mark " (class) } aria-hidden="true" { (mark) }
                        span.hidden { (word) ": " }
                        (text)
                    }
                }
            }
        }
    }
}
