//! The text of plotly.js, which draws the charts.
//!
//! Exists so that a well-kept library draws, without a copy of it in this repository and without
//! anything but cargo to get it: the crate `plotly` brings the text along.
//!
//! Invariant: what is returned is plotly.js and nothing else of what that crate would put into a page.

use std::fmt;
use std::sync::OnceLock;

use crate::pack;

/// The crate `plotly` no longer holds its script where it is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoLibrary;

impl fmt::Display for NoLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the crate `plotly` has no script of plotly.js in `Plot::offline_js_sources()`: this \
             program was built with a version of it that keeps its script elsewhere \
             (crates/everybuddy-page/src/library.rs looks for it)",
        )
    }
}

impl std::error::Error for NoLibrary {}

/// Returns the library as the page holds it. Packs it once a process.
pub(crate) fn packed() -> Result<&'static str, NoLibrary> {
    static PACKED: OnceLock<Option<String>> = OnceLock::new();
    let text = || find(&plotly::Plot::offline_js_sources()).map(|text| pack::pack(text.as_bytes()));
    PACKED.get_or_init(text).as_deref().ok_or(NoLibrary)
}

/// Finds plotly.js among scripts by the comment that it opens with.
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
        let text = find(&sources).expect("the crate `plotly` holds its script");
        assert!(text.len() > 1_000_000, "{} bytes", text.len());
        assert!(text.trim_end().ends_with("});") || text.trim_end().ends_with("}));"));
        assert!(!text.contains("MathJax.loader"));
        assert_eq!(find("<script>other()</script>"), None);
        assert_eq!(find(""), None);
    }
}
