//! What runs cells: this machine, or the machines of a Ray cluster.
//!
//! A sweep and a search need rows of cells, wherever they run.
//!
//! # Invariants
//! A cell that fails does not end the others. A finished cell is not run again, even if another process finished it in
//! the meantime.

use everybuddy_trace::shown;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;

use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;
use everybuddy_simulate::jobs;
use serde_json::json;

use super::cell::{CHECK_FAILED, Cell, Failure};
use super::driver::Driver;
use crate::digest;
use crate::run::store::Store;

/// The program that runs commands as tasks of Ray.
const RAY: &str = include_str!("../../python/_ray.py");

/// What runs cells.
pub(crate) enum Workers {
    /// Processes of this machine.
    Local {
        /// At the same time.
        jobs: NonZero<usize>,
        /// Whether cells that measure times may run at the same time.
        together: bool,
    },
    /// Tasks of Ray.
    Ray(Box<Driver>),
}

/// A command line that runs one cell on any machine that sees the grid and the folder.
pub(crate) struct Commands<'g> {
    /// The grid's whole path.
    pub(crate) grid: &'g Path,
    /// The folder of the cells.
    pub(crate) folder: &'g Store,
    /// The number of cells at the same time, if it was given.
    pub(crate) jobs: Option<NonZero<usize>>,
}

impl Commands<'_> {
    /// Returns the words of the command line of a cell.
    ///
    /// # Errors
    /// A usage error if a path is not Unicode text, or the program cannot find itself.
    pub(crate) fn of(&self, cell: &Cell) -> Result<Vec<String>, Error> {
        let text = |path: &Path| match path.to_str() {
            Some(text) => Ok(text.to_string()),
            None => Err(Error::usage(format!(
                "{}: the path is not Unicode text\nhelp: rename it",
                shown(path)
            ))),
        };
        let program = std::env::current_exe();
        let program = program.map_err(|cause| Error::usage(format!("no program ({cause})")))?;
        let mut words = vec![
            text(&program)?,
            "sweep".into(),
            text(self.grid)?,
            format!("--resume={}", text(self.folder.path())?),
            format!("--systems={}", cell.systems),
            format!("--cell={}", cell.key),
        ];
        words.extend(self.jobs.map(|jobs| format!("--jobs={jobs}")));
        Ok(words)
    }
}

impl Workers {
    /// Connects to a Ray cluster.
    ///
    /// # Errors
    /// A usage error if Python, Ray or the cluster is missing.
    pub(crate) fn ray(address: &str, python: &str) -> Result<Workers, Error> {
        let option = format!("--ray {address}");
        let driver = Driver::start(&option, python, RAY, address, "ray")?;
        Ok(Workers::Ray(Box::new(driver)))
    }

    /// Runs cells. Calls `done` with the position of each one that has ended, and its rows or why it has none.
    ///
    /// # Errors
    /// Those of `done`, and a usage error if the workers are lost.
    pub(crate) fn run(
        &mut self,
        commands: &Commands<'_>,
        cells: &[&Cell],
        done: &mut Done<'_>,
    ) -> Result<(), Error> {
        let folder = commands.folder;
        match self {
            Workers::Local { jobs, together } => {
                let order = shuffled(cells);
                let work = |at: usize| {
                    let cell = cells[order[at]];
                    Ok(match folder.rows(&cell.key) {
                        Ok(Some(rows)) => Ok(rows),
                        _ => cell.run(*together),
                    })
                };
                jobs::each(*jobs, order.len(), work, &mut |at, rows| {
                    done(order[at], rows)
                })
            }
            Workers::Ray(driver) => {
                for cell in cells {
                    let command = commands.of(cell)?;
                    driver.send(&json!({ "cell": cell.key, "command": command }))?;
                }
                let keys = cells.iter().enumerate();
                let mut left: BTreeMap<&str, usize> =
                    keys.map(|(at, cell)| (cell.key.as_str(), at)).collect();
                while !left.is_empty() {
                    let answer = driver.receive()?;
                    let key = answer["cell"].as_str().unwrap_or_default();
                    let Some(at) = left.remove(key) else {
                        continue;
                    };
                    let rows = if answer["code"] == 0 {
                        let rows = folder.rows(&cells[at].key).unwrap_or(None);
                        rows.ok_or_else(|| {
                            Failure::new(format!(
                                "{}: the cell has ended, but its file is not in {}\nhelp: all machines must see \
                                 this folder",
                                cells[at].name,
                                shown(folder.path())
                            ))
                        })
                    } else {
                        let message = answer["message"].as_str().unwrap_or_default().trim();
                        Err(Failure {
                            is_check: answer["code"] == CHECK_FAILED,
                            message: message.to_string(),
                        })
                    };
                    done(at, rows)?;
                }
                Ok(())
            }
        }
    }
}

/// What is called with the position of a cell that has ended, and with its rows or why it has none.
pub(crate) type Done<'d> = dyn FnMut(usize, Result<Vec<Row>, Failure>) -> Result<(), Error> + 'd;

/// Returns the positions of the cells in an order of this process: two sweeps of one folder rarely run the same cell,
/// and the estimate of the remaining time does not depend on where the long cells are in the grid.
fn shuffled(cells: &[&Cell]) -> Vec<usize> {
    let own = std::process::id().to_le_bytes();
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_cached_key(|at| digest::of([&own[..], cells[*at].key.as_bytes()]));
    order
}

/// Reads the rows of finished cells. Reports files that are damaged: those cells are missing.
pub(crate) fn finished(
    folder: &Store,
    cells: &[Cell],
    report: &mut dyn FnMut(&str),
) -> Vec<Option<Vec<Row>>> {
    let rows = cells
        .iter()
        .map(|cell| folder.known(&cell.key, &cell.name, report));
    rows.collect()
}
