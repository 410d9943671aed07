//! The command line: help, refusals, exit codes, streams.

use crate::common::{Folder, everybuddy, everybuddy_to};

#[test]
fn a_system_is_described_with_what_its_options_make_of_it() {
    let text = everybuddy(&["systems", "lbs-31", "lbs-31+batch=7"]).done();
    let [own, varied] = [
        text.find("batch 31, high mark 186"),
        text.find("batch 7, high mark 42"),
    ];
    everybuddy(&["systems", "is+space=1MiB"]).refused(&["is+space=1MiB", "`space`"]);
    let line = everybuddy(&["systems", "lbs-31+batch=7", "--json"]).done();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["name"], "lbs-31+batch=7");
    assert!(
        own.is_some() && own < varied && text.contains("\nlbs-31+batch=7\n"),
        "{text}"
    );
}

#[test]
fn help_shows_examples() {
    for command in [
        &["compare"][..],
        &["bench"],
        &["systems"],
        &["workloads"],
        &["traces"],
        &["completions"],
        &["man"],
        &["machines"],
        &["simulate"],
        &["sweep"],
        &["reproduce"],
        &["metrics"],
        &["memory"],
        &["advise"],
        &["trace"],
        &["trace", "info"],
        &["trace", "check"],
        #[cfg(target_os = "linux")]
        &["record"],
        &["trace", "import"],
        &["trace", "export"],
        &["trace", "cut"],
        &["trace", "sizes"],
        &[],
    ] {
        let help = everybuddy(&[command, &["--help"]].concat()).done();
        assert!(
            help.contains("Examples:\n  everybuddy "),
            "{command:?}: {help}"
        );
        assert!(
            help.lines().all(|line| line.chars().count() <= 100),
            "{command:?}: {help}"
        );
    }
    assert!(everybuddy(&["--version"]).done().starts_with("everybuddy "));
}

#[test]
fn mistakes_are_refused_with_one_message() {
    let refused = |arguments: &[&str], parts: &[&str]| everybuddy(arguments).refused(parts);
    refused(
        &["compare", "--systems", "lbs31"],
        &["`lbs31`", "did you mean `lbs-31`?", "linux-6"],
    );
    refused(
        &["compare", "--systems", "bs+batch=3"],
        &["`bs+batch=3`", "it takes order"],
    );
    refused(
        &["compare", "--systems", "bs,lbs-31+batch=0"],
        &["`lbs-31+batch=0`", "1 to 1048576"],
    );
    refused(&["compare", "--memory", "12"], &["`12`", "512MiB"]);
    refused(
        &["compare", "--memory", "99TiB"],
        &["exceeds the maximum", "help: choose a smaller --memory"],
    );
    refused(&["compare", "--cpus", "0"], &["--cpus 0", "1 to 256"]);
    refused(
        &["compare", "--cpus", "0-3"],
        &["'0-3'", "a number of threads, such as 2", "range of CPUs"],
    );
    refused(&["bench", "--threads", "1-4"], &["'1-4'", "such as 2"]);
    refused(
        &[
            "trace",
            "cut",
            "gcc_build",
            "-o",
            "x.parquet",
            "--first",
            "0",
        ],
        &["--first", "from 1 on"],
    );
    refused(
        &["experiments", "fragmentaton"],
        &["`fragmentaton`", "did you mean `fragmentation`?"],
    );
    refused(&["compare", "--json", "-", "--csv", "-"], &["only one"]);
    refused(
        &["compare", "--csv", "/no/such/folder/x.csv"],
        &["/no/such/folder/x.csv"],
    );
    let unknown = everybuddy(&["compare", "gcc_biuld"]);
    unknown.refused(&["did you mean `gcc_build`?"]);
    // The document shows it, as the exception of Python.
    let shown = unknown
        .err
        .replacen("error: ", "everybuddy.InputError: ", 1);
    assert!(
        include_str!("../../../../docs/python.md").contains(&shown),
        "docs/python.md does not show {shown}"
    );
    refused(&["compare", "no/such.parquet"], &["no/such.parquet"]);
    refused(
        &["systems", "jemalloc"],
        &["`jemalloc`", "the systems are bs"],
    );
    refused(&["trace", "info", "nothing.parquet"], &["nothing.parquet"]);
    assert_eq!(everybuddy(&["emulate"]).code, 2);
    assert_eq!(everybuddy(&[]).code, 2);
}

#[test]
#[cfg(target_os = "linux")]
fn recordings_are_refused_before_anything_is_done() {
    let folder = Folder::new("record");
    let refused = |arguments: &[&str], parts: &[&str]| {
        everybuddy(&[&["record"], arguments].concat()).refused(parts);
    };
    refused(&[], &["pass a command", "--seconds"]);
    refused(
        &["--overhead", "--seconds", "1"],
        &["--overhead", "after --"],
    );
    refused(&["-o", "x.csv", "--", "true"], &["x.csv", ".parquet"]);
    let there = folder.trace();
    let before = std::fs::read(&there).unwrap();
    refused(&["-o", &there, "--", "true"], &[&there, "--force"]);
    assert_eq!(std::fs::read(&there).unwrap(), before);
    // Without privileges for another reason than with them, and in the same way.
    let nowhere = folder.file("new.parquet");
    refused(&["-o", &nowhere, "--", "/no/such/program"], &[]);
    assert!(!std::path::Path::new(&nowhere).exists());
}

#[test]
fn damaged_traces_are_refused() {
    let folder = Folder::new("damaged");
    let whole = std::fs::read(folder.trace()).unwrap();
    let cases = [
        ("empty.parquet", &[][..]),
        ("text.parquet", &b"time,cpu,op\n1,2,3\n"[..]),
        ("cut.parquet", &whole[..whole.len() / 2]),
    ];
    for (name, bytes) in cases {
        let file = folder.file(name);
        std::fs::write(&file, bytes).unwrap();
        for command in [&["compare"][..], &["trace", "info"], &["trace", "check"]] {
            for lenient in [&[][..], &["--lenient"]] {
                everybuddy(&[command, &[&file], lenient].concat()).refused(&[name]);
            }
        }
    }
}

#[test]
fn contradictions_are_refused_or_repaired() {
    let folder = Folder::new("lenient");
    let mut trace = crate::common::trace();
    let first = trace.events[0];
    // Allocated while it lives.
    trace.events.insert(1, first);
    let file = folder.file("twice.parquet");
    // Only reading refuses contradictions.
    everybuddy_trace::write(&trace, file.as_ref()).unwrap();
    everybuddy(&["trace", "check", &file]).refused(&["twice.parquet, row 1"]);
    everybuddy(&["compare", &file]).refused(&["twice.parquet, row 1"]);
    let checked = everybuddy(&["trace", "check", &file, "--lenient"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.out.contains("repaired: 1 "), "{}", checked.out);
    let compared = everybuddy(&["compare", &file, "--lenient", "--systems", "bs"]);
    assert_eq!(compared.code, 0, "{}", compared.err);
    assert!(compared.err.contains("repaired: 1 "), "{}", compared.err);
}

#[test]
fn traces_are_described() {
    let folder = Folder::new("info");
    let file = folder.trace();
    let text = everybuddy(&["trace", "info", &file]).done();
    for part in ["tiny", "order 4 (64 KiB)", "peak", "█"] {
        assert!(text.contains(part), "{text}");
    }
    let json = everybuddy(&["trace", "info", &file, "--json", "-"]).done();
    let rows: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |metric: &str| {
        rows.iter()
            .filter(|row| row["metric"] == metric)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("partial_frees")[0]["value"], 4.0);
    let at_the_end = of("live_frames")[201];
    assert_eq!(at_the_end["experiment"], "trace@1.0000");
    assert_eq!(at_the_end["value"], crate::common::FINAL_FRAMES as f64);
    let csv = everybuddy(&["trace", "info", &file, "--csv", "-"]).done();
    assert_eq!(csv.lines().count(), rows.len() + 1);
    let checked = everybuddy(&["trace", "check", &file]).done();
    assert!(checked.starts_with("ok "), "{checked}");
    // As `*.parquet` names them: files next to a trace are checked with it.
    let companion = folder.file("tiny.vmas.parquet");
    assert_eq!(
        everybuddy(&["trace", "check", &companion, &file]).done(),
        checked
    );
}

#[test]
fn systems_are_listed() {
    let text = everybuddy(&["systems"]).done();
    let json = everybuddy(&["systems", "--json"]).done();
    assert_eq!(json.lines().count(), everybuddy::systems::ROWS.len());
    for (row, line) in everybuddy::systems::ROWS.iter().zip(json.lines()) {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["name"], row.name);
        assert_eq!(object["source"], row.source);
        assert!(text.contains(row.name));
        let full = everybuddy(&["systems", row.name]).done();
        assert!(
            full.contains("faithful") && full.contains("deviates"),
            "{full}"
        );
    }
    assert!(!text.contains('\x1b'), "a pipe takes no colour");
}

#[test]
fn metrics_are_listed_and_explained() {
    let list = everybuddy(&["metrics"]).done();
    for metric in &everybuddy_metrics::METRICS {
        assert!(
            list.contains(&format!("  {} ", metric.name)),
            "{}",
            metric.name
        );
    }
    let one = everybuddy(&["metrics", "miss_rate"]).done();
    assert!(
        one.contains("order-0 calls that entered the zone layer"),
        "{one}"
    );
    let lines = everybuddy(&["metrics", "--json"]).done();
    assert_eq!(lines.lines().count(), everybuddy_metrics::METRICS.len());
    everybuddy(&["metrics", "mis_rate"]).refused(&["`mis_rate`", "did you mean `miss_rate`?"]);
}

#[test]
fn an_experiment_is_described_in_full() {
    let text = everybuddy(&["experiments", "stages"]).done();
    let all = everybuddy(&["experiments"]).done();
    for word in ["stages\n", "platform", "sim:flat", "systems", "claim"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("fragmentation-") && text.lines().count() < all.lines().count());
    assert!(text.lines().all(|line| line.chars().count() <= 120));
    let line = everybuddy(&["experiments", "stages", "--json"]).done();
    assert_eq!(line.lines().count(), 1);
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_that_cannot_be_written_is_one_error() {
    let folder = Folder::new("full");
    let trace = folder.trace();
    for command in [
        &["--help"][..],
        &["--version"],
        &["help", "compare"],
        &["compare", "--help"],
        &["trace", "--help"],
        &["systems"],
        &["systems", "bs", "--json"],
        &["workloads"],
        &["experiments"],
        &["metrics"],
        &["trace", "info", &trace],
        &["trace", "check", &trace],
        &["trace", "sizes", &trace, "-o", "-"],
        &["trace", "export", &trace, "--to", "csv", "-o", "-"],
        &["compare", &trace, "--systems", "bs", "--no-html"],
        &["compare", &trace, "--systems", "bs", "--json", "-"],
    ] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let run = everybuddy_to(full, command);
        assert_eq!(run.code, 2, "{command:?}: {}", run.err);
        let errors = run.err.lines().filter(|line| line.starts_with("error:"));
        assert_eq!(errors.count(), 1, "{command:?}: {}", run.err);
        assert!(run.err.contains("standard output"), "{}", run.err);
        assert!(run.err.contains("help: free space"), "{}", run.err);
        assert!(!run.err.contains("panicked"), "{}", run.err);
    }
}

#[test]
fn machines_are_listed_with_their_sources() {
    let list = everybuddy(&["machines"]).done();
    let lines = everybuddy(&["machines", "--json"]).done();
    let names = everybuddy_simulate::machines::names();
    assert_eq!(lines.lines().count(), names.len());
    for (name, line) in names.iter().zip(lines.lines()) {
        assert!(list.contains(&format!("\n {name} ")), "{list}");
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["name"], **name);
        let numbers = line["hardware"].as_object().unwrap();
        assert!(numbers["memory"]["value"].is_u64());
        for (key, number) in numbers {
            assert!(
                !number["source"].as_str().unwrap().is_empty(),
                "{name}: {key}"
            );
        }
    }
    let full = everybuddy(&["machines", "x5570", "x5355"]).done();
    assert!(
        full.contains("\n? work ") && full.contains("\nx5355\n"),
        "{full}"
    );
    everybuddy(&["machines", "x557"]).refused(&["`x557`", "did you mean `x5570`?"]);
    everybuddy(&["machines", "no/such.toml"]).refused(&["no/such.toml", "--measure"]);
}

#[test]
fn a_machine_file_with_a_mistake_is_refused() {
    let folder = Folder::new("machines");
    let file = folder.file("x.toml");
    let right = include_str!("../../../../machines/x5570.toml");
    std::fs::write(&file, right).unwrap();
    assert!(
        everybuddy(&["machines", &file])
            .done()
            .contains("llc.bytes")
    );
    std::fs::write(&file, right.replacen("memory = 191", "memroy = 191", 1)).unwrap();
    everybuddy(&["machines", &file]).refused(&[&file, "`memroy`", "did you mean `memory`?"]);
    assert_eq!(everybuddy(&["machines", "-o", &file]).code, 2);
}

#[test]
fn the_host_is_measured_and_its_file_can_be_read() {
    let folder = Folder::new("host");
    let file = folder.file("host.toml");
    let measured = everybuddy(&["machines", "--measure", "-o", &file]).noted();
    assert!(measured.contains("measured on this host"), "{measured}");
    assert_eq!(everybuddy(&["machines", &file]).done(), measured);
    everybuddy(&["machines", "--measure", "-o", "host.txt"]).refused(&["host.txt", ".toml"]);
    everybuddy(&["machines", "--measure", "-o", "/no/such/folder/x.toml"])
        .refused(&["/no/such/folder/x.toml"]);
}

#[test]
fn a_simulation_says_so_and_is_the_same_every_time() {
    let command = [
        "simulate",
        "--machine",
        "x5570",
        "--systems",
        "bs,is",
        "--cpus",
        "1,2,4",
        "--memory",
        "64MiB",
        "--shrink",
        "64",
        "--think",
        "100",
    ];
    let text = everybuddy(&command).done();
    assert!(
        text.contains("simulated") && text.contains("zone lock"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 120),
        "{text}"
    );
    for jobs in ["1", "3"] {
        let again = everybuddy(&[&command[..], &["--jobs", jobs]].concat());
        assert_eq!(again.done(), text, "{jobs} jobs");
    }
    let rows = everybuddy(&[&command[..], &["--json", "-"]].concat());
    assert_eq!(rows.code, 0, "{}", rows.err);
    assert!(rows.out.lines().count() > 50);
    for line in rows.out.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&row["platform"], &row["simulated"]),
            (&"sim:x5570".into(), &true.into())
        );
    }
}

#[test]
fn a_machine_that_cannot_be_simulated_is_explained() {
    for (arguments, message) in [
        (&["--machine", "x5571"][..], "x5570"),
        (
            &["--machine", "x5570", "--cpus", "32"],
            "machine `x5570` has 16 CPUs",
        ),
        (&["--cpus", "0"], "--cpus"),
        (&["--workloads", "handover", "--cpus", "1"], "needs 2 CPUs"),
        (&["--memory", "1MiB"], "--memory"),
        (&["--workloads", "brust"], "did you mean"),
        (&["--shrink", "0"], "--shrink"),
        (&["--jobs", "0"], "--jobs"),
    ] {
        let run = everybuddy(&[&["simulate", "--systems", "bs"], arguments].concat());
        assert_eq!(run.code, 2, "{arguments:?}");
        assert!(run.err.contains(message), "{arguments:?}: {}", run.err);
    }
}
