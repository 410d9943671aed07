//! `everybuddy simulate`: the same results whatever simulates them, interrupted or not, and traces.

use std::fs;

use super::common::{FINAL_FRAMES, Folder, Run, everybuddy};

/// Two systems on a small machine.
const SMALL: [&str; 9] = [
    "simulate",
    "--machine",
    "x5570",
    "--systems",
    "bs,is",
    "--memory",
    "64MiB",
    "--think",
    "100",
];

fn simulate(more: &[&str]) -> Run {
    everybuddy(&[&SMALL[..], more].concat())
}

/// Runs a short workload with these options, which no file is among, and with more of them.
fn short(options: &str, more: &[&str]) -> Run {
    let options: Vec<&str> = options.split(' ').collect();
    simulate(&[&["--shrink", "64"], &options[..], more].concat())
}

#[test]
fn an_interrupted_run_continues_with_the_same_results() {
    let folder = Folder::new("resume");
    let (file, rows) = (folder.file("cells.jsonl"), folder.file("rows.jsonl"));
    let command = |more: &[&str]| {
        let options = "--cpus 1,2,4 --seeds 2 --workloads burst:in-order";
        short(options, &[&["--json", &rows], more].concat())
    };
    let text = command(&[]).done();
    let expected = fs::read_to_string(&rows).unwrap();
    let resume = ["--resume", &file];
    assert_eq!(command(&resume).done(), text);
    let all = fs::read(&file).unwrap();
    let lines = all.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(
        lines,
        1 + 2 * 3 * 2,
        "a line for the run, and one for each cell"
    );
    let ends: Vec<usize> = (0..all.len()).filter(|at| all[*at] == b'\n').collect();
    for cut in [
        0,
        1,
        ends[0],
        ends[0] + 1,
        ends[3] + 7,
        ends[7],
        all.len() / 2,
        all.len() - 1,
    ] {
        fs::write(&file, &all[..cut]).unwrap();
        fs::remove_file(&rows).unwrap();
        assert_eq!(command(&resume).noted(), text, "cut at {cut}");
        assert_eq!(fs::read_to_string(&rows).unwrap(), expected, "cut at {cut}");
        let now = fs::read_to_string(&file).unwrap();
        assert_eq!(now.lines().count(), lines, "cut at {cut}");
    }
    // What is finished is not simulated again.
    let run = command(&resume);
    assert!(
        run.err.contains("12 of 12 cells are finished, 0 are left"),
        "{}",
        run.err
    );
    for (more, message) in [
        (&["--think", "7"][..], "its cycles between calls"),
        (&["--machine", "epyc-7763"], "its machine"),
        (&["--seeds", "3"], "its seeds: 1,2; here: 1,2,3"),
        (&["--systems", "bs"], "its systems"),
    ] {
        // The last of two equal options would be refused: so each is replaced.
        let mut words: Vec<&str> = SMALL.to_vec();
        words.extend(["--cpus", "1,2,4", "--shrink", "64", "--seeds", "2"]);
        words.extend(resume);
        let at = words.iter().position(|word| *word == more[0]).unwrap();
        words[at + 1] = more[1];
        everybuddy(&words).refused(&[message, "help: repeat the command line"]);
    }
    let changed = String::from_utf8(all)
        .unwrap()
        .replace("everybuddy 0", "everybuddy 7");
    fs::write(&file, &changed).unwrap();
    command(&resume).refused(&["its program: everybuddy 7", "help: "]);
    assert_eq!(fs::read_to_string(&file).unwrap(), changed);
    let file = folder.file("both.jsonl");
    simulate(&["--cpus", "1", "--json", &file, "--resume", &file])
        .refused(&["--json", "never changed"]);
}

#[test]
fn limits_of_several_loads_are_next_to_each_other() {
    let folder = Folder::new("limits");
    let [file, other, cells, page] =
        ["rows.jsonl", "other.jsonl", "cells.jsonl", "page.html"].map(|name| folder.file(name));
    let options = "--cpus 1,2,4,8 --seeds 1 --workloads batch,burst";
    let whole = short(options, &["--json", &file]).done();
    let (_, limits) = whole.split_once("Where each system stops").unwrap();
    // One lock serves all CPUs of `bs`, each of which has a space with `is`.
    for line in [
        "\nburst:in-order\n",
        "\n   all  is\n     1  zone lock: bs\n",
    ] {
        assert!(limits.contains(line), "{limits}");
    }
    // What is simulated no further has the same limits and causes.
    let to_limit = ["--to-limit", "--resume", &cells, "--json", &other];
    let text = short(options, &to_limit).done();
    let words = text.replace('\n', " ");
    assert!(words.contains("was not simulated on more CPUs"), "{text}");
    assert_eq!(
        text.split_once("Where each system stops").unwrap().1,
        limits
    );
    let rates = |path: &str| {
        let rows = fs::read_to_string(path).unwrap();
        let rates = rows.lines().filter(|line| line.contains("\"throughput\""));
        rates.count()
    };
    let (all, fewer) = (rates(&file), rates(&other));
    assert!(fewer < all, "{fewer} of {all}");
    // An interrupted run continues.
    let ended = fs::read(&cells).unwrap();
    fs::write(&cells, &ended[..ended.len() / 2]).unwrap();
    fs::remove_file(&other).unwrap();
    assert_eq!(short(options, &to_limit).noted(), text);
    assert_eq!(rates(&other), fewer);
    let now = String::from_utf8(fs::read(&cells).unwrap()).unwrap();
    assert_eq!(now.lines().count(), 1 + fewer, "each cell once");
    fs::remove_file(&other).unwrap();
    let run = short(options, &to_limit);
    let note = format!("{} of {all} cells are finished, 0 are left", all);
    assert!(run.err.contains(&note), "{}", run.err);
    short(options, &["--resume", &cells]).refused(&["its stops at the limit: true; here: false"]);
    // Rows are enough for the limits.
    let rows =
        |files: &str, more: &[&str]| everybuddy(&[&["simulate", "--rows", files], more].concat());
    for file in [&file, &other] {
        fs::write(&page, "").unwrap();
        let again = rows(file, &["--html", &page]).noted();
        assert!(again.ends_with("Machine: x5570.\n"), "{again}");
        assert_eq!(
            format!("{}Machine: x5570.\n", limits),
            again.split_once("Where each system stops").unwrap().1
        );
        let html = fs::read_to_string(&page).unwrap();
        assert!(html.contains("batch</th>") && html.contains("title=\"bs, batch: zone lock, "));
    }
    // Files of several runs are joined, unless they have the same results or differ in more than loads and systems.
    let more = folder.file("more.jsonl");
    let run = |options: &str| short(&format!("{options} --seeds 1"), &["--json", &more]).done();
    run("--cpus 1,2 --workloads handover,steady:50");
    let both = rows(&format!("{file},{more}"), &[]).done();
    for load in ["\nbatch\n", "\nsteady:50\n"] {
        assert!(both.contains(load), "{both}");
    }
    assert!(
        !both.contains("handover"),
        "one number of CPUs shows no limit: {both}"
    );
    rows(&format!("{file},{other}"), &[]).refused(&["an earlier file also has bs under batch"]);
    fs::remove_file(&more).unwrap();
    run("--cpus 1,2 --workloads steady:50 --frees other");
    rows(&format!("{file},{more}"), &[])
        .refused(&["rows of simulate+frees=other on sim:x5570 differ"]);
    let alone = rows(&more, &[]).done();
    assert!(alone.ends_with("Machine: x5570, frees=other.\n"), "{alone}");
    fs::remove_file(&more).unwrap();
    run("--cpus 2 --workloads batch");
    rows(&more, &[]).refused(&["no system was simulated on two numbers of CPUs"]);
    rows(&cells, &[]).refused(&["--rows: ", "--rows takes the file"]);
    rows(&file, &["--cpus", "2"]).refused(&["--rows", "--cpus"]);
    rows(&file, &["--seeds", "2"]).refused(&["--rows", "--seeds"]);
}

#[test]
fn a_trace_is_dealt_out_to_the_cpus() {
    let folder = Folder::new("simulate-trace");
    let trace = folder.trace();
    let own = [
        "simulate",
        "--trace",
        &trace,
        "--cpus",
        "1,4,32",
        "--systems",
        "bs,lbs-31,spring",
    ];
    let rows = folder.file("rows.jsonl");
    let run = everybuddy(&[&own[..], &["--json", &rows]].concat());
    let text = run.done();
    for part in [
        "tiny: calls per microsecond",
        "simulated",
        "idle",
        "one copy on",
        "3 copies on",
    ] {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    let find = |cpus: u64, metric: &str, statistic: &str, operation: &str| -> f64 {
        let rows = fs::read_to_string(&rows).unwrap();
        let rows = rows
            .lines()
            .map(|row| serde_json::from_str::<serde_json::Value>(row).unwrap());
        let mut found = rows.filter(|row| {
            (&row["cpus"], &row["metric"], &row["source"])
                == (&cpus.into(), &metric.into(), &"tiny".into())
                && (&row["statistic"], &row["operation"]) == (&statistic.into(), &operation.into())
        });
        found.next().unwrap()["value"].as_f64().unwrap()
    };
    let tasks = 10 + 3;
    for cpus in [1u64, 4, 32] {
        let copies = cpus.div_ceil(tasks) as f64;
        let allocated = find(cpus, "latency", "count", "allocate");
        assert_eq!(allocated, copies * (10.0 * 108.0 + 42.0), "{cpus} CPUs");
        let frames = 10 * (100 + 8 * 16) + 40 + 16 - FINAL_FRAMES;
        assert!(find(cpus, "latency", "count", "free") <= copies * frames as f64);
        assert_eq!(find(cpus, "blocking_probability", "rate", "allocate"), 0.0);
    }
    assert_eq!(find(1, "idle_share", "value", "all"), 0.0);
    assert!(find(4, "idle_share", "value", "all") > 0.0);
}

#[test]
fn a_trace_that_cannot_be_simulated_is_explained() {
    let folder = Folder::new("simulate-refused");
    let trace = folder.trace();
    for (arguments, message) in [
        (&["--trace", "gcc_biuld"][..], "did you mean `gcc_build`?"),
        (&["--trace", "no/such.parquet"], "no/such.parquet"),
        (&["--trace", &format!("{trace},{trace}")], "is given twice"),
        (
            &["--trace", &trace, "--memory", "1MiB"],
            "--memory, which is that of a copy",
        ),
        (
            &["--trace", &trace, "--memory", "60GiB", "--cpus", "16"],
            "2 copies of the trace",
        ),
        (&["--trace", &trace, "--resume", &trace], "--resume"),
        (
            &["--cpus", "32", "--slice", "100000", "--services", "idle"],
            "--services idle: 32 CPUs are more than the machine has, 16",
        ),
    ] {
        let own = ["simulate", "--machine", "x5570", "--systems", "bs"];
        everybuddy(&[&own[..], arguments].concat()).refused(&[message, "help"]);
    }
}

#[test]
fn a_timeline_shows_one_run() {
    let folder = Folder::new("timeline");
    let file = folder.file("run.pftrace");
    let run = |systems: &str, cpus: &str| {
        everybuddy(&[
            "simulate",
            "--machine",
            "x5570",
            "--memory",
            "64MiB",
            "--shrink",
            "64",
            "--systems",
            systems,
            "--cpus",
            cpus,
            "--timeline",
            &file,
        ])
    };
    run("bs", "1,2").refused(&["--timeline", "one run", "these are 2"]);
    run("bs,is", "2").refused(&["--timeline", "one run", "these are 2"]);
    assert!(!std::path::Path::new(&file).exists());
    run("lis-31", "2").noted();
    let bytes = fs::read(&file).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|own| own == text);
    assert!(has(b"CPU 1") && has(b"lock held") && has(b"refill of"));
    assert!(has(
        b"burst:in-order, lis-31, 2 CPUs, seed 1, simulated x5570"
    ));
}

#[test]
fn phases_are_together_or_apart() {
    let folder = Folder::new("phases");
    let file = folder.file("rows.jsonl");
    let run = |workload: &str, phases: &str| {
        let options = format!("--cpus 4 --seeds 1 --workloads {workload} --phases {phases}");
        short(&options, &["--json", &file])
    };
    let mut idle = Vec::new();
    for phases in ["together", "apart"] {
        run("burst:random", phases).done();
        let rows = fs::read_to_string(&file).unwrap();
        let is_idle = |line: &&str| line.contains("\"idle_share\"");
        idle.push(
            rows.lines()
                .filter(is_idle)
                .all(|line| line.contains("\"value\":0.0,")),
        );
    }
    assert_eq!(idle, [false, true], "CPUs that are apart wait for none");
    run("handover", "apart").refused(&["--phases apart", "handover"]);
}

#[test]
fn calls_are_cut_off_and_cpus_take_turns_between_calls() {
    let folder = Folder::new("turns");
    let file = folder.file("rows.jsonl");
    let turns = "simulate --machine x5570 --systems bs,is --cpus 32 --slice 100000 --whole-calls";
    let turns: Vec<&str> = turns.split(' ').collect();
    let more = "--cut-off 20000 --seeds 1 --shrink 64 --memory 256MiB --json";
    let more: Vec<&str> = more.split(' ').chain([file.as_str()]).collect();
    let stdout = everybuddy(&[turns, more].concat()).done();
    assert!(stdout.contains("CPUs take turns between calls"), "{stdout}");
    let rows = fs::read_to_string(&file).unwrap();
    let rows = rows.lines().filter(|line| line.contains("\"cut_off\""));
    let rows: Vec<&str> = rows.collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(row.contains("\"value\":1.0,"), "{row}");
        let name = "\"simulate+turns=calls+cut-off=on\"";
        assert!(row.contains(name), "{row}");
    }
    short("--cpus 4 --whole-calls", &[]).refused(&["--slice"]);
    short("--cpus 4 --cut-off 0", &[]).refused(&["--cut-off"]);
}

#[test]
fn a_sensitivity_run_mentions_every_number_of_the_machine() {
    let folder = Folder::new("sensitivity");
    let file = folder.file("rows.jsonl");
    let text = short("--cpus 1,2,4 --seeds 1 --sensitivity", &["--json", &file]).done();
    let (_, text) = text.split_once("Sensitivity: ").unwrap();
    let words = text.replace('\n', " ");
    for key in [
        "memory",
        "near.modified",
        "locked",
        "store_buffer",
        "waiters",
        "think",
    ] {
        assert!(words.contains(&format!(" {key} ")), "{key}: {text}");
    }
    let rows = fs::read_to_string(&file).unwrap();
    assert!(rows.contains("\"sim:x5570 with memory = "));
    assert!(rows.contains("\"sim:x5570\""));
}

#[test]
fn a_prediction_is_the_same_with_a_measurement_beside_it() {
    let scaling = |more: &[&str]| {
        let command = "scaling --machine x5570 --systems bs,everybuddy --workloads batch --shrink 64 --json -";
        let command: Vec<&str> = command.split(' ').collect();
        let run = everybuddy(&[&command[..], more].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        run
    };
    let predicted = scaling(&["--predict", "--cpus", "1,4"]);
    let rows: Vec<&str> = predicted.out.lines().collect();
    // A number and its band for each of two systems on two numbers of CPUs.
    assert_eq!(rows.len(), 3 * 2 * 2, "{}", predicted.out);
    assert!(rows.iter().all(|row| row.contains("sim:x5570")));
    assert!(!predicted.err.contains("Measured on"), "{}", predicted.err);
    // Four CPUs are predicted wherever the test runs, and measured only where they exist.
    let both = scaling(&["--rounds", "1", "--cpus", "1,4"]);
    assert!(both.out.starts_with(&predicted.out), "{}", both.out);
    assert!(both.out.contains("native") && both.err.contains("inside the band"));
    for (more, words) in [
        (&["--cpus", "64"][..], ["--cpus 64", "16 CPUs"]),
        (&["--machine", "x557"], ["x557", "x5570"]),
        (&["--workloads", "bath"], ["bath", "batch"]),
    ] {
        let command = ["scaling", "--predict", "--machine", "x5570"];
        let kept = if more[0] == "--machine" { 2 } else { 4 };
        everybuddy(&[&command[..kept], more].concat()).refused(&words);
    }
}
