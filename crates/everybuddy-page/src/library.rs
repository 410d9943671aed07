//! The text of plotly.js, which draws the charts.
//!
//! # Purpose
//!
//! A well-maintained library draws the charts, without a copy of it in this repository and without any download
//! besides cargo's: the crate `plotly` contains the text.
//!
//! # Invariants
//!
//! The result is plotly.js and none of the other scripts that the crate would add to a page.

use std::fmt;
use std::sync::OnceLock;

use crate::pack;

/// The crate `plotly` no longer contains its script in the expected place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoLibrary;

impl fmt::Display for NoLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "plotly.js not found in `Plot::offline_js_sources()` of the crate `plotly`: this program \
             was built with a version that stores its script elsewhere\nhelp: update \
             crates/everybuddy-page/src/library.rs",
        )
    }
}

impl std::error::Error for NoLibrary {}

/// Returns the library in the encoding of the page. It is compressed once per process.
pub(crate) fn packed() -> Result<&'static str, NoLibrary> {
    static PACKED: OnceLock<Option<String>> = OnceLock::new();
    let text = || find(&plotly::Plot::offline_js_sources()).map(|text| pack::pack(text.as_bytes()));
    PACKED.get_or_init(text).as_deref().ok_or(NoLibrary)
}

/// Finds plotly.js among scripts by its opening comment.
fn find(scripts: &str) -> Option<&str> {
    scripts.split("<script").skip(1).find_map(|script| {
        let text = script.split_once('>')?.1.split_once("</script>")?.0;
        let head = text.get(..200).unwrap_or(text);
        head.contains("plotly.js v").then_some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plotly_is_found_and_nothing_else() {
        let sources = plotly::Plot::offline_js_sources();
        let text = find(&sources).expect("the crate `plotly` contains its script");
        assert!(text.len() > 1_000_000, "{} bytes", text.len());
        assert!(text.trim_end().ends_with("});") || text.trim_end().ends_with("}));"));
        assert!(!text.contains("MathJax.loader"));
        assert_eq!(find("<script>other()</script>"), None);
        assert_eq!(find(""), None);
    }
}
