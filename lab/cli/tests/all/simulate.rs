//! `everybuddy simulate`: the same results whatever simulates them, interrupted or not, and traces.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::num::NonZero;
#[cfg(unix)]
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::common::{FINAL_FRAMES, Folder, command, everybuddy, json, shows, text};

/// A short workload on two systems on a small machine.
const SHORT: &str =
    "simulate --machine x5570 --systems bs,is --memory 64MiB --think 100 --shrink 64";

#[test]
fn an_interrupted_run_continues_with_the_same_results() {
    let folder = Folder::new("resume");
    let (cells, rows) = (folder.file("cells"), folder.file("rows.jsonl"));
    let words = format!("{SHORT} --workloads burst:in-order --cpus 1,2,4 --seeds 2");
    let kept = || {
        let entries = fs::read_dir(&cells).unwrap().map(Result::unwrap);
        let mut all: Vec<_> = entries
            .map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap()))
            .collect();
        all.sort();
        all
    };
    let run = |words: &str, more: &str| {
        let _ = fs::remove_file(&rows);
        let run = everybuddy!("{words} --json {rows} {more}");
        let noted = run.err.clone();
        (run.noted(), text(&rows), noted)
    };
    let resume = &format!("--resume {cells}");
    let (whole, expected, _) = run(&words, "");
    let (printed, written, noted) = run(&words, resume);
    assert_eq!(
        (&printed, &written, noted.as_str()),
        (&whole, &expected, "")
    );
    let all = kept();
    assert_eq!(all.len(), 2 * 3 * 2, "a file for each cell");
    // Whatever is missing or damaged is simulated again, and nothing else.
    for (at, damage) in [(0, None), (7, Some("half")), (11, None)] {
        match damage {
            None => fs::remove_file(&all[at].0).unwrap(),
            Some(text) => fs::write(&all[at].0, text).unwrap(),
        }
        let before = kept();
        let (printed, written, noted) = run(&words, resume);
        assert_eq!((printed, written), (whole.clone(), expected.clone()));
        assert!(
            noted.contains("11 of 12 cells are finished, 1 are left"),
            "{noted}"
        );
        assert_eq!(noted.contains("is damaged: "), damage.is_some(), "{noted}");
        let after = kept();
        let changed = after.iter().filter(|cell| !before.contains(cell)).count();
        assert_eq!((after.len(), changed), (12, 1));
    }
    // Runs that differ in anything have other cells, in the same folder; those that they share are not repeated.
    for (from, to, finished, count) in [
        ("--think 100", "--think 7", 0, 12),
        ("x5570", "epyc-7763", 0, 12),
        ("--seeds 2", "--seeds 3", 12, 18),
        ("bs,is", "bs", 6, 6),
    ] {
        let other = words.replace(from, to);
        let (_, expected, _) = run(&other, "");
        let (_, written, noted) = run(&other, resume);
        assert_eq!(written, expected, "{to}");
        let note = match finished {
            0 => "no cell of this run is finished; the ".to_string(),
            _ => format!("{finished} of {count} cells are finished"),
        };
        assert!(noted.contains(&note), "{to}: {noted}");
    }
    let (_, written, noted) = run(&words, resume);
    assert!(written == expected && noted.contains("12 of 12"), "{noted}");
    let file = folder.file("rows.jsonl");
    everybuddy!("{SHORT} --cpus 1 --resume {file}").refused(&["it is a file", "help: "]);
}

#[cfg(unix)]
#[test]
fn a_table_is_printed_when_its_load_ends_and_an_interrupt_prints_the_rest() {
    // The other loads take longer than the first one: a signal when its table appears finds them unfinished. It is not
    // SIGINT, which a shell lets programs in the background ignore.
    let words = "simulate --machine x5570 --systems lbs-31,everybuddy --memory 256MiB --seeds 4 --cpus 1,2,16 \
                 --workloads burst:in-order,steady,relief,fill,burst:random --shrink 8 --jobs 1";
    let mut child = command(&words.split_whitespace().collect::<Vec<_>>())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("\n everybuddy") {
        assert!(out.read_line(&mut printed).unwrap() > 0, "{printed}");
    }
    assert!(
        printed.starts_with("burst:in-order: calls per microsecond"),
        "{printed}"
    );
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    out.read_to_string(&mut printed).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.signal(), Some(15), "{}", ended.status);
    let noted = String::from_utf8(ended.stderr).unwrap();
    assert!(
        noted.contains("note: interrupted: ") && noted.contains(" cells have ended, which"),
        "{noted}"
    );
    assert!(!printed.contains("Simulated: machine"), "{printed}");
}

#[test]
fn limits_of_several_loads_are_next_to_each_other() {
    let folder = Folder::new("limits");
    let [file, other, cells, page] =
        ["rows.jsonl", "other.jsonl", "cells", "page.html"].map(|name| folder.file(name));
    let options = "--cpus 1,2,4,8 --seeds 1 --workloads batch,burst";
    let whole = everybuddy!("{SHORT} {options} --json {file}").done();
    let (_, limits) = whole.split_once("Where each system stops").unwrap();
    // One lock serves all CPUs of `bs`, each of which has a space with `is`.
    for line in [
        "\nburst:in-order\n",
        "\n   all  is\n     1  zone lock: bs\n",
    ] {
        assert!(limits.contains(line), "{limits}");
    }
    // What is simulated no further has the same limits and causes.
    let to_limit = || everybuddy!("{SHORT} {options} --to-limit --resume {cells} --json {other}");
    let first = to_limit().done();
    let words = first.replace('\n', " ");
    assert!(words.contains("was not simulated on more CPUs"), "{first}");
    let own = first.split_once("Where each system stops").unwrap().1;
    assert_eq!(own, limits);
    let rates = |path: &str| {
        let rows = text(path);
        rows.lines()
            .filter(|line| line.contains("\"throughput\""))
            .count()
    };
    let (all, fewer) = (rates(&file), rates(&other));
    assert!(fewer < all, "{fewer} of {all}");
    // An interrupted run continues.
    let count = || fs::read_dir(&cells).unwrap().count();
    assert_eq!(count(), fewer, "a file for each cell");
    let ended = fs::read_dir(&cells).unwrap().map(|own| own.unwrap().path());
    ended
        .step_by(2)
        .for_each(|own| fs::remove_file(own).unwrap());
    fs::remove_file(&other).unwrap();
    assert_eq!(to_limit().noted(), first);
    assert_eq!((rates(&other), count()), (fewer, fewer));
    fs::remove_file(&other).unwrap();
    let run = to_limit();
    let note = format!("{all} of {all} cells are finished, 0 are left");
    assert!(run.err.contains(&note), "{}", run.err);
    // Rows are enough for the limits.
    let rows = |files: &str| everybuddy!("simulate --rows {files}");
    for file in [&file, &other] {
        fs::write(&page, "").unwrap();
        let again = rows(&format!("{file} --html {page}")).noted();
        let (_, own) = again.split_once("Where each system stops").unwrap();
        assert_eq!(own, format!("{limits}Machine: x5570.\n"));
        let html = text(&page);
        assert!(html.contains("batch</th>") && html.contains("title=\"bs, batch: zone lock, "));
    }
    // Files of several runs are joined, unless they have the same results or differ in more than loads and systems.
    let more = folder.file("more.jsonl");
    let run = |options: &str| everybuddy!("{SHORT} {options} --seeds 1 --json {more}").done();
    run("--cpus 1,2 --workloads handover,steady:50");
    let both = rows(&format!("{file},{more}")).done();
    shows(&both, &["\nbatch\n", "\nsteady:50\n"]);
    assert!(
        !both.contains("handover"),
        "one number of CPUs shows no limit: {both}"
    );
    rows(&format!("{file},{other}")).refused(&["an earlier file also has bs under batch"]);
    fs::remove_file(&more).unwrap();
    run("--cpus 1,2 --workloads steady:50 --frees other");
    rows(&format!("{file},{more}")).refused(&["rows of simulate+frees=other on sim:x5570 differ"]);
    let alone = rows(&more).done();
    assert!(alone.ends_with("Machine: x5570, frees=other.\n"), "{alone}");
    fs::remove_file(&more).unwrap();
    run("--cpus 2 --workloads batch");
    rows(&more).refused(&["no system was simulated on two numbers of CPUs"]);
    rows(&cells).refused(&["--rows: ", "help: "]);
    rows(&format!("{file} --cpus 2")).refused(&["--rows", "--cpus"]);
    rows(&format!("{file} --seeds 2")).refused(&["--rows", "--seeds"]);
}

#[test]
fn a_trace_is_dealt_out_to_the_cpus() {
    let folder = Folder::new("simulate-trace");
    let trace = folder.trace();
    let rows = folder.file("rows.jsonl");
    let own = "--cpus 1,4,32 --systems bs,lbs-31,spring";
    let said = everybuddy!("simulate --trace {trace} {own} --json {rows}").done();
    let parts = [
        "tiny: calls per microsecond",
        "simulated",
        "idle",
        "one copy on",
        "3 copies on",
    ];
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
    let rows = json(&text(&rows));
    let find = |cpus: u64, metric: &str, statistic: &str, operation: &str| -> f64 {
        let mut own = rows.iter().filter(|row| {
            row["cpus"] == cpus
                && row["metric"] == metric
                && row["source"] == "tiny"
                && row["statistic"] == statistic
                && row["operation"] == operation
        });
        own.next().unwrap()["value"].as_f64().unwrap()
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
fn a_timeline_shows_one_run() {
    let folder = Folder::new("timeline");
    let file = folder.file("run.pftrace");
    let words = "--workloads burst:in-order --cpus 2 --systems lis-31 --timeline";
    let line = format!("{SHORT} {words} {file}").replace("--systems bs,is ", "");
    everybuddy!("{line}").noted();
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
    let mut idle = Vec::new();
    for phases in ["together", "apart"] {
        let options = format!("--cpus 4 --seeds 1 --workloads burst:random --phases {phases}");
        everybuddy!("{SHORT} {options} --json {file}").done();
        let rows = json(&text(&file));
        let mut own = rows.iter().filter(|row| row["metric"] == "idle_share");
        idle.push(own.all(|row| row["value"] == 0.0));
    }
    assert_eq!(idle, [false, true], "CPUs that are apart wait for none");
}

#[test]
fn calls_are_cut_off_and_cpus_take_turns_between_calls() {
    let folder = Folder::new("turns");
    let file = folder.file("rows.jsonl");
    let turns = "--workloads burst:in-order --cpus 32 --slice 100000 --whole-calls --cut-off 20000 --seeds 1";
    let line = format!("{SHORT} {turns} --json {file}").replace("64MiB --think 100", "256MiB");
    let stdout = everybuddy!("{line}").done();
    assert!(stdout.contains("CPUs take turns between calls"), "{stdout}");
    let rows = json(&text(&file));
    let rows: Vec<_> = rows
        .iter()
        .filter(|row| row["metric"] == "cut_off")
        .collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["value"], 1.0, "{row}");
        assert_eq!(row["experiment"], "simulate+turns=calls+cut-off=on");
    }
}

#[test]
fn a_sensitivity_run_mentions_every_number_of_the_machine() {
    let folder = Folder::new("sensitivity");
    let file = folder.file("rows.jsonl");
    let said =
        everybuddy!("{SHORT} --cpus 1,4 --workloads batch --seeds 1 --sensitivity --json {file}")
            .done();
    let cells = folder.file("cells");
    let kept = format!("--cpus 1,4 --workloads batch --seeds 1 --sensitivity --resume {cells}");
    assert_eq!(everybuddy!("{SHORT} {kept}").done(), said);
    let again = everybuddy!("{SHORT} {kept}");
    shows(&again.err, &[" cells are finished, 0 are left"]);
    assert_eq!(again.noted(), said);
    let (_, said) = said.split_once("Sensitivity: ").unwrap();
    let words = said.replace('\n', " ");
    for key in [
        "memory",
        "near.modified",
        "locked",
        "store_buffer",
        "waiters",
        "think",
    ] {
        assert!(words.contains(&format!(" {key} ")), "{key}: {said}");
    }
    let rows = text(&file);
    assert!(rows.contains("\"sim:x5570 with memory = "));
    assert!(rows.contains("\"sim:x5570\""));
}

#[test]
fn a_prediction_is_the_same_with_a_measurement_beside_it() {
    let scaling = |more: &str| {
        let own = "--machine x5570 --systems bs,everybuddy --workloads batch --shrink 64";
        everybuddy!("scaling {own} --cpus 1,4 --json - {more}")
    };
    let predicted = scaling("--predict");
    let rows: Vec<&str> = predicted.out.lines().collect();
    // A number and its band for each of two systems on two numbers of CPUs.
    assert_eq!(rows.len(), 3 * 2 * 2, "{}", predicted.out);
    assert!(rows.iter().all(|row| row.contains("sim:x5570")));
    assert!(!predicted.err.contains("Measured on"), "{}", predicted.err);
    // The rows alone give the same table.
    let folder = Folder::new("scaling");
    let file = folder.file("rows.jsonl");
    fs::write(&file, &predicted.out).unwrap();
    let again = everybuddy!("scaling --rows {file} --json -");
    assert_eq!(
        (again.out, again.err),
        (predicted.out.clone(), predicted.err.clone())
    );
    everybuddy!("scaling --rows {file} --predict").refused(&["--rows", "--predict"]);
    fs::write(&file, predicted.out.replace("predicted_", "")).unwrap();
    everybuddy!("scaling --rows {file}").refused(&["it has no predictions", "help: "]);
    // With half of its cells, an interrupted prediction gives the same rows.
    let cells = folder.file("scaling.cells");
    let resumed = || scaling(&format!("--predict --resume {cells}"));
    assert_eq!(resumed().out, predicted.out);
    let all = fs::read_dir(&cells).unwrap().map(|own| own.unwrap().path());
    all.step_by(2).for_each(|own| fs::remove_file(own).unwrap());
    let again = resumed();
    assert_eq!(again.out, predicted.out);
    assert!(
        again.err.contains("6 of 12 cells are finished, 6 are left"),
        "{}",
        again.err
    );
    // Next to other programs, nothing is measured, and not predicted either.
    let busy = AtomicBool::new(true);
    let refused = thread::scope(|scope| {
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        for _ in 0..cpus {
            scope.spawn(|| {
                while busy.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
        let refused = everybuddy!("scaling --shrink 1024");
        busy.store(false, Ordering::Relaxed);
        refused
    });
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    assert!(
        refused.err.contains("and nothing was measured"),
        "{}",
        refused.err
    );
    assert!(!refused.err.contains("measuring"), "{}", refused.err);
    // Four CPUs are predicted wherever the test runs, and measured only where they exist.
    let both = scaling("--rounds 1");
    if both.code != 0 {
        // Other tests run at the same time.
        assert!(both.err.contains("too busy to be measured"), "{}", both.err);
        return;
    }
    assert!(both.out.starts_with(&predicted.out), "{}", both.out);
    assert!(both.out.contains("native") && both.err.contains("inside the band"));
}

#[test]
fn a_simulation_says_so_and_is_the_same_every_time() {
    let command = |more: &str| everybuddy!("{SHORT} --workloads batch --cpus 1,2,4 {more}");
    let first = command("--jobs 1").done();
    shows(&first, &["simulated", "zone lock"]);
    assert!(
        first.lines().all(|line| line.chars().count() <= 120),
        "{first}"
    );
    assert_eq!(command("--jobs 3").done(), first);
    let rows = json(&command("--json -").succeeded());
    assert!(rows.len() > 50);
    for row in rows {
        assert!(row["platform"] == "sim:x5570", "{row}");
        assert!(row["simulated"] == true, "{row}");
    }
}
