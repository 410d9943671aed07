//! `everybuddy compare` from the command line to its files.

mod common;

use std::collections::BTreeSet;

use common::{Folder, everybuddy};
use serde_json::Value;

const COLUMNS: [&str; 15] = [
    "experiment",
    "source",
    "system",
    "options",
    "platform",
    "cpus",
    "seed",
    "operation",
    "order",
    "metric",
    "statistic",
    "value",
    "unit",
    "expected",
    "simulated",
];

/// Metrics that depend on the machine; all others on the command line alone.
const TIMED: [&str; 2] = ["latency", "throughput"];

fn rows(arguments: &[&str]) -> Vec<Value> {
    let run = everybuddy(&[&["compare"], arguments, &["--json", "-"]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    run.out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn counted(rows: Vec<Value>) -> Vec<Value> {
    rows.into_iter()
        .filter(|row| !TIMED.contains(&row["metric"].as_str().unwrap()))
        .collect()
}

#[test]
fn every_system_replays_on_one_thread_and_on_two() {
    let folder = Folder::new("replay");
    let file = folder.trace();
    for cpus in [
        &[][..],
        &["--cpus", "1"],
        &["--cpus", "2"],
        &["--cpus", "3"],
        &["--aged", "3"],
    ] {
        // That the census at the end equals the trace's live frames is audited by every run.
        let table = everybuddy(&[&["compare", &file], cpus].concat()).done();
        for row in everybuddy::systems::ROWS
            .iter()
            .filter(|row| row.alias_of.is_none())
        {
            let line = |line: &str| line.split_whitespace().next() == Some(row.name);
            assert!(table.lines().any(line), "{}: {table}", row.name);
        }
        assert!(!table.contains('\x1b'), "a pipe takes no colour");
        assert!(
            table.lines().all(|line| line.chars().count() <= 120),
            "{table}"
        );
        // iBuddy scatters single frames over its spaces, so that few large blocks are left: what its paper says of
        // it. Nobody else refuses anything.
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
fn variants_and_scarce_memory() {
    let folder = Folder::new("scarce");
    let file = folder.trace();
    let variants = "lbs-31+batch=7,linux-6+percpu=locked,fixlazy-186,bs+order=3,lbs-31+check=off";
    let table = everybuddy(&["compare", &file, "--systems", variants]).done();
    assert!(
        table.contains("lbs-31+batch=7") && table.contains("refused"),
        "{table}"
    );
    // Several times as much as can be live at once in 4 MiB.
    let mut trace = common::trace();
    let end = trace.events.last().unwrap().time_ns;
    for block in 0..3 {
        use everybuddy_trace::{Event, Op};
        trace
            .events
            .push(Event::new(end, 0, 1, Op::Allocate, 8192 + block * 1024, 10));
    }
    let file = folder.file("scarce.parquet");
    everybuddy_trace::write(&trace, file.as_ref()).unwrap();
    for cpus in [&[][..], &["--cpus", "2"]] {
        let table = everybuddy(&[&["compare", &file, "--memory", "4MiB"], cpus].concat()).done();
        assert!(table.contains("refused"), "{table}");
    }
}

#[test]
fn rows_are_tidy_and_the_same_in_both_formats() {
    let folder = Folder::new("rows");
    let (file, json, csv) = (
        folder.trace(),
        folder.file("rows.jsonl"),
        folder.file("rows.csv"),
    );
    everybuddy(&[
        "compare",
        &file,
        "--systems",
        "bs,lbs-31+batch=7",
        "--json",
        &json,
        "--csv",
        &csv,
    ])
    .done();
    let json = std::fs::read_to_string(json).unwrap();
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
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let document = std::fs::read_to_string(document).unwrap();
    for row in rows(&[&folder.trace()]) {
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
    let arguments = [&file[..], "--aged", "5", "--seed", "9"];
    let first = counted(rows(&arguments));
    assert_eq!(first, counted(rows(&arguments)));
    let value = |system: &str, metric: &str, operation: &str| {
        let row = first.iter().find(|row| {
            row["system"] == system && row["metric"] == metric && row["operation"] == operation
        });
        row.unwrap()["value"].as_f64().unwrap()
    };
    assert_eq!(value("bs", "service_ratio", "all"), 0.0);
    assert_eq!(value("bs", "miss_rate", "allocate"), 1.0);
    assert!(value("fixlazy-744", "miss_rate", "all") < 0.1);
    assert!(first.iter().all(|row| {
        row["experiment"]
            .as_str()
            .unwrap()
            .starts_with("compare+aged=5")
    }));
    assert!(
        first
            .iter()
            .any(|row| row["experiment"] == "compare+aged=5@1.0000")
    );
}
