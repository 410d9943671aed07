//! What every page has: its head, its policy, its place for trouble.
//!
//! Exists so that no page can forget the policy, under which a browser asks the network for nothing.
//!
//! Invariant: every text that comes from outside goes through the template, which escapes it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Nothing is fetched from anywhere; what is inline may run.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:; form-action 'none'; base-uri 'none'";

/// A page.
pub(crate) struct Shell<'s> {
    /// The title of its window.
    pub(crate) title: &'s str,
    /// What it looks like.
    pub(crate) style: &'static str,
    /// What it does.
    pub(crate) script: &'static str,
    /// Times of single calls up to this can't be told from nothing, in nanoseconds.
    pub(crate) floor_ns: f64,
}

impl Shell<'_> {
    /// Puts the page around what stands above its results, the results, and what stands below, data included.
    pub(crate) fn around(&self, above: &Markup, results: &Markup, below: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="generator" content="everybuddy";
                    // Browsers look for a picture beside the page if none is named.
                    link rel="icon" href="data:,";
                    title { (self.title) }
                    style { (PreEscaped(self.style)) }
                }
                body data-floor=(self.floor_ns) {
                    a.skip href="#main" { "Skip to the results" }
                    (above)
                    main #main tabindex="-1" {
                        noscript { p.warning { "The figures need JavaScript. The tables below don’t." } }
                        p.warning #trouble role="alert" hidden {}
                        (results)
                    }
                    (below)
                    script { (PreEscaped(self.script)) }
                }
            }
        }
    }
}
