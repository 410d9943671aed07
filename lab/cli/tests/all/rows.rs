//! What two files of rows differ in, and rows in packed files.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::common::{Folder, everybuddy, shows, text};

/// Stores bytes as `gzip` does.
pub(crate) fn pack(file: &str, bytes: &[u8]) {
    let mut encoder = GzEncoder::new(fs::File::create(file).unwrap(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap();
}

/// Returns a row of an experiment: source, metric and value.
fn row(experiment: &str, source: &str, metric: &str, value: f64) -> String {
    format!(
        "{{\"experiment\":\"{experiment}\",\"source\":\"{source}\",\"system\":\"lbs-31\",\"options\":\"batch=7\",\
         \"platform\":\"sim:x5570\",\"cpus\":2,\"seed\":1,\"operation\":\"free\",\"order\":null,\
         \"metric\":\"{metric}\",\"statistic\":\"mean\",\"value\":{value},\"program\":\"{value} - -\"}}\n"
    )
}

/// Returns a line of a table as words.
fn line(out: &str, word: &str) -> Vec<String> {
    let mut lines = out.lines().filter(|line| line.contains(word));
    let line = lines.next().unwrap_or_else(|| panic!("{word}: {out}"));
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_answer_counts_each_row_once() {
    let folder = Folder::new("rows-answer");
    let [a, b] = ["a.jsonl", "b.jsonl"].map(|name| folder.file(name));
    let before = [
        row("e", "same", "latency", 10.0),
        row("e", "little", "latency", 10.0),
        row("e", "much", "latency", 10.0),
        row("e", "gone", "latency", 10.0),
    ];
    let after = [
        row("e", "much", "latency", 12.0),
        row("e", "little", "latency", 10.5),
        row("e", "same", "latency", 10.0),
        row("other", "new", "latency", 1.0),
        row("other@0.5", "new", "latency", 1.0),
    ];
    fs::write(&a, before.concat()).unwrap();
    fs::write(&b, after.concat()).unwrap();
    let out = everybuddy!("rows {a} {b}").done();
    let answer = "rows: 1 the same, 2 changed (1 by more than 10%), 1 only in A, 2 only in B";
    assert_eq!(out.lines().next(), Some(answer));
    shows(
        &out,
        &["only in A  e latency (1)", "only in B  other latency (2)"],
    );
    assert!(!out.contains("little"), "{out}");
    let out = everybuddy!("rows {a} {b} --above 4.9").done();
    shows(&out, &["2 changed (2 by more than 4.9%)"]);
    assert_eq!(
        line(&out, "little")[1..],
        ["little", "10.0", "10.5", "+5.0%"]
    );
    assert_eq!(line(&out, " ns"), ["ns", "ns"], "{out}");
    // What is the same in all its rows is above the table.
    shows(
        &out,
        &["sim:x5570", "simulated", "lower is better", "CPUs 2"],
    );
    let out = everybuddy!("rows {a} {a}").done();
    assert_eq!(
        out,
        "rows: 4 the same, 0 changed (0 by more than 10%), 0 only in A, 0 only in B\n"
    );
}

#[test]
fn what_moved_most_comes_first() {
    let folder = Folder::new("rows-order");
    let [a, b] = ["a.jsonl", "b.jsonl"].map(|name| folder.file(name));
    let values = [
        ("apple", 10.0, 15.0),
        ("berry", 10.0, 4.0),
        ("cherry", 0.0, 1.0),
    ];
    let rows = |own: fn((&str, f64, f64)) -> (String, f64)| {
        let rows = values.map(|values| {
            let (source, value) = own(values);
            row("small", &source, "latency", value)
        });
        let large = own(("only", 1.0, 9.0)).1;
        let many: String = (0..12)
            .map(|at| row("many", &format!("s{at}"), "latency", large))
            .collect();
        rows.concat() + &row("large", "only", "throughput", large) + &many
    };
    fs::write(&a, rows(|own| (own.0.into(), own.1))).unwrap();
    fs::write(&b, rows(|own| (own.0.into(), own.2))).unwrap();
    let out = everybuddy!("rows {a} {b}").done();
    let at = |word: &str| out.find(word).unwrap_or_else(|| panic!("{word}: {out}"));
    let words = [
        "small latency:",
        "cherry",
        "berry",
        "apple",
        "large throughput:",
    ];
    assert!(words.map(at).is_sorted(), "{out}");
    for (source, change) in [("cherry", "from 0"), ("berry", "-60%"), ("apple", "+50%")] {
        shows(&line(&out, source).join(" "), &[change]);
    }
    shows(&out, &["3 of 3 rows by more than 10%, 2 up and 1 down"]);
    let listed = |out: &str| {
        out.lines()
            .filter(|line| line.starts_with(" lbs-31"))
            .count()
    };
    shows(&out, &["12 of 12 rows", "10 of them below"]);
    let all = everybuddy!("rows {a} {b} --all").done();
    assert_eq!(listed(&all), listed(&out) + 2, "{all}");
}

#[test]
fn rows_are_read_packed_and_from_folders() {
    let folder = Folder::new("rows-packed");
    let [plain, packed, cut, files] =
        ["plain.jsonl", "packed", "cut.gz", "files"].map(|name| folder.file(name));
    let rows = [row("e", "x", "latency", 1.0), row("e", "y", "latency", 2.0)];
    fs::write(&plain, rows.concat()).unwrap();
    pack(&packed, rows.concat().as_bytes());
    fs::create_dir(&files).unwrap();
    pack(&format!("{files}/1.jsonl.gz"), rows[1].as_bytes());
    fs::write(format!("{files}/2.jsonl"), &rows[0]).unwrap();
    for other in [&packed, &files] {
        let out = everybuddy!("rows {plain} {other}").done();
        shows(
            &out,
            &["rows: 2 the same, 0 changed", "0 only in A, 0 only in B"],
        );
    }
    let bytes = fs::read(&packed).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    for command in [
        "rows {plain}",
        "compare --no-html --rows",
        "simulate --rows",
        "reproduce stages --rows",
    ] {
        let command = command.replace("{plain}", &plain);
        everybuddy!("{command} {cut}")
            .refused(&["cut.gz: it is packed with gzip and damaged", "help: "]);
    }
    fs::write(&cut, rows.concat() + &row("e", "x", "latency", 3.0)).unwrap();
    everybuddy!("rows {cut} {plain}").refused(&["cut.gz: line 3: ", "the same number"]);
    assert_eq!(text(&plain), rows.concat());
}
