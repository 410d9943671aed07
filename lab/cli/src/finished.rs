//! The file of finished cells, by which an interrupted simulation continues.
//!
//! A simulation of many CPUs takes long. Each cell that ends is appended to the file, so an interrupt loses only the
//! cells that were running. The same command line with the same file simulates the rest.
//!
//! The first line describes the run, each other line is a cell with its rows.
//!
//! # Invariants
//! A line that is not complete is a cell that is not finished. Rows are read as they were written, so the results are
//! those of a run without interrupts. A file of another run, or of no run, is never changed.

use everybuddy_trace::shown;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;
use serde_json::{Map, Value, json as object};

use crate::export::{json, refused};
use crate::show::output;
use crate::signals;

/// What a run depends on: the name of each thing, and its value.
pub(crate) type RunDescription = [(&'static str, String)];

/// A file to which finished cells are appended.
#[derive(Debug)]
pub(crate) struct Finished {
    path: PathBuf,
    file: File,
}

/// The rows of each cell, for those that are finished.
pub(crate) type Known = Vec<Option<Vec<Row>>>;

/// Opens the file of `--resume`, if there is one.
///
/// # Errors
/// Those of [`Finished::open`].
pub(crate) fn resumed(
    path: Option<&Path>,
    run: &RunDescription,
    cells: &[String],
) -> Result<(Option<Finished>, Known), Error> {
    let Some(path) = path else {
        return Ok((None, vec![None; cells.len()]));
    };
    let (file, known) = Finished::open(path, run, cells)?;
    Ok((Some(file), known))
}

/// Says how much of a run is finished, if something is. `what` is the plural of a cell's name.
pub(crate) fn note(all: usize, left: usize, what: &str) {
    if left < all {
        let ended = all - left;
        output::note(&format!(
            "{ended} of {all} {what} are finished, {left} are left"
        ));
    }
}

impl Finished {
    /// Opens a file, which is created if it does not exist. Returns the rows of the cells that it has.
    ///
    /// # Errors
    /// [`Error::Write`] if the file cannot be written. A usage error if it is not a file of this run, or if another
    /// program uses it; the file is then unchanged.
    pub(crate) fn open(
        path: &Path,
        run: &RunDescription,
        cells: &[String],
    ) -> Result<(Finished, Known), Error> {
        let failed = |cause| refused(path, cause);
        let wrong = |what: String, help: &str| {
            let path = shown(path);
            Err(Error::usage(format!(
                "--resume {path}: {what}\nhelp: {help}"
            )))
        };
        // A device may have no end, and a pipe would never be opened.
        if fs::metadata(path).is_ok_and(|data| !data.is_file()) {
            return wrong("it is not an ordinary file".into(), OTHER);
        }
        let mut options = File::options();
        let opened = options.read(true).write(true).create(true).truncate(false);
        let mut file = opened.open(path).map_err(failed)?;
        match locked(&file) {
            Err(TryLockError::WouldBlock) => {
                let help = "wait until it ends, or choose another file";
                return wrong("another simulation uses the file".into(), help);
            }
            // Where files have no locks, nothing protects against a second run.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let first = line(&object!({ RUN: described(run) }));
        if whole == 0 && !first.starts_with(&bytes) {
            return wrong("the file has no finished cells".into(), OTHER);
        }
        let mut known = vec![None; cells.len()];
        let mut lines = (1..).zip(bytes[..whole].split_inclusive(|byte| *byte == b'\n'));
        if let Some((_, line)) = lines.next() {
            let Some(other) = run_of(line) else {
                return wrong("the file has no finished cells".into(), OTHER);
            };
            if let Some(what) = difference(run, &other) {
                return wrong(format!("the file has cells of another run: {what}"), REPEAT);
            }
        }
        for (number, line) in lines {
            match cell_of(line, cells) {
                Ok((at, rows)) => known[at] = Some(rows),
                Err(what) => return wrong(format!("line {number}: {what}"), DAMAGED),
            }
        }
        // What follows the last whole line is half of a line.
        file.set_len(whole as u64).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        let mut own = Finished {
            path: path.to_path_buf(),
            file,
        };
        if whole == 0 {
            own.append(&first)?;
        }
        Ok((own, known))
    }

    /// Appends a cell that is finished.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub(crate) fn add(&mut self, cell: &str, rows: &[Row]) -> Result<(), Error> {
        let rows: Vec<Value> = rows
            .iter()
            .map(serde_json::to_value)
            .collect::<Result<_, _>>()
            .map_err(|cause| refused(&self.path, cause.into()))?;
        self.append(&line(&object!({ CELL: cell, ROWS: rows })))
    }

    fn append(&mut self, line: &[u8]) -> Result<(), Error> {
        let written = signals::deferred(|| self.file.write_all(line));
        written.map_err(|cause| refused(&self.path, cause))
    }
}

const RUN: &str = "run";
const CELL: &str = "cell";
const ROWS: &str = "rows";
const OTHER: &str = "choose a file that --resume wrote, or a new one";
const REPEAT: &str =
    "repeat the command line that wrote the file with the same build, or choose a new file";
const DAMAGED: &str = "remove this line and those after it, or choose a new file";
/// Longer values are not shown.
const SHOWN: usize = 60;

fn line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Returns a run as a JSON object.
pub(crate) fn described(run: &RunDescription) -> Map<String, Value> {
    run.iter()
        .map(|(key, value)| (key.to_string(), value.clone().into()))
        .collect()
}

fn run_of(line: &[u8]) -> Option<Map<String, Value>> {
    let value: Value = serde_json::from_slice(line).ok()?;
    value.get(RUN)?.as_object().cloned()
}

/// Describes the first thing in which another run, which is a JSON object, differs.
pub(crate) fn difference(run: &RunDescription, other: &Map<String, Value>) -> Option<String> {
    let of = |key: &str| other.get(key).and_then(Value::as_str).unwrap_or("nothing");
    let (key, value) = run.iter().find(|(key, value)| of(key) != value)?;
    let other = of(key);
    Some(if value.len().max(other.len()) > SHOWN {
        format!("its {key} differ")
    } else {
        format!("its {key}: {other}; here: {value}")
    })
}

/// Reads the number of a cell and its rows.
fn cell_of(line: &[u8], cells: &[String]) -> Result<(usize, Vec<Row>), String> {
    let value: Value = serde_json::from_slice(line).map_err(|_| "not a JSON object")?;
    let name = value[CELL].as_str().ok_or("no cell")?;
    let at = cells.iter().position(|cell| cell == name);
    let at = at.ok_or("a cell that this run does not have")?;
    let rows = value[ROWS].as_array().ok_or("a cell without rows")?;
    let row = |row: &Value| {
        let row = row.as_object().ok_or("a row that is not an object")?;
        json::read(row)
    };
    Ok((at, rows.iter().map(row).collect::<Result<_, String>>()?))
}

/// Locks a file. A process that this program has just started may share the lock for a moment, until it runs its own
/// program: so a lock counts as held by another simulation only after a fifth of a second.
fn locked(file: &File) -> Result<(), TryLockError> {
    for _ in 0..20 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
            other => return other,
        }
    }
    file.try_lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f64) -> Row {
        Row {
            experiment: "simulate".into(),
            source: "burst:in-order: \"lock\"".into(),
            system: "bs".into(),
            platform: "sim:x5570".parse().unwrap(),
            cpus: 4,
            seed: 1,
            operation: "all",
            metric: "throughput",
            statistic: "rate",
            value,
            ..Row::default()
        }
    }

    fn run(seeds: &str) -> [(&'static str, String); 2] {
        [("systems", "bs,is".into()), ("seeds", seeds.into())]
    }

    fn cells() -> Vec<String> {
        (0..4).map(|at| format!("cell {at}")).collect()
    }

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let name = format!("everybuddy-finished-{name}-{}", std::process::id());
            Place(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn wherever_a_file_is_cut_off_whole_cells_remain() {
        let place = Place::new("cut");
        // Values whose text is as long as that of a number can be.
        let values = [0.1 + 0.2, 1.0 / 3.0, 5e-324, 123_456_789.123_456_78];
        let rows = |at: usize| vec![row(values[at]), row(f64::MAX / (at as f64 + 3.0))];
        let (mut file, known) = Finished::open(&place.0, &run("3"), &cells()).unwrap();
        assert!(known.iter().all(Option::is_none));
        for at in [2, 0, 3] {
            file.add(&cells()[at], &rows(at)).unwrap();
        }
        drop(file);
        let all = fs::read(&place.0).unwrap();
        for cut in (0..all.len()).step_by(5).chain([all.len()]) {
            fs::write(&place.0, &all[..cut]).unwrap();
            let (mut file, known) = Finished::open(&place.0, &run("3"), &cells()).unwrap();
            let lines = all[..cut].iter().filter(|byte| **byte == b'\n').count();
            let finished = known.iter().flatten().count();
            assert_eq!(finished, lines.saturating_sub(1), "cut at {cut}");
            for (at, own) in known.iter().enumerate() {
                assert!(own.as_ref().is_none_or(|own| *own == rows(at)), "{own:?}");
            }
            file.add("cell 1", &rows(1)).unwrap();
            drop(file);
            let (_, again) = Finished::open(&place.0, &run("3"), &cells()).unwrap();
            assert_eq!(again.iter().flatten().count(), finished + 1);
            assert_eq!(again[1], Some(rows(1)));
        }
    }

    #[test]
    fn files_of_other_runs_and_other_files_are_refused_and_stay() {
        let place = Place::new("other");
        let refused = |contents: &[u8], run: &RunDescription, parts: &[&str]| {
            fs::write(&place.0, contents).unwrap();
            let error = Finished::open(&place.0, run, &cells())
                .unwrap_err()
                .to_string();
            for part in parts.iter().chain(&["help: "]) {
                assert!(error.contains(part), "`{part}` is not in: {error}");
            }
            assert_eq!(fs::read(&place.0).unwrap(), contents);
        };
        let (mut file, _) = Finished::open(&place.0, &run("3"), &cells()).unwrap();
        file.add("cell 1", &[row(1.0)]).unwrap();
        drop(file);
        let all = fs::read(&place.0).unwrap();
        refused(&all, &run("1"), &["its seeds: 3; here: 1"]);
        refused(&all, &run(&"1,".repeat(99)), &["its seeds differ"]);
        refused(&all, &[("think", "5".into())], &["its think: nothing"]);
        for text in ["notes of a user", "notes\nof a user\n", "{}\n", "{x"] {
            refused(text.as_bytes(), &run("3"), &["has no finished cells"]);
        }
        let text = String::from_utf8(all).unwrap();
        let other = text.replace("cell 1", "cell 9");
        refused(other.as_bytes(), &run("3"), &["line 2", "does not have"]);
        let other = text.replace("\"value\"", "\"valu\"");
        refused(other.as_bytes(), &run("3"), &["line 2", "`value`"]);
        let (first, _) = text.split_once('\n').unwrap();
        let other = format!("{first}\n?\n");
        refused(other.as_bytes(), &run("3"), &["line 2", "not a JSON"]);
    }

    #[test]
    fn two_runs_do_not_share_a_file() {
        let place = Place::new("shared");
        let (_first, _) = Finished::open(&place.0, &run("3"), &cells()).unwrap();
        let error = Finished::open(&place.0, &run("3"), &cells()).unwrap_err();
        assert!(error.to_string().contains("another simulation"), "{error}");
    }

    #[test]
    fn an_impossible_file_is_an_error() {
        let error = Finished::open(Path::new("/no/such/file"), &run("3"), &cells());
        assert!(matches!(error, Err(Error::Write { .. })));
    }
}
