//! The parts of every page: head, content security policy, error message.
//!
//! Every page has the policy under which a browser makes no network requests.
//!
//! # Invariants
//! Every text from outside goes through the template, which escapes it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Forbids all requests; allows inline scripts and styles.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:; form-action 'none'; base-uri 'none'";

/// A page.
pub(crate) struct Shell<'s> {
    /// The title of the window.
    pub(crate) title: &'s str,
    /// The style sheet.
    pub(crate) style: &'static str,
    /// The script.
    pub(crate) script: &'static str,
    /// The resolution of single times in nanoseconds: shorter times are not distinguished.
    pub(crate) floor_ns: f64,
}

impl Shell<'_> {
    /// Renders the page around the parts above, between and below its results, data included.
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
                    // Browsers request an icon next to the page if none is named.
                    link rel="icon" href="data:,";
                    title { (self.title) }
                    style { (PreEscaped(self.style)) }
                }
                body data-floor=(self.floor_ns) {
                    a.skip href="#main" { "Skip to the results" }
                    (above)
                    main #main tabindex="-1" {
                        noscript { p.warning { "The figures need JavaScript; the tables below do not." } }
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
