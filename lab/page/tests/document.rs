//! Guarantees of the page of a document: its text. `document_browser.rs` tests its behaviour.
//!
//! Reading code does not reveal a figure or a claim that is missing in the text.

#[path = "specimen/document.rs"]
mod made_up;
mod markup;

use std::collections::HashSet;

use everybuddy_page::document::{Block, Claim, Document, Verdict};
use everybuddy_page::{BUDGET, markdown, render_document as html};
use markup::{markup, values};

fn claims(document: &Document) -> Vec<&Claim> {
    let claims = document.blocks.iter().filter_map(|block| match block {
        Block::Claims(claims) => Some(claims),
        _ => None,
    });
    claims.flatten().collect()
}

#[test]
fn everything_has_its_place_and_every_link_leads_somewhere() {
    let document = made_up::document();
    let html = html(&document);
    assert!(html.len() <= BUDGET, "{} bytes", html.len());
    let markup = markup(&html);
    let pasted = markdown::of(&document);
    let ids = values(&markup, "id");
    let known: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(known.len(), ids.len(), "duplicate id");
    let links = values(&markup, "href");
    for target in links.iter().filter_map(|href| href.strip_prefix('#')) {
        assert!(known.contains(target), "#{target} is a dead link");
    }
    for name in ["drawn", "tabled", "wide"] {
        let anchor = format!("#part-{name}");
        assert!(links.contains(&anchor.as_str()), "{anchor}");
    }
    let figures = values(&markup, "data-parcel");
    assert_eq!(figures, ["part-drawn-figure-1-data"]);
    assert!(html.contains("id=\"part-drawn-figure-1-data\""));
    let titles = document.blocks.iter().filter_map(|block| match block {
        Block::Table(own) => Some(own.title.as_str()),
        Block::Grid(own) => Some(own.note.as_str()),
        Block::Section(own) => Some(own.title.as_str()),
        Block::Verbatim(own) => own.lines().next(),
        _ => None,
    });
    let texts = claims(&document).into_iter().map(|own| own.text.as_str());
    for text in titles.chain(texts).chain(["Made up.", "Printed."]) {
        assert!(markup.contains(text), "{text}");
        assert!(pasted.contains(text), "{text}");
    }
    assert!(markup.contains("Few <code>words</code>."));
    for text in [&markup, &pasted] {
        assert!(!text.contains("only at a terminal"));
    }
    assert!(markup.contains("default-src 'none'") && !markup.contains("connect-src"));
}

#[test]
fn verdicts_are_counted_and_each_is_a_word() {
    let document = made_up::document();
    let markup = markup(&html(&document));
    for (verdict, word) in [
        (Verdict::Pass, "pass"),
        (Verdict::KnownDeviation, "known deviation"),
        (Verdict::Fail, "fail"),
        (Verdict::Inconclusive, "inconclusive"),
        (Verdict::NotJudged, "not judged"),
    ] {
        let all = claims(&document).into_iter();
        let count = all.filter(|claim| claim.verdict == verdict).count();
        assert!(count > 0, "the made-up document lacks {word}");
        assert!(
            markup.contains(&format!("{count} {word}</span>")),
            "{count} {word}"
        );
        assert!(markdown::of(&document).contains(&format!("- **{word}**: ")));
    }
    assert!(markup.contains("Why: it is made up"));
}

#[test]
fn a_number_stands_beside_what_was_expected_with_ratio_and_difference() {
    let markup = markup(&html(&made_up::document()));
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
fn texts_are_never_markup() {
    let evil =
        "x\"'><img src=http://evil.example/ onerror=alert(1)></script><script>alert(2)</script>";
    let mut document = made_up::document();
    document.title = evil.into();
    document.lede = evil.into();
    document.made.command = evil.into();
    document.remarks[0].1 = evil.into();
    for block in &mut document.blocks {
        match block {
            Block::Section(own) => {
                (own.name, own.title, own.source) = (evil.into(), evil.into(), evil.into());
            }
            Block::Text(own) => (own.head, own.text) = (evil.into(), evil.into()),
            Block::Claims(own) => own[0].text = evil.into(),
            Block::Table(own) => {
                (own.title, own.note, own.first) = (evil.into(), evil.into(), evil.into());
                own.names[0] = evil.into();
                own.columns[0].head[0] = evil.into();
                own.columns[0].texts[0] = evil.into();
            }
            Block::Grid(own) => own.lines[0].1[0].title = evil.into(),
            Block::Figure(own) => {
                own.panels[0].title = evil.into();
                own.panels[0].series[0].name = evil.into();
            }
            Block::Verbatim(own) => *own = evil.into(),
            Block::Space | Block::Only(..) => {}
        }
    }
    let html = html(&document);
    assert!(!html.contains("<img") && !html.contains("<script>alert"));
    let pasted = markdown::of(&document);
    let verbatim = format!("```text\n{evil}\n```");
    assert!(pasted.contains(&verbatim));
    let code = format!("Made by `{evil}`");
    let rest = pasted.replace(&verbatim, "").replace(&code, "");
    assert!(!rest.replace("\\<", "").contains('<'), "{rest}");
}

#[test]
fn a_document_of_nothing_is_a_page() {
    assert!(html(&Document::default()).contains("no results"));
}
