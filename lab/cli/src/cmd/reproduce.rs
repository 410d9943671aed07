//! `everybuddy reproduce`: repeats the measurements behind papers' figures and tables.
//!
//! One command checks the claims of papers and draws their figures.
//!
//! # Invariants
//! All names and files are checked before the first measurement. A failed claim gives exit code 1 after everything
//! was printed and written. Nothing else runs while times are measured.

use everybuddy_trace::shown;
use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::{Args, value_parser};

use crate::export::{Output, Outputs, earlier, refused};
use crate::run::{self, Cell, Known, Run, RunOptions, Stage, missing};
use crate::show::experiments::Results;
use crate::show::{claims, experiments, output};
use everybuddy_measure::Error;
use everybuddy_measure::claim::{Claim, Verdict};
use everybuddy_measure::library;
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::Arena;
use everybuddy_measure::rows::Row;
use everybuddy_papers::list;
use everybuddy_papers::shared::design::Design;
use everybuddy_papers::shared::figure::Drawing;
use everybuddy_papers::shared::method::{self, Bench, Conditions, Measure};
use everybuddy_papers::{Experiment, named, run_of};

use super::files::Files;

/// Reproduce figures and tables of papers: measure, draw, and check the claims.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = include_str!("help/reproduce.txt"))]
pub(super) struct Arguments {
    /// Select experiments by name or TOML file, or `all`; without a name, list them
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    files: Files,

    /// Write the figures to this directory as NAME.svg
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Measure nothing: take the rows from FILE, the --json of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "shrink", "RunOptions"])]
    rows: Option<PathBuf>,

    /// Run all assumptions, CPUs and seeds that experiments list; some take hours
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    run: RunOptions,

    /// Set the seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Shorten everything N times: a smoke test without verdicts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    shrink: u32,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    if arguments.names.is_empty() && arguments.rows.is_none() {
        return output::text(&experiments::listed(&named(&[])?));
    }
    let chosen = named(&arguments.names)?.into_iter();
    let earlier = arguments
        .rows
        .as_deref()
        .map(|path| earlier::rows("--rows", path))
        .transpose()?;
    let rows = earlier.as_deref().unwrap_or_default();
    let chosen: Result<Vec<Experiment>, Error> = chosen
        .map(|own| run_of(own, arguments.full, rows))
        .collect();
    let mut chosen = chosen?;
    if let (Some(rows), Some(file)) = (&earlier, &arguments.rows) {
        let names = &arguments.names;
        let is_all = names.is_empty() || names.iter().any(|name| name == "all");
        retain(&mut chosen, rows, is_all, file)?;
    }
    let mut outputs = Outputs::beside(inputs(&arguments.names, &chosen, &arguments.rows));
    let sinks = arguments.files.open(&mut outputs)?;
    let mut pictures = pictures(&mut outputs, &arguments.svg, &chosen)?;
    let conditions = Conditions {
        seed: arguments.seed,
        shrink: arguments.shrink,
    };
    let machine = match &arguments.rows {
        None => HostInfo::look(),
        Some(file) => HostInfo {
            processor: file
                .file_name()
                .map(|name| format!("the machine that wrote {}", shown(name))),
            ..HostInfo::default()
        },
    };
    let timer = Timer::calibrated();
    let mut exported: Vec<Vec<Row>> = vec![Vec::new(); chosen.len()];
    let mut judged: Vec<Judged> = vec![Vec::new(); chosen.len()];
    let mut show = |at: usize, rows: Vec<Row>| -> Result<(), Error> {
        let (own, picture) = (&chosen[at], pictures[at].take());
        let judge = |claim: &Claim| claim.judge(&own.name, &rows);
        let found: Vec<Verdict> = match &earlier {
            None => own.claims.iter().map(judge).collect(),
            Some(_) => list::judge_earlier(own, &rows)?,
        };
        let verdicts: Option<Vec<(Claim, Verdict)>> =
            (conditions.shrink == 1).then(|| own.claims.iter().cloned().zip(found).collect());
        let is_shown = picture.is_some() || sinks.are_for_readers();
        let drawing = is_shown.then(|| list::draw(own, &rows)).flatten();
        let results = Results {
            experiment: own,
            rows: &rows,
            verdicts: verdicts.as_deref(),
            drawing: drawing.as_ref(),
        };
        sinks.show(results.blocks()?)?;
        if let (Some(picture), Some(drawing)) = (picture, &drawing) {
            write(drawing, &own.name, picture)?;
        }
        exported[at] = rows;
        judged[at] = verdicts.unwrap_or_default();
        Ok(())
    };
    match &earlier {
        None => {
            let studies = Studies::of(&chosen, conditions)?;
            let cells = studies.cells(&arguments.run)?;
            let jobs = arguments.run.jobs();
            let run = Run::new(cells, &arguments.run, missing)?;
            let table = |table: usize, known: &Known| match studies.concluded(table, known)? {
                Ok(rows) => show(studies.order[table], rows),
                Err(0) => Ok(()),
                Err(ended) => sinks.print(&studies.unfinished(table, ended)),
            };
            run.go(table, |stage| {
                let work = |at: usize| studies.measure(at, &timer, stage);
                let is_timed = |at: &usize| studies.is_timed(studies.cells[*at].0);
                let (timed, counted): (Vec<usize>, Vec<usize>) =
                    (0..studies.cells.len()).partition(is_timed);
                stage.each(counted, jobs, work)?;
                stage.each(timed, NonZero::<usize>::MIN, work)
            })?;
        }
        Some(rows) => {
            for (at, own) in chosen.iter().enumerate() {
                let own = rows.iter().filter(|row| is_of(own, row));
                show(at, own.cloned().collect())?;
            }
        }
    }
    if earlier.is_none() {
        sinks.show(experiments::closing(&chosen, &machine, &timer))?;
    }
    let about = experiments::about(&chosen, &machine, &timer, &conditions);
    sinks.write(&exported.concat(), about)?;
    let judged = chosen.iter().zip(&judged).flat_map(|(own, judged)| {
        let judged = judged.iter();
        judged.map(|(claim, verdict)| (own.name.as_str(), claim, verdict))
    });
    claims::none_failed(judged)
}

/// The claims of an experiment with their verdicts.
type Judged = Vec<(Claim, Verdict)>;

/// Experiments that are measured, with their methods and designs.
struct Studies<'s> {
    experiments: &'s [Experiment],
    conditions: Conditions,
    own: Vec<(Box<dyn Measure>, Design)>,
    /// The numbers of the experiments in the order in which they are measured and shown: those that are not timed, and
    /// then those that are, which have the machine to themselves.
    order: Vec<usize>,
    /// The cells of the run: the place of an experiment in that order, and the number of a cell of its design.
    cells: Vec<(usize, usize)>,
}

impl<'s> Studies<'s> {
    fn of(experiments: &'s [Experiment], conditions: Conditions) -> Result<Self, Error> {
        let mut own = Vec::with_capacity(experiments.len());
        for experiment in experiments {
            let (mut method, design) = list::study(experiment, &conditions)?;
            method.prepare(experiment, &conditions)?;
            own.push((method, design));
        }
        let is_timed = |at: &usize| own[*at].0.repeats().is_timed();
        let (timed, counted): (Vec<usize>, Vec<usize>) = (0..own.len()).partition(is_timed);
        let order = [counted, timed].concat();
        let cells = order.iter().enumerate().flat_map(|(place, at)| {
            let cells = 0..own[*at].1.cells.len();
            cells.map(move |cell| (place, cell))
        });
        Ok(Self {
            cells: cells.collect(),
            experiments,
            conditions,
            own,
            order,
        })
    }

    fn is_timed(&self, place: usize) -> bool {
        self.own[self.order[place]].0.repeats().is_timed()
    }

    /// Returns the cells as those of a run with a table for each experiment.
    fn cells(&self, options: &RunOptions) -> Result<Vec<Cell>, Error> {
        let mut cells = Vec::with_capacity(self.cells.len());
        for (table, at) in self.order.iter().enumerate() {
            let (experiment, (method, design)) = (&self.experiments[*at], &self.own[*at]);
            // What the rows of a cell depend on, unless its method describes less.
            let whole = options.identity(|| self.identity(experiment, self.is_timed(table)))?;
            for (number, cell) in design.cells.iter().enumerate() {
                let identity = options.identity(|| {
                    let own = method.identity(experiment, &self.conditions, number)?;
                    let whole = || format!("{} {}", whole.as_deref().unwrap_or(""), cell.name);
                    Ok(own.unwrap_or_else(whole))
                })?;
                cells.push(Cell {
                    name: format!("{}: {}", experiment.name, cell.name),
                    identity,
                    table,
                    weight: cell.steps,
                    passes: Some(cell.steps),
                    is_timed: self.is_timed(table),
                });
            }
        }
        Ok(cells)
    }

    /// Describes all that an experiment's rows depend on besides the program.
    fn identity(&self, experiment: &Experiment, is_timed: bool) -> Result<String, Error> {
        let host = if is_timed { run::host() } else { String::new() };
        let contents = run::contents(&experiment.traces(), &[])?;
        Ok(format!(
            "{experiment:?} {:?} {host}{contents}",
            self.conditions
        ))
    }

    /// Measures a cell of the run.
    fn measure(&self, at: usize, timer: &Timer, stage: &Stage<'_>) -> Result<Vec<Row>, Error> {
        let (place, cell) = self.cells[at];
        let experiment = &self.experiments[self.order[place]];
        let (method, design) = &self.own[self.order[place]];
        stage.says(&experiment.name);
        let mut bench = Bench {
            timer,
            arena: &mut Arena::default(),
            step: &mut |what| stage.step(&format!("{}: {what}", experiment.name)),
        };
        let mut run = method::Run {
            experiment,
            conditions: &self.conditions,
            bench: &mut bench,
        };
        method::measure(method.as_ref(), design, cell, &mut run)
    }

    /// Returns the rows of an experiment whose cells have ended, or how many of them have.
    fn concluded(&self, place: usize, known: &Known) -> Result<Result<Vec<Row>, usize>, Error> {
        let own = self.cells.iter().zip(known);
        let own = own.filter(|(cell, _)| cell.0 == place);
        let rows: Vec<&Option<Vec<Row>>> = own.map(|(_, rows)| rows).collect();
        let ended = rows.iter().filter(|rows| rows.is_some()).count();
        if ended < rows.len() {
            return Ok(Err(ended));
        }
        let rows = rows.into_iter().flatten().cloned().collect();
        let at = self.order[place];
        let (experiment, method) = (&self.experiments[at], &self.own[at].0);
        let rows = method.conclude(experiment, &self.conditions, rows)?;
        Ok(Ok(rows))
    }

    /// Says that an experiment of an interrupted run has no tables yet.
    fn unfinished(&self, place: usize, ended: usize) -> String {
        let at = self.order[place];
        let (name, all) = (&self.experiments[at].name, self.own[at].1.cells.len());
        format!("{name}: {ended} of {all} cells have ended; its tables need all of them\n")
    }
}

/// Returns `true` for a row of an experiment, also of a single moment or round of it.
fn is_of(own: &Experiment, row: &Row) -> bool {
    row.experiment.split('@').next() == Some(&own.name)
}

/// Keeps the experiments that the rows are about. Those that were chosen by name must be among them.
fn retain(
    chosen: &mut Vec<Experiment>,
    rows: &[Row],
    is_all: bool,
    file: &Path,
) -> Result<(), Error> {
    let has = |own: &Experiment| rows.iter().any(|row| is_of(own, row));
    let missing: Vec<String> = chosen
        .iter()
        .filter(|own| !has(own))
        .map(|own| own.name.clone())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("{} has no rows of {}", shown(file), missing.join(", "));
    if is_all && missing.len() < chosen.len() {
        output::note(&what);
        chosen.retain(has);
        return Ok(());
    }
    let has: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row.experiment.split('@').next())
        .collect();
    let has = if has.is_empty() {
        "the file is empty".to_string()
    } else {
        format!(
            "it has rows of {}",
            has.into_iter().collect::<Vec<_>>().join(", ")
        )
    };
    Err(Error::usage(format!("--rows: {what}\nhelp: {has}")))
}

/// Returns the files that a run reads: its experiments and their traces, and the rows of an earlier run.
fn inputs(names: &[String], chosen: &[Experiment], rows: &Option<PathBuf>) -> Vec<PathBuf> {
    let given = names.iter().filter(|name| name.ends_with(".toml"));
    let traces = chosen.iter().flat_map(|own| own.traces.iter());
    let traces = traces.map(String::as_str).chain(library::DEFAULT);
    // A trace that is not there is reported when it is read.
    let traces = traces.filter_map(|name| library::file(name).ok()?);
    let given = given.map(PathBuf::from).chain(rows.clone());
    given.chain(traces).collect()
}

/// Prepares the files of the figures.
fn pictures(
    outputs: &mut Outputs,
    folder: &Option<PathBuf>,
    chosen: &[Experiment],
) -> Result<Vec<Option<Output>>, Error> {
    let Some(folder) = folder else {
        return Ok(chosen.iter().map(|_| None).collect());
    };
    fs::create_dir_all(folder).map_err(|cause| refused(folder, cause))?;
    let open = |own: &Experiment| {
        let path = folder.join(format!("{}.svg", own.name));
        let drawn = own.figure.as_ref();
        drawn.map(|_| outputs.open("--svg", &path)).transpose()
    };
    chosen.iter().map(open).collect()
}

/// Writes a figure to its file.
fn write(drawing: &Drawing, name: &str, picture: Output) -> Result<(), Error> {
    let svg = drawing
        .svg()
        .map_err(|why| Error::Failed(format!("figure {name}: {why}")))?;
    picture.finish(svg.as_bytes())
}
