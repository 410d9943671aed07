//! Guarantees of the page of experiments: its text without a browser, and its behaviour in one.
//!
//! # Purpose
//!
//! Reading code does not reveal a figure that is not drawn, a claim that is not shown, or a page that is too wide for
//! a telephone. Without Chromium, the browser tests report that and pass.
//!
//! # Invariants
//!
//! The browser has access to this file only; a request for anything else fails the test.

#[allow(dead_code)] // The tests of the other page use more of this module.
mod browsing;
#[path = "specimen/study.rs"]
mod made_up;

use std::collections::HashSet;

use browsing::{Page, open_html};
use everybuddy_page::study::{Study, Verdict};
use everybuddy_page::{BUDGET, render_study};

fn html(study: &Study) -> String {
    render_study(study).expect("the library is found")
}

/// Returns the page without data and scripts.
fn markup(html: &str) -> String {
    let mut rest = html;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once("<script") {
        out += before;
        rest = after.split_once("</script>").expect("each script ends").1;
    }
    out + rest
}

fn values<'h>(html: &'h str, attribute: &str) -> Vec<&'h str> {
    let start = format!(" {attribute}=\"");
    let parts = html.split(start.as_str()).skip(1);
    parts.filter_map(|part| part.split('"').next()).collect()
}

#[test]
fn everything_has_its_place_and_every_link_leads_somewhere() {
    let study = made_up::study();
    let html = html(&study);
    assert!(html.len() <= BUDGET, "{} bytes", html.len());
    let markup = markup(&html);
    let ids = values(&markup, "id");
    let known: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(known.len(), ids.len(), "duplicate id");
    let links = values(&markup, "href");
    for target in links.iter().filter_map(|href| href.strip_prefix('#')) {
        assert!(known.contains(target), "#{target} is a dead link");
    }
    for own in &study.experiments {
        let anchor = format!("experiment-{}", own.name);
        assert!(links.contains(&format!("#{anchor}").as_str()), "{anchor}");
        assert_eq!(
            known.contains(format!("{anchor}-figure").as_str()),
            own.figure.is_some()
        );
        for text in own.claims.iter().map(|claim| &claim.text) {
            assert!(markup.contains(text.as_str()), "{text}");
        }
        for table in &own.tables {
            assert!(markup.contains(table.title.as_str()), "{}", table.title);
        }
        assert!(markup.contains(&format!("everybuddy reproduce {}", own.name)));
    }
    assert!(markup.contains("default-src 'none'") && !markup.contains("connect-src"));
}

#[test]
fn verdicts_are_counted_and_each_is_a_word() {
    let study = made_up::study();
    let markup = markup(&html(&study));
    for (verdict, words) in [
        (Verdict::Holds, ["holds", "hold"]),
        (Verdict::Differs, ["differs", "differ"]),
        (Verdict::Fails, ["fails", "fail"]),
        (Verdict::Undecided, ["undecided", "undecided"]),
        (Verdict::NotJudged, ["not judged", "not judged"]),
    ] {
        let all = study.experiments.iter().flat_map(|own| &own.claims);
        let count = all.filter(|claim| claim.verdict == verdict).count();
        assert!(count > 0, "the made-up study lacks {words:?}");
        let word = if count == 1 { words[0] } else { words[1] };
        assert!(
            markup.contains(&format!("{count} {word}</span>")),
            "{count} {word}"
        );
    }
    assert!(markup.contains("Why: it is made up"));
}

#[test]
fn a_number_stands_beside_what_was_expected_with_ratio_and_difference() {
    let markup = markup(&html(&made_up::study()));
    // 0.75 measured, 0.50 in the source; and 3 where nothing was expected.
    let cell = |text: &str| format!("<td class=\"beside\">{text}</td>");
    let line = ["0.50", "1.50", "+0.25"].map(cell).concat();
    assert!(markup.contains(&format!(">0.75</td>{line}")));
    let nothing = [""; 3].map(cell).concat();
    assert!(markup.contains(&format!(">3.00</td>{nothing}")));
    // The ratio to zero is undefined.
    let zero = ["0", "", "+2.00"].map(cell).concat();
    assert!(markup.contains(&format!(">2.00</td>{zero}")));
    assert!(!markup.contains("NaN") && !markup.contains(">inf"));
}

#[test]
fn a_shortened_run_says_so_and_a_long_one_does_not() {
    let mut study = made_up::study();
    study.shrink = 1;
    assert!(!html(&study).contains("not measurements"));
    study.shrink = 50;
    assert!(html(&study).contains("shortened 50 times"));
}

#[test]
fn texts_are_never_markup() {
    let evil =
        "x\"'><img src=http://evil.example/ onerror=alert(1)></script><script>alert(2)</script>";
    let mut study = made_up::study();
    study.title = evil.into();
    study.command = evil.into();
    let own = &mut study.experiments[0];
    for text in [
        &mut own.name,
        &mut own.title,
        &mut own.source,
        &mut own.remarks,
    ] {
        *text = evil.into();
    }
    own.claims[0].text = evil.into();
    own.tables[0].names[0] = evil.into();
    own.tables[0].columns[0].source = evil.into();
    let panel = &mut own.figure.as_mut().unwrap().panels[0];
    panel.title = evil.into();
    panel.series[0].name = evil.into();
    let html = html(&study);
    assert!(!html.contains("<img") && !html.contains("<script>alert"));
}

#[test]
fn a_study_of_nothing_is_a_page() {
    assert!(html(&Study::default()).contains("no experiments"));
}

/// Opens the page with every figure drawn.
fn drawn(name: &str) -> Option<Page> {
    let page = open_html(&html(&made_up::study()), name)?;
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
    let Some(page) = drawn("study") else { return };
    let panels: usize = made_up::study()
        .experiments
        .iter()
        .filter_map(|own| own.figure.as_ref())
        .map(|figure| figure.panels.len())
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
    let Some(page) = drawn("study-narrow") else {
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
            page.shoot(&format!("study-{scheme}-{width}.png"));
        }
    }
    page.is_clean();
}

#[test]
fn colours_follow_the_reader() {
    let Some(page) = drawn("study-colours") else {
        return;
    };
    let colour = "getComputedStyle(document.querySelector('.plot .js-line')).stroke
        + getComputedStyle(document.querySelector('.verdict.holds')).color";
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
