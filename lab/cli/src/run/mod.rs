//! Runs: what is finished, what is left, and what is shown of it.
//!
//! All commands that measure or simulate run cells. This is the one place that decides which of them are finished,
//! keeps those that end, shows how far the run is, prints each table as soon as its cells have ended, and, if the user
//! interrupts the run, what has ended.
//!
//! A command adds what a cell is, how cells run, and the text of a table.
//!
//! # Invariants
//! Tables are printed in the order of their numbers, each once, after all of its cells have ended. A cell that is kept
//! is not run again. Nothing of a run is kept or shown that depends on how many cells run at the same time.

pub(crate) mod driver;
pub(crate) mod elsewhere;
pub(crate) mod store;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use clap::Args;
use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::rows::Row;
use everybuddy_simulate::jobs::each;

use self::store::Store;
use crate::digest;
use crate::show::output;
use crate::show::progress::Progress;
use crate::signals;

/// The options of all commands that run cells.
#[derive(Debug, Default, Args)]
pub(crate) struct RunOptions {
    /// Keep finished cells in DIR; the same command runs the rest
    #[arg(long, value_name = "DIR", alias = "cells")]
    pub(crate) resume: Option<PathBuf>,

    /// Run N cells at the same time if they are not timed [default: all CPUs]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZero<usize>>,

    /// Print a command for each cell that is not finished, and run none
    #[arg(long, conflicts_with_all = ["cell", "ray", "json", "csv", "parquet"])]
    pub(crate) print_commands: bool,

    /// Run only this cell: part of the commands that --print-commands prints
    #[arg(long, value_name = "KEY", conflicts_with_all = ["ray", "json", "csv", "parquet"])]
    pub(crate) cell: Option<String>,

    /// Run the cells as tasks of the Ray cluster at ADDRESS (`auto` finds it)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ray: Option<String>,

    /// Use this Python interpreter for Ray, and for searches
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub(crate) python: String,
}

impl RunOptions {
    /// Returns how many cells that are not timed run at the same time.
    pub(crate) fn jobs(&self) -> NonZero<usize> {
        let all = || thread::available_parallelism().ok();
        self.jobs.or_else(all).unwrap_or(NonZero::<usize>::MIN)
    }

    /// Returns the identity of a cell, which is needed only if there is a store.
    ///
    /// # Errors
    /// Those of `identity`.
    pub(crate) fn identity(
        &self,
        identity: impl FnOnce() -> Result<String, Error>,
    ) -> Result<Option<String>, Error> {
        self.resume.as_ref().map(|_| identity()).transpose()
    }

    /// Opens the store, if there is one.
    ///
    /// # Errors
    /// Those of [`Store::open`], and a usage error for an option that needs a store.
    fn store(&self) -> Result<Option<Store>, Error> {
        match &self.resume {
            None => elsewhere::needs_store(self).map_or(Ok(None), Err),
            // Another process has created it.
            Some(path) if self.cell.is_some() => Store::existing(path).map(Some),
            Some(path) => Store::open(path).map(Some),
        }
    }
}

/// What has rows or not.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// The name for readers.
    pub(crate) name: String,
    /// A text that is different for each cell with other rows. All that they depend on is in it, except the program.
    /// Without one, the cell is not kept.
    pub(crate) identity: Option<String>,
    /// The number of its table. Cells without a table have the number after the last one.
    pub(crate) table: usize,
    /// How long it takes, in any unit.
    pub(crate) weight: u64,
    /// The number of passes that its work reports; none if it is one pass itself, which ends with it.
    pub(crate) passes: Option<u64>,
    /// Whether a process that runs only this cell waits for its turn, because it measures times.
    pub(crate) is_timed: bool,
}

/// The rows of each cell, for those that have ended.
pub(crate) type Known = Vec<Option<Vec<Row>>>;

/// Cells, those that are finished, and where those that end are kept.
pub(crate) struct Run<'r> {
    options: &'r RunOptions,
    cells: Vec<Cell>,
    /// The key of each cell that is kept.
    keys: Vec<Option<String>>,
    known: Known,
    left: usize,
    store: Option<Store>,
}

impl<'r> Run<'r> {
    /// Reads which of the cells are finished, and says so. `left` returns how many of the others may run, which are all
    /// unless some are left out.
    ///
    /// # Errors
    /// Those of the store, and a usage error for an option that needs one.
    pub(crate) fn new(
        cells: Vec<Cell>,
        options: &'r RunOptions,
        left: impl FnOnce(&[Option<Vec<Row>>]) -> usize,
    ) -> Result<Run<'r>, Error> {
        let store = options.store()?;
        let key = |cell: &Cell| cell.identity.as_deref().map(Store::key);
        let keys: Vec<Option<String>> = match &store {
            Some(_) => cells.iter().map(key).collect(),
            None => vec![None; cells.len()],
        };
        let known = cells.iter().zip(&keys).map(|(cell, key)| {
            let (store, key) = (store.as_ref()?, key.as_ref()?);
            store.known(key, &cell.name, &mut output::note)
        });
        let known: Known = known.collect();
        let left = left(&known);
        let run = Run {
            options,
            cells,
            keys,
            known,
            left,
            store,
        };
        if options.cell.is_none() {
            run.note();
        }
        Ok(run)
    }

    /// Says how much of the run is finished, if something is, or that the folder has only others.
    fn note(&self) {
        let all = self.cells.len();
        note(all, self.left);
        let Some(store) = self.store.as_ref().filter(|_| self.left == all) else {
            return;
        };
        let others = store.others(self.keys.iter().flatten().map(String::as_str));
        // A cell without a key consists of others in the folder.
        if others > 0 && self.keys.iter().all(Option::is_some) {
            output::note(&format!(
                "no cell of this run is finished; the {others} in the folder are of other runs, inputs or builds"
            ));
        }
    }

    /// Runs the cells by `work`, and shows each table by `table`, which gets its number and the rows of all cells.
    /// Returns the rows of all cells.
    ///
    /// With `--print-commands` or `--cell`, no table is shown.
    ///
    /// # Errors
    /// Those of `work` and `table`, and [`Error::Write`] if a cell cannot be kept. [`Error::Part`] after
    /// `--print-commands` or `--cell`. A usage error for an unknown cell or a lost cluster, and the error of the first
    /// cell that failed on Ray.
    pub(crate) fn go(
        mut self,
        table: impl FnMut(usize, &Known) -> Result<(), Error> + Send,
        work: impl FnOnce(&Stage<'_>) -> Result<(), Error>,
    ) -> Result<Known, Error> {
        if self.options.print_commands {
            elsewhere::print(&self.commands(&self.missing())?)?;
            return Err(Error::Part);
        }
        if let Some(key) = &self.options.cell {
            let at = self.keys.iter().position(|own| own.as_ref() == Some(key));
            let at = at.ok_or_else(|| elsewhere::unknown(key))?;
            let others = self.known.iter_mut().enumerate();
            let others = others.filter(|(other, _)| *other != at);
            others.for_each(|(_, rows)| *rows = Some(Vec::new()));
            if self.known[at].is_none() {
                let _turn = self.cells[at].is_timed.then(elsewhere::turn);
                self.here(|_, _| Ok(()), work)?;
            }
            return Err(Error::Part);
        }
        if let Some(address) = &self.options.ray {
            self.on_ray(address)?;
        }
        self.here(table, work)
    }

    /// Returns the positions of the cells without rows.
    fn missing(&self) -> Vec<usize> {
        let known = self.known.iter().enumerate();
        let missing = known.filter(|(_, rows)| rows.is_none());
        missing.map(|(at, _)| at).collect()
    }

    /// Returns the command lines of cells that are kept.
    fn commands(&self, cells: &[usize]) -> Result<Vec<Vec<String>>, Error> {
        let keys = cells.iter().filter_map(|at| self.keys[*at].as_deref());
        keys.map(elsewhere::command_of).collect()
    }

    /// Runs the missing cells as tasks of Ray, with a bar.
    fn on_ray(&mut self, address: &str) -> Result<(), Error> {
        let (missing, Some(store)) = (self.missing(), &self.store) else {
            return Ok(());
        };
        if missing.is_empty() {
            return Ok(());
        }
        let commands = self.commands(&missing)?;
        let mut driver = elsewhere::ray(address, &self.options.python)?;
        let progress = Progress::new(missing.len() as u64);
        let mut failures = BTreeMap::new();
        elsewhere::run_on_ray(&mut driver, &commands, &mut |at, failure| {
            let at = missing[at];
            let (name, key) = (&self.cells[at].name, self.keys[at].as_deref());
            progress.says(name);
            progress.step();
            let rows = key.and_then(|key| store.rows(key).unwrap_or(None));
            let lacks = || elsewhere::without_file(name, store.path());
            let failure = failure.or_else(|| rows.is_none().then(lacks));
            self.known[at] = rows;
            failures.extend(failure.map(|failure| (at, failure)));
            Ok(())
        })?;
        progress.done();
        elsewhere::failed(self.cells.len(), failures)
    }

    /// Runs the cells in this process.
    fn here(
        self,
        mut table: impl FnMut(usize, &Known) -> Result<(), Error> + Send,
        work: impl FnOnce(&Stage<'_>) -> Result<(), Error>,
    ) -> Result<Known, Error> {
        let missing = || {
            let both = self.cells.iter().zip(&self.known);
            both.filter(|(_, rows)| rows.is_none())
                .map(|(cell, _)| cell)
        };
        let inner: u64 = missing().map(|cell| cell.passes.unwrap_or(0)).sum();
        let whole = missing().filter(|cell| cell.passes.is_none()).count();
        let left_out = missing().count().saturating_sub(self.left);
        let passes = inner + whole.saturating_sub(left_out) as u64;
        let weight = missing().map(|cell| cell.weight).sum();
        let tables = self.cells.iter().map(|cell| cell.table + 1).max();
        let mut left = vec![0; tables.unwrap_or(0)];
        missing().for_each(|cell| left[cell.table] += 1);
        let stage = Stage {
            progress: Progress::weighted(passes, weight),
            shown: Mutex::new(Shown {
                rows: self.known.clone(),
                left,
                printed: 0,
                table: &mut table,
            }),
            run: &self,
        };
        stage.print()?;
        signals::interruptible(|| stage.interrupted(), || work(&stage))?;
        stage.progress.done();
        let mut shown = stage.shown();
        shown.print_all()?;
        Ok(std::mem::take(&mut shown.rows))
    }
}

/// A run that is under way.
pub(crate) struct Stage<'s> {
    run: &'s Run<'s>,
    progress: Progress,
    shown: Mutex<Shown<'s>>,
}

/// What has ended, and what has been printed of it.
struct Shown<'s> {
    rows: Known,
    /// The cells that have not ended, of each table.
    left: Vec<usize>,
    /// The tables that are printed: the first ones.
    printed: usize,
    table: &'s mut (dyn FnMut(usize, &Known) -> Result<(), Error> + Send),
}

impl Shown<'_> {
    fn print_next(&mut self) -> Result<(), Error> {
        self.printed += 1;
        (self.table)(self.printed - 1, &self.rows)
    }

    fn print_all(&mut self) -> Result<(), Error> {
        while self.printed < self.left.len() {
            self.print_next()?;
        }
        Ok(())
    }

    fn has_next(&self) -> bool {
        self.left.get(self.printed) == Some(&0)
    }
}

impl<'s> Stage<'s> {
    /// Returns the rows of the cells that were finished before.
    pub(crate) fn known(&self) -> &Known {
        &self.run.known
    }

    /// Returns how many cells that are not timed run at the same time.
    pub(crate) fn jobs(&self) -> NonZero<usize> {
        self.run.options.jobs()
    }

    /// Shows the current activity.
    pub(crate) fn says(&self, what: &str) {
        self.progress.says(what);
    }

    /// Reports a pass of a cell that has several.
    pub(crate) fn step(&self, what: &str) {
        self.progress.says(what);
        self.progress.step();
    }

    /// Runs the missing cells of those with these numbers, as many as there are jobs at the same time. They are begun
    /// in this order. One job at a time runs on the calling thread, as times are measured.
    ///
    /// # Errors
    /// That of the first cell that has one, and those of [`ended`](Self::ended).
    pub(crate) fn each(
        &self,
        numbers: impl IntoIterator<Item = usize>,
        jobs: NonZero<usize>,
        work: impl Fn(usize) -> Result<Vec<Row>, Error> + Sync,
    ) -> Result<(), Error> {
        let is_missing = |at: &usize| self.run.known[*at].is_none();
        let mut left = numbers.into_iter().filter(is_missing);
        if jobs.get() == 1 {
            return left.try_for_each(|at| self.ended(at, Some(work(at)?)));
        }
        let left: Vec<usize> = left.collect();
        each(jobs, left.len(), |at| work(left[at]), &mut |at, rows| {
            self.ended(left[at], Some(rows))
        })
    }

    /// Adds a cell that has ended, with its rows, or that was left out: keeps it, and prints the tables that are
    /// complete.
    ///
    /// # Errors
    /// [`Error::Write`] if the cell cannot be kept, and those of the tables.
    pub(crate) fn ended(&self, at: usize, rows: Option<Vec<Row>>) -> Result<(), Error> {
        let cell = &self.run.cells[at];
        if let (Some(store), Some(key), Some(rows)) = (&self.run.store, &self.run.keys[at], &rows) {
            store.finish(key, rows)?;
        }
        if cell.passes.is_none() {
            if rows.is_some() {
                self.progress.says(&cell.name);
            }
            self.progress.step_of(cell.weight);
        }
        let mut shown = self.shown();
        shown.rows[at] = rows;
        shown.left[cell.table] = shown.left[cell.table].saturating_sub(1);
        drop(shown);
        self.print()
    }

    /// Prints the tables that are complete and not yet printed.
    fn print(&self) -> Result<(), Error> {
        let mut shown = self.shown();
        if !shown.has_next() {
            return Ok(());
        }
        self.progress.hidden(|| {
            while shown.has_next() {
                shown.print_next()?;
            }
            Ok(())
        })
    }

    /// Prints what has ended of a run that is interrupted.
    fn interrupted(&self) {
        // In the order of the workers: first the tables, then the bar.
        let mut shown = self.shown();
        let cells = &self.run.cells;
        self.progress.hidden(|| {
            let ended = shown.rows.iter().flatten().count();
            while shown.printed < shown.left.len() {
                let mut both = cells.iter().zip(&shown.rows);
                let next = shown.printed;
                if !both.any(|(cell, rows)| cell.table == next && rows.is_some()) {
                    shown.printed += 1;
                } else if shown.print_next().is_err() {
                    // If the reader is gone, the rest is lost.
                    return;
                }
            }
            let all = cells.len();
            output::note(&match (ended, &self.run.store) {
                (0, _) => "interrupted: no cell has ended".to_string(),
                (_, Some(store)) => format!(
                    "interrupted: {ended} of {all} cells have ended and are kept in {}",
                    everybuddy_trace::shown(store.path())
                ),
                (_, None) => format!(
                    "interrupted: {ended} of {all} cells have ended, which the tables show; --resume DIR keeps them"
                ),
            });
        });
    }

    fn shown(&self) -> MutexGuard<'_, Shown<'s>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes the contents of files that a cell reads, wherever they are: of traces, by names or paths, and of others.
///
/// # Errors
/// A usage error if one cannot be read.
pub(crate) fn contents(traces: &[String], files: &[PathBuf]) -> Result<String, Error> {
    let mut all = String::new();
    let traces: Result<Vec<Option<PathBuf>>, Error> =
        traces.iter().map(|name| library::file(name)).collect();
    let traces = traces?.into_iter().flatten().map(|path| {
        let parts = everybuddy_trace::files(&path).into_iter().collect();
        (path, parts)
    });
    let files = files.iter().map(|path| (path.clone(), vec![path.clone()]));
    for (path, parts) in traces.chain(files) {
        let digest = digest::of_files(&parts).map_err(|(part, cause)| {
            let part = everybuddy_trace::shown(part);
            Error::usage(format!("--resume: {part}: failed to read ({cause})"))
        })?;
        all += &format!(" {:?} {digest}", path.file_name());
    }
    Ok(all)
}

/// Describes what times depend on besides a cell and the program: the host.
pub(crate) fn host() -> String {
    let host = HostInfo::look();
    format!("{:?} {:?}", host.processor, host.cores)
}

/// Returns how many cells have no rows: all of them run.
pub(crate) fn missing(known: &[Option<Vec<Row>>]) -> usize {
    known.iter().filter(|rows| rows.is_none()).count()
}

/// Says how many of all cells are finished, if some are.
pub(crate) fn note(all: usize, left: usize) {
    if left < all {
        let ended = all - left;
        output::note(&format!(
            "{ended} of {all} cells are finished, {left} are left"
        ));
    }
}

/// Returns the path of a store next to a file.
pub(crate) fn beside(file: &Path) -> PathBuf {
    file.with_extension("cells")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six cells of three tables, of which the last one has passes and is not kept.
    fn cells() -> Vec<Cell> {
        let cell = |at: usize| Cell {
            name: format!("cell {at}"),
            identity: (at < 5).then(|| format!("identity {at}")),
            table: at / 2,
            weight: 1,
            passes: (at == 5).then_some(3),
            is_timed: false,
        };
        (0..6).map(cell).collect()
    }

    fn rows(at: usize) -> Vec<Row> {
        vec![Row {
            metric: "latency",
            statistic: "mean",
            operation: "all",
            value: at as f64,
            ..Row::default()
        }]
    }

    const JOBS: NonZero<usize> = NonZero::new(3).unwrap();

    /// Runs the cells in this order. Returns which ran, and for each table that was shown the cells that had rows.
    fn ran(store: Option<Store>, order: &[usize]) -> (Vec<usize>, Vec<(usize, Vec<usize>)>) {
        let ran = Mutex::new(Vec::new());
        let mut shown = Vec::new();
        let options = RunOptions {
            resume: store.as_ref().map(|store| store.path().to_path_buf()),
            ..RunOptions::default()
        };
        let run = Run::new(cells(), &options, missing).unwrap();
        let table = |table: usize, known: &Known| {
            let own = known.iter().enumerate();
            let own = own.filter(|(at, rows)| at / 2 == table && rows.is_some());
            shown.push((table, own.map(|(at, _)| at).collect()));
            Ok(())
        };
        let known = run.go(table, |stage| {
            for at in order {
                stage.each([*at], JOBS, |at| {
                    ran.lock().unwrap().push(at);
                    Ok(rows(at))
                })?;
            }
            Ok(())
        });
        let known = known.unwrap();
        for (at, own) in known.iter().enumerate() {
            assert!(own.as_ref().is_none_or(|own| *own == rows(at)), "{at}");
        }
        let mut ran = ran.into_inner().unwrap();
        ran.sort_unstable();
        (ran, shown)
    }

    #[test]
    fn tables_are_shown_in_order_when_their_cells_have_ended() {
        let whole = vec![(0, vec![0, 1]), (1, vec![2, 3]), (2, vec![4, 5])];
        for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 5, 0, 3, 4, 1]] {
            let (own, shown) = ran(None, &order);
            assert_eq!(own, [0, 1, 2, 3, 4, 5]);
            assert_eq!(shown, whole, "{order:?}");
        }
        // What has no rows is shown at the end.
        let (_, shown) = ran(None, &[3, 0, 1]);
        assert_eq!(shown, [(0, vec![0, 1]), (1, vec![3]), (2, vec![])]);
    }

    #[test]
    fn what_is_kept_does_not_run_again() {
        let path = std::env::temp_dir().join(format!("everybuddy-run-{}", std::process::id()));
        let store = || Some(Store::open(&path).unwrap());
        assert_eq!(ran(store(), &[4, 1]).0, [1, 4]);
        let (own, shown) = ran(store(), &[0, 1, 2, 3, 4, 5]);
        assert_eq!(own, [0, 2, 3, 5]);
        assert_eq!(shown[0], (0, vec![0, 1]));
        assert_eq!(ran(store(), &[0, 1, 2, 3, 4, 5]).0, [5], "not kept");
        std::fs::remove_dir_all(path).unwrap();
    }
}
