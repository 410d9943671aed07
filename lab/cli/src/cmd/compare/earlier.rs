//! `everybuddy compare --rows`: the tables of an earlier run again.
//!
//! The rows of a run on a quiet machine are kept. Its tables and its page can be made again, also by a later program.
//!
//! # Invariants
//! Nothing is measured, and nothing about this machine is shown. The traces are read again for what rows do not say:
//! how many calls they have and how much memory they use.

use std::path::Path;

use everybuddy_measure::Error;
use everybuddy_measure::answer::{self, Answer};
use everybuddy_measure::library;
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::free_map::FreeMap;
use everybuddy_measure::replay::machine::Machine;
use everybuddy_measure::replay::memory::{Initial, Memory};
use everybuddy_measure::replay::outcome::Comparison;
use everybuddy_measure::replay::pace::Pace;
use everybuddy_measure::rows::Row;
use everybuddy_measure::rows::comparison::TIMER;
use everybuddy_measure::size::Size;

use super::super::files::titled;
use super::{Arguments, OnMachine, TITLE, page, scripts, which};
use crate::export::page::{self as pages, Occasion};
use crate::export::{self, Outputs};
use crate::show;

/// Runs the command.
pub(super) fn run(arguments: &Arguments, file: &Path) -> Result<(), Error> {
    let earlier = Earlier::read(file)?;
    let names = if arguments.traces.is_empty() {
        earlier.sources()
    } else {
        arguments.traces.clone()
    };
    let mut inputs = vec![file.to_path_buf()];
    for name in &names {
        inputs.extend(library::file(name)?);
    }
    let mut outputs = Outputs::beside(inputs);
    let sinks = arguments.files.without_page(&mut outputs)?;
    let page = page(arguments, &mut outputs, &sinks)?;
    let (scripts, subjects) = scripts(arguments, &names, page.is_some())?;
    let which = which(arguments);
    let comparisons: Result<Vec<Comparison>, Error> = scripts
        .iter()
        .map(|subject| earlier.comparison(subject))
        .collect();
    let comparisons = comparisons?;
    let rows: Vec<Vec<Row>> = scripts
        .iter()
        .map(|subject| earlier.of_trace(&subject.script.name))
        .collect();
    let mut answers: Vec<Option<Answer>> = Vec::with_capacity(rows.len());
    for (comparison, rows) in comparisons.iter().zip(&rows) {
        // Rows do not say whether the machine was busy.
        let answer = answer::of(comparison, rows, false);
        let answered = answer.as_ref();
        sinks.show(show::comparison::blocks(comparison, rows, answered, which))?;
        answers.push(answer);
    }
    let legend = show::comparison::legend(&comparisons, &rows, &answers, which);
    sinks.show(legend)?;
    if let Some(page) = page {
        let name = file.file_name().unwrap_or(file.as_os_str());
        let machine = HostInfo {
            processor: Some(format!("the machine that wrote {}", name.display())),
            ..HostInfo::default()
        };
        let mut report = pages::report(&Occasion {
            title: TITLE,
            machine: &machine,
            timer: None,
            seed: earlier.rows.first().map_or(0, |row| row.seed),
            rounds: 0,
        });
        let mut timer = earlier.rows.iter().filter(|row| row.system == TIMER);
        let floor = timer.find(|row| row.statistic == "value");
        report.timer_floor_ns = floor.map_or(0.0, |row| row.value);
        let scripts = scripts.iter().map(|own| &own.script);
        let traces = comparisons.iter().zip(&rows).zip(answers);
        let traces = traces.zip(subjects.iter().zip(scripts));
        report.traces = traces
            .map(|(((own, rows), answer), of)| pages::compared(own, rows, answer, of))
            .collect();
        page.write(&report)?;
    }
    sinks.write(&rows.concat(), titled(TITLE))
}

/// The rows of a run.
pub(super) struct Earlier<'e> {
    file: &'e Path,
    rows: Vec<Row>,
    /// The memory of the machine that was given, in frames.
    machine: Option<u64>,
    /// The memory that was given, in frames.
    memory: Option<u64>,
    /// The seed of aged memory.
    aged: Option<u64>,
    /// The name of the state with which the run started.
    start: Option<String>,
    /// Whether it used the frames.
    touches: bool,
}

impl Earlier<'_> {
    /// Reads the rows: those of one run of `compare`.
    fn read(file: &Path) -> Result<Earlier<'_>, Error> {
        Earlier::of(file, export::earlier::rows("--rows", file)?)
    }

    /// Takes the rows of one run of `compare`, which are from this file.
    pub(super) fn of(file: &Path, rows: Vec<Row>) -> Result<Earlier<'_>, Error> {
        let refuse = |what: String, help: &str| {
            let file = file.display();
            Error::usage(format!("--rows: {file}: {what}\nhelp: {help}"))
        };
        let mut runs: Vec<&str> = Vec::new();
        for row in &rows {
            let run = row.experiment.split('@').next().unwrap_or_default();
            if !runs.contains(&run) {
                runs.push(run);
            }
        }
        let help = "--rows takes what `everybuddy compare --json FILE` wrote";
        let [run] = runs[..] else {
            let what = if runs.is_empty() {
                "the file has no rows".to_string()
            } else {
                format!("the file has rows of several runs: {}", runs.join(", "))
            };
            return Err(refuse(what, help));
        };
        let mut words = run.split('+');
        if words.next() != Some("compare") {
            return Err(refuse(format!("the file has rows of {run}"), help));
        }
        let (mut machine, mut memory, mut aged, mut start) = (None, None, None, None);
        let mut touches = false;
        for word in words {
            match word.split_once('=') {
                Some((key @ ("machine" | "memory"), size)) => {
                    let size: Result<Size, String> = size.parse();
                    let frames = Some(size.map_err(|what| refuse(what, help))?.frames);
                    match key {
                        "machine" => machine = frames,
                        _ => memory = frames,
                    }
                }
                Some(("aged", seed)) => {
                    let seed = seed.parse();
                    aged = Some(seed.map_err(|_| refuse(format!("experiment {run}"), help))?);
                }
                Some(("start", label)) => start = Some(label.to_string()),
                None if word == "touch" => touches = true,
                _ => return Err(refuse(format!("experiment {run}"), help)),
            }
        }
        Ok(Earlier {
            file,
            machine,
            memory,
            aged,
            start,
            touches,
            rows,
        })
    }

    /// Returns the traces, in the order of the rows. What is after `:` is a part of a trace.
    fn sources(&self) -> Vec<String> {
        let mut sources: Vec<String> = Vec::new();
        for row in &self.rows {
            let is_part = |known: &String| is_of(&row.source, known);
            if !sources.iter().any(is_part) {
                sources.push(row.source.clone());
            }
        }
        sources
    }

    /// Returns the rows of a trace.
    fn of_trace(&self, trace: &str) -> Vec<Row> {
        let own = self.rows.iter().filter(|row| is_of(&row.source, trace));
        own.cloned().collect()
    }

    /// Returns what was compared on a trace, without the systems. `machine` is that of the trace.
    pub(super) fn comparison(&self, subject: &OnMachine) -> Result<Comparison, Error> {
        let (script, machine) = (&subject.script, subject.machine);
        let refuse = |what: String, help: String| {
            let file = self.file.display();
            Err(Error::usage(format!(
                "--rows: {file}: {what}\nhelp: {help}"
            )))
        };
        let name = &script.name;
        let mut rows = self.rows.iter().filter(|row| is_of(&row.source, name));
        let Some(first) = rows.next() else {
            return refuse(
                format!("the file has no rows of trace {name}"),
                format!("it has rows of {}", self.sources().join(", ")),
            );
        };
        if first.cpus != script.cpus {
            return refuse(
                format!(
                    "the rows of trace {name} are of {} CPUs, and this replay has {}",
                    first.cpus, script.cpus
                ),
                "repeat the --cpus of the earlier run".to_string(),
            );
        }
        // Rows without machines are older: their lists followed from the room, which was 1.25 times the peak.
        let is_on_machine = self.rows.iter().any(|row| row.metric == "machine_frames");
        let machine = is_on_machine.then(|| match self.machine {
            Some(frames) => Machine::sized(Some(frames), script.cpus),
            None => machine,
        });
        let room = |machine| Memory::room(machine, script.peak_frames, script.cpus);
        let memory = self.memory.or_else(|| machine.as_ref().map(room));
        let memory = match (&self.start, &subject.initial) {
            (Some(label), Initial::As(map)) if map.label() == label && self.memory.is_none() => {
                Memory::started(map.clone())
            }
            (Some(label), _) => {
                let free = memory.unwrap_or(Memory::usual(script.peak_frames));
                Memory::started(FreeMap::labelled(label, free).into())
            }
            (None, _) => Memory::new(script, memory, &Initial::of_seed(self.aged))?,
        };
        Ok(Comparison {
            trace: name.clone(),
            events: script.events,
            recorded_ns: script.recorded_ns,
            peak_frames: script.peak_frames,
            cpus: script.cpus,
            threads: script.lanes.len(),
            assignment: script.assignment,
            memory,
            machine,
            rounds: 0,
            switches: 0,
            touches: self.touches,
            systems: Vec::new(),
            floor: Pace::default(),
        })
    }
}

/// Returns `true` if a source is a trace, or a part of it.
fn is_of(source: &str, trace: &str) -> bool {
    let rest = source.strip_prefix(trace);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}
