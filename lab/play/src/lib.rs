//! The page in which page allocators run step by step: one HTML file that works offline.
//!
//! People who teach, learn or choose an allocator see the papers' walk-throughs happen. The systems themselves run in
//! the page: `assets/engine.wasm.gz` is the crate `everybuddy-session`, compiled by `ci/play.sh`, which also compares
//! what the page shows with what a session says natively.
//!
//! ```
//! let page = everybuddy_play::page();
//! assert!(page.len() < everybuddy_play::LIMIT);
//! assert!(!page.contains("://"));
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `assets/page.html` | what can be read without scripts, and the places of everything else |
//! | `assets/style/` | colours, the page, the picture |
//! | `assets/script/engine.js` | calls of the module |
//! | `assets/script/timeline.js` | the states of a system during a script |
//! | `assets/script/words.js` | steps and states as text |
//! | `assets/script/draw.js` | the picture of a state |
//! | `assets/script/main.js` | buttons, keys, the address |
//!
//! # Invariants
//! The page makes no network requests: its content security policy forbids them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The size limit of the page in bytes.
pub const LIMIT: usize = 2 << 20;

const PAGE: &str = include_str!("../assets/page.html");
const STYLE: &str = concat!(
    include_str!("../assets/style/theme.css"),
    include_str!("../assets/style/page.css"),
    include_str!("../assets/style/picture.css"),
);
const SCRIPT: &str = concat!(
    include_str!("../assets/script/engine.js"),
    include_str!("../assets/script/timeline.js"),
    include_str!("../assets/script/words.js"),
    include_str!("../assets/script/draw.js"),
    include_str!("../assets/script/main.js"),
);
/// The systems and the scripts, as WebAssembly.
const ENGINE: &[u8] = include_bytes!("../assets/engine.wasm.gz");

/// Returns the page.
pub fn page() -> String {
    page_with(None, "")
}

/// Returns the page for tests: with another module, packed by gzip, and with one more script at its end, which can call
/// what the page's own scripts define.
pub fn page_with(module: Option<&[u8]>, script: &str) -> String {
    let script = [SCRIPT, script].concat();
    let parts = [
        ("{{style}}", STYLE),
        ("{{engine}}", &STANDARD.encode(module.unwrap_or(ENGINE))),
        ("{{script}}", &script),
    ];
    let mut page = PAGE.to_owned();
    for (place, part) in parts {
        page = page.replacen(place, part, 1);
    }
    page
}
