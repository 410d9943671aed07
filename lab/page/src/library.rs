//! The text of plotly.js, which draws the charts.
//!
//! `assets/library` contains the script, compressed, so that a build needs nothing but cargo. The crate `plotly`
//! contains it too, but it brings 39 crates along, and its script supports chart types that no page uses:
//! the page would be 1 MB larger. The script is the basic bundle of plotly.js 3.0.1, made from the package of that name
//! in the npm registry:
//!
//! ```text
//! npm pack plotly.js-basic-dist-min@3.0.1
//! tar -xzf plotly.js-basic-dist-min-3.0.1.tgz
//! gzip -9nc package/plotly-basic.min.js > lab/page/assets/library/plotly-basic.min.js.gz
//! ```
//!
//! # Invariants
//! The file opens with the name, the version and the licence of the library; a test checks that.

use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The script, compressed with gzip.
const SCRIPT: &[u8] = include_bytes!("../assets/library/plotly-basic.min.js.gz");

/// Returns the library as the page contains it. Encodes it once per process.
pub(crate) fn packed() -> &'static str {
    static PACKED: OnceLock<String> = OnceLock::new();
    PACKED.get_or_init(|| STANDARD.encode(SCRIPT))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn the_library_is_plotly_and_nothing_else() {
        let mut text = String::new();
        GzDecoder::new(SCRIPT).read_to_string(&mut text).unwrap();
        assert!(text.starts_with("/**\n* plotly.js (basic - minified) v3.0.1"));
        assert!(text[..200].contains("Licensed under the MIT license"));
        assert!(text.trim_end().ends_with("return Plotly;\n}));"));
        assert_eq!(STANDARD.decode(packed()).unwrap(), SCRIPT);
    }
}
