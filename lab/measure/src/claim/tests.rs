//! Each kind of claim passes, fails and is inconclusive; each misspelt name is an error.

use super::*;
use crate::rows::Row;

fn row(system: &str, metric: &'static str, statistic: &'static str, value: f64) -> Row {
    Row {
        experiment: "x".to_string(),
        source: "s".to_string(),
        system: system.to_string(),
        operation: "all",
        metric,
        statistic,
        value,
        expected: Some(2.0),
        ..Row::default()
    }
}

fn rows(values: &[(&str, &'static str, f64)]) -> Vec<Row> {
    let values = values.iter();
    values
        .map(|(system, statistic, value)| row(system, "latency", statistic, *value))
        .collect()
}

fn claim(text: &str) -> Claim {
    toml::from_str(&format!("text = ''\n{text}")).unwrap()
}

/// A claim about mean latencies.
fn mean(text: &str) -> Claim {
    claim(&format!("metric = 'latency'\nstatistic = 'mean'\n{text}"))
}

fn systems() -> Vec<String> {
    ["bs", "is", "linux-6", "floor"].map(String::from).to_vec()
}

fn words(systems: &[String]) -> Words<'_> {
    Words {
        systems,
        operations: &["MMM_TestBS"],
    }
}

fn judge(claim: &str, values: &[(&str, &'static str, f64)]) -> State {
    let claim = self::claim(&format!("metric = 'latency'\n{claim}"));
    claim.check(words(&systems())).unwrap();
    claim.judge("x", &rows(values)).state
}

#[test]
fn points_below_a_curve() {
    // Each system with its misses and its residual.
    let judge = |points: &[(&str, f64, f64)]| {
        let numbers = points.iter().flat_map(|(system, missed, left)| {
            let missed = row(system, "miss_rate", "value", *missed);
            let left = row(system, "residual", "mean", *left);
            [missed, left].map(|row| Row {
                operation: "free",
                ..row
            })
        });
        let rows: Vec<Row> = numbers.collect();
        let text = "kind = 'below'\nmetric = 'miss_rate'\nstatistic = 'value'\n\
                    operation = 'free'\nagainst = 'residual'\nsystems = ['linux-6', 'bs', 'is']";
        claim(text).judge("x", &rows).state
    };
    let curve = [("bs", 8.0, 10.0), ("is", 2.0, 40.0)];
    let with = |missed, left| {
        let points = [&[("linux-6", missed, left)], &curve[..]].concat();
        judge(&points)
    };
    // Between the two systems, only the one with the lower cost counts.
    assert_eq!(with(7.0, 20.0), State::Pass);
    assert_eq!(with(8.0, 20.0), State::Fail);
    assert_eq!(with(7.0, 40.0), State::Fail);
    assert_eq!(with(1.0, 40.0), State::Pass);
    // Left of the curve, below and above its end.
    assert_eq!(with(7.0, 5.0), State::Pass);
    assert_eq!(with(9.0, 5.0), State::Inconclusive);
    assert_eq!(judge(&curve), State::Inconclusive);
}

#[test]
fn a_point_above_a_curve_is_a_known_deviation_up_to_its_bound() {
    let word = |missed: f64| {
        let rows = [("bs", missed, 20.0), ("is", 4.0, 10.0)].map(|(system, missed, left)| {
            let missed = row(system, "miss_rate", "value", missed);
            [missed, row(system, "residual", "mean", left)]
        });
        let text = "kind = 'below'\nmetric = 'miss_rate'\nstatistic = 'value'\nagainst = 'residual'\n\
                    systems = ['bs', 'is']\ndiffers = 'known'\nstill_within = 0.5";
        let claim = claim(text);
        claim.judge("x", &rows.concat()).word(&claim)
    };
    let words = [3.9, 4.0, 7.9, 8.1].map(word);
    assert_eq!(
        words,
        ["pass", "known deviation", "known deviation", "FAIL"]
    );
}

#[test]
fn orderings() {
    let claim = "kind = 'ordering'\nstatistic = 'mean'\nsystems = ['bs', 'is']\n";
    let of = |claim: &str, bs, is| judge(claim, &[("bs", "mean", bs), ("is", "mean", is)]);
    let more = format!("{claim}relations = ['>']");
    assert_eq!(of(&more, 2.0, 1.0), State::Pass);
    assert_eq!(of(&more, 1.0, 1.0), State::Fail);
    assert_eq!(judge(&more, &[("bs", "mean", 1.0)]), State::Inconclusive);
    let equal = format!("{claim}relations = ['>=']\ntolerance = 0.1");
    assert_eq!(of(&equal, 95.0, 100.0), State::Pass);
    assert_eq!(of(&equal, 85.0, 100.0), State::Fail);
}

#[test]
fn a_claim_about_times_fails_only_if_all_rounds_say_so() {
    let claim = "kind = 'ratio'\nstatistic = 'p50'\nsystems = ['is', 'bs']\nat_most = 1.5\n";
    let of = |least, most| {
        [
            ("is", "p50", 2.0),
            ("is", "min", least),
            ("is", "max", most),
            ("bs", "p50", 1.0),
            ("bs", "min", 1.0),
            ("bs", "max", 1.0),
        ]
    };
    assert_eq!(judge(claim, &of(1.4, 2.1)), State::Inconclusive);
    assert_eq!(judge(claim, &of(1.6, 2.1)), State::Fail);
    let expected = "kind = 'ratio'\nof = 'expected'\nstatistic = 'mean'\nsystems = ['bs']\n\
                    at_least = 1\nat_most = 1";
    assert_eq!(judge(expected, &[("bs", "mean", 2.0)]), State::Pass);
    assert_eq!(judge(expected, &[("bs", "mean", 2.1)]), State::Fail);
    assert_eq!(judge(expected, &[]), State::Inconclusive);
}

#[test]
fn names_that_do_not_exist_are_errors_with_the_nearest() {
    let text = "kind = 'bound'\nmetric = 'latency'\nstatistic = 'p50'\noperation = 'free'\n\
                systems = ['bs']\nrivals = ['is']\nat_most = 1\nagainst = 'residual'";
    let error = |from: &str, to: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        claim(&changed).check(words(&systems())).unwrap_err()
    };
    assert_eq!(claim(text).check(words(&systems())), Ok(()));
    for (from, to, nearest) in [
        ("'latency'", "'latncy'", "metric `latncy`; `latency`?"),
        ("'p50'", "'p5O'", "`p5O`; `p5"),
        ("'free'", "'fre'", "operation `fre`; `free`?"),
        ("['bs']", "['bss']", "system `bss`; `bs`?"),
        ("['is']", "['linux6']", "`linux6`; `linux-6`?"),
        ("'residual'", "'residuals'", "`residuals`; `residual`?"),
    ] {
        let nearest = nearest.replace("; ", " does not exist; did you mean ");
        let message = error(from, to);
        assert!(message.contains(&nearest), "{message}");
    }
    assert!(error("at_most = 1\n", "\n").contains("at_least"));
}

/// Rows of a benchmark with two rounds: medians, ends and rounds of each system.
fn bench(times: &[(&str, [f64; 2], f64)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (system, rounds, disturbed) in times {
        let common = Row {
            experiment: "bench".to_string(),
            source: "hot".to_string(),
            system: system.to_string(),
            cpus: 2,
            operation: "pair",
            metric: "latency",
            ..Row::default()
        };
        let [a, b] = *rounds;
        for (statistic, value) in [("p50", (a + b) / 2.0), ("min", a.min(b)), ("max", a.max(b))] {
            rows.push(Row {
                statistic,
                value,
                ..common.clone()
            });
        }
        for (round, value) in rounds.iter().enumerate() {
            let experiment = format!("bench@{round}");
            let statistic = "value";
            rows.push(Row {
                experiment,
                statistic,
                value: *value,
                ..common.clone()
            });
        }
        let (metric, statistic, operation) = ("rounds_disturbed", "count", "all");
        rows.push(Row {
            metric,
            statistic,
            operation,
            value: *disturbed,
            ..common
        });
    }
    rows
}

#[test]
fn ratios_to_rivals_are_formed_within_rounds() {
    let claim = claim(
        "kind = 'ratio'\nmetric = 'latency'\nstatistic = 'p50'\noperation = ['pair', 'free']\n\
         systems = ['bs']\nrivals = ['is', 'linux-6']\nat_most = 1\nsure = true\npaired = true",
    );
    claim.check(words(&systems())).unwrap();
    let judge = |times: &[(&str, [f64; 2], f64)]| claim.judge("bench", &bench(times));
    // The machine is three times as slow in the second round, which does not affect the ratios.
    let verdict = judge(&[
        ("bs", [1.0, 3.0], 0.0),
        ("is", [2.0, 6.0], 0.0),
        ("linux-6", [1.25, 3.75], 0.0),
    ]);
    assert_eq!(verdict.state, State::Pass);
    assert_eq!(verdict.cases.len(), 1);
    assert!(
        verdict.cases[0].text.contains("bs / linux-6 0.80"),
        "{:?}",
        verdict.cases
    );
    let state = |own, rival| judge(&[("bs", own, 0.0), ("is", rival, 0.0)]).state;
    assert_eq!(state([1.0, 1.0], [1.1, 0.9]), State::Inconclusive);
    assert_eq!(state([1.0, 1.0], [0.8, 0.9]), State::Fail);
    // A disturbed value decides nothing, unless it is far from the bound; a rival that does not support the work is
    // ignored.
    let disturbed = |rival| judge(&[("bs", [1.0, 1.0], 0.0), ("is", rival, 1.0)]);
    assert_eq!(disturbed([1.5, 1.5]).state, State::Inconclusive);
    assert!(disturbed([100.0, 100.0]).cases.is_empty());
    assert!(judge(&[("bs", [1.0, 1.0], 0.0)]).cases.is_empty());
}

#[test]
fn the_case_furthest_beyond_its_bound_decides() {
    let deciding = |text: &str, values: &[(&str, &'static str, f64)]| {
        let claim = claim(&format!("metric = 'latency'\nstatistic = 'mean'\n{text}"));
        claim.check(words(&systems())).unwrap();
        let verdict = claim.judge("x", &rows(values));
        verdict.deciding().unwrap().text.clone()
    };
    let bound = "kind = 'bound'\nsystems = []\nat_least = 1\nat_most = 4\n";
    let values = |own: [f64; 3]| {
        let names = ["bs", "is", "linux-6"];
        [0, 1, 2].map(|at| (names[at], "mean", own[at]))
    };
    // Half of the least is as far off as twice the most; of both, the first one decides.
    assert!(deciding(bound, &values([5.0, 0.4, 3.0])).contains("is 0.40"));
    assert!(deciding(bound, &values([8.0, 2.0, 0.5])).contains("bs 8.00"));
    // Where all keep it, the nearest one does.
    assert!(deciding(bound, &values([2.0, 3.9, 3.0])).contains("is 3.90"));
    let both = "kind = 'ordering'\nsystems = ['bs', 'is', 'linux-6']\nrelations = ['<', '<']";
    assert!(deciding(both, &values([2.0, 1.0, 3.0])).contains("bs 2.00 < is 1.00"));
}

#[test]
fn bounds_are_of_each_system() {
    let claim = |more: &str| {
        let text = "kind = 'bound'\nmetric = 'latency'\nstatistic = 'p50'\noperation = 'pair'\n\
                    systems = []\nat_most = 5\n";
        claim(&format!("{text}{more}"))
    };
    let rows = |most| bench(&[("bs", [1.0, 2.0], 0.0), ("is", [4.0, most], 0.0)]);
    let judge = |more: &str, most| claim(more).judge("bench", &rows(most));
    assert_eq!(judge("", 5.0).state, State::Pass);
    assert_eq!(judge("", 5.0).cases.len(), 2);
    assert_eq!(judge("", 5.5).state, State::Pass);
    assert_eq!(judge("sure = true", 5.5).state, State::Inconclusive);
    assert_eq!(judge("", 9.0).state, State::Inconclusive);
    assert_eq!(judge("sources = ['cold']", 5.0).state, State::Inconclusive);
    let words: Vec<&str> = [(5.0, ""), (9.0, "")]
        .map(|(most, more)| judge(more, most).word(&claim(more)))
        .to_vec();
    assert_eq!(words, ["pass", "inconclusive"]);
    let far = bench(&[("bs", [8.0, 9.0], 0.0)]);
    let (plain, known) = (claim(""), claim("differs = 'known'\nstill_at_most = 10"));
    assert!(plain.judge("bench", &far).is_failure(&plain));
    assert!(!known.judge("bench", &far).is_failure(&known));
    assert_eq!(known.judge("bench", &far).word(&known), "known deviation");
}

#[test]
fn a_known_deviation_fails_beyond_its_bound() {
    let judge = |text: &str, own: f64, other: f64| {
        let claim = mean(&format!("differs = 'known'\n{text}"));
        claim.check(words(&systems())).unwrap();
        let verdict = claim.judge("x", &rows(&[("bs", "mean", own), ("is", "mean", other)]));
        (verdict.word(&claim), verdict.is_failure(&claim))
    };
    let (within, beyond) = (("known deviation", false), ("FAIL", true));
    let ratio = "kind = 'ratio'\nsystems = ['bs', 'is']\nat_least = 1\nat_most = 1.5\n";
    let most = format!("{ratio}still_at_most = 2");
    for (own, is) in [
        (1.4, ("pass", false)),
        (1.9, within),
        (2.1, beyond),
        (0.9, beyond),
    ] {
        assert_eq!(judge(&most, own, 1.0), is, "{own}");
    }
    let least = format!("{ratio}still_at_least = 0.5");
    assert_eq!(judge(&least, 0.9, 1.0), within);
    assert_eq!(judge(&least, 0.4, 1.0), beyond);
    assert_eq!(judge(&least, 1.9, 1.0), beyond);
    let ordering =
        "kind = 'ordering'\nsystems = ['bs', 'is']\nrelations = ['>']\nstill_within = 0.25";
    assert_eq!(judge(ordering, 4.0, 4.0), within);
    assert_eq!(judge(ordering, 3.1, 4.0), within);
    assert_eq!(judge(ordering, 2.9, 4.0), beyond);
}

#[test]
fn a_known_deviation_needs_a_bound_that_can_be_left() {
    let check = |text: &str| {
        let claim = mean(text);
        claim.check(words(&systems()))
    };
    let ratio = "kind = 'ratio'\nsystems = ['bs', 'is']\nat_most = 1.5\n";
    let ordering = "kind = 'ordering'\nsystems = ['bs', 'is']\nrelations = ['>']\n";
    let why = "differs = 'known'\n";
    for (text, message) in [
        (format!("{ratio}{why}"), "needs `still_at_least`"),
        (format!("{ratio}{why}still_at_most = 1.5"), "not wider"),
        (format!("{ratio}{why}still_at_least = 0.5"), "not wider"),
        (format!("{ratio}{why}still_within = 0.5"), "`still_at_most`"),
        (format!("{ratio}still_at_most = 2"), "`differs`"),
        (format!("{ordering}{why}"), "needs `still_within`"),
        (format!("{ordering}{why}still_within = 1"), "between"),
        (
            format!("{ordering}{why}still_at_most = 2"),
            "`still_within`",
        ),
        (format!("{ordering}still_within = 0.5"), "`differs`"),
    ] {
        let error = check(&text).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
    assert_eq!(check(&format!("{ratio}{why}still_at_most = 2")), Ok(()));
    assert_eq!(check(&format!("{ordering}{why}still_within = 0.5")), Ok(()));
}

/// Rows of two systems on two sources, with the ends of their rounds and the rounds themselves.
fn whole() -> Vec<Row> {
    let mut rows = Vec::new();
    for source in ["s", "t"] {
        for (system, value) in [("bs", 2.0), ("is", 1.0)] {
            let row = |experiment: &str, statistic| Row {
                experiment: experiment.to_string(),
                source: source.to_string(),
                system: system.to_string(),
                operation: "all",
                metric: "latency",
                statistic,
                value,
                ..Row::default()
            };
            rows.extend(["p50", "min", "max", "mean"].map(|statistic| row("x", statistic)));
            rows.extend(["x@0", "x@1"].map(|round| row(round, "mean")));
            let metric = "residual";
            rows.push(Row {
                metric,
                ..row("x", "mean")
            });
        }
    }
    rows
}

#[test]
fn a_claim_is_inconclusive_without_any_of_its_rows() {
    let all = ["bs", "is"].map(String::from);
    let complete = Complete {
        systems: &all,
        sources: ["s", "t"].map(String::from).to_vec(),
        has_ends: true,
        rounds: &|_| 2,
    };
    let claims = [
        "kind = 'ordering'\nstatistic = 'p50'\nsystems = ['bs', 'is']\nrelations = ['>']",
        "kind = 'ratio'\nstatistic = 'mean'\nsystems = ['bs', 'is']\nat_least = 2",
        "kind = 'ratio'\nof = 'spread'\nstatistic = 'p50'\nsystems = ['bs', 'is']\nat_most = 1",
        "kind = 'bound'\nstatistic = 'mean'\nsystems = []\nat_most = 2",
        "kind = 'bound'\nstatistic = 'p50'\nsystems = ['bs']\nsources = ['s', 't']\nat_most = 2",
        "kind = 'below'\nstatistic = 'mean'\nagainst = 'residual'\nsystems = ['is', 'bs']",
    ];
    for text in claims {
        let claim = claim(&format!("metric = 'latency'\n{text}"));
        claim.check(words(&systems())).unwrap();
        let judge = |rows: &[Row]| claim.judge_part("x", rows, &complete);
        let rows = whole();
        assert_eq!(judge(&rows).state, State::Pass, "{text}");
        let needs = |row: &Row| {
            let is_cost = row.metric == "residual";
            let is_own = row.statistic == claim.statistic
                || claim.statistic == "p50" && ["min", "max"].contains(&row.statistic);
            let has_system = claim.systems.is_empty() || claim.systems.contains(&row.system);
            has_system && is_own && (!is_cost || claim.against.is_some())
        };
        for (at, row) in rows.iter().enumerate().filter(|(_, row)| needs(row)) {
            let mut part = rows.clone();
            part.remove(at);
            let verdict = judge(&part);
            assert_eq!(verdict.state, State::Inconclusive, "{text}: {row:?}");
            let reason = &verdict.cases[0].text;
            assert!(reason.starts_with("rows missing: "), "{reason}");
            assert!(reason.contains(&row.source), "{reason}");
        }
        // Whole sources, whole systems, whole statistics.
        for without in ["s", "t", "bs", "p50", "mean"] {
            let has = |row: &&Row| [&*row.source, &*row.system, row.statistic].contains(&without);
            let part: Vec<Row> = rows.iter().filter(|row| !has(row)).cloned().collect();
            let expected = if rows.iter().any(|row| needs(row) && has(&row)) {
                State::Inconclusive
            } else {
                State::Pass
            };
            assert_eq!(judge(&part).state, expected, "{text}: without {without}");
        }
    }
}

#[test]
fn a_printed_number_is_missed_on_both_sides() {
    // The source prints 0.5.
    let claim =
        "kind = 'ratio'\nstatistic = 'p50'\nsystems = ['is', 'bs']\nexpected = 0.5\nwithin = 1.5\n";
    let of = |value, [least, most]: [f64; 2]| {
        let own = [
            ("is", "p50", value),
            ("is", "min", least),
            ("is", "max", most),
        ];
        let other = ["p50", "min", "max"].map(|statistic| ("bs", statistic, 1.0));
        judge(claim, &[own, other].concat())
    };
    assert_eq!(of(0.5, [0.4, 0.7]), State::Pass);
    assert_eq!(of(0.74, [0.74, 0.74]), State::Pass);
    assert_eq!(of(0.34, [0.34, 0.34]), State::Pass);
    // Ten times too slow and ten times too fast.
    assert_eq!(of(5.0, [5.0, 5.0]), State::Fail);
    assert_eq!(of(0.05, [0.05, 0.05]), State::Fail);
    // A bound inside the interval, whichever side the number is on.
    assert_eq!(of(0.7, [0.7, 0.8]), State::Inconclusive);
    assert_eq!(of(0.8, [0.7, 0.8]), State::Inconclusive);
    assert_eq!(of(0.35, [0.3, 0.35]), State::Inconclusive);
    // What is called a gain is none at 0.95, however wide the band; nor is a speedup below 1 / 0.95.
    let gains = [(0.577, 0.94, State::Pass), (0.577, 0.96, State::Fail)];
    let speedups = [(1.7, 1.06, State::Pass), (1.7, 1.04, State::Fail)];
    let neither = [(0.97, 1.1, State::Pass), (1.05, 0.9, State::Pass)];
    for (expected, value, state) in [gains, speedups, neither].concat() {
        let claim = format!(
            "kind = 'ratio'\nstatistic = 'p50'\nsystems = ['is', 'bs']\nexpected = {expected}\nwithin = 2"
        );
        let rows = [("is", "p50", value), ("bs", "p50", 1.0)];
        assert_eq!(judge(&claim, &rows), state, "{expected}, {value}");
    }
    // Rows have expected numbers of their own: 2.0.
    let expected =
        "kind = 'ratio'\nof = 'expected'\nstatistic = 'mean'\nsystems = ['bs']\nwithin = 2";
    for (value, state) in [(1.0, State::Pass), (4.0, State::Pass), (0.9, State::Fail)] {
        assert_eq!(judge(expected, &[("bs", "mean", value)]), state);
    }
    let points = "kind = 'ratio'\nof = 'difference'\nstatistic = 'mean'\nsystems = ['bs', 'is']\n\
                  expected = 0.03\nwithin = 1.5";
    for (value, state) in [(0.14, State::Pass), (0.2, State::Fail), (0.1, State::Fail)] {
        let rows = [("bs", "mean", value), ("is", "mean", 0.1)];
        assert_eq!(judge(points, &rows), state, "{value}");
    }
}

#[test]
fn a_printed_number_has_a_factor_and_no_other_bound() {
    let ratio = "kind = 'ratio'\nsystems = ['bs', 'is']\n";
    #[rustfmt::skip]
    let cases = [
        (format!("{ratio}expected = 2"), "needs `within`"),
        (format!("{ratio}within = 2"), "needs `expected`"),
        (format!("{ratio}of = 'expected'\nexpected = 2\nwithin = 2"), "unless rows"),
        (format!("{ratio}expected = 2\nwithin = 2\nat_most = 3"), "both bounds"),
        (format!("{ratio}expected = 2\nwithin = 1"), "above 1"),
        (format!("{ratio}expected = 0\nwithin = 2"), "positive"),
        ("kind = 'ratio'\nsystems = ['bs']\nrivals = ['is']\nexpected = 2\nwithin = 2".to_string(), "one bound"),
        (
            "kind = 'ordering'\nsystems = ['bs', 'is']\nrelations = ['>']\nexpected = 2\nwithin = 2"
                .to_string(),
            "a ratio or bound",
        ),
        (format!("{ratio}expected = 2\nwithin = 2\ndiffers = 'known'\nstill_at_most = 3"), "not wider"),
    ];
    for (text, message) in cases {
        let error = mean(&text).check(words(&systems())).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn a_bound_far_from_the_result_is_loose() {
    let loose = |text: &str, own: f64| {
        let claim = mean(&format!(
            "systems = ['bs', 'is']\ndiffers = 'known'\n{text}"
        ));
        claim.check(words(&systems())).unwrap();
        let rows = rows(&[("bs", "mean", own), ("is", "mean", 1.0)]);
        claim.loose_bounds(|own| own.judge("x", &rows).state)
    };
    let most = "kind = 'ratio'\nat_most = 1\nstill_at_most = 10";
    for (own, is) in [(5.1, false), (4.9, true), (20.0, false), (0.5, true)] {
        assert_eq!(loose(most, own) == ["still_at_most"], is, "{own}");
    }
    // Twice the claim's own bound is near enough, whatever was measured.
    assert!(loose("kind = 'ratio'\nat_most = 1\nstill_at_most = 2", 0.5).is_empty());
    let least = "kind = 'ratio'\nexpected = 1\nwithin = 1.25\nstill_at_least = 0.1";
    for (own, is) in [(0.19, false), (0.21, true)] {
        assert_eq!(loose(least, own) == ["still_at_least"], is, "{own}");
    }
    let zero = "kind = 'ratio'\nat_least = 1\nstill_at_least = 0.0";
    assert_eq!(loose(zero, 0.5), ["still_at_least"]);
    // 0.8 is a fifth of the larger value, and 0.6 two fifths.
    let ordering = "kind = 'ordering'\nrelations = ['>']\nstill_within = 0.8";
    for (own, is) in [(0.39, false), (0.41, true)] {
        assert_eq!(loose(ordering, own) == ["still_within"], is, "{own}");
    }
}
