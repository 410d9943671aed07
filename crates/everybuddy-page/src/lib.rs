//! Pages that show results: a comparison, or experiments; each one HTML file that works offline.
//!
//! Exists as a crate of its own so that it is built and tested without the allocators: plain data
//! goes in ([`Report`], [`Study`]), text comes out ([`render`], [`render_study`]).
//!
//! ```
//! let report = everybuddy_page::Report {
//!     title: "Buddy systems".into(),
//!     ..Default::default()
//! };
//! let page = everybuddy_page::render(&report)?;
//! assert!(page.html.contains("<h1>Buddy systems</h1>"));
//! # Ok::<(), everybuddy_page::NoLibrary>(())
//! ```
//!
//! | file or folder | one idea |
//! |---|---|
//! | `report` | what the page of a comparison shows, as plain data |
//! | `study` | what the page of experiments shows, as plain data |
//! | `round` | numbers with as many digits as they deserve |
//! | `library` | the text of plotly.js, which draws the charts |
//! | `pack` | how data travels in the page, and what is left out when it is too much |
//! | `html/` | what can be read without JavaScript: text, tables, definitions, empty figures |
//! | `assets/` | what a browser does with it: `style/` and `script/`, one idea a file |
//!
//! **To add a figure:** a row in `html/figures.rs`, a sentence in `html/say.rs`, and a file in
//! `assets/script/` that draws it and makes its table.
//!
//! Invariant: a page never asks the network for anything (its content security policy forbids
//! it), never trusts a name, and says what it leaves out.

mod html;
mod library;
mod pack;
pub mod report;
mod round;
pub mod study;

pub use library::NoLibrary;
pub use report::Report;
pub use study::Study;

/// The most that a page should weigh, in bytes. Memory maps are left out until it does.
pub const BUDGET: usize = 3 << 20;

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The text of the HTML file.
    pub html: String,
    /// Moments of the memory maps that it shows, of each trace.
    pub moments: usize,
    /// Moments that there were.
    pub moments_given: usize,
}

/// Makes the page of a report, of at most [`BUDGET`] bytes if leaving out memory maps suffices.
///
/// Takes some tenths of a second: most of it packs the library, once a process.
///
/// # Errors
/// [`NoLibrary`] if the crate `plotly` does not hold its script where it is looked for.
pub fn render(report: &Report) -> Result<Page, NoLibrary> {
    render_within(report, BUDGET)
}

/// Makes the page of a report, of at most `budget` bytes if leaving out memory maps suffices.
///
/// # Errors
/// As [`render`].
pub fn render_within(report: &Report, budget: usize) -> Result<Page, NoLibrary> {
    let library = library::packed()?;
    let packed = pack::Packed::new(report);
    let given = packed.most_moments();
    let mut moments = given;
    loop {
        let parcels = packed.parcels(moments);
        let html = html::document(report, library, &parcels).into_string();
        if html.len() <= budget || moments == 0 {
            return Ok(Page {
                html,
                moments,
                moments_given: given,
            });
        }
        moments -= 1;
    }
}

/// Makes the page of experiments.
///
/// Takes some tenths of a second, as [`render`].
///
/// # Errors
/// As [`render`].
pub fn render_study(study: &Study) -> Result<String, NoLibrary> {
    let library = library::packed()?;
    Ok(html::study::document(study, library).into_string())
}
