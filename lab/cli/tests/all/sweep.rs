//! `everybuddy sweep`: the same rows whatever runs the cells, interrupted or not; wrong grids, damaged cells, searches.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::common::{
    Folder, Run, command, everybuddy, json as rows_of, process, process_in, shows, text, trace,
    words,
};

/// Two systems with options, of which one takes none of the grid: 3 x 2 x 2 cells.
const GRID: &str = r#"
command = "simulate"
systems = ["bs", "lbs-31"]
workloads = ["burst:in-order"]
machines = ["x5570"]
cpus = [4, 1]
seeds = 2
[options]
batch = [7, 15]
[arguments]
shrink = 64
memory = "64MiB"
"#;
const CELLS: usize = 12;

/// A folder with a grid.
struct Place(Folder);

impl Place {
    fn new(name: &str, grid: &str) -> Place {
        let folder = Folder::new(&format!("sweep-{name}"));
        fs::write(folder.file("grid.toml"), grid).unwrap();
        Place(folder)
    }

    fn change(&self, from: &str, to: &str) {
        let grid = text(self.0.file("grid.toml"));
        assert!(grid.contains(from), "{from}");
        fs::write(self.0.file("grid.toml"), grid.replace(from, to)).unwrap();
    }

    /// Returns the words of a sweep.
    fn line(&self, more: &str) -> String {
        format!("sweep {} {more}", self.0.file("grid.toml"))
    }

    /// Runs the sweep in a process, which starts itself again for each cell.
    fn sweep(&self, more: &str) -> Run {
        process!("{}", self.line(more))
    }

    /// Runs a sweep that ends before its first cell.
    fn refused(&self, more: &str, parts: &[&str]) {
        everybuddy!("{}", self.line(more)).refused(parts);
    }

    /// Runs the sweep and returns its rows as JSON lines, and what it printed on standard error.
    fn rows(&self, more: &str) -> (String, String) {
        let file = self.0.file("rows.jsonl");
        let run = self.sweep(&format!("--json {file} {more}"));
        assert_eq!(run.code, 0, "{}", run.err);
        (text(file), run.err)
    }

    /// Returns the names and the times of the finished cells in a folder.
    fn cells(&self, folder: &str) -> Vec<(String, SystemTime)> {
        let Ok(entries) = fs::read_dir(self.0.file(folder)) else {
            return Vec::new();
        };
        let entries = entries.filter_map(|entry| {
            let entry = entry.unwrap();
            // A temporary file may get its name meanwhile.
            let time = entry.metadata().ok()?.modified().unwrap();
            Some((entry.file_name().into_string().unwrap(), time))
        });
        let is_cell = |name: &str| name.ends_with(".parquet") && !name.starts_with('.');
        let mut cells: Vec<_> = entries.filter(|own| is_cell(&own.0)).collect();
        cells.sort();
        cells
    }

    fn start(&self, more: &str) -> Child {
        let mut command = command(&words(&self.line(more)));
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Writes a program that stands for Python: a shell script.
    fn python(&self, script: &str) -> String {
        let file = self.0.file("python");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }
}

/// Returns the rows of one simulation with all values of [`GRID`].
fn simulated(folder: &Folder, shrink: u32) -> String {
    let file = folder.file("simulated.jsonl");
    let systems = "bs,lbs-31+batch=7,lbs-31+batch=15";
    let load = "--workloads burst:in-order --machine x5570 --memory 64MiB";
    let own = format!("{load} --cpus 1,4 --seeds 2 --shrink {shrink}");
    everybuddy!("simulate {own} --systems {systems} --json {file}").done();
    text(file)
}

#[test]
fn cells_give_the_rows_of_one_simulation_whatever_runs_them() {
    let place = Place::new("ways", GRID);
    let expected = simulated(&place.0, 64);
    let (rows, err) = place.rows("--jobs 3");
    assert_eq!((rows == expected, err.as_str()), (true, ""));
    let cells = place.cells("grid.cells");
    assert_eq!(cells.len(), CELLS);
    // What is finished does not run again.
    let (rows, err) = place.rows("");
    assert!(
        rows == expected && err.contains("12 of 12 cells are finished, 0 are left"),
        "{err}"
    );
    assert_eq!(place.cells("grid.cells"), cells);
    // As commands, in any order and from any folder.
    let other = place.0.file("others");
    let cells = format!("--resume {other}");
    let print = || place.sweep(&format!("{cells} --print-commands")).done();
    let commands = print();
    let commands: Vec<&str> = commands.lines().collect();
    assert_eq!(commands.len(), CELLS);
    let run = |line: &str| {
        let mut shell = Command::new("sh");
        let run = shell.current_dir("/").args(["-c", line]).output().unwrap();
        let err = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{err}");
        assert!(run.stdout.is_empty(), "{err}");
        assert!(err.is_empty(), "{err}");
    };
    commands.iter().rev().step_by(2).for_each(|line| run(line));
    let left = print();
    assert_eq!(left.lines().count(), CELLS / 2);
    left.lines()
        .chain(commands.iter().copied().take(1))
        .for_each(run);
    let (rows, err) = place.rows(&cells);
    assert!(rows == expected && err.contains("0 are left"), "{err}");
    // A file of a cell is what other programs read.
    let file = place.0.file("rows.parquet");
    let shown = place.sweep(&format!("--parquet {file}")).noted();
    assert!(fs::read(file).unwrap().ends_with(b"PAR1"));
    // The table has the mean over the seeds.
    assert!(shown.starts_with(
        "burst:in-order: calls per microsecond of all CPUs, simulated, machine x5570\n"
    ));
    let of_bs = |row: &serde_json::Value| {
        (row["system"] == "bs" && row["metric"] == "throughput" && row["cpus"] == 4)
            .then(|| row["value"].as_f64().unwrap())
    };
    let rates: Vec<f64> = rows_of(&rows).iter().filter_map(of_bs).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64 / 1e6;
    let line = shown.lines().find(|line| line.starts_with(" bs "));
    assert!(
        rates.len() == 2 && line.is_some_and(|line| line.ends_with(&format!(" {mean:.2}"))),
        "{shown}"
    );
}

#[test]
fn a_killed_sweep_continues() {
    let place = Place::new("killed", GRID);
    place.change("shrink = 64", "shrink = 8");
    let mut first = place.start("--jobs 1");
    while place.cells("grid.cells").len() < 3 {
        thread::sleep(Duration::from_millis(5));
        let ended = first.try_wait().unwrap();
        assert!(ended.is_none(), "it ended before it could be killed");
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let before = place.cells("grid.cells");
    let (rows, err) = place.rows("");
    let note = format!("{} of {CELLS} cells are finished", before.len());
    assert!(err.contains(&note), "{err}");
    let after = place.cells("grid.cells");
    assert!(after.len() == CELLS && before.iter().all(|cell| after.contains(cell)));
    assert!(rows == simulated(&place.0, 8));
}

#[test]
fn two_sweeps_share_a_folder() {
    let place = Place::new("two", GRID);
    let files = ["a", "b"].map(|name| place.0.file(name));
    let start = |file: &String| place.start(&format!("--jobs 2 --json {file}"));
    let sweeps = files.each_ref().map(start);
    for mut sweep in sweeps {
        assert!(sweep.wait().unwrap().success());
    }
    let [one, other] = files.map(text);
    assert!(one == other && one == simulated(&place.0, 64));
    assert_eq!(place.cells("grid.cells").len(), CELLS);
    let all = fs::read_dir(place.0.file("grid.cells")).unwrap().count();
    assert_eq!(all, CELLS, "nothing but the cells");
}

#[test]
fn a_damaged_cell_runs_again() {
    let place = Place::new("damaged", GRID);
    place.change("cpus = [4, 1]", "cpus = [2]");
    place.change("seeds = 2", "seeds = [3]");
    let (expected, _) = place.rows("");
    let cells = place.cells("grid.cells");
    let path = |at: usize| place.0.path().join("grid.cells").join(&cells[at].0);
    let whole = fs::read(path(0)).unwrap();
    // Every other damage: src/run/store.rs.
    let (half, other) = (&whole[..whole.len() / 2], fs::read(path(1)).unwrap());
    for (bytes, what) in [(half, ""), (&other, "it is the file of another cell")] {
        fs::write(path(0), bytes).unwrap();
        let (rows, err) = place.rows("");
        assert!(rows == expected);
        shows(&err, &["is damaged: ", what, "2 of 3 cells are finished"]);
    }
}

#[test]
fn a_changed_grid_runs_only_what_is_new() {
    let place = Place::new("changed", GRID);
    place.change("cpus = [4, 1]", "cpus = [1]");
    place.change(
        "workloads = [\"burst:in-order\"]",
        "traces = [\"tiny.parquet\"]",
    );
    place.change("shrink = 64\nmemory = \"64MiB\"", "think = 100");
    place.0.trace();
    place.rows("");
    let before = place.cells("grid.cells");
    let finished = |err: &str, count: usize, all: usize| {
        let left = all - count;
        let note = format!("{count} of {all} cells are finished, {left} are left");
        assert_eq!(err.contains(&note), count > 0, "{err}");
    };
    for (from, to, count, all) in [
        ("seeds = 2", "seeds = 3", 6, 9),
        ("\"bs\", ", "", 4, 4),
        ("batch = [7, 15]", "batch = 7", 4, 4),
        ("cpus = [1]", "cpus = [1, 2]", 6, 12),
        ("x5570", "epyc-7763", 0, 6),
        ("think = 100", "think = 50", 0, 6),
    ] {
        let grid = text(place.0.file("grid.toml"));
        place.change(from, to);
        let (rows, err) = place.rows("");
        finished(&err, count, all);
        let name = format!("new-{count}-{all}-{}", from.len());
        let fresh = format!("--resume {}", place.0.file(&name));
        assert!(place.rows(&fresh).0 == rows, "{to}");
        assert_eq!(place.cells(&name).len(), all);
        fs::write(place.0.file("grid.toml"), grid).unwrap();
    }
    let mut other = trace();
    other.events.truncate(900);
    everybuddy_trace::write(&other, Path::new(&place.0.file("tiny.parquet"))).unwrap();
    finished(&place.rows("").1, 0, 6);
    // The cells of other grids stay.
    let after = place.cells("grid.cells");
    assert!(before.iter().all(|cell| after.contains(cell)));
    place.0.trace();
    finished(&place.rows("").1, 6, 6);
    // A folder with other files stays as it is.
    let other = place.0.file("other");
    fs::create_dir(&other).unwrap();
    fs::write(format!("{other}/notes.txt"), "mine").unwrap();
    place.refused(
        &format!("--resume {other}"),
        &["other files", "help: choose a new folder"],
    );
    fs::write(place.0.file("file.cells"), "mine").unwrap();
    let file = place.0.file("file.cells");
    place.refused(&format!("--resume {file}"), &["it is a file", "help: "]);
    assert_eq!(text(&file), "mine");
}

#[test]
fn wrong_grids_are_explained() {
    let place = Place::new("wrong", GRID);
    for line in include_str!("grids.txt").lines().skip(1) {
        let parts: Vec<String> = line
            .split(" | ")
            .map(|part| part.replace("\\n", "\n"))
            .collect();
        let [from, to, message] = &parts[..] else {
            panic!("{line}");
        };
        place.change(from, to);
        place.refused("", &["grid.toml", message]);
        fs::write(place.0.file("grid.toml"), GRID).unwrap();
    }
    assert_eq!(place.cells("grid.cells"), []);
    place.refused("--subject-to latency<5", &["add --minimize"]);
    place.refused("--minimize latncy:p99", &["did you mean `latency`?"]);
    let grid = place.0.file("grid.toml");
    place.refused(
        &format!("--json {grid}"),
        &["the input file is never changed"],
    );
}

#[test]
fn a_command_of_another_grid_is_refused() {
    let place = Place::new("commands", GRID);
    let folder = place.0.file("grid.cells");
    let one = |cells: &str, key: &str| {
        place.sweep(&format!("--resume {cells} --systems bs --cell {key}"))
    };
    let commands = place.sweep("--print-commands").done();
    let line = commands.lines().next().unwrap();
    let (_, key) = line.split_once("--cell=").unwrap();
    let key = &key[..32];
    one(&place.0.file("elsewhere"), key).refused(&["no such folder on this machine"]);
    one(&folder, "0123").refused(&["no cell 0123", "print the commands again"]);
    place.change("shrink = 64", "shrink = 32");
    one(&folder, key).refused(&["no cell ", "is not the one that printed the command"]);
    place.change("shrink = 32", "shrink = 64");
    one(&folder, key).done();
    assert_eq!(place.cells("grid.cells").len(), 1);
}

#[test]
fn a_cell_that_fails_does_not_end_the_others() {
    let place = Place::new("fails", GRID);
    place.change("\"lbs-31\"", "\"serewa\"");
    place.change("[options]\nbatch = [7, 15]", "");
    place.change("cpus = [4, 1]", "cpus = [1, 16]");
    place.change("seeds = 2", "seeds = 1");
    place.change("shrink = 64", "shrink = 64\nservices = \"own\"");
    place.change("64MiB", "256MiB");
    let file = place.0.file("rows.jsonl");
    for _ in 0..2 {
        // With its services, sixteen CPUs are more than the machine has.
        place.sweep(&format!("--json {file}")).refused(&[
            "1 of 4 cells failed",
            "x5570, burst:in-order, serewa, 16 CPUs, seed 1: --services own: 16 CPUs",
            "the same command runs the cells that are not finished",
        ]);
        assert_eq!(place.cells("grid.cells").len(), 3);
    }
    assert!(!Path::new(&file).exists());
}

#[test]
fn replays_have_all_systems_in_a_cell() {
    let place = Place::new(
        "compare",
        "command = \"compare\"\nsystems = [\"bs\", \"lbs-31\"]\ntraces = [\"tiny.parquet\"]\nseeds = 2\n",
    );
    place.0.trace();
    let shown = place.sweep("").noted();
    assert!(
        shown.contains(": calls per microsecond of all CPUs, measured\n"),
        "{shown}"
    );
    assert!(
        shown.contains("\n lbs-31 ") && !shown.contains("floor"),
        "{shown}"
    );
    let (rows, _) = place.rows("");
    assert_eq!(place.cells("grid.cells").len(), 2);
    let mut names: Vec<String> = Vec::new();
    let mut systems = Vec::new();
    for mut row in rows_of(&rows) {
        row["value"] = 0.into();
        systems.push(row["system"].as_str().unwrap().to_string());
        names.push(row.to_string());
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "no number is there twice");
    for system in ["bs", "lbs-31", "floor", "timer"] {
        assert!(systems.iter().any(|own| own == system), "{system}");
    }
    // A file that a command names is found from another folder.
    let cells = place.0.file("x");
    let commands = everybuddy!(
        "{}",
        place.line(&format!("--resume {cells} --print-commands"))
    );
    assert_eq!(commands.done().lines().count(), 2);
    place.change("tiny", "tny");
    place.refused("", &["tny.parquet"]);
}

#[test]
fn a_missing_or_wrong_python_is_explained() {
    let place = Place::new("python", GRID);
    place.change("cpus = [4, 1]", "cpus = [1]");
    let ray = |python: &str, parts: &[&str]| {
        place.refused(&format!("--ray 10.0.0.1:6379 --python {python}"), parts);
    };
    let missing = "--ray 10.0.0.1:6379: no program `/no/such/python`";
    ray("/no/such/python", &[missing, "pip install ray"]);
    let script = place.python("printf '%s\\n' '{\"error\": \"no Ray\\nhelp: install it\"}'");
    ray(
        &script,
        &["--ray 10.0.0.1:6379: no Ray", "help: install it"],
    );
    let script = place.python("echo '{\"ready\": true}'; echo boom >&2; exit 3");
    ray(&script, &["ended too early", "exit status: 3", "boom"]);
    let script = place.python("echo hello");
    ray(&script, &["an answer is not JSON: hello"]);
    // What answers for cells that it has not run, and for cells that failed.
    let answer = |code: u8| {
        let pattern = "s/.*\"cell\":\"\\([0-9a-f]*\\)\".*/";
        format!(
            "echo '{{\"ready\": true}}'; sed -u '{pattern}{{\"cell\":\"\\1\",\"code\":{code},\"message\":\"why\"}}/'"
        )
    };
    let script = place.python(&answer(0));
    ray(
        &script,
        &["6 of 6 cells failed", "all machines must see this folder"],
    );
    let script = place.python(&answer(2));
    ray(&script, &["6 of 6 cells failed; the first one: why"]);
    let search = "--minimize latency:p99:allocate --python /no/such/python";
    place.refused(search, &["--minimize: no program", "pip install optuna"]);
}

/// The Python of the program runs: with its libraries a search succeeds, and without them, or without a cluster, the
/// error says what is missing.
#[test]
fn the_programs_python_runs_or_says_what_is_missing() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("no python3: skipped");
        return;
    }
    let place = Place::new("own-python", GRID);
    place.change("\"bs\", ", "");
    place.change("cpus = [4, 1]", "cpus = [1]");
    let ray = place.sweep("--ray 127.0.0.1:1 --python python3");
    ray.refused(&["--ray 127.0.0.1:1: ", "help: "]);
    let search = "--minimize latency:p99:allocate --trials 1 --python python3";
    let run = place.sweep(search);
    if run.code != 0 {
        run.refused(&["has no Optuna", "pip install optuna"]);
    }
}

#[test]
fn a_search_finds_the_best_of_what_is_proposed() {
    let place = Place::new("search", GRID);
    place.change(
        "batch = [7, 15]",
        "batch = { min = 1, max = 31 }\nhigh = [40]",
    );
    place.change("\"bs\", ", "\"bs\", \"lis-31\", ");
    place.change("seeds = 2", "seeds = 1");
    let proposals = [
        ("bs", 0),
        ("lbs-31", 3),
        ("lbs-31", 31),
        ("lis-31", 12),
        ("lbs-31", 3),
    ];
    let trials = proposals
        .iter()
        .enumerate()
        .map(|(number, (system, batch))| {
            let batch = json!({ "key": "batch", "value": batch });
            let options = [batch, json!({ "key": "high", "value": "40" })];
            let options = if *system == "bs" { &[][..] } else { &options };
            json!({ "number": number, "system": system, "options": options })
        });
    let trials = json!({ "trials": trials.collect::<Vec<_>>() });
    let file = place.0.file("values");
    let script = place.python(&format!(
        "echo '{{\"ready\": true}}'; echo '{trials}'; head -1 > {file}; echo \"$3\" > {file}.space; \
         echo '{{\"ended\": true}}'"
    ));
    let rows = place.0.file("rows.jsonl");
    let search = |goal: &str, bound: &str| {
        let search = format!("--minimize {goal} --subject-to {bound} --python {script}");
        place.sweep(&format!("{search} --json {rows} --trials 5"))
    };
    let goal = "lock_acquisitions:mean";
    let said = search(goal, "metadata_bytes_per_frame<100").done();
    let head = "5 trials of 4 systems, 0 of which could not run; 4 of 4 keep";
    assert!(said.starts_with(head), "{said}");
    // A longer batch takes fewer locks.
    let best = "\n1. lbs-31+batch=31+high=40: lock_acquisitions:mean 0.";
    assert!(said.contains(best), "{said}");
    let rows = text(&rows);
    assert!(rows.lines().all(|row| row.contains("batch=31+high=40")));
    assert_eq!(place.cells("grid.cells").len(), 4 * 2);
    let values = &rows_of(&text(&file))[0]["values"];
    let values = values.as_array().unwrap();
    assert_eq!(values.len(), 5);
    assert_eq!(values[1]["value"], values[4]["value"]);
    let is_kept = |own: &Value| own["excesses"][0].as_f64().unwrap() < 0.0;
    assert!(values.iter().all(is_kept));
    let space = text(format!("{file}.space"));
    assert!(space.contains("\"low\":1"), "{space}");
    assert!(space.contains("\"choices\":[\"40\"]"), "{space}");
    // A bound that only single frames keep, one that no system keeps, and numbers that do not exist.
    let said = search(goal, "lock_acquisitions:mean>0.9").noted();
    assert!(said.lines().count() == 2, "{said}");
    assert!(said.contains("1. bs: "), "{said}");
    let run = search(goal, "throughput>1e18");
    assert_eq!(run.code, 1);
    let message = "none of 4 systems keeps all bounds (throughput>1e18)";
    assert!(run.err.contains(message), "{}", run.err);
    search("latency:p99", "throughput>1").refused(&["several numbers", "`latency:p99:free`"]);
    search("miss_rate", "throughput>1").refused(&["cells have no metric `miss_rate`"]);
}

#[test]
fn a_grid_is_found_from_its_own_folder() {
    let place = Place::new("relative", GRID);
    place.change("cpus = [4, 1]", "cpus = [1]");
    place.change("seeds = 2", "seeds = 1");
    process_in(place.0.path(), &["sweep", "grid.toml"]).done();
    assert_eq!(place.cells("grid.cells").len(), 3);
    let (_, err) = place.rows("");
    assert!(err.contains("3 of 3 cells"), "{err}");
}
