//! Guarantees of the page's text, tested without a browser.
//!
//! Most errors are found within a second: markup in names, an address that would be fetched, a figure without a
//! container, a dead link, a page that is too large.
//!
//! # Invariants
//! These tests ignore the effects of scripts; `browser.rs` tests those.

mod markup;
mod specimen;

use std::collections::HashSet;

use everybuddy_page::report::{Bin, Column, FREE, Latency, Map, Samples, System, Table, Trace};
use everybuddy_page::{BUDGET, Report, render, render_within};
use markup::{markup, values};

#[rustfmt::skip]
const FIGURES: [&str; 11] = [
    "latency", "pace", "window", "lists", "contention", "blocks", "unusable", "kept", "map", "demand", "runs",
];

fn html(report: &Report) -> String {
    render(report).html
}

fn small() -> Report {
    let mut report = specimen::report(3);
    report.traces.truncate(1);
    report.traces[0].systems.truncate(3);
    report
}

#[test]
fn a_page_of_real_size_stays_below_the_budget() {
    let page = render(&specimen::report(1));
    assert!(page.html.len() <= BUDGET, "{} bytes", page.html.len());
    assert_eq!(page.moments_given, 8);
    assert!(page.moments >= 1, "no map is left");
    let says = page.html.contains("of the 8 moments");
    assert_eq!(
        says,
        page.moments < 8,
        "the note exists if and only if maps are omitted"
    );
}

#[test]
fn maps_are_left_out_one_moment_after_the_other() {
    let report = small();
    let whole = render_within(&report, usize::MAX);
    assert_eq!(whole.moments, 8);
    assert!(!whole.html.contains("To limit its size"));
    let mut budget = whole.html.len() - 1;
    let mut moments = 8;
    while moments > 0 {
        let page = render_within(&report, budget);
        assert!(page.moments < moments);
        assert!(page.html.contains("To limit its size"));
        let held = values(&page.html, "id")
            .iter()
            .filter(|id| id.starts_with("map-0-"))
            .count();
        assert_eq!(held, page.moments);
        moments = page.moments;
        budget = page.html.len() - 1;
    }
    // Nothing more can be omitted: the page is rendered anyway.
    assert_eq!(render_within(&report, 1000).moments, 0);
}

#[test]
fn nothing_is_fetched_from_anywhere() {
    let html = html(&specimen::report(1));
    let markup = markup(&html);
    for attribute in ["src", "href", "action", "data", "poster", "srcset"] {
        for value in values(&markup, attribute) {
            assert!(
                value.starts_with('#') || value == "data:,",
                "{attribute}={value}"
            );
        }
    }
    assert!(!html.contains("<script src"));
    assert!(!markup.contains("@import") && !markup.contains("url("));
    assert!(markup.contains("default-src 'none'"));
    assert!(!markup.contains("connect-src"));
}

#[test]
fn every_figure_has_its_place_and_every_link_leads_somewhere() {
    let report = specimen::report(1);
    let html = html(&report);
    let markup = markup(&html);
    let ids = values(&markup, "id");
    let known: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(known.len(), ids.len(), "duplicate id");
    for trace in &report.traces {
        for figure in FIGURES {
            let id = format!("trace-{}-{figure}", trace.name);
            assert!(known.contains(id.as_str()), "{id}");
        }
    }
    for target in values(&markup, "href")
        .iter()
        .filter_map(|href| href.strip_prefix('#'))
    {
        assert!(known.contains(target), "#{target} is a dead link");
    }
    for target in values(&markup, "aria-labelledby") {
        assert!(known.contains(target), "{target} labels nothing");
    }
}

#[test]
fn the_table_can_be_read_without_scripts() {
    let report = specimen::report(1);
    let markup = markup(&html(&report));
    for trace in &report.traces {
        for system in &trace.systems {
            assert!(markup.contains(&format!(">{}</th>", system.name)));
        }
    }
    assert!(markup.contains("(best)"));
    assert!(markup.contains("431,168"));
}

#[test]
fn the_answer_is_above_the_table() {
    let mut report = small();
    let page = markup(&html(&report));
    let place = |text: &str| page.find(text).expect(text);
    assert!(place("made up. Linux is <code>linux-6</code>") < place("<dt>bs</dt>"));
    assert!(place("<code>everybuddy advise</code>") < place("<dt>bs</dt>"));
    assert!(place("<dt>bs</dt>") < place("but slower: <code>is</code>"));
    assert!(place("but slower") < place("Unknown: Frames were never touched"));
    assert!(place("A system beats another one") < place("table class=\"systems\""));
    report.traces[0].answer = None;
    assert!(!markup(&html(&report)).contains("class=\"answer\""));
}

#[test]
fn what_no_kernel_has_is_grey_and_never_the_fastest() {
    let mut report = small();
    let trace = &mut report.traces[0];
    for (at, system) in trace.systems.iter_mut().enumerate() {
        let mean = 10.0 + at as f64;
        system
            .latency
            .iter_mut()
            .for_each(|own| own.mean = Some(mean));
    }
    let names: Vec<String> = trace.systems.iter().map(|own| own.name.clone()).collect();
    let fastest = |report: &Report| {
        let page = markup(&html(report));
        let (_, rest) = page.split_once("Fastest on average: ").unwrap();
        (rest.split(' ').next().unwrap().to_string(), page.clone())
    };
    let (name, page) = fastest(&report);
    assert_eq!(name, names[0]);
    assert!(!page.contains("class=\"apart\"") && !page.contains("Grey systems"));
    report.traces[0].systems[0].is_apart = true;
    let (name, page) = fastest(&report);
    assert_eq!(name, names[1]);
    let place = |text: &str| page.find(text).expect(text);
    let line = |name: &str| place(&format!("<tr data-system=\"{name}\""));
    assert!(line(&names[1]) < place("<tbody class=\"apart\">"));
    assert!(place("<tbody class=\"apart\">") < line(&names[0]));
    assert!(page.contains("Grey systems are not judged"));
}

#[test]
fn what_is_below_the_timer_says_so() {
    let mut report = small();
    report.traces[0].systems[0].latency[0].p99 = None;
    assert!(markup(&html(&report)).contains("≤10"));
}

#[test]
fn names_are_text_and_never_markup() {
    let evil =
        "x\"'><img src=http://evil.example/ onerror=alert(1)></script><script>alert(2)</script>";
    let mut report = small();
    report.title = evil.into();
    report.command = evil.into();
    report.machine.processor = evil.into();
    report.machine.quiet = evil.into();
    let trace = &mut report.traces[0];
    trace.name = evil.into();
    trace.dealt = evil.into();
    trace.owners = vec![evil.into()];
    trace.statistics.contexts[0].name = evil.into();
    trace.systems[0].name = evil.into();
    trace.systems[0].parameters = evil.into();
    let answer = trace.answer.as_mut().unwrap();
    (answer.summary, answer.rule) = (evil.into(), evil.into());
    answer.limits = evil.into();
    answer.systems[0] = (evil.into(), evil.into());
    let twin = trace.clone();
    report.traces.push(twin);
    let html = html(&report);
    assert!(!html.contains("<img") && !html.contains("<script>alert"));
    assert!(html.contains("&lt;/script&gt;"));
    let ids = values(&html, "id");
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
}

#[test]
fn a_trace_without_systems_shows_what_it_is_like_and_nothing_else() {
    let mut report = small();
    report.traces[0].systems.clear();
    report.traces[0].threads = 0;
    report.traces[0].managed_frames = 0;
    let markup = markup(&html(&report));
    assert!(markup.contains("-demand\"") && markup.contains("-runs\""));
    assert!(!markup.contains("data-figure=\"latency\""));
    assert!(!markup.contains("table class=\"systems\""));
    assert!(
        !markup.contains("def-service_ratio"),
        "definitions of what is not there"
    );
}

#[test]
fn odd_numbers_are_shown_as_nothing() {
    let odd = System {
        name: "odd".into(),
        service_ratio: Some(f64::NAN),
        latency: [
            Latency {
                mean: Some(f64::NAN),
                histogram: vec![Bin {
                    upper: f64::INFINITY,
                    count: 0,
                }],
                ..Latency::default()
            },
            Latency::default(),
        ],
        samples: Samples {
            positions: vec![f64::NAN],
            unusable: vec![vec![f64::NAN]],
            ..Samples::default()
        },
        maps: vec![Map::of(f64::NAN, [(FREE, 0)])],
        ..System::default()
    };
    let report = Report {
        traces: vec![
            Trace {
                table: Table {
                    columns: vec![Column {
                        values: vec![Some(f64::NAN), None, Some(f64::INFINITY)],
                        ..Column::default()
                    }],
                },
                systems: vec![odd.clone(), System::default(), odd],
                managed_frames: 1,
                ..Trace::default()
            },
            Trace::default(),
        ],
        ..Report::default()
    };
    let markup = markup(&html(&report));
    assert!(!markup.contains("NaN") && !markup.contains(">inf"));
}

#[test]
fn a_report_without_traces_is_a_page() {
    assert!(html(&Report::default()).contains("no traces"));
}
