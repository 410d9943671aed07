//! What runs cells: this machine, or the machines of a Ray cluster.
//!
//! A sweep and a search need rows of cells, wherever they run.
//!
//! # Invariants
//! A cell that fails does not end the others. A finished cell is not run again, even if another process finished it in
//! the meantime.

use everybuddy_trace::shown;
use std::num::NonZero;
use std::path::Path;

use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;
use everybuddy_simulate::jobs;

use super::cell::Cell;
use crate::digest;
use crate::run::driver::Driver;
use crate::run::elsewhere::{self, Failure};
use crate::run::store::Store;

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
                let all = cells.iter().map(|cell| commands.of(cell));
                let all: Result<Vec<Vec<String>>, Error> = all.collect();
                elsewhere::run_on_ray(driver, &all?, &mut |at, failure| {
                    let rows = folder.rows(&cells[at].key).unwrap_or(None);
                    let lacks = || elsewhere::without_file(&cells[at].name, folder.path());
                    let rows = failure.map_or(rows.ok_or_else(lacks), Err);
                    done(at, rows)
                })
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
