//! Tables made by hand, with the answers that the rule must give.

use super::*;

/// The name of Linux, in short.
const LINUX: &str = choice::LINUX;

/// A line of a table: the times of an allocation and of a free, unusable memory in percent, idle frames of 10,000, and
/// the spread.
type Line = (&'static str, [f64; 5]);

/// What is measured, on one thread or on several. All calls take 1,000 times Linux's time for a pair, within the time
/// of the recording.
fn comparison(threads: usize, recorded_ns: u64) -> Comparison {
    Comparison {
        trace: "by hand".to_string(),
        events: 2000,
        recorded_ns,
        peak_frames: 1000,
        cpus: 2,
        threads,
        assignment: Assignment::InOrder,
        memory: Memory::fresh(10_000),
        machine: None,
        rounds: 5,
        switches: 0,
        touches: false,
        systems: Vec::new(),
        floor: Pace::default(),
    }
}

/// The table of some lines. The last `apart` are of systems that no kernel has.
fn table(lines: &[Line], apart: usize) -> Table {
    let column = |at: usize, metric: &'static str, head: [&'static str; 2]| Column {
        metric,
        head: head.map(Cow::Borrowed),
        legend: "".into(),
        better: Better::Lower,
        values: lines
            .iter()
            .map(|line| Some(line.1[at]))
            .chain([None])
            .collect(),
        texts: Vec::new(),
    };
    let metadata = Column {
        values: lines.iter().map(|_| Some(0.0)).chain([None]).collect(),
        ..column(0, "metadata_bytes_per_frame", ["metadata", "B/frame"])
    };
    Table {
        names: lines
            .iter()
            .map(|line| line.0)
            .chain([table::OVERHEAD])
            .map(String::from)
            .collect(),
        competing: 0..lines.len() - apart,
        columns: vec![
            column(0, "latency", ["alloc", "mean ns"]),
            column(1, "latency", ["free", "mean ns"]),
            column(2, "unusable_index", ["unusable", "at 4M %"]),
            column(3, "residual", ["idle after", "allocs"]),
            column(4, "owner_spread", ["owner", "spread"]),
            metadata,
        ],
    }
}

/// Judges a table whose lines took these multiples of their mean times in five rounds.
fn judged(comparison: &Comparison, table: &Table, rounds: &[[f64; 5]]) -> Answer {
    let times = times(&table.columns).unwrap();
    let of = |(time, rounds): (&Option<f64>, &[f64; 5])| {
        rounds
            .iter()
            .map(|own| own * time.unwrap())
            .collect::<Vec<f64>>()
    };
    let mut all: Vec<Vec<f64>> = times.iter().zip(rounds).map(of).collect();
    all.resize(table.names.len(), Vec::new());
    judge(comparison, table, &all, false).unwrap()
}

/// Rounds without noise.
const QUIET: [f64; 5] = [1.0; 5];

/// The name and the text of each system of an answer.
fn entries(answer: &Answer) -> Vec<(&str, &str)> {
    let entries = answer.systems.iter();
    entries
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect()
}

#[test]
fn one_a_system_that_is_as_fast_and_better_replaces_linux() {
    let lines = [
        ("bs", [10.0, 13.0, 21.0, 0.0, 4.2]),
        (LINUX, [6.0, 6.0, 29.0, 1000.0, 3.9]),
        ("nbbs", [9.0, 14.0, 14.0, 0.0, 1.4]),
        ("everybuddy", [5.0, 5.5, 21.0, 60.0, 2.0]),
    ];
    let answer = judged(&comparison(1, 120_000), &table(&lines, 0), &[QUIET; 4]);
    assert_eq!(
        answer.summary,
        "`everybuddy` is the best of the 2 systems, of 4, that are not slower than Linux (`linux-6+percpu=locked`): \
         none of the others is better by any criterion."
    );
    assert_eq!(
        entries(&answer),
        [
            (
                "everybuddy",
                "Time 10.5 ns (the best), unusable memory 21.0% (the best: 14.0%), own memory 0.60% (at most a point \
                 above the best, 0.00%), spread 2.00 (the best: 1.40). Time: 0.88 of Linux's (0.88 to 0.88)."
            ),
            (
                LINUX,
                "Worse: time 12.0 ns, unusable memory 29.0%, own memory 10.0%, spread 3.90."
            ),
        ]
    );
    assert_eq!(
        answer.slower,
        "Better in something, but slower than Linux: `nbbs` (unusable memory 14.0%, spread 1.40)."
    );
    assert_eq!(
        answer.next,
        "`everybuddy advise` states which setting of Linux makes these calls cheaper. `everybuddy simulate` predicts \
         `everybuddy` and Linux on more CPUs."
    );
}

#[test]
fn two_a_slower_system_never_replaces_linux() {
    // On two threads, the rounds of `nbbs` disagree: one of them is faster than Linux.
    let lines = [
        ("lbs-31", [20.0, 26.0, 21.0, 36.0, 4.2]),
        (LINUX, [8.0, 8.0, 29.5, 1000.0, 3.9]),
        ("nbbs", [9.0, 14.5, 15.0, 0.0, 1.4]),
    ];
    let disturbed = [1.0, 1.0, 0.56, 1.0, 1.07];
    let answer = judged(
        &comparison(2, 100_000_000),
        &table(&lines, 0),
        &[QUIET, QUIET, disturbed],
    );
    assert_eq!(
        answer.summary,
        "Keep Linux (`linux-6+percpu=locked`): of 3 systems, no other is as fast and better by a criterion; \
         time does not count, since these calls are rare."
    );
    assert_eq!(
        entries(&answer),
        [(
            LINUX,
            "Time 16.0 ns (the best), unusable memory 29.5% (the best: 15.0%), own memory 10.0% (the best: 0.00%), \
             spread 3.90 (the best: 1.40)."
        )]
    );
    assert_eq!(
        answer.slower,
        "Better in something, but slower than Linux: `nbbs` (unusable memory 15.0%, own memory 0.00%, spread 1.40)."
    );
    assert_eq!(
        answer.next,
        "Linux leaves less memory in large blocks than others: `everybuddy memory` states whether a machine lacks them."
    );
    // The same if only means are left of the run.
    let of_means = judge(
        &comparison(2, 100_000_000),
        &table(&lines, 0),
        &vec![vec![]; 4],
        false,
    );
    assert_eq!(of_means.unwrap().summary, answer.summary);
}

#[test]
fn three_what_no_kernel_has_is_not_judged() {
    let lines = [
        ("bs", [10.0, 13.0, 31.0, 0.0, 4.2]),
        (LINUX, [6.0, 6.0, 29.0, 0.0, 3.9]),
        ("linux-6", [5.0, 4.0, 20.0, 0.0, 1.4]),
        ("zones-4", [4.0, 4.0, 10.0, 0.0, 1.3]),
    ];
    let answer = judged(&comparison(1, 0), &table(&lines, 2), &[QUIET; 4]);
    assert_eq!(
        answer.summary,
        "Keep Linux (`linux-6+percpu=locked`): of 2 systems, no other is as fast and better by a criterion."
    );
    assert_eq!(
        entries(&answer),
        [(
            LINUX,
            "Time 12.0 ns (the best), unusable memory 29.0% (the best), own memory 0.00% (the best), spread 3.90 (the \
             best)."
        )]
    );
    assert!(answer.slower.is_empty() && answer.matters.is_empty());
    assert_eq!(
        answer.next,
        "`everybuddy advise` states the share of the CPUs' time that such calls take."
    );
    assert!(
        answer
            .rule
            .ends_with("such lists without locks: `linux-6`, `zones-4`.")
    );
}

#[test]
fn four_counts_have_no_noise() {
    let lines = [
        (LINUX, [6.0, 6.0, 29.0, 1000.0, 3.9]),
        ("everybuddy", [6.1, 6.0, 21.2, 69.0, 2.44]),
        ("llfree", [6.0, 6.1, 21.0, 1.0, 2.35]),
    ];
    let varied = [1.05, 0.95, 1.0, 1.0, 1.0];
    let answer = judged(
        &comparison(1, 1_200_000),
        &table(&lines, 0),
        &[QUIET, varied, varied],
    );
    assert!(answer.summary.starts_with(
        "`everybuddy` is the best compromise of the 3 systems that are not slower than Linux"
    ));
    assert_eq!(
        entries(&answer),
        [
            (
                "everybuddy",
                "Time 12.1 ns (within noise of the best, 12.0 ns), unusable memory 21.2% (at most a point above the \
                 best, 21.0%), own memory 0.69% (at most a point above the best, 0.01%), spread 2.44 (at most 5% above \
                 the best, 2.35). Time: 1.01 of Linux's (0.96 to 1.06, within noise)."
            ),
            (
                "llfree",
                "As good a compromise. Time: 1.01 of Linux's (0.96 to 1.06, within noise)."
            ),
            (
                LINUX,
                "Worse: unusable memory 29.0%, own memory 10.0%, spread 3.90."
            ),
        ]
    );
}

#[test]
fn five_time_alone_is_no_reason_where_calls_take_hardly_any() {
    let lines = [
        ("everybuddy", [3.0, 3.0, 29.0, 0.0, 3.9]),
        (LINUX, [6.0, 6.0, 29.0, 0.0, 3.9]),
    ];
    let judged = |recorded_ns| judged(&comparison(1, recorded_ns), &table(&lines, 0), &[QUIET; 2]);
    let rare = judged(12_000_000);
    assert_eq!(
        rare.summary,
        "Keep Linux (`linux-6+percpu=locked`): of 2 systems, no other is as fast and better by a criterion; \
         time does not count, since these calls are rare."
    );
    assert_eq!(
        entries(&rare),
        [
            (
                LINUX,
                "Time 12.0 ns (the best: 6.00 ns), unusable memory 29.0% (the best), own memory 0.00% (the best), \
                 spread 3.90 (the best)."
            ),
            (
                "everybuddy",
                "Better: time 6.00 ns. Time: 0.50 of Linux's (0.50 to 0.50)."
            ),
        ]
    );
    assert_eq!(
        rare.next,
        "If a machine is slow, record it under that load: `everybuddy record`."
    );
    let frequent = judged(120_000);
    assert!(
        frequent
            .summary
            .starts_with("`everybuddy` is the best of the 2 systems that")
    );
}

#[test]
fn without_linux_the_best_compromise_is_named() {
    let lines = [
        ("bs", [10.0, 13.0, 21.0, 0.0, 4.2]),
        ("nbbs", [9.0, 14.0, 14.0, 0.0, 1.4]),
    ];
    let answer = judged(&comparison(1, 120_000), &table(&lines, 0), &[QUIET; 2]);
    assert_eq!(
        answer.summary,
        "`nbbs` is the best of 2 systems: none of the others is better by any criterion."
    );
    assert!(answer.next.is_empty() && answer.slower.is_empty());
    assert!(
        answer
            .limits
            .starts_with("Linux (`linux-6+percpu=locked`) was not compared. ")
    );
    // One system is not a choice, and what no kernel has cannot be chosen.
    let one = table(&lines, 1);
    assert_eq!(
        judge(&comparison(1, 0), &one, &vec![vec![]; 3], false),
        None
    );
}

#[test]
fn linux_that_refuses_what_others_serve_is_not_kept() {
    let lines = [
        (LINUX, [6.0, 6.0, 10.0, 0.0, 1.0]),
        ("bs", [6.0, 6.0, 21.0, 0.0, 4.2]),
        ("is", [9.0, 9.0, 21.0, 0.0, 4.2]),
    ];
    let mut table = table(&lines, 0);
    table.columns.push(Column {
        metric: "blocking_probability",
        values: vec![Some(3.0), Some(0.0), Some(0.0), None],
        ..table.columns[0].clone()
    });
    let answer = judged(&comparison(1, 0), &table, &[QUIET; 3]);
    assert_eq!(
        answer.summary,
        "`bs` is the only system, of 3, that serves what others serve and is not slower than Linux \
         (`linux-6+percpu=locked`). Linux refused requests that others served."
    );
    // Without times, no system is shown to be as fast.
    let mut counts = table.clone();
    counts.columns.drain(..2);
    counts.columns.pop();
    let answer = judge(&comparison(1, 0), &counts, &vec![vec![]; 4], false).unwrap();
    assert_eq!(
        answer.summary,
        "Keep Linux (`linux-6+percpu=locked`): without times, no other system is shown to be as fast."
    );
    assert!(answer.slower.is_empty(), "{}", answer.slower);
}

/// By ranks alone, two systems that waste half of the memory would replace Linux, since both are better in spread.
#[test]
fn a_system_that_wastes_much_more_memory_does_not_replace_linux() {
    let lines = [
        (LINUX, [6.0, 6.0, 29.0, 1000.0, 3.9]),
        ("wasteful", [6.2, 6.3, 29.0, 5000.0, 1.4]),
        ("other", [6.2, 6.3, 29.0, 5000.0, 2.0]),
    ];
    let rounds = [
        QUIET,
        [1.0, 1.0, 1.0, 1.0, 0.95],
        [1.0, 1.0, 1.0, 1.0, 0.95],
    ];
    let answer = judged(&comparison(1, 120_000), &table(&lines, 0), &rounds);
    assert!(
        answer.summary.starts_with("Keep Linux"),
        "{}",
        answer.summary
    );
}

#[test]
fn one_round_shows_no_noise() {
    let lines = [
        (LINUX, [6.0, 6.0, 29.0, 1000.0, 3.9]),
        ("leaner", [6.1, 6.0, 14.0, 0.0, 3.9]),
    ];
    let table = table(&lines, 0);
    let times = times(&table.columns).unwrap();
    let once: Vec<Vec<f64>> = times
        .iter()
        .map(|time| time.iter().copied().collect())
        .collect();
    let answer = judge(&comparison(1, 120_000), &table, &once, false).unwrap();
    assert!(answer.summary.starts_with("`leaner`"), "{}", answer.summary);
}
