//! `everybuddy compare` from the command line to its files.

use std::collections::BTreeSet;

use crate::common::{Folder, everybuddy, json, shows, text};
use everybuddy_trace::{Event, Op, Trace};
use serde_json::Value;

#[rustfmt::skip]
const COLUMNS: [&str; 17] = [
    "experiment", "source", "system", "options", "contender", "platform", "cpus", "seed", "operation", "order",
    "metric", "statistic", "value", "unit", "expected", "simulated", "program",
];

/// Metrics that depend on the machine; all others on the command line alone.
const TIMED: [&str; 2] = ["latency", "throughput"];

fn rows(arguments: &str) -> Vec<Value> {
    json(&everybuddy!("compare {arguments} --json -").succeeded())
}

fn counted(rows: Vec<Value>) -> Vec<Value> {
    let is_timed = |row: &Value| TIMED.contains(&row["metric"].as_str().unwrap());
    rows.into_iter().filter(|row| !is_timed(row)).collect()
}

#[test]
fn every_system_replays_on_one_thread_and_on_two() {
    let folder = Folder::new("replay");
    let file = folder.trace();
    for options in ["", "--cpus 2", "--aged 3"] {
        // That the census at the end equals the trace's live frames is audited by every run.
        let table = everybuddy!("compare {file} --no-html {options}").noted();
        for row in everybuddy::systems::ROWS {
            let line = |line: &str| line.split_whitespace().next() == Some(row.name);
            assert!(table.lines().any(line), "{}: {table}", row.name);
        }
        assert!(
            table.lines().all(|line| line.chars().count() <= 120),
            "{table}"
        );
        // iBuddy scatters single frames over its spaces, so that few large blocks are left: what its paper says of
        // it. No other system refuses anything.
        let header = table.lines().find(|line| line.starts_with(" system"));
        let Some(end) = header.and_then(|header| header.find("refused")) else {
            continue;
        };
        let rows = table.lines().skip_while(|line| !line.starts_with('═'));
        for row in rows.skip(1).take_while(|row| !row.starts_with(" (replay")) {
            let name = row.split_whitespace().next().unwrap_or_default();
            let cell: String = row.chars().take(end + "refused".len()).collect();
            let is_system = everybuddy::systems::ROWS.iter().any(|row| row.name == name);
            if is_system && !["is", "lis-1", "lis-31"].contains(&name) {
                assert_eq!(cell.split_whitespace().last(), Some("0"), "{table}");
            }
        }
    }
}

#[test]
fn variants_other_numbers_of_threads_and_scarce_memory() {
    let folder = Folder::new("scarce");
    let file = folder.trace();
    for cpus in ["1", "3"] {
        everybuddy!("compare {file} --no-html --systems bs,lbs-31,everybuddy --cpus {cpus}")
            .noted();
    }
    let variants =
        "lbs-31+batch=7,linux-6+percpu=locked,fixlazy-186,bs+order=3,lbs-31+drain=merged";
    let table = everybuddy!("compare {file} --no-html --systems {variants}").noted();
    shows(&table, &["lbs-31+batch=7", "refused"]);
    // Several times as much as can be allocated simultaneously in 4 MiB.
    let mut trace = crate::common::trace();
    let end = trace.events.last().unwrap().time_ns;
    for block in 0..3 {
        let event = Event::new(end, 0, 1, Op::Allocate, 8192 + block * 1024, 10);
        trace.events.push(event);
    }
    let file = folder.file("scarce.parquet");
    everybuddy_trace::write(&trace, file.as_ref()).unwrap();
    for cpus in ["", "--cpus 2"] {
        let table = everybuddy!("compare {file} --no-html --memory 4MiB {cpus}").noted();
        assert!(table.contains("refused"), "{table}");
    }
}

#[test]
fn rows_are_tidy_and_the_same_in_both_formats() {
    let folder = Folder::new("rows");
    let [json, csv] = ["rows.jsonl", "rows.csv"].map(|name| folder.file(name));
    let own = format!("{} --systems bs,lbs-31+batch=7", folder.trace());
    everybuddy!("compare {own} --no-html --json {json} --csv {csv}").noted();
    let json = text(json);
    let mut reader = csv::Reader::from_path(csv).unwrap();
    assert_eq!(reader.headers().unwrap(), &COLUMNS[..]);
    let mut lines = json.lines();
    let mut systems = BTreeSet::new();
    for record in reader.records() {
        let record = record.unwrap();
        let line = lines.next().unwrap();
        let object: Value = serde_json::from_str(line).unwrap();
        let object = object.as_object().unwrap();
        assert_eq!(object.len(), COLUMNS.len());
        let mut last = 0;
        for (column, field) in COLUMNS.iter().zip(&record) {
            let at = line.find(&format!("\"{column}\":")).unwrap();
            assert!(at >= last, "columns are out of order: {line}");
            last = at;
            match &object[*column] {
                Value::Null => assert_eq!(field, ""),
                Value::String(text) => assert_eq!(field, text),
                Value::Number(n) => assert_eq!(field.parse::<f64>().unwrap(), n.as_f64().unwrap()),
                other => assert_eq!(field, other.to_string()),
            }
        }
        assert_eq!(object["source"], "tiny");
        assert_eq!(object["platform"], "native");
        assert_eq!(object["cpus"], 2);
        systems.insert((object["system"].to_string(), object["options"].to_string()));
    }
    assert_eq!(lines.next(), None);
    assert_eq!(systems.len(), 4, "{systems:?}");
    assert!(systems.contains(&("\"lbs-31\"".to_string(), "\"batch=7\"".to_string())));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 3, "nothing is left behind: {left:?}");
}

#[test]
fn every_metric_is_documented() {
    let folder = Folder::new("metrics");
    let document = include_str!("../../../../docs/metrics.md");
    for row in rows(&folder.trace()) {
        for column in ["metric", "statistic", "operation"] {
            let name = format!("`{}`", row[column].as_str().unwrap());
            assert!(document.contains(&name), "{name} is not in docs/metrics.md");
        }
    }
}

#[test]
fn counts_are_the_same_each_time() {
    let folder = Folder::new("counts");
    let file = folder.trace();
    let arguments = format!("{file} --aged 5 --seed 9");
    // Services on threads of their own come when they come.
    let is_repeated = |row: &Value| row["system"] != "serewa";
    let counted = || counted(rows(&arguments)).into_iter().filter(is_repeated);
    let first: Vec<Value> = counted().collect();
    assert_eq!(first, counted().collect::<Vec<_>>());
    let value = |system: &str, metric: &str, operation: &str| {
        let row = first.iter().find(|row| {
            row["system"] == system && row["metric"] == metric && row["operation"] == operation
        });
        row.unwrap()["value"].as_f64().unwrap()
    };
    assert!(value("lbs-31", "service_ratio", "all") > 0.0);
    assert_eq!(value("bs", "miss_rate", "allocate"), 1.0);
    assert!(value("fixlazy-744", "miss_rate", "all") < 0.1);
    let experiment = |row: &Value| row["experiment"].as_str().unwrap().to_string();
    assert!(
        first
            .iter()
            .all(|row| experiment(row).starts_with("compare+aged=5"))
    );
    assert!(
        first
            .iter()
            .any(|row| experiment(row) == "compare+aged=5@1.0000")
    );
}

#[test]
fn a_share_is_a_part_of_a_whole() {
    let folder = Folder::new("shares");
    let (tiny, bursts) = (folder.trace(), bursts(&folder, &[10, 1, 500, 2000], 2000));
    // A per-CPU list of each kind, spaces, trees, and none.
    let systems = "--systems bs,is,lbs-31,linux-6,magazines,spring,llfree,nbbs,everybuddy --json -";
    let simulate = "simulate --cpus 1,4 --seeds 1 --shrink 20 --systems bs,lbs-31,llfree --json -";
    for command in [
        &format!("compare {tiny} {systems}"),
        &format!("compare {tiny} --aged 5 {systems}"),
        &format!("compare {bursts} {systems}"),
        &format!("compare {bursts} --cpus 2 {systems}"),
        &format!("{simulate} --workloads burst:in-order"),
        &format!("{simulate} --trace {bursts}"),
        &format!("trace info {bursts} --json -"),
    ] {
        let mut seen = BTreeSet::new();
        for row in json(&everybuddy!("{command}").succeeded()) {
            let text = |key: &str| row[key].as_str().unwrap();
            let metric = everybuddy_metrics::find(text("metric")).unwrap();
            if metric.is_share(text("statistic")) {
                let value = row["value"].as_f64().unwrap();
                assert!((0.0..=1.0).contains(&value), "{row}");
                seen.insert(metric.name);
            }
            // What a CPU reserves in a tree is not kept in a list.
            let is_listed = !["bs", "llfree", "nbbs", "everybuddy"].contains(&text("system"));
            assert!(is_listed || metric.name != "service_ratio", "{row}");
        }
        assert!(seen.len() >= 3, "{command:?}: {seen:?}");
    }
}

#[test]
fn the_rows_of_a_run_make_its_tables_again() {
    let folder = Folder::new("again");
    let (trace, json) = (folder.trace(), folder.file("rows.jsonl"));
    // What rows do not have is given again; the memory is in them.
    for (more, cpus) in [
        ("", ""),
        ("--cpus 2", "--cpus 2"),
        ("--memory 64MiB --machine 1GiB", ""),
        ("--touch --aged 2", ""),
    ] {
        let systems = "--systems bs,lbs-31+batch=7 --no-html";
        let first = everybuddy!("compare {trace} --json {json} {systems} {more}").noted();
        let (page, again) = (folder.file("page.html"), folder.file("again.jsonl"));
        let files = format!("--rows {json} --html {page} --json {again}");
        let second = everybuddy!("compare {trace} {files} {cpus}").succeeded();
        let table = |text: &str| -> Vec<String> {
            let lines = text
                .lines()
                .skip_while(|line| !line.starts_with(" system "));
            let lines = lines.take_while(|line| !line.starts_with(" bs no per-CPU list"));
            lines.map(String::from).collect()
        };
        let table_of_second = table(&second);
        assert!(table(&first).len() > 5, "{first}");
        let rows = table(&first).len();
        assert_eq!(table_of_second[..rows], table(&first)[..]);
        let headline = |text: &str| text.lines().next().map(String::from);
        assert_eq!(headline(&first), headline(&second));
        // Rows have no rounds, so that a fixed difference is noise.
        let time = if more.starts_with("--touch") {
            "time with use"
        } else {
            "time"
        };
        assert!(words(&first).contains(&format!("a shorter {time} in each round,")));
        assert!(words(&second).contains(&format!("more than 5% less {time},")));
        for text in [&first, &second] {
            let is_missing = text.contains("Frames were not used");
            assert_eq!(is_missing, time == "time", "{text}");
        }
        assert_eq!(text(&json), text(&again));
        let page = text(&page);
        assert!(page.contains("the machine that wrote rows.jsonl"));
        assert!(page.contains("data-system=\"lbs-31+batch=7\""));
        assert!(!page.contains("data-system=\"floor\"") && !page.contains("data-system=\"timer\""));
        assert!(
            !page.contains("data-figure=\"map\""),
            "a figure without numbers"
        );
    }
    everybuddy!("compare gcc_build --no-html --rows {json}")
        .refused(&["no rows of trace gcc_build", "it has rows of tiny"]);
    everybuddy!("compare {trace} --no-html --rows {json} --cpus 3")
        .refused(&["are of 2 CPUs, and this replay has 3"]);
}

/// Joins lines that were broken where they were too long.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_answer_is_above_the_table_and_on_the_page() {
    let folder = Folder::new("answer");
    let (trace, page) = (folder.trace(), folder.file("page.html"));
    let compare = |options: &str| {
        let run = everybuddy!("compare {trace} --html {page} --systems {options}");
        (words(&run.noted()), text(&page))
    };
    // `linux-6` is in the table, and no system that a kernel could take.
    let systems = "bs,is,lbs-31,linux-6+percpu=locked,linux-6,zones-4,spring,never,everybuddy";
    let (text, html) = compare(&format!("{systems} --memory 64MiB"));
    let (answer, table) = text.split_once(" system alloc ").unwrap();
    // Seven systems are judged, whatever their times are.
    let parts = [
        "answer ",
        " 7",
        "matters With Linux's lists, these calls take",
        "next ",
        "linux-6+percpu=locked ",
        "unknown Frames were",
    ];
    let found = parts.map(|part| {
        answer
            .find(part)
            .unwrap_or_else(|| panic!("{part}: {answer}"))
    });
    assert!(found.is_sorted(), "{answer}");
    let chosen = |name: &str| {
        let reasons = ["Time ", "Better: ", "Worse: ", "As good a"];
        let reasons = reasons.map(|reason| format!(" {name} {reason}"));
        reasons.iter().any(|line| answer.contains(line))
    };
    assert!(!chosen("linux-6") && !chosen("zones-4"), "{answer}");
    assert!(chosen("linux-6+percpu=locked"), "{answer}");
    let count = systems.split(',').filter(|name| chosen(name)).count();
    assert!((1..=6).contains(&count), "{answer}");
    assert!(table.contains("is "), "the others are in the table");
    // What no kernel has is below all others, there and on the page.
    let last = table.find(" everybuddy ").unwrap();
    assert!(table.find(" linux-6 ").unwrap() > last && table.find(" zones-4 ").unwrap() > last);
    let apart = html.split_once("<tbody class=\"apart\">").unwrap().1;
    for name in ["linux-6", "zones-4"] {
        assert!(apart.contains(&format!("data-system=\"{name}\"")), "{name}");
    }
    assert!(!apart.contains("data-system=\"everybuddy\""));
    assert!(
        table.contains("linux-6, zones-4 not judged: no kernel has such lists"),
        "{table}"
    );
    for part in [
        "so nothing waited (`everybuddy simulate`",
        "Memory was fresh (`--aged SEED`",
        "Linux (`linux-6+percpu=locked`)",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    // The page has the same sentences, and the columns that they are about first.
    let [begin, end] =
        ["class=\"answer\"", "class=\"systems\""].map(|part| html.find(part).unwrap());
    assert_eq!(html[begin..end].matches("<dt>").count(), count);
    assert!(html[begin..end].contains("so nothing waited (<code>everybuddy simulate</code>"));
    let heads = html[end..].split("<th colspan=\"").skip(1).take(5);
    let group = |head: &str| head.split(['>', '<']).nth(1).map(String::from);
    let heads: Vec<String> = heads.filter_map(group).collect();
    assert_eq!(heads, ["alloc", "free", "idle after", "unusable", "owner"]);
    // Two threads wait, and aged memory is not fresh. A ratio needs the row of Linux.
    let (text, _) = compare("bs,lbs-31 --cpus 2 --aged 3 --all-columns");
    let parts = ["answer `", " of 2 systems", "depend on which thread"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    for part in [
        "nothing waited",
        "Memory was fresh",
        "Keep Linux",
        "of Linux",
    ] {
        assert!(!text.contains(part), "{part}: {text}");
    }
    // One system is not a choice.
    let (text, html) = compare("bs");
    assert!(!text.contains("answer"), "{text}");
    assert!(!html.contains("class=\"answer\""), "{text}");
}

#[test]
fn lists_are_those_of_the_machine_that_was_recorded() {
    let folder = Folder::new("machine");
    let file = folder.file("recorded.parquet");
    let mut trace = crate::common::trace();
    let zone = everybuddy_trace::MachineZone {
        name: "Normal".to_string(),
        managed: 5_394_266,
        low: 20_163,
        cpus: 2,
        ..everybuddy_trace::MachineZone::default()
    };
    let machine = everybuddy_trace::Machine {
        kernel: "6.18.44".to_string(),
        cpus: 2,
        total_kib: 24_684_092,
        free_kib: Some(200 << 10),
        zones: vec![zone],
        settings: Vec::new(),
    };
    trace.metadata.push(machine.entry());
    everybuddy_trace::write(&trace, file.as_ref()).unwrap();
    let compare = |more: &str| {
        let systems = "--systems linux-6+percpu=locked,lbs-31 --no-html";
        // Lines are broken where they are too long.
        words(&everybuddy!("compare {file} {systems} {more}").noted())
    };
    let table = compare("");
    for text in [
        "machine 24 GiB, as recorded · managed 200 MiB",
        "linux-6+percpu=locked batch 63, high mark 10081 to 337141",
        "lbs-31 batch 31, high mark 186",
        "today's Linux, with the locks of its lists",
    ] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let table = compare("--machine 64MiB --memory 8MiB");
    for text in [
        "machine 64 MiB · managed 8",
        "linux-6+percpu=locked batch 3,",
        "lbs-31 batch 11,",
    ] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let info = everybuddy!("trace info {file}").noted();
    for text in [
        "Linux 6.18.44, 2 CPUs",
        "200 MiB free at the start",
        "node 0 Normal",
    ] {
        assert!(info.contains(text), "{text}: {info}");
    }
}

/// Writes a trace in which one CPU allocates runs of these lengths, each of another task, and then another CPU
/// frees the first `freed` frames of them.
fn bursts(folder: &Folder, lengths: &[u64], freed: u64) -> String {
    let mut events = Vec::new();
    for (task, length) in (1..).zip(lengths) {
        for _ in 0..*length {
            let at = events.len() as u64;
            events.push(Event::new(at, 0, task, Op::Allocate, at, 0));
        }
    }
    let end = events.len() as u64;
    events.extend((0..freed).map(|at| Event::new(end + at, 1, 9999, Op::Free, at, 0)));
    let trace = Trace {
        name: "bursts".to_string(),
        events,
        ..Trace::default()
    };
    let file = folder.file("bursts.parquet");
    everybuddy_trace::write(&trace, file.as_ref()).unwrap();
    file
}

/// The only value of a metric in some rows.
fn only(rows: &[Value], metric: &str, statistic: &str, operation: &str) -> f64 {
    let fits = |row: &&Value| {
        row["metric"] == metric && row["statistic"] == statistic && row["operation"] == operation
    };
    let found: Vec<&Value> = rows.iter().filter(fits).collect();
    assert_eq!(found.len(), 1, "{metric} {statistic} {operation}");
    found[0]["value"].as_f64().unwrap()
}

#[test]
fn the_residual_is_what_is_left_when_runs_end() {
    let folder = Folder::new("residual");
    // After 10, 11, 16 and 36 frames from batches of 31 there are left 21, 20, 15 and 26; the second run
    // is a single request, and not counted. The frees of the other CPU stay in its list.
    let file = bursts(&folder, &[10, 1, 5, 20], 30);
    let rows = rows(&format!("{file} --systems lbs-31+batch=31+high=186"));
    let residual = |statistic, operation| only(&rows, "residual", statistic, operation);
    assert_eq!(residual("count", "allocate"), 3.0);
    assert!((residual("mean", "allocate") - (21.0 + 15.0 + 26.0) / 3.0).abs() < 1e-4);
    assert_eq!(
        ["count", "mean"].map(|own| residual(own, "free")),
        [1.0, 30.0]
    );
    assert_eq!(residual("mean", "all"), (21.0 + 15.0 + 26.0 + 30.0) / 4.0);
}

#[test]
fn runs_of_any_length_leave_half_a_batch() {
    let folder = Folder::new("half-a-batch");
    let lengths: Vec<u64> = (2..200).map(|at| 2 + at * 37 % 61).collect();
    let file = bursts(&folder, &lengths, 0);
    for batch in [7.0, 31.0, 62.0] {
        let rows = rows(&format!("{file} --systems lbs-31+batch={batch}+high=186"));
        let residual = only(&rows, "residual", "mean", "allocate");
        let expected = (batch - 1.0) / 2.0;
        assert!(
            (residual / expected - 1.0).abs() < 0.15,
            "{batch}: {residual}"
        );
        let misses = only(&rows, "miss_rate", "value", "allocate");
        assert!((misses * batch - 1.0).abs() < 0.01, "{batch}: {misses}");
    }
    // Without a list nothing is ever left.
    let rows = rows(&format!("{file} --systems bs"));
    assert_eq!(only(&rows, "residual", "mean", "allocate"), 0.0);
    assert_eq!(only(&rows, "domains", "mean", "all"), 1.0);
    assert_eq!(only(&rows, "contention_rate_core", "value", "all"), 0.0);
}

#[test]
fn whole_blocks_hold_what_was_asked_for() {
    let folder = Folder::new("internal");
    let trace = folder.trace();
    for more in ["", "--aged 3", "--cpus 2"] {
        let run = everybuddy!("compare {trace} --systems bs,lbs-31,is,spring --json - {more}");
        assert!(!run.err.contains("held"), "shown where it is 1");
        let rows = json(&run.succeeded());
        let own = rows
            .iter()
            .filter(|row| row["metric"] == "internal_fragmentation");
        let own: Vec<&Value> = own.collect();
        assert!(more.contains("--cpus") || own.len() > 4, "{more:?}");
        assert!(own.iter().all(|row| row["value"] == 1.0), "{own:?}");
    }
}

#[test]
fn sizes_are_used_where_they_fit_and_refused_where_they_are_none() {
    let folder = Folder::new("divided");
    let (trace, file) = (folder.trace(), folder.file("tiny.sizes.json"));
    everybuddy!("trace sizes {trace} -o {file}").succeeded();
    let run = |systems: &str, more: &str| {
        let run =
            everybuddy!("compare {trace} --systems {systems} --no-html --sizes {file} {more}");
        assert_eq!(run.code, 0, "{}", run.err);
        run.err
    };
    let err = run("bs,serewa", "");
    assert!(!err.contains("tiny.sizes.json"), "{err}");
    assert!(!err.contains("not used"), "{err}");
    // For another memory they are not used, and that is said.
    let err = run("bs,serewa", "--memory 64MiB");
    shows(&err, &["tiny.sizes.json", "64 MiB"]);
    // Without a system that divides memory they change nothing, and that is said, too.
    for systems in ["bs,linux-6", "serewa+division=off"] {
        let err = run(systems, "");
        shows(&err, &["--sizes is not used", "`serewa`", "division=on"]);
    }
    for (text, word) in [
        ("", "empty"),
        ("{}", "not a file of size statistics"),
        ("# yaml", "not JSON"),
    ] {
        std::fs::write(&file, text).unwrap();
        everybuddy!("compare {trace} --sizes {file}").refused(&["tiny.sizes.json", word]);
    }
}

#[test]
fn what_is_kept_is_not_measured_again() {
    let folder = Folder::new("compare-kept");
    let trace = folder.trace();
    let (cells, rows) = (folder.file("cells"), folder.file("rows.jsonl"));
    let run = |options: &str| {
        let _ = std::fs::remove_file(&rows);
        let words = format!("{trace} --no-html --systems bs,lbs-31 --json {rows} {options}");
        let run = everybuddy!("compare {words} --resume {cells}");
        let noted = run.err.clone();
        (run.noted(), text(&rows), noted)
    };
    let (printed, measured, noted) = run("");
    assert_eq!(noted, "");
    // Measured times never repeat to the digit.
    let (again, kept, noted) = run("");
    shows(&noted, &["1 of 1 cells are finished, 0 are left"]);
    assert_eq!(kept, measured);
    let table = |text: &str| -> Vec<String> {
        let is_system = |line: &&str| line.starts_with(" bs   ") || line.starts_with(" lbs-31   ");
        text.lines().filter(is_system).map(String::from).collect()
    };
    assert_eq!((table(&again).len(), table(&again)), (2, table(&printed)));
    shows(&again, &["1 of 1 comparisons were measured by other runs"]);
    assert!(!again.contains("0 rounds") && printed.contains("5 rounds"));
    // Whatever changes a row is another cell.
    for options in [
        "--seed 2",
        "--memory 64MiB",
        "--cpus 2",
        "--touch",
        "--machine 8GiB",
    ] {
        let (_, _, noted) = run(options);
        shows(&noted, &["no cell of this run is finished; the "]);
    }
    assert_eq!(std::fs::read_dir(&cells).unwrap().count(), 6);
    // A page has no charts of what an earlier run has measured, and all of its tables.
    let page = folder.file("page.html");
    let words = format!("{trace} --systems bs,lbs-31 --html {page} --resume {cells}");
    everybuddy!("compare {words}").noted();
    shows(&text(&page), &["lbs-31", "tiny"]);
}
