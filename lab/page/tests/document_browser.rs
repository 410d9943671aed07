//! Guarantees of the page of a document: its behaviour in a browser.
//!
//! Reading code does not reveal a figure that is not drawn, or a page that is too wide for a telephone. Without
//! Chromium, these tests report that and pass.
//!
//! # Invariants
//! The browser has access to this file only; a request for anything else fails the test.

#[allow(dead_code)] // The tests of the other page use more of this module.
mod browsing;
#[path = "specimen/document.rs"]
mod made_up;

use browsing::{Page, open_html};
use everybuddy_page::document::Block;
use everybuddy_page::render_document;

/// Opens the page with every figure drawn.
fn drawn(name: &str) -> Option<Page> {
    let html = render_document(&made_up::document());
    let page = open_html(&html, name)?;
    draw_all(&page);
    Some(page)
}

/// Scrolls through the page until every figure was drawn.
fn draw_all(page: &Page) {
    let missing = page.text(
        "(async () => {
            const figures = [...document.querySelectorAll('figure.fig')];
            for (const figure of figures) {
                figure.scrollIntoView({ behavior: 'instant' });
                for (let round = 0; round < 100 && !figure.dataset.drawn; round++)
                    await new Promise((done) => setTimeout(done, 60));
            }
            window.scrollTo({ top: 0, behavior: 'instant' });
            return figures.filter((one) => !one.dataset.drawn).map((one) => one.id).join();
        })()",
    );
    assert_eq!(missing, "", "figures were not drawn");
}

#[test]
fn every_panel_is_drawn_without_errors_or_requests() {
    let Some(page) = drawn("document") else {
        return;
    };
    let panels: usize = made_up::document()
        .blocks
        .iter()
        .map(|block| match block {
            Block::Figure(figure) => figure.panels.len(),
            _ => 0,
        })
        .sum();
    let drawn = "[...document.querySelectorAll('.panel')].filter((panel) =>
        panel.querySelectorAll('.trace path, .trace .point').length).length";
    assert_eq!(page.number(drawn), panels as f64);
    // Every axis has tick marks, and every name has a legend entry; a ring shares the entry of the line of its name.
    let unmarked = "[...document.querySelectorAll('.panel')].filter((panel) =>
        panel.querySelectorAll('.xtick').length < 2 || panel.querySelectorAll('.ytick').length < 2).length";
    assert_eq!(page.number(unmarked), 0.0);
    assert_eq!(
        page.number("document.querySelectorAll('figure .key li').length"),
        4.0
    );
    page.is_clean();
}

#[test]
fn nothing_is_wider_than_the_window() {
    let Some(page) = drawn("document-narrow") else {
        return;
    };
    for scheme in ["light", "dark"] {
        page.prefers(scheme);
        for width in [360, 768, 1280, 1920] {
            page.wide(width);
            draw_all(&page);
            let beyond = "document.documentElement.scrollWidth - innerWidth";
            assert!(page.number(beyond) <= 0.0, "{width}");
            // Wide tables scroll by themselves, and charts fit their panels.
            let torn = "[...document.querySelectorAll('.plot .main-svg')].filter((one) => {
                const panel = one.closest('.panel').getBoundingClientRect();
                return one.getBoundingClientRect().right > panel.right + 1;
            }).length";
            assert_eq!(page.number(torn), 0.0, "{width}");
            page.shoot(&format!("document-{scheme}-{width}.png"));
        }
    }
    page.is_clean();
}

#[test]
fn colours_follow_the_reader() {
    let Some(page) = drawn("document-colours") else {
        return;
    };
    let colour = "getComputedStyle(document.querySelector('.plot .js-line')).stroke
        + getComputedStyle(document.querySelector('.verdict.pass')).color";
    page.prefers("light");
    let light = page.text(colour);
    page.text("document.getElementById('theme').click(), ''");
    page.settle();
    assert_ne!(page.text(colour), light);
    // Verdicts also differ in colour.
    let kinds = "new Set([...document.querySelectorAll('.overview .verdict')].map((one) =>
        getComputedStyle(one).color)).size";
    assert_eq!(page.number(kinds), 5.0);
    page.is_clean();
}
