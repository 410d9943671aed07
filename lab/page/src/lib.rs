//! Results for readers: documents, and the page of a comparison, each as one HTML file that works offline.
//!
//! This is a separate crate so that it is built and tested without the allocators: plain data goes in ([`Report`],
//! [`Document`]), text comes out ([`render`], [`render_document`], [`markdown::of`]).
//!
//! ```
//! let report = everybuddy_page::Report {
//!     title: "Buddy systems".into(),
//!     ..Default::default()
//! };
//! let page = everybuddy_page::render(&report);
//! assert!(page.html.contains("<h1>Buddy systems</h1>"));
//! ```
//!
//! | file or folder | contents |
//! |---|---|
//! | `report` | the data of the page of a comparison |
//! | `document` | what all other commands answer, in blocks |
//! | `markdown` | a document as Markdown |
//! | `round` | rounding of numbers to the digits that matter |
//! | `library` | the text of plotly.js, which draws the charts |
//! | `pack` | encoding of the data in the page, and the choice of what is omitted |
//! | `html/` | everything that can be read without JavaScript: text, tables, definitions, empty figures |
//! | `assets/` | everything that runs in the browser: `style/` and `script/`, one topic per file |
//!
//! **To add a figure:** add a row in `html/figures.rs`, a caption in `html/say.rs`, and a file in `assets/script/`
//! that draws the figure and builds its table.
//!
//! # Invariants
//! A page makes no network requests (its content security policy forbids them), never trusts a name, and states what
//! it omits.

pub mod document;
mod html;
mod library;
pub mod markdown;
mod pack;
pub mod report;
mod round;

pub use document::Document;
pub use report::Report;

/// The size limit of a page in bytes. Memory maps are omitted until the page fits.
pub const BUDGET: usize = 3 << 20;

/// A rendered page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The text of the HTML file.
    pub html: String,
    /// The number of memory maps that the page shows per trace.
    pub moments: usize,
    /// The number of memory maps that were available.
    pub moments_given: usize,
}

/// Renders the page of a report, in at most [`BUDGET`] bytes if omitting memory maps suffices.
///
/// Takes a few tenths of a second, mostly to compress the data.
pub fn render(report: &Report) -> Page {
    render_within(report, BUDGET)
}

/// Renders the page of a report, in at most `budget` bytes if omitting memory maps suffices.
pub fn render_within(report: &Report, budget: usize) -> Page {
    let library = library::packed();
    let packed = pack::Packed::new(report);
    let given = packed.most_moments();
    let mut moments = given;
    loop {
        let parcels = packed.parcels(moments);
        let html = html::document(report, library, &parcels).into_string();
        if html.len() <= budget || moments == 0 {
            return Page {
                html,
                moments,
                moments_given: given,
            };
        }
        moments -= 1;
    }
}

/// Renders the page of a document.
///
/// Takes a few tenths of a second, like [`render`].
pub fn render_document(document: &Document) -> String {
    html::document::document(document, library::packed()).into_string()
}
