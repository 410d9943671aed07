//! `everybuddy sweep`: grids of simulations and replays, on this machine or on many; searches for options.
//!
//! A grid that outgrows one machine gives the same rows wherever its cells run, and continues where it stopped.
//!
//! # Invariants
//! All names are checked before the first cell runs. Results appear when all cells are finished, in the grid's order.

use everybuddy_trace::shown;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;

use clap::{Args, CommandFactory, FromArgMatches, value_parser};
use everybuddy_measure::Error;
use everybuddy_measure::rows::Row;
use everybuddy_simulate::rows::of_cells;

use super::files::{Files, Sinks, titled};
use super::{Cli, Command, compare, simulate};
use crate::export::Outputs;
use crate::run::elsewhere::{self, Failure};
use crate::run::store::Store;
use crate::run::{self, Known, Run, RunOptions};
use crate::show::progress::Progress;
use crate::show::{output, simulated};
use crate::sweep::cell::Cell;
use crate::sweep::grid::{self, Grid};
use crate::sweep::measure::{Bound, Measure};
use crate::sweep::search::{FoundSystem, Results, Search};
use crate::sweep::workers::{Commands, Done, Workers, finished};

/// Run a grid of simulations or replays, here or on a cluster; search for options.
///
/// A cell is one command line. A cell of `simulate` has one system, one trace or workload, one
/// machine, one number of CPUs and one seed; a cell of `compare` has all systems. Finished cells
/// are kept in a folder, so the same command continues where it stopped.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = include_str!("help/sweep.txt"))]
pub(super) struct Arguments {
    /// Read the grid from this TOML file
    #[arg(value_name = "GRID")]
    grid: PathBuf,

    #[command(flatten)]
    run: RunOptions,

    /// The systems of that cell
    #[arg(long, value_name = "A,B", value_delimiter = ',', requires = "cell")]
    systems: Vec<String>,

    /// Search for the options with the smallest METRIC:STATISTIC:OPERATION, a mean over all cells
    #[arg(long, value_name = "MEASURE", conflicts_with_all = ["maximize", "print_commands", "cell"])]
    minimize: Option<Measure>,

    /// Search for the options with the largest one, a mean over all cells
    #[arg(long, value_name = "MEASURE", conflicts_with_all = ["print_commands", "cell"])]
    maximize: Option<Measure>,

    /// Keep a bound in every cell of the search, such as metadata_bytes_per_frame<9
    #[arg(long, value_name = "BOUND", value_delimiter = ',')]
    subject_to: Vec<Bound>,

    /// Try N proposals of a system with options
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = value_parser!(u32).range(1..))]
    trials: u32,

    /// Make N proposals before their results are known; more use more CPUs, and learn later
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u32).range(1..))]
    batch: u32,

    /// Set the seed of the search
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    files: Files,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let grid = Grid::read(&arguments.grid)?;
    let path = match &arguments.run.resume {
        Some(path) => path.clone(),
        None => run::beside(&arguments.grid),
    };
    if let Some(key) = &arguments.run.cell {
        return one(&arguments, &grid, &Store::existing(&path)?, key);
    }
    let search = search(&arguments)?;
    let systems = match &search {
        None => grid.variants()?,
        Some(_) => grid.systems.clone(),
    };
    for words in grid.checks(&systems) {
        check(&words).map_err(|error| grid.refused(error))?;
    }
    let mut outputs = Outputs::beside(grid.inputs());
    let sinks = arguments.files.open(&mut outputs)?;
    let folder = Store::open(&path)?;
    let commands = Commands {
        grid: &grid.path,
        folder: &folder,
        jobs: arguments.run.jobs,
    };
    let mut runner = Runner {
        commands,
        arguments: &arguments,
        command: grid.command,
        workers: None,
    };
    match &search {
        Some(search) => found(search, &grid, runner, sinks),
        None => {
            let cells = grid.cells(&systems)?;
            if arguments.run.print_commands {
                return printed(&runner.commands, &cells);
            }
            let show = |known: &Known| {
                let rows = joined(&grid, &cells, known);
                sinks.show(simulated::of_grid(&rows))
            };
            let (known, left) = runner.all(&cells, show)?;
            let rows = joined(&grid, &cells, &known);
            sinks.print(&format!(
                "{} cells, {left} of them run now: {} rows in {}\n",
                cells.len(),
                rows.len(),
                shown(folder.path())
            ))?;
            sinks.write(&rows, titled("A grid of runs"))
        }
    }
}

/// Runs one cell, unless it is finished.
fn one(arguments: &Arguments, grid: &Grid, folder: &Store, key: &str) -> Result<(), Error> {
    let cells = grid.cells(&arguments.systems)?;
    let Some(cell) = cells.into_iter().find(|cell| cell.key == key) else {
        return Err(grid.refused(format!(
            "no cell {key}: the grid, a file that it names or the program is not the one that printed the command\n\
             help: print the commands again; all machines need the same grid, the same files and the same build"
        )));
    };
    let mut workers = Workers::Local {
        jobs: NonZero::<usize>::MIN,
        together: arguments.run.jobs.is_some(),
    };
    let commands = Commands {
        grid: &grid.path,
        folder,
        jobs: None,
    };
    workers.run(&commands, &[&cell], &mut |_, rows| {
        folder.finish(&cell.key, &rows.map_err(Failure::error)?)
    })
}

/// Prints the commands of the cells that are not finished.
fn printed(commands: &Commands<'_>, cells: &[Cell]) -> Result<(), Error> {
    let rows = finished(commands.folder, cells, &mut output::note);
    let missing = cells.iter().zip(&rows).filter(|(_, rows)| rows.is_none());
    let all: Result<Vec<Vec<String>>, Error> = missing.map(|(cell, _)| commands.of(cell)).collect();
    elsewhere::print(&all?)
}

/// Checks a command line without running it.
fn check(words: &[String]) -> Result<(), Error> {
    let name = ["everybuddy".to_string()];
    let matches = Cli::command().try_get_matches_from(name.iter().chain(words));
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = cli.map_err(|mistake| {
        let text = mistake.to_string();
        // The rest is about another command line than the user's.
        let text = text.split("\n\n").next().unwrap_or(&text);
        Error::usage(text.trim_start_matches("error: ").trim_end())
    })?;
    match &cli.command {
        Command::Simulate(arguments) => simulate::check(arguments),
        Command::Compare(arguments) => compare::check(arguments),
        _ => Ok(()),
    }
}

/// What runs the cells of a grid.
struct Runner<'a> {
    commands: Commands<'a>,
    arguments: &'a Arguments,
    command: grid::Command,
    /// Nothing until the first cell has to run.
    workers: Option<Workers>,
}

impl Runner<'_> {
    /// Returns what runs the cells, which begins with the first one.
    fn begun(&mut self) -> Result<Workers, Error> {
        match (self.workers.take(), &self.arguments.run.ray) {
            (Some(workers), _) => Ok(workers),
            (None, Some(address)) => {
                let driver = elsewhere::ray(address, &self.arguments.run.python)?;
                Ok(Workers::Ray(Box::new(driver)))
            }
            (None, None) => {
                let all = match self.command {
                    grid::Command::Simulate => thread::available_parallelism().ok(),
                    grid::Command::Compare => None,
                };
                Ok(Workers::Local {
                    jobs: self
                        .arguments
                        .run
                        .jobs
                        .or(all)
                        .unwrap_or(NonZero::<usize>::MIN),
                    together: self.arguments.run.jobs.is_some(),
                })
            }
        }
    }

    /// Runs the cells that are not finished, for a search. Returns the rows of each, or why it has none.
    fn rows(
        &mut self,
        cells: &[Cell],
        says: &mut dyn FnMut(&str),
    ) -> Result<Vec<Result<Vec<Row>, Failure>>, Error> {
        let folder = self.commands.folder;
        let known = finished(folder, cells, &mut output::note).into_iter();
        let mut all: Vec<Option<Result<Vec<Row>, Failure>>> =
            known.map(|rows| rows.map(Ok)).collect();
        let missing: Vec<usize> = (0..cells.len()).filter(|at| all[*at].is_none()).collect();
        self.missing(cells, &missing, &mut |at, rows| {
            says(&cells[at].name);
            if let Ok(rows) = &rows {
                folder.finish(&cells[at].key, rows)?;
            }
            all[at] = Some(rows);
            Ok(())
        })?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Runs the cells with these positions, if there are any. The position that `done` gets is that in `cells`.
    fn missing(
        &mut self,
        cells: &[Cell],
        missing: &[usize],
        done: &mut Done<'_>,
    ) -> Result<(), Error> {
        if missing.is_empty() {
            return Ok(());
        }
        let left: Vec<&Cell> = missing.iter().map(|at| &cells[*at]).collect();
        let mut workers = self.begun()?;
        workers.run(&self.commands, &left, &mut |at, rows| {
            done(missing[at], rows)
        })?;
        self.workers = Some(workers);
        Ok(())
    }

    /// Runs all cells of a grid, and shows their rows. Returns them, and how many cells ran now.
    fn all(
        &mut self,
        cells: &[Cell],
        mut show: impl FnMut(&Known) -> Result<(), Error> + Send,
    ) -> Result<(Known, usize), Error> {
        let own = cells.iter().map(|cell| run::Cell {
            name: cell.name.clone(),
            identity: Some(cell.identity.clone()),
            table: 0,
            weight: 1,
            passes: None,
            // A cell that measures times is a process of its own, which waits for its turn.
            is_timed: false,
        });
        // The workers know where the cells run.
        let options = RunOptions {
            resume: Some(self.commands.folder.path().to_path_buf()),
            jobs: self.arguments.run.jobs,
            ..RunOptions::default()
        };
        let run = Run::new(own.collect(), &options, run::missing)?;
        let mut left = 0;
        let known = run.go(
            |_, known| show(known),
            |stage| {
                let is_missing = |at: &usize| stage.known()[*at].is_none();
                let missing: Vec<usize> = (0..cells.len()).filter(is_missing).collect();
                left = missing.len();
                let mut failures = BTreeMap::new();
                // A cell that failed does not count as ended: no table of a part of the grid is printed.
                self.missing(cells, &missing, &mut |at, rows| match rows {
                    Ok(rows) => stage.ended(at, Some(rows)),
                    Err(failure) => {
                        failures.insert(at, failure);
                        Ok(())
                    }
                })?;
                elsewhere::failed(cells.len(), failures)
            },
        )?;
        Ok((known, left))
    }
}

/// Joins the rows of the cells that have ended, and adds what follows from several of them.
fn joined(grid: &Grid, cells: &[Cell], known: &Known) -> Vec<Row> {
    let pairs = cells.iter().zip(known);
    let pairs: Vec<(&Cell, &[Row])> = pairs
        .filter_map(|(cell, rows)| Some((cell, rows.as_deref()?)))
        .collect();
    let mut all = Vec::new();
    for group in pairs.chunk_by(|one, other| one.0.group == other.0.group) {
        let own: Vec<&[Row]> = group.iter().map(|pair| pair.1).collect();
        all.extend(own.iter().flat_map(|rows| rows.iter().cloned()));
        if grid.command == grid::Command::Simulate {
            all.extend(of_cells(&own));
        }
    }
    all
}

/// Returns the search that was asked for.
fn search(arguments: &Arguments) -> Result<Option<Search>, Error> {
    let (goal, is_maximized) = match (&arguments.minimize, &arguments.maximize) {
        (Some(goal), _) => (goal, false),
        (None, Some(goal)) => (goal, true),
        (None, None) if arguments.subject_to.is_empty() => return Ok(None),
        (None, None) => {
            return Err(Error::usage(
                "--subject-to: a bound is part of a search\nhelp: add --minimize or --maximize",
            ));
        }
    };
    Ok(Some(Search {
        goal: goal.clone(),
        is_maximized,
        bounds: arguments.subject_to.clone(),
        trials: arguments.trials,
        batch: arguments.batch,
        seed: arguments.seed,
    }))
}

/// The systems of a search that are printed.
const SHOWN: usize = 5;

/// Searches, prints the best systems, and writes the rows of the best one.
fn found(search: &Search, grid: &Grid, mut runner: Runner<'_>, sinks: Sinks) -> Result<(), Error> {
    let progress = Progress::new(search.trials.into());
    let python = runner.arguments.run.python.clone();
    let mut rows = |cells: &[Cell]| runner.rows(cells, &mut |what| progress.says(what));
    let results = search.run(grid, &python, &mut rows, &mut |_| progress.step())?;
    progress.done();
    if let (true, Some((name, failure))) = (results.found.is_empty(), results.failed.iter().next())
    {
        return Err(grid.refused(format!("no system could run; {name}: {}", failure.message)));
    }
    let ranked = search.ranked(&results);
    let Some(best) = ranked.first() else {
        let bounds: Vec<&str> = search.bounds.iter().map(|bound| bound.text()).collect();
        return Err(Error::Failed(format!(
            "none of {} systems keeps all bounds ({})\nhelp: relax a bound, widen [options], or try more with --trials",
            results.found.len(),
            bounds.join(", ")
        )));
    };
    sinks.print(&summary(search, &results, &ranked))?;
    let cells = grid.cells(std::slice::from_ref(&best.system))?;
    let known = finished(runner.commands.folder, &cells, &mut output::note);
    let title = "A search for the best system";
    sinks.write(&joined(grid, &cells, &known), titled(title))
}

/// Describes the best systems.
fn summary(search: &Search, results: &Results, ranked: &[&FoundSystem]) -> String {
    let (all, failed) = (results.found.len(), results.failed.len());
    let mut text = format!(
        "{} trials of {} systems, {failed} of which could not run; {} of {all} keep all bounds\n",
        search.trials,
        all + failed,
        ranked.len()
    );
    for (rank, found) in (1..).zip(ranked.iter().take(SHOWN)) {
        let unit = search.goal.unit();
        let unit = if unit == "1" { "" } else { unit };
        text += &format!(
            "{rank}. {}: {} {:.6} {unit}",
            found.system,
            search.goal.text(),
            found.value
        );
        for (bound, value) in search.bounds.iter().zip(&found.bounded) {
            text += &format!(", {} {value:.6}", bound.measure.text());
        }
        text = text.trim_end().to_string() + "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What the lists of a grid stand for, what chooses what is printed and written, and a state, which no grid has.
    #[rustfmt::skip]
    const OTHERS: &[&str] = &[
        "all", "all-columns", "cell", "cpus", "csv", "help", "html", "jobs", "json", "machine", "markdown", "no-html",
        "parquet", "print-commands", "python", "ray", "resume", "rows", "seed", "seeds", "sensitivity", "start",
        "systems", "timeline", "to-limit", "touch", "trace", "workloads",
    ];

    #[test]
    fn every_option_of_a_command_is_in_grids_or_is_not() {
        for command in [grid::Command::Simulate, grid::Command::Compare] {
            let mut cli = Cli::command();
            cli.build();
            let own = cli.find_subcommand(command.name()).unwrap();
            let options: BTreeSet<&str> = own
                .get_arguments()
                .filter_map(|option| option.get_long())
                .collect();
            let arguments = command.arguments();
            for known in arguments {
                assert!(options.contains(known), "{known}");
            }
            for option in options {
                let kinds = [arguments, OTHERS].map(|list| list.contains(&option));
                assert!(kinds[0] != kinds[1], "{}: {option}", command.name());
            }
        }
    }
}
