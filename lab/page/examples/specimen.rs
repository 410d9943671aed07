//! Writes the page of a made-up report: `cargo run -p everybuddy-page --example specimen -- FILE`.
//!
//! Work on the page without measuring anything.
//!
//! # Invariants
//! The file contains exactly what `render` returns.

#[path = "../tests/specimen/mod.rs"]
mod specimen;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).unwrap_or("specimen.html".into());
    let page = everybuddy_page::render(&specimen::report(1));
    eprintln!(
        "{file}: {} bytes, {} of {} moments",
        page.html.len(),
        page.moments,
        page.moments_given
    );
    std::fs::write(file, page.html)?;
    Ok(())
}
