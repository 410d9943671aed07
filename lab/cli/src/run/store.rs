//! The store of finished cells: a folder.
//!
//! Whatever was finished there is not run again, by whichever command, process or machine of a cluster. So an
//! interrupted run continues, and a run that has grown runs only what is new.
//!
//! # Invariants
//! A cell has one file, which is named by its key and contains its rows, the key and a digest of the rows. It appears
//! completely or not at all: processes that run the same cell leave one file. The key is a digest of all that the rows
//! depend on, and of the program. Other cells in the folder are never used, and never changed. A folder with other
//! files is refused.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf, absolute};

use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;
use everybuddy_trace::{quietly, shown};

use crate::digest;
use crate::export::{Outputs, parquet, refused};

/// The metadata of a cell's file.
const CELL: &str = "everybuddy.cell";
const DIGEST: &str = "everybuddy.rows";

/// A folder of finished cells.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    path: PathBuf,
}

impl Store {
    /// Opens a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// [`Error::Write`] if it cannot be created. A usage error if it has files of another kind.
    pub(crate) fn open(path: &Path) -> Result<Store, Error> {
        if path.is_file() {
            return Err(Error::usage(format!(
                "--resume {}: it is a file\nhelp: choose a folder for the cells, which need not exist",
                shown(path)
            )));
        }
        fs::create_dir_all(path).map_err(|cause| refused(path, cause))?;
        let own = Store::existing(path)?;
        if own.has_others()? {
            return Err(Error::usage(format!(
                "--resume {}: the folder has other files\nhelp: choose a new folder",
                shown(path)
            )));
        }
        Ok(own)
    }

    /// Finds a folder that another process has created.
    ///
    /// # Errors
    /// A usage error if it is not there.
    pub(crate) fn existing(path: &Path) -> Result<Store, Error> {
        let whole = absolute(path).map_err(|cause| refused(path, cause))?;
        if whole.is_dir() {
            Ok(Store { path: whole })
        } else {
            Err(Error::usage(format!(
                "--resume {}: no such folder on this machine\nhelp: all machines must see the folder of the cells, \
                 under the same path",
                shown(path)
            )))
        }
    }

    /// Returns the whole path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the key of a cell whose rows depend on this and the program.
    pub(crate) fn key(identity: &str) -> String {
        digest::of([digest::program().as_bytes(), identity.as_bytes()])
    }

    /// Returns how many cells the folder has that are not among these.
    pub(crate) fn others<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> usize {
        let own: BTreeSet<&str> = keys.into_iter().collect();
        let Ok(entries) = fs::read_dir(&self.path) else {
            return 0;
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let is_other = |name: &str| cell_of(name).is_some_and(|key| !own.contains(key));
        names
            .filter(|name| is_other(&name.to_string_lossy()))
            .count()
    }

    /// Returns `true` if the folder has files besides cells and temporary ones.
    fn has_others(&self) -> Result<bool, Error> {
        let entries = fs::read_dir(&self.path).map_err(|cause| refused(&self.path, cause))?;
        let is_own = |name: &str| name.starts_with('.') || cell_of(name).is_some();
        let mut entries = entries.flatten();
        Ok(entries.any(|entry| !is_own(&entry.file_name().to_string_lossy())))
    }

    /// Returns the rows of a cell. Returns `None` if it is not finished.
    ///
    /// # Errors
    /// What is wrong with its file.
    pub(crate) fn rows(&self, key: &str) -> Result<Option<Vec<Row>>, String> {
        let file = match File::open(self.file(key)) {
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

    /// Returns the rows of a cell, and none if its file is damaged, which is passed to `report`: the cell is run again.
    pub(crate) fn known(
        &self,
        key: &str,
        name: &str,
        report: &mut dyn FnMut(&str),
    ) -> Option<Vec<Row>> {
        self.rows(key).unwrap_or_else(|why| {
            report(&format!(
                "the file of cell {key} ({name}) is damaged: {why}; the cell is run again"
            ));
            None
        })
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
        Outputs::default().open("--resume", &path)?.finish(&bytes)
    }

    fn file(&self, key: &str) -> PathBuf {
        self.path.join(format!("{key}{END}"))
    }
}

/// The end of the names of cells' files.
const END: &str = ".parquet";

/// Returns the key of the cell whose file has this name.
fn cell_of(name: &str) -> Option<&str> {
    let key = name.strip_suffix(END)?;
    (key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(key)
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
        let store = Store::open(&path).unwrap();
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
        assert_eq!(store.rows(&own), Ok(None));
        store.finish(&own, &rows).unwrap();
        assert_eq!(store.rows(&own), Ok(Some(rows.clone())));
        assert_eq!(store.others([own.as_str()]), 0);
        assert_eq!(store.others([other.as_str()]), 1);
        let whole = fs::read(store.file(&own)).unwrap();
        fs::write(store.file(&other), &whole).unwrap();
        let of_another = "it is the file of another cell".to_string();
        assert_eq!(store.rows(&other), Err(of_another));
        let read = |bytes: &[u8]| {
            fs::write(store.file(&own), bytes).unwrap();
            store.rows(&own)
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
