//! Experiments: the list, rows, pictures, and claims that fail only when they are wrong.

use everybuddy_cli::export::json::decode;
use everybuddy_papers::list::{judge_earlier, method};
use everybuddy_papers::{Experiment, all_experiments, run_of};
use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::path::Path;

use crate::common::{Folder, everybuddy, json, process, shows, text};
use crate::rows::pack;

/// An experiment on the tiny trace, with a claim's bounds.
fn experiment(folder: &Folder, bounds: &str) -> String {
    let file = folder.file("tiny.toml");
    let trace = folder.trace();
    let text = format!(
        "name = 'tiny'\ntitle = 'A tiny replay'\nsource = 'this test'\nneeds = 'nothing'\n\
         method = 'fragmentation'\nfigure = 'fragmentation'\nplatform = 'native'\n\
         systems = ['bs', 'is+zone=one']\ntraces = ['{trace}']\n\
         [parameters]\norder = 10\n\
         [[tables]]\ntitle = 'free blocks'\nmetric = 'free_blocks'\norder = 10\n\
         statistics = ['mean', 'value']\n\
         [[claims]]\nkind = 'ratio'\nof = 'expected'\ntext = 'All memory returns.'\n\
         metric = 'free_blocks'\nstatistic = 'value'\norder = 10\n\
         systems = ['bs', 'is+zone=one']\n{bounds}\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

const RIGHT: &str = "at_least = 1.0\nat_most = 1.0";
const WRONG: &str = "at_least = 1.1";
const KNOWN: &str = "at_least = 1.1\nstill_at_least = 0.9\ndiffers = 'it is a test'";

#[test]
fn the_list_names_every_experiment_with_its_source() {
    let list = everybuddy!("experiments").done();
    let mut names = BTreeSet::new();
    for own in json(&everybuddy!("experiments --json").done()) {
        let text = |key: &str| own[key].as_str().unwrap().to_string();
        assert!(list.contains(&text("name")), "{list}");
        assert!(text("source").contains('['), "cites no source: {own}");
        names.insert(text("name"));
    }
    let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../papers/src");
    let mut folders = BTreeSet::new();
    for folder in std::fs::read_dir(papers).unwrap() {
        let folder = folder.unwrap();
        if folder.path().join("experiment.toml").exists() {
            let name = folder.file_name().into_string().unwrap();
            folders.insert(name.replace('_', "-"));
        }
    }
    assert!(folders.contains("fragmentation"));
    assert_eq!(names, folders);
    assert!(list.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn an_experiment_gives_rows_and_a_picture() {
    let folder = Folder::new("reproduce-rows");
    let file = experiment(&folder, RIGHT);
    let [rows, csv, pictures] = ["r.jsonl", "r.csv", "pictures"].map(|name| folder.file(name));
    let out = everybuddy!("reproduce {file} --json {rows} --csv {csv} --svg {pictures}").done();
    shows(&out, &["is+zone=one", "\npass "]);
    assert!(out.lines().all(|line| line.chars().count() <= 120), "{out}");
    let rows = json(&text(&rows));
    assert_eq!(text(&csv).lines().count(), rows.len() + 1);
    for row in &rows {
        let experiment = row["experiment"].as_str().unwrap();
        assert!(
            experiment == "tiny" || experiment.starts_with("tiny@"),
            "{row}"
        );
        assert!(row["platform"] == "native", "{row}");
        assert!(row["simulated"] == false, "{row}");
        assert!(row["value"].as_f64().is_some_and(f64::is_finite), "{row}");
    }
    let home = rows.iter().filter(|row| !row["expected"].is_null());
    assert_eq!(home.count(), 4, "two systems, in sequence and together");

    let svg = text(folder.file("pictures/tiny.svg"));
    let document = roxmltree::Document::parse(&svg).unwrap();
    let texts = document.descendants().filter_map(|node| node.text());
    let texts: Vec<&str> = texts.map(str::trim).collect();
    for name in ["bs", "is+zone=one", "A tiny replay", "free blocks of 4 MiB"] {
        assert!(texts.contains(&name), "{name}: {texts:?}");
    }
}

#[test]
fn rows_of_an_earlier_run_are_judged_and_drawn_again() {
    let folder = Folder::new("reproduce-again");
    let (first, again) = (folder.file("first.jsonl"), folder.file("again.jsonl"));
    let (drawn, redrawn) = (folder.file("drawn"), folder.file("redrawn"));
    let file = experiment(&folder, RIGHT);
    let measured = everybuddy!("reproduce {file} --json {first} --svg {drawn}").done();
    let judged =
        everybuddy!("reproduce {file} --rows {first} --json {again} --svg {redrawn}").done();
    // The last lines are about the machine.
    assert!(
        measured.starts_with(judged.trim_end()),
        "{measured}{judged}"
    );
    assert_eq!(text(&first), text(&again));
    let packed = folder.file("first.jsonl.gz");
    pack(&packed, text(&first).as_bytes());
    assert_eq!(
        everybuddy!("reproduce {file} --rows {packed}").done(),
        judged
    );
    let picture = |folder: &str| text(format!("{folder}/tiny.svg"));
    assert_eq!(picture(&drawn), picture(&redrawn));
    // A claim that was changed since.
    let file = experiment(&folder, WRONG);
    assert_eq!(everybuddy!("reproduce {file} --rows {first}").code, 1);
    let rows = text(&first);
    let twice = format!("{rows}{}", rows.replace("\"value\":", "\"value\":1"));
    #[rustfmt::skip]
    let cases = [
        ("{\"experiment\":\"tiny\"}\n", &["line 1", "`source`", "--json"][..]),
        (&rows.replace("\"tiny", "\"other"), &["no rows of tiny", "it has rows of other"]),
        (&twice, &["line ", "the same number"]),
        (&rows[..rows.len() - 20], &["line ", "cut off"]),
        ("", &["the file is empty"]),
    ];
    for (changed, parts) in cases {
        std::fs::write(&again, changed).unwrap();
        everybuddy!("reproduce {file} --rows {again}").refused(parts);
    }
}

#[test]
fn a_claim_that_lacks_rows_is_inconclusive() {
    let folder = Folder::new("reproduce-part");
    let (all, part) = (folder.file("all.jsonl"), folder.file("part.jsonl"));
    let file = experiment(&folder, WRONG);
    assert_eq!(everybuddy!("reproduce {file} --json {all}").code, 1);
    let text = text(&all);
    let needed = |line: &&str| {
        line.contains("\"experiment\":\"tiny\"")
            && line.contains("\"metric\":\"free_blocks\"")
            && line.contains("\"statistic\":\"value\"")
            && line.contains("\"order\":10")
    };
    // Without one system on one source, without a source, without the metric.
    let has = |words: &'static [&'static str]| {
        move |line: &str| words.iter().all(|word| line.contains(word))
    };
    for words in [
        &["\"system\":\"is\"", "\"source\":\"sequence\""][..],
        &["\"source\":\"at-once\""],
        &["\"metric\":\"free_blocks\""],
    ] {
        let is_out = has(words);
        assert!(
            text.lines().any(|line| needed(&line) && is_out(line)),
            "{words:?}"
        );
        let lines = text.lines().filter(|line| !(needed(line) && is_out(line)));
        let kept: String = lines.map(|line| format!("{line}\n")).collect();
        std::fs::write(&part, kept).unwrap();
        let out = everybuddy!("reproduce {file} --rows {part}").succeeded();
        shows(&out, &["inconclusive", "rows missing: "]);
    }
    // Rows that the claim does not need may be missing.
    let lines = text.lines().filter(needed);
    let kept: String = lines.map(|line| format!("{line}\n")).collect();
    std::fs::write(&part, kept).unwrap();
    assert_eq!(everybuddy!("reproduce {file} --rows {part}").code, 1);
}

#[test]
fn the_page_shows_figures_numbers_and_verdicts() {
    let folder = Folder::new("reproduce-page");
    let page = folder.file("page.html");
    let made = |bounds: &str, more: &str, code: i32| {
        let file = experiment(&folder, bounds);
        let run = everybuddy!("reproduce {file} --html {page} {more}");
        assert_eq!(run.code, code, "{}{}", run.out, run.err);
        assert!(run.err.contains("page.html"), "{}", run.err);
        text(&page)
    };
    let html = made(RIGHT, "", 0);
    for words in [
        "<!DOCTYPE html>",
        "A tiny replay",
        "this test",
        "All memory returns.",
        "1 pass",
        "is+zone=one",
        "part-tiny-figure-1",
        "everybuddy reproduce tiny",
        "Counted once",
    ] {
        assert!(html.contains(words), "no {words}");
    }
    assert!(made(WRONG, "", 1).contains("1 fail<"));
    let html = made(KNOWN, "", 0);
    assert!(html.contains("1 known deviation") && html.contains("it is a test"));
    assert!(made(WRONG, "--shrink 2", 0).contains("1 not judged"));
}

#[test]
fn what_was_counted_repeats() {
    let folder = Folder::new("reproduce-repeats");
    let file = experiment(&folder, RIGHT);
    let rows = || everybuddy!("reproduce {file} --csv -").succeeded();
    assert_eq!(rows(), rows());
}

#[test]
fn a_claim_fails_only_when_it_is_wrong() {
    let folder = Folder::new("reproduce-claims");
    let right = experiment(&folder, RIGHT);
    everybuddy!("reproduce {right}").done();
    let wrong = experiment(&folder, WRONG);
    let rows = folder.file("wrong.jsonl");
    let run = everybuddy!("reproduce {wrong} --json {rows}");
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    assert!(run.out.contains("FAIL"), "{}", run.out);
    assert!(run.err.contains("All memory returns."), "{}", run.err);
    assert!(text(&rows).lines().count() > 4);
    // A shortened run judges nothing.
    let out = everybuddy!("reproduce {wrong} --shrink 2").succeeded();
    assert!(out.contains("not judged"), "{out}");
    // What is known to differ is shown and no failure.
    let known = experiment(&folder, KNOWN);
    let out = everybuddy!("reproduce {known}").done();
    shows(&out, &["known deviation", "it is a test"]);
    // Beyond its bound it is a failure, too.
    let beyond = experiment(&folder, &KNOWN.replace("0.9", "1.05"));
    assert_eq!(everybuddy!("reproduce {beyond}").code, 1);
}

/// Returns the name of an experiment, or the path of a copy with a sixteenth of its memory, of which simulated systems
/// would otherwise be built for a minute.
fn with_less_memory(own: &Experiment, folder: &Folder) -> String {
    let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../papers/src");
    let place = papers.join(own.name.replace('-', "_"));
    let lines = text(place.join("experiment.toml"));
    let of = |memory| format!("\nmemory = \"{memory}\"\n");
    let sizes = [("64GiB", "4GiB"), ("8GiB", "512MiB"), ("4GiB", "512MiB")];
    let Some((large, small)) = sizes.iter().find(|(large, _)| lines.contains(&of(large))) else {
        return own.name.clone();
    };
    let file = folder.file(&format!("{}.toml", own.name));
    std::fs::write(&file, lines.replace(&of(large), &of(small))).unwrap();
    file
}

#[test]
fn the_experiments_run_when_they_are_shortened() {
    let folder = Folder::new("reproduce-all");
    let [all, pictures, page] = ["all.jsonl", "pictures", "all.html"].map(|name| folder.file(name));
    let experiments = all_experiments().unwrap();
    let names: Vec<String> = experiments
        .iter()
        .map(|own| with_less_memory(own, &folder))
        .collect();
    let names = names.join(" ");
    everybuddy!("reproduce {names} --shrink 500 --html {page} --json {all} --svg {pictures}")
        .succeeded();
    let lines = text(&all);
    for Experiment { name, .. } in &experiments {
        assert!(
            lines.contains(&format!("\"experiment\":\"{name}\"")),
            "{name}"
        );
    }
    // The rows follow the list, whatever was measured first, and times are those of experiments that run alone.
    let rows = json(&lines);
    let place = |row: &serde_json::Value| {
        let name = row["experiment"].as_str().unwrap().split('@').next();
        let named = |own: &Experiment| Some(own.name.as_str()) == name;
        experiments.iter().position(named).expect("it is listed")
    };
    assert!(rows.is_sorted_by_key(place));
    for row in &rows {
        let is_time = row["platform"] == "native" && row["unit"] == "ns";
        let own = &experiments[place(row)];
        assert!(
            !is_time || method(own).unwrap().repeats().is_timed(),
            "{row}"
        );
    }
    // Each method writes the rows that its claims need. A shortened run has fewer rounds, and these experiments lack
    // what does not occur in so few calls.
    let short = [
        "bulk-sizes",
        "division",
        "latency-distribution",
        "prediction",
        "recorded-buffers",
        "stages",
    ];
    let earlier = decode(&lines).unwrap();
    for own in experiments
        .iter()
        .filter(|own| !short.contains(&own.name.as_str()))
    {
        let own = run_of(own.clone(), false, &earlier).unwrap();
        for verdict in judge_earlier(&own, &earlier).unwrap() {
            let verdict = format!("{verdict:?}");
            let lacks = verdict.contains("rows missing") && !verdict.contains(" rounds");
            assert!(!lacks, "{}: {verdict}", own.name);
        }
    }
    let html = text(&page);
    let drawn = std::fs::read_dir(&pictures).unwrap();
    let mut count = 0;
    for file in drawn {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let place = format!("data-parcel=\"part-{name}-figure-1-data\"");
        assert!(html.contains(&place), "{name} is not drawn on the page");
        roxmltree::Document::parse(&text(&path)).unwrap();
        count += 1;
    }
    let drawn = experiments.iter().filter(|own| own.figure.is_some());
    assert_eq!(count, drawn.count(), "one for each");
}

/// Returns the file of an experiment that simulates short bursts on one CPU and on two.
fn simulation(systems: &str, parameters: &str) -> String {
    format!(
        "name = 'sim'\ntitle = 'A simulation'\nsource = 'this test'\nneeds = 'nothing'\n\
         method = 'simulated'\nplatform = 'sim:x5570'\nmemory = '64MiB'\nsystems = [{systems}]\n\
         workloads = ['burst:in-order']\n[parameters]\ncpus = [1, 2]\nshrink = 64\n{parameters}"
    )
}

#[test]
fn cells_of_a_simulated_experiment_can_be_left_out() {
    let folder = Folder::new("reproduce-without");
    let (file, rows) = (folder.file("sim.toml"), folder.file("rows.jsonl"));
    let written = |without: &str, claim: &str| {
        let own = format!("think = 100\nseeds = 1\nwithout = [{without}]\n{claim}");
        std::fs::write(&file, simulation("'bs', 'lbs-31'", &own)).unwrap();
    };
    let left_out = "['bs', 'burst:in-order', [2]]";
    written(left_out, "");
    everybuddy!("reproduce {file} --json {rows}").succeeded();
    let rows = text(&rows);
    let has = |cell: &str| rows.contains(cell);
    assert!(has("\"source\":\"burst:in-order/1\",\"system\":\"bs\""));
    assert!(has("\"source\":\"burst:in-order/2\",\"system\":\"lbs-31\""));
    assert!(!has("\"source\":\"burst:in-order/2\",\"system\":\"bs\""));
    written("['bs', 'burst:in-order', [4]]", "");
    everybuddy!("reproduce {file}").refused(&["unknown cell: bs"]);
    // A claim cannot need what is left out.
    let claim = "[[claims]]\nkind = 'ratio'\ntext = 'A claim'\nmetric = 'throughput'\nstatistic = 'rate'\n\
                 systems = ['lbs-31', 'bs']\nat_least = 1.0\n";
    written(left_out, claim);
    everybuddy!("reproduce {file}").refused(&["needs bs under burst:in-order/2"]);
    written(
        left_out,
        &format!("{claim}sources = ['burst:in-order/1']\n"),
    );
    let run = everybuddy!("reproduce {file}");
    assert!(run.code != 2, "{}", run.err);
    assert!(!run.err.contains("needs bs under"), "{}", run.err);
}

#[test]
fn finished_cells_of_a_simulated_experiment_are_kept() {
    let folder = Folder::new("reproduce-cells");
    let (file, cells) = (folder.file("sim.toml"), folder.file("cells"));
    let written = |think: u32| {
        let own = format!("think = {think}\nseeds = 2\n");
        std::fs::write(&file, simulation("'bs'", &own)).unwrap();
    };
    // In a process, because threads of the command report what is damaged.
    let run = |more: &str| {
        let rows = folder.file("rows.jsonl");
        let run = process!("reproduce {file} --json {rows} {more}");
        assert_eq!(run.code, 0, "{}", run.err);
        (text(rows), run.err)
    };
    let kept_in = format!("--resume {cells}");
    let kept = || {
        let entries = std::fs::read_dir(&cells)
            .unwrap()
            .map(|entry| entry.unwrap());
        let modified = |entry: &DirEntry| entry.metadata().unwrap().modified().unwrap();
        let mut all: Vec<_> = entries
            .map(|entry| (entry.path(), modified(&entry)))
            .collect();
        all.sort();
        all
    };
    written(100);
    let (expected, _) = run("");
    assert_eq!(run(&kept_in), (expected.clone(), String::new()));
    let first = kept();
    assert_eq!(
        first.len(),
        4,
        "a file for each number of CPUs and each seed"
    );
    assert_eq!(run(&kept_in).0, expected);
    assert_eq!(kept(), first, "nothing is simulated again");
    std::fs::write(&first[2].0, "half").unwrap();
    let (rows, err) = run(&kept_in);
    assert!(rows == expected && err.contains("is damaged"), "{err}");
    assert_ne!(kept()[2], first[2]);
    // Other inputs are other cells.
    written(200);
    assert_ne!(run(&kept_in).0, expected);
    assert_eq!(kept().len(), 8);
    std::fs::write(folder.file("cells/notes.txt"), "mine").unwrap();
    everybuddy!("reproduce {file} --resume {cells}").refused(&["other files", "help: "]);
}
