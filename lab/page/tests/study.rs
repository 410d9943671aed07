//! Guarantees of the page of experiments: its text. `study_browser.rs` tests its behaviour.
//!
//! Reading code does not reveal a figure or a claim that is missing in the text.

#[path = "specimen/study.rs"]
mod made_up;
mod markup;

use std::collections::HashSet;

use everybuddy_page::study::{Study, Verdict};
use everybuddy_page::{BUDGET, render_study};
use markup::{markup, values};

fn html(study: &Study) -> String {
    render_study(study)
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
    for (verdict, word) in [
        (Verdict::Pass, "pass"),
        (Verdict::KnownDeviation, "known deviation"),
        (Verdict::Fail, "fail"),
        (Verdict::Inconclusive, "inconclusive"),
        (Verdict::NotJudged, "not judged"),
    ] {
        let all = study.experiments.iter().flat_map(|own| &own.claims);
        let count = all.filter(|claim| claim.verdict == verdict).count();
        assert!(count > 0, "the made-up study lacks {word}");
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
