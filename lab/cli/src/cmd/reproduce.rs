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
use std::sync::{Mutex, PoisonError};

use clap::{Args, value_parser};

use crate::export::page::{Page, study};
use crate::export::{Output, Outputs, earlier, refused};
use crate::run::store::Store;
use crate::run::{self, Cell, Known, Run, RunOptions, Stage, missing};
use crate::show::{claims, experiments, output};
use everybuddy_measure::Error;
use everybuddy_measure::claim::{Claim, Verdict};
use everybuddy_measure::library;
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::Arena;
use everybuddy_measure::rows::Row;
use everybuddy_papers::list;
use everybuddy_papers::shared::figure::Drawing;
use everybuddy_papers::shared::method::{Bench, Cells, Conditions, Measure, NoCells};
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

    /// Write figures, tables and verdicts to FILE as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the figures to this directory as NAME.svg
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Measure nothing: take the rows from FILE, the --json of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "shrink", "resume"])]
    rows: Option<PathBuf>,

    /// Run all assumptions, CPUs and seeds that experiments list; some take hours
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    run: RunOptions,

    /// Set the seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Shorten everything N times (smoke test; do not use the results)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    shrink: u32,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    if arguments.names.is_empty() && arguments.rows.is_none() {
        return output::text(&experiments::list(&named(&[])?));
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
    let page = Page::open_named(&mut outputs, arguments.html.as_deref())?;
    let conditions = Conditions {
        seed: arguments.seed,
        shrink: arguments.shrink,
    };
    let print = |text: &str| sinks.print(text);
    let style = sinks.style();
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
    let mut study = page
        .is_some()
        .then(|| study::study(&machine, &timer, &conditions));
    let mut exported: Vec<Vec<Row>> = vec![Vec::new(); chosen.len()];
    let mut judged: Vec<Judged> = vec![Vec::new(); chosen.len()];
    let mut results: Vec<_> = chosen.iter().map(|_| None).collect();
    let mut show = |at: usize, rows: Vec<Row>| -> Result<(), Error> {
        let (own, picture) = (&chosen[at], pictures[at].take());
        let judge = |claim: &Claim| claim.judge(&own.name, &rows);
        let found: Vec<Verdict> = match &earlier {
            None => own.claims.iter().map(judge).collect(),
            Some(_) => list::judge_earlier(own, &rows)?,
        };
        let verdicts: Option<Vec<(Claim, Verdict)>> =
            (conditions.shrink == 1).then(|| own.claims.iter().cloned().zip(found).collect());
        let mut text = experiments::head(own, &style);
        text += &experiments::tables(own, &rows, &style);
        text += &experiments::verdicts(own, verdicts.as_deref(), &style);
        print(&text)?;
        let is_shown = picture.is_some() || study.is_some();
        let drawing = is_shown.then(|| list::draw(own, &rows)).flatten();
        if let (Some(picture), Some(drawing)) = (picture, &drawing) {
            write(drawing, &own.name, picture)?;
        }
        if study.is_some() {
            let result = study::experiment(own, &rows, drawing.as_ref(), verdicts.as_deref())?;
            results[at] = Some(result);
        }
        exported[at] = rows;
        judged[at] = verdicts.unwrap_or_default();
        Ok(())
    };
    match &earlier {
        None => {
            let mut methods = Vec::with_capacity(chosen.len());
            for own in &chosen {
                methods.push(list::method(own)?);
            }
            let order = in_turn(&methods);
            let cells = order.iter().zip(0..).map(|(at, table)| {
                let own = &chosen[*at];
                let how = (&conditions, &arguments.run);
                cell(own, methods[*at].as_ref(), how, table)
            });
            let store = arguments.run.store()?;
            let mut kept: Box<dyn Cells + Send> = match store.clone() {
                None => Box::new(NoCells),
                Some(store) => Box::new(Kept(store)),
            };
            let jobs = arguments.run.jobs();
            let cells: Result<Vec<Cell>, Error> = cells.collect();
            let run = Run::new(cells?, store, jobs, missing);
            let table = |table: usize, known: &Known| match &known[table] {
                Some(rows) => show(order[table], rows.clone()),
                None => Ok(()),
            };
            run.go(table, |stage| {
                let tools = Tools {
                    conditions,
                    timer: &timer,
                    cells: &Mutex::new(kept.as_mut()),
                    all_cpus: Mutex::new(()),
                };
                let work = |at: usize| {
                    let own = order[at];
                    tools.measure(&chosen[own], methods[own].as_ref(), stage)
                };
                let is_timed = |at: &usize| methods[order[*at]].is_timed();
                let (timed, counted): (Vec<usize>, Vec<usize>) =
                    (0..order.len()).partition(is_timed);
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
        print(&experiments::closing(&chosen, &machine, &timer, &style))?;
    }
    sinks.write(&exported.concat())?;
    if let (Some(page), Some(study)) = (page, &mut study) {
        study.experiments = results.into_iter().flatten().collect();
        page.write_study(study)?;
    }
    let judged = chosen.iter().zip(&judged).flat_map(|(own, judged)| {
        let judged = judged.iter();
        judged.map(|(claim, verdict)| (own.name.as_str(), claim, verdict))
    });
    claims::none_failed(judged)
}

/// The claims of an experiment with their verdicts.
type Judged = Vec<(Claim, Verdict)>;

/// Returns the positions of experiments in the order in which they are measured and shown: those that are not timed,
/// and then those that are, which have the machine to themselves.
fn in_turn(methods: &[Box<dyn Measure>]) -> Vec<usize> {
    let (timed, counted): (Vec<usize>, Vec<usize>) =
        (0..methods.len()).partition(|at| methods[*at].is_timed());
    [counted, timed].concat()
}

/// Returns an experiment as a cell of a run. One that is simulated consists of cells that are kept themselves.
fn cell(
    own: &Experiment,
    method: &dyn Measure,
    (conditions, options): (&Conditions, &RunOptions),
    table: usize,
) -> Result<Cell, Error> {
    let passes = method.steps(own);
    let identity = || {
        let host = if method.is_timed() {
            run::host()
        } else {
            String::new()
        };
        let traces: Vec<String> = own.traces().iter().map(ToString::to_string).collect();
        let contents = run::contents(&traces, &[])?;
        Ok(format!("{own:?} {conditions:?} {host}{contents}"))
    };
    Ok(Cell {
        name: own.name.clone(),
        identity: if method.uses_all_cpus() {
            None
        } else {
            options.identity(identity)?
        },
        table,
        weight: passes,
        passes: Some(passes),
    })
}

/// What all experiments of a run are measured with.
struct Tools<'t> {
    conditions: Conditions,
    timer: &'t Timer,
    cells: &'t Mutex<&'t mut (dyn Cells + Send)>,
    /// Held by an experiment that uses all CPUs itself.
    all_cpus: Mutex<()>,
}

impl Tools<'_> {
    fn measure(
        &self,
        own: &Experiment,
        method: &dyn Measure,
        stage: &Stage<'_>,
    ) -> Result<Vec<Row>, Error> {
        stage.says(&own.name);
        let mut bench = Bench {
            timer: self.timer,
            arena: &mut Arena::default(),
            step: &mut |what| stage.step(&format!("{}: {what}", own.name)),
            cells: &mut Shared(self.cells),
            jobs: stage.jobs(),
        };
        let alone = method.uses_all_cpus().then(|| self.all_cpus.lock());
        let rows = method.run(own, &self.conditions, &mut bench);
        drop(alone);
        rows
    }
}

/// The finished cells, for experiments that run at the same time.
struct Shared<'s>(&'s Mutex<&'s mut (dyn Cells + Send)>);

impl Cells for Shared<'_> {
    fn known(&mut self, described: &str) -> Result<Option<Vec<Row>>, Error> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .known(described)
    }

    fn finished(&mut self, described: &str, rows: &[Row]) -> Result<(), Error> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.finished(described, rows)
    }
}

/// The finished cells of simulated experiments.
struct Kept(Store);

impl Cells for Kept {
    fn known(&mut self, described: &str) -> Result<Option<Vec<Row>>, Error> {
        let key = Store::key(described);
        Ok(self.0.known(&key, "of an experiment", &mut output::note))
    }

    fn finished(&mut self, described: &str, rows: &[Row]) -> Result<(), Error> {
        self.0.finish(&Store::key(described), rows)
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
