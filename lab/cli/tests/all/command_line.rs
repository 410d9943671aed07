//! The command line: help, lists, exit codes, streams.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;

use crate::common::{
    FINAL_FRAMES, Folder, command, everybuddy, json, process, process_to, shows, words,
};

#[test]
fn a_system_is_described_with_what_its_options_make_of_it() {
    let text = everybuddy!("systems lbs-31 lbs-31+batch=7").done();
    let places = [
        "batch 31, high mark 186",
        "\nlbs-31+batch=7\n",
        "batch 7, high mark 42",
    ];
    let places = places.map(|part| text.find(part));
    assert!(places[0].is_some() && places.is_sorted(), "{text}");
    let line = everybuddy!("systems lbs-31+batch=7 --json").done();
    assert_eq!(json(&line)[0]["name"], "lbs-31+batch=7");
}

#[test]
fn help_shows_examples() {
    let commands = "compare, bench, systems, workloads, traces, completions, man, machines, simulate, \
                    sweep, reproduce, metrics, rows, memory, advise, trace, trace info, trace check, \
                    trace import, trace export, trace cut, trace sizes, ";
    let record = cfg!(target_os = "linux").then_some("record");
    for command in commands.split(", ").chain(record) {
        let help = everybuddy!("{command} --help").done();
        assert!(
            help.contains("Examples:\n  everybuddy "),
            "{command:?}: {help}"
        );
        assert!(
            help.lines().all(|line| line.chars().count() <= 100),
            "{command:?}: {help}"
        );
    }
    assert!(everybuddy!("--version").done().starts_with("everybuddy "));
    let nothing = everybuddy!("");
    assert!(nothing.code == 2 && nothing.err.contains("Usage: everybuddy <COMMAND>"));
}

/// Everything else runs in the process of the tests.
#[test]
fn a_process_has_the_exit_codes_and_the_streams_of_its_command() {
    let list = process!("systems").done();
    assert_eq!(list, everybuddy!("systems").done());
    assert!(!list.contains('\x1b'), "a pipe takes no colour");
    process!("systems jemalloc").failed(2, &["`jemalloc`"]);
    process!("systems --jemalloc").failed(2, &["--jemalloc", "Usage: everybuddy systems"]);
    let folder = Folder::new("codes");
    let table = folder.file("buddyinfo");
    std::fs::write(&table, "Node 0, zone Normal 50 0 0 0 0 0 0 0 0 0 0\n").unwrap();
    assert_eq!(process!("memory {table} --need 1x2MiB").code, 4);
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_that_cannot_be_written_is_one_error() {
    let folder = Folder::new("full");
    let trace = folder.trace();
    // Each way to standard output: help, text, rows, pieces, bytes.
    for line in [
        "compare --help",
        "systems",
        &format!("trace info {trace} --json -"),
        &format!("trace export {trace} --to csv -o -"),
        &format!("trace sizes {trace} -o -"),
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let run = process_to(full, &words(line));
        run.refused(&["standard output", "help: free space"]);
        assert!(!run.err.contains("panicked"), "{}", run.err);
    }
}

#[test]
fn a_closed_pipe_ends_the_program_silently() {
    for line in ["--help", "systems", "trace export gcc_build --to csv"] {
        let mut command = command(&words(line));
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{line}");
        assert!(ended.stderr.is_empty(), "{line}");
    }
}

#[test]
fn traces_are_described() {
    let folder = Folder::new("info");
    let file = folder.trace();
    let text = everybuddy!("trace info {file}").done();
    shows(&text, &["tiny", "order 4 (64 KiB)", "peak", "█"]);
    let rows = json(&everybuddy!("trace info {file} --json -").done());
    let of = |metric: &str| {
        let own = rows.iter().filter(|row| row["metric"] == metric);
        own.collect::<Vec<_>>()
    };
    assert_eq!(of("partial_frees")[0]["value"], 4.0);
    let at_the_end = of("live_frames")[201];
    assert_eq!(at_the_end["experiment"], "trace@1.0000");
    assert_eq!(at_the_end["value"], FINAL_FRAMES as f64);
    let csv = everybuddy!("trace info {file} --csv -").done();
    assert_eq!(csv.lines().count(), rows.len() + 1);
    let checked = everybuddy!("trace check {file}").done();
    assert!(checked.starts_with("ok "), "{checked}");
    // As `*.parquet` names them: files next to a trace are checked with it.
    let companion = folder.file("tiny.vmas.parquet");
    assert_eq!(
        everybuddy!("trace check {companion} {file}").done(),
        checked
    );
}

#[test]
fn systems_are_listed() {
    let text = everybuddy!("systems").done();
    let lines = json(&everybuddy!("systems --json").done());
    assert_eq!(lines.len(), everybuddy::systems::ROWS.len());
    for (row, object) in everybuddy::systems::ROWS.iter().zip(lines) {
        assert_eq!(object["name"], row.name);
        assert_eq!(object["source"], row.source);
        assert!(text.contains(row.name));
        let full = everybuddy!("systems {}", row.name).done();
        shows(&full, &["faithful", "deviates"]);
    }
}

#[test]
fn metrics_are_listed_and_explained() {
    let list = everybuddy!("metrics").done();
    for metric in everybuddy_metrics::METRICS.iter() {
        assert!(
            list.contains(&format!("  {} ", metric.name)),
            "{}",
            metric.name
        );
    }
    let one = everybuddy!("metrics miss_rate").done();
    shows(&one, &["order-0 calls that entered the zone layer"]);
    let lines = everybuddy!("metrics --json").done();
    assert_eq!(lines.lines().count(), everybuddy_metrics::METRICS.len());
}

#[test]
fn an_experiment_is_described_in_full() {
    let text = everybuddy!("experiments stages").done();
    let all = everybuddy!("experiments").done();
    for word in ["stages\n", "platform", "sim:flat", "systems", "claim"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("fragmentation-") && text.lines().count() < all.lines().count());
    assert!(text.lines().all(|line| line.chars().count() <= 120));
    let line = everybuddy!("experiments stages --json").done();
    assert_eq!(line.lines().count(), 1);
}

#[test]
fn machines_are_listed_with_their_sources() {
    let list = everybuddy!("machines").done();
    let lines = json(&everybuddy!("machines --json").done());
    let names = everybuddy_simulate::machines::names();
    assert_eq!(lines.len(), names.len());
    for (name, line) in names.iter().zip(lines) {
        assert!(list.contains(&format!("\n {name} ")), "{list}");
        assert_eq!(line["name"], **name);
        let numbers = line["hardware"].as_object().unwrap();
        assert!(numbers["memory"]["value"].is_u64());
        for (key, number) in numbers {
            assert!(
                number["source"].as_str().is_some_and(|own| !own.is_empty()),
                "{name}: {key}"
            );
        }
    }
    let full = everybuddy!("machines x5570 x5355").done();
    shows(&full, &["\n? work ", "\nx5355\n"]);
}

/// It keeps its thread on a CPU.
#[test]
fn the_host_is_measured_and_its_file_can_be_read() {
    let folder = Folder::new("host");
    let file = folder.file("host.toml");
    let run = process!("machines --measure -o {file}");
    // A busy host is refused, and then nothing is written.
    if run.err.contains("too busy to be measured") {
        assert!(run.code != 0 && !Path::new(&file).exists(), "{}", run.err);
        return;
    }
    let measured = run.noted();
    assert!(measured.contains("measured on this host"), "{measured}");
    assert_eq!(everybuddy!("machines {file}").done(), measured);
}
