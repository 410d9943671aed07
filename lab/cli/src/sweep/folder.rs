//! The folder of finished cells.
//!
//! All machines that run cells write into one folder, and whatever was finished there is not run again. `reproduce`
//! keeps the cells of simulated experiments in the same way, in a folder without a grid.
//!
//! # Invariants
//! A cell has one file, which is named by its key and contains its rows, the key and a digest of the rows. It appears
//! completely or not at all: processes that run the same cell leave one file. `grid.json` describes the grid. A folder
//! of another grid, or with other files, is never changed.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf, absolute};

use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;
use everybuddy_trace::{quietly, shown};
use serde_json::{Map, Value, json};

use crate::digest;
use crate::export::{Outputs, parquet, refused};
use crate::finished::{self, RunDescription};

/// The file that describes the grid.
const GRID: &str = "grid.json";
/// The metadata of a cell's file.
const CELL: &str = "everybuddy.cell";
const DIGEST: &str = "everybuddy.rows";

/// A folder of finished cells.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Opens the folder of a grid, which is created if it does not exist. With `extend`, it may be that of another
    /// grid, whose cells are kept.
    ///
    /// # Errors
    /// [`Error::Write`] if it cannot be created or written. A usage error if it is the folder of another grid, or has
    /// files of another kind.
    pub(crate) fn open(path: &Path, run: &RunDescription, extend: bool) -> Result<Folder, Error> {
        let own = Folder::of_cells(path)?;
        let known = own.known()?;
        let changed = known
            .as_ref()
            .and_then(|known| finished::difference(run, known));
        match changed {
            Some(what) if !extend => return Err(own.changed(&what)),
            None if known.is_some() => return Ok(own),
            _ => {}
        }
        let text = format!("{}\n", json!({ "grid": finished::described(run) }));
        own.put(GRID, text.as_bytes())?;
        Ok(own)
    }

    /// Opens a folder of cells without a grid, which is created if it does not exist.
    ///
    /// # Errors
    /// [`Error::Write`] if it cannot be created. A usage error if it has files of another kind.
    pub(crate) fn of_cells(path: &Path) -> Result<Folder, Error> {
        fs::create_dir_all(path).map_err(|cause| refused(path, cause))?;
        let own = Folder::existing(path)?;
        if !(own.has_others()?) {
            Ok(own)
        } else {
            Err(Error::usage(format!(
                "--cells {}: the folder has other files\nhelp: choose a new folder",
                shown(path)
            )))
        }
    }

    /// Finds a folder that another process has created.
    ///
    /// # Errors
    /// A usage error if it is not there.
    pub(crate) fn existing(path: &Path) -> Result<Folder, Error> {
        let whole = absolute(path).map_err(|cause| refused(path, cause))?;
        if whole.is_dir() {
            Ok(Folder { path: whole })
        } else {
            Err(Error::usage(format!(
                "--cells {}: no such folder on this machine\nhelp: all machines must see the folder of the cells, \
                 under the same path",
                shown(path)
            )))
        }
    }

    /// Returns the whole path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Describes the difference between the folder's grid and this one, if it is known.
    pub(crate) fn difference(&self, run: &RunDescription) -> Option<String> {
        finished::difference(run, &self.known().ok()??)
    }

    fn changed(&self, what: &str) -> Error {
        Error::usage(format!(
            "--cells {}: the folder has cells of another grid: {what}\nhelp: repeat that grid with the same build, \
             choose another folder, or keep the cells that both have with --extend",
            shown(&self.path)
        ))
    }

    /// Reads the description of the folder's grid.
    fn known(&self) -> Result<Option<Map<String, Value>>, Error> {
        let path = self.path.join(GRID);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(self.damaged(&cause.to_string())),
        };
        let value: Value =
            serde_json::from_str(&text).map_err(|cause| self.damaged(&cause.to_string()))?;
        match value["grid"].as_object() {
            Some(known) => Ok(Some(known.clone())),
            None => Err(self.damaged("it has no grid")),
        }
    }

    fn damaged(&self, why: &str) -> Error {
        Error::usage(format!(
            "{}: not the description of a grid ({why})\nhelp: choose a new folder with --cells, or remove this file \
             to begin again with the cells that are there",
            shown(self.path.join(GRID))
        ))
    }

    /// Returns `true` if the folder has files besides cells, the grid's description and temporary ones.
    fn has_others(&self) -> Result<bool, Error> {
        let entries = fs::read_dir(&self.path).map_err(|cause| refused(&self.path, cause))?;
        let is_key =
            |stem: &str| stem.len() == 32 && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_own = |name: &str| {
            let stem = name.strip_suffix(".parquet");
            name == GRID || name.starts_with('.') || stem.is_some_and(is_key)
        };
        let mut entries = entries.flatten();
        Ok(entries.any(|entry| !is_own(&entry.file_name().to_string_lossy())))
    }

    /// Returns the rows of a cell. Returns `None` if it is not finished.
    ///
    /// # Errors
    /// What is wrong with its file.
    pub(crate) fn rows(&self, key: &str) -> Result<Option<Vec<Row>>, String> {
        let path = self.file(key);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(cause.to_string()),
        };
        let read = quietly(|| parquet::decode(file));
        let (rows, metadata) = read.unwrap_or_else(|| Err("its structure is damaged".into()))?;
        let of = |key: &str| {
            metadata
                .iter()
                .find(|own| own.0 == key)
                .map(|own| own.1.as_str())
        };
        if of(CELL) != Some(key) {
            return Err("it is the file of another cell".into());
        }
        if of(DIGEST) == Some(identity(&rows).as_str()) {
            Ok(Some(rows))
        } else {
            Err("its rows were changed".into())
        }
    }

    /// Writes the rows of a cell.
    ///
    /// # Errors
    /// [`Error::Write`]; an existing file is then unchanged.
    pub(crate) fn finish(&self, key: &str, rows: &[Row]) -> Result<(), Error> {
        let metadata = [(CELL, key.to_string()), (DIGEST, identity(rows))];
        let path = self.file(key);
        let bytes = parquet::encode_with(rows, &metadata);
        let bytes = bytes.map_err(|cause| refused(&path, cause))?;
        self.put(&format!("{key}.parquet"), &bytes)
    }

    fn file(&self, key: &str) -> PathBuf {
        self.path.join(format!("{key}.parquet"))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path.join(name);
        Outputs::default().open("--cells", &path)?.finish(bytes)
    }
}

/// Returns a digest of rows.
fn identity(rows: &[Row]) -> String {
    let lines = rows
        .iter()
        .map(|row| serde_json::to_vec(row).unwrap_or_default());
    let lines: Vec<Vec<u8>> = lines.collect();
    digest::of(lines.iter().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_noticed_or_has_its_rows() {
        let path = std::env::temp_dir().join(format!("everybuddy-cells-{}", std::process::id()));
        let folder = Folder::of_cells(&path).unwrap();
        let row = |value| Row {
            source: "burst:in-order/4".into(),
            system: "lbs-31".into(),
            metric: "latency",
            statistic: "p99",
            operation: "allocate",
            value,
            ..Row::default()
        };
        let rows: Vec<Row> = (0..100).map(|at| row(f64::from(at) * 1.1)).collect();
        let (own, other) = (format!("{:032x}", 1), format!("{:032x}", 2));
        assert_eq!(folder.rows(&own), Ok(None));
        folder.finish(&own, &rows).unwrap();
        assert_eq!(folder.rows(&own), Ok(Some(rows.clone())));
        let whole = fs::read(folder.file(&own)).unwrap();
        fs::write(folder.file(&other), &whole).unwrap();
        let of_another = "it is the file of another cell".to_string();
        assert_eq!(folder.rows(&other), Err(of_another));
        let read = |bytes: &[u8]| {
            fs::write(folder.file(&own), bytes).unwrap();
            folder.rows(&own)
        };
        assert!(read(b"notes").is_err());
        for length in (0..whole.len()).step_by(100) {
            assert!(read(&whole[..length]).is_err(), "{length} bytes");
        }
        let mut noticed = 0;
        for at in 4..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            match read(&bytes) {
                Err(_) => noticed += 1,
                // Some bytes mean nothing: those of statistics.
                found => assert_eq!(found, Ok(Some(rows.clone())), "byte {at}"),
            }
        }
        assert!(2 * noticed > whole.len(), "{noticed} of {}", whole.len());
        fs::remove_dir_all(path).unwrap();
    }
}
