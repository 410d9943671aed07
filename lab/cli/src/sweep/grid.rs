//! The file of a grid: lists of systems, options, traces, workloads, machines, numbers of CPUs and seeds.
//!
//! The product of the lists is the cells. Of `simulate`, a cell has one value of each list. Of `compare`, a cell has
//! all systems: they take turns, so that their times can be compared.
//!
//! # Invariants
//! A grid names only what exists, and no two cells give the same rows. The order of cells follows from the file alone.

use everybuddy_trace::shown;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf, absolute};

use everybuddy::systems::OPTIONS;
use everybuddy_measure::Error;
use everybuddy_measure::choice::{self, unknown};
use everybuddy_measure::size;
use toml::{Table, Value};

use super::cell::Cell;
pub(crate) use super::command::Command;
use super::input::{Input, Word};
use super::values::{Choice, numbers, scalar, texts};

/// A workload or a trace.
#[derive(Clone, Debug)]
enum GridLoad {
    /// A workload, and the CPUs that it needs.
    Workload(&'static str, u16),
    Trace(Input),
}

/// What a grid's file says.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// The file, as it was given.
    shown: String,
    /// The file's whole path.
    pub(crate) path: PathBuf,
    /// The command of the cells.
    pub(crate) command: Command,
    /// The systems, without the grid's options.
    pub(crate) systems: Vec<String>,
    /// The options of systems, and their values.
    pub(crate) options: Vec<(String, Choice)>,
    loads: Vec<GridLoad>,
    machines: Vec<Input>,
    cpus: Vec<u16>,
    seeds: Vec<u64>,
    arguments: Vec<Word>,
    sizes: Vec<Input>,
}

/// The machine, if a grid names none, as in `simulate`.
const MACHINE: &str = "epyc-7763";
/// The most cells of a grid.
const MOST_CELLS: usize = 1_000_000;

impl Grid {
    /// Reads the file of a grid.
    ///
    /// # Errors
    /// A usage error that names the file, the key and the remedy.
    pub(crate) fn read(path: &Path) -> Result<Grid, Error> {
        let shown = shown(path);
        let refuse = |what: String| Error::usage(format!("grid {shown}: {what}"));
        let text = fs::read_to_string(path).map_err(|cause| {
            refuse(format!(
                "failed to read ({cause})\nhelp: pass a .toml file; docs/compare.md shows one"
            ))
        })?;
        let whole = absolute(path).map_err(|cause| refuse(cause.to_string()))?;
        let file: Table = text.parse().map_err(|error: toml::de::Error| {
            refuse(format!("not TOML\n{}", error.to_string().trim_end()))
        })?;
        Grid::parse(shown.clone(), whole, &file).map_err(|error| refuse(error.to_string()))
    }

    fn parse(shown: String, path: PathBuf, file: &Table) -> Result<Grid, Error> {
        let folder = path.parent().unwrap_or(Path::new("/")).to_path_buf();
        let command = command(file)?;
        let known = command.keys();
        if let Some(key) = file.keys().find(|key| !known.contains(&key.as_str())) {
            let of = command.name();
            let what = unknown("key", key, known);
            return Err(Error::usage(format!("a grid of `{of}`: {what}")));
        }
        let systems = match file.get("systems") {
            None => choice::all(),
            Some(value) => choice::parse(&texts("systems", value)?)?,
        };
        let systems: Vec<String> = systems.iter().map(ToString::to_string).collect();
        let mut grid = Grid {
            shown,
            path,
            command,
            options: options(file, &systems)?,
            systems,
            loads: loads(file, &folder)?,
            machines: Vec::new(),
            cpus: cpus(file, command)?,
            seeds: seeds(file)?,
            arguments: Vec::new(),
            sizes: Vec::new(),
        };
        if command == Command::Simulate {
            grid.machines = match file.get("machines") {
                None => vec![Input::plain(MACHINE)],
                Some(value) => texts("machines", value)?
                    .iter()
                    .map(|text| Input::machine(&folder, text))
                    .collect::<Result<_, _>>()?,
            };
        }
        grid.set_arguments(file, &folder)?;
        let traces = grid.loads.iter().filter_map(|load| match load {
            GridLoad::Trace(input) => Some(input),
            GridLoad::Workload(..) => None,
        });
        distinct("traces", traces)?;
        distinct("machines", &grid.machines)?;
        Ok(grid)
    }

    /// Reads the table of arguments: options of the command that are the same for all cells.
    fn set_arguments(&mut self, file: &Table, folder: &Path) -> Result<(), Error> {
        let Some(value) = file.get("arguments") else {
            return Ok(());
        };
        let table = value.as_table().ok_or_else(|| {
            Error::usage("`arguments` must be a table\nhelp: write a line [arguments]")
        })?;
        let known = self.command.arguments();
        for (key, value) in table {
            let name = key.replace('_', "-");
            if !known.contains(&name.as_str()) {
                let what = unknown("argument", key, known);
                return Err(Error::usage(format!("[arguments]: {what}")));
            }
            if name == "sizes" {
                for text in texts(key, value)? {
                    self.sizes.push(Input::other(folder, &text)?);
                }
                continue;
            }
            match value {
                Value::Boolean(false) => {}
                Value::Boolean(true) => self.arguments.push(Word::plain(format!("--{name}"))),
                value => {
                    let text = scalar(value).ok_or_else(|| {
                        Error::usage(format!(
                            "[arguments]: `{key}` must be one value: rows would not say which one they are of\nhelp: \
                             write a grid for each value"
                        ))
                    })?;
                    self.arguments.push(Word::plain(format!("--{name}={text}")));
                }
            }
        }
        Ok(())
    }

    /// Returns the files that cells read, and the grid's own.
    pub(crate) fn inputs(&self) -> Vec<PathBuf> {
        let traces = self.loads.iter().filter_map(|load| match load {
            GridLoad::Trace(input) => input.file.clone(),
            GridLoad::Workload(..) => None,
        });
        let others = self.machines.iter().chain(&self.sizes);
        let others = others.filter_map(|input| input.file.clone());
        traces.chain(others).chain([self.path.clone()]).collect()
    }

    /// Returns every system with every combination of the options that it takes.
    ///
    /// # Errors
    /// A usage error if an option is a range, which only a search takes, or if a system refuses a value.
    pub(crate) fn variants(&self) -> Result<Vec<String>, Error> {
        let mut all: Vec<String> = Vec::new();
        for system in &self.systems {
            let mut own = vec![system.clone()];
            for (key, choice) in self.options_of(system)? {
                let Choice::List(values) = choice else {
                    return Err(self.refused(format!(
                        "[options]: `{key}` is a range\nhelp: list the values, or search with --minimize"
                    )));
                };
                let product = own.iter().flat_map(|name| {
                    let values = values.iter();
                    values.map(move |value| format!("{name}+{key}={value}"))
                });
                own = product.collect();
            }
            for text in own {
                let name = choice::one(&text).map_err(|error| self.refused(error.to_string()))?;
                let name = name.to_string();
                if !all.contains(&name) {
                    all.push(name);
                }
            }
        }
        Ok(all)
    }

    /// Returns the grid's options that a system takes and does not set itself.
    pub(crate) fn options_of(&self, system: &str) -> Result<Vec<(&str, &Choice)>, Error> {
        let spec = choice::one(system)?;
        let given = choice::options(&spec);
        let given: Vec<&str> = given
            .split('+')
            .filter_map(|own| own.split('=').next())
            .collect();
        let own = self
            .options
            .iter()
            .map(|(key, choice)| (key.as_str(), choice));
        let own = own.filter(|(key, _)| spec.row().takes(key) && !given.contains(key));
        Ok(own.collect())
    }

    /// Creates an error of this grid.
    pub(crate) fn refused(&self, what: impl fmt::Display) -> Error {
        Error::usage(format!("grid {}: {what}", self.shown))
    }

    /// Returns the cells of these systems.
    ///
    /// # Errors
    /// A usage error if there are none, or too many.
    pub(crate) fn cells(&self, systems: &[String]) -> Result<Vec<Cell>, Error> {
        let of_systems = match self.command {
            Command::Simulate => self.machines.len() * systems.len(),
            Command::Compare => 1,
        };
        let lists = [
            self.loads.len(),
            of_systems,
            self.cpus.len().max(1),
            self.seeds.len(),
        ];
        let count = lists
            .iter()
            .try_fold(1usize, |all, own| all.checked_mul(*own));
        if count.is_none_or(|count| count > MOST_CELLS) {
            return Err(self.refused(format!(
                "more than {MOST_CELLS} cells\nhelp: divide the grid into several files"
            )));
        }
        let cells = match self.command {
            Command::Simulate => self.simulated(systems),
            Command::Compare => self.compared(systems),
        };
        if cells.is_empty() {
            Err(self.refused(
                "no cell: all workloads need more CPUs\nhelp: add larger numbers to `cpus`",
            ))
        } else {
            Ok(cells)
        }
    }

    fn simulated(&self, systems: &[String]) -> Vec<Cell> {
        let (mut cells, mut group) = (Vec::new(), 0);
        for machine in &self.machines {
            for load in &self.loads {
                for system in systems {
                    group += 1;
                    for cpus in self.cpus.iter().filter(|cpus| **cpus >= load.least_cpus()) {
                        for seed in &self.seeds {
                            let mut words = vec![
                                Word::plain("simulate"),
                                Word::plain("--json=-"),
                                Word::plain("--jobs=1"),
                                machine.word("--machine="),
                                load.word(self.command),
                                Word::plain(format!("--systems={system}")),
                                Word::plain(format!("--cpus={cpus}")),
                                Word::plain(format!("--seed={seed}")),
                                Word::plain("--seeds=1"),
                            ];
                            words.extend(self.arguments.iter().cloned());
                            let name = format!(
                                "{}, {}, {system}, {}, seed {seed}",
                                machine.name,
                                load.name(),
                                size::cpus(u64::from(*cpus))
                            );
                            let (of, system) =
                                ((self.command, group), std::slice::from_ref(system));
                            cells.push(Cell::new(name, of, system, &words));
                        }
                    }
                }
            }
        }
        cells
    }

    fn compared(&self, systems: &[String]) -> Vec<Cell> {
        // Without a number, one thread replays the trace in its order.
        let numbers: Vec<Option<u16>> = if self.cpus.is_empty() {
            vec![None]
        } else {
            self.cpus.iter().copied().map(Some).collect()
        };
        let (mut cells, mut group) = (Vec::new(), 0);
        for load in &self.loads {
            for cpus in &numbers {
                for seed in &self.seeds {
                    group += 1;
                    let mut words = vec![
                        Word::plain("compare"),
                        Word::plain("--json=-"),
                        Word::plain(format!("--systems={}", systems.join(","))),
                        Word::plain(format!("--seed={seed}")),
                    ];
                    words.extend(cpus.map(|cpus| Word::plain(format!("--cpus={cpus}"))));
                    words.extend(self.arguments.iter().cloned());
                    words.extend(self.sizes.iter().map(|input| input.word("--sizes=")));
                    words.push(Word::plain("--"));
                    words.push(load.word(self.command));
                    let threads = cpus.map_or(String::new(), |cpus| {
                        format!(", {}", size::cpus(u64::from(cpus)))
                    });
                    let name = format!("{}{threads}, seed {seed}", load.name());
                    let of = (self.command, group);
                    cells.push(Cell::new(name, of, systems, &words));
                }
            }
        }
        cells
    }

    /// Returns command lines that contain all values of these systems' cells, to be checked before the first cell runs.
    pub(crate) fn checks(&self, systems: &[String]) -> Vec<Vec<String>> {
        let mut common = vec![
            self.command.name().to_string(),
            format!("--systems={}", systems.join(",")),
        ];
        common.extend(self.arguments.iter().map(|word| word.text.clone()));
        let sizes = self.sizes.iter().map(|input| input.word("--sizes=").text);
        common.extend(sizes);
        let words = self.loads.iter().map(|load| load.word(self.command).text);
        let cpus = self.cpus.iter();
        match self.command {
            Command::Simulate => {
                common.push(format!("--cpus={}", joined(cpus, ",")));
                common.extend(words);
                let machines = self.machines.iter();
                let machines = machines.map(|machine| vec![machine.word("--machine=").text]);
                machines.map(|own| [common.clone(), own].concat()).collect()
            }
            Command::Compare => {
                let traces: Vec<String> = ["--".to_string()].into_iter().chain(words).collect();
                let mut numbers: Vec<Vec<String>> =
                    cpus.map(|cpus| vec![format!("--cpus={cpus}")]).collect();
                if numbers.is_empty() {
                    numbers.push(Vec::new());
                }
                let numbers = numbers.into_iter();
                numbers
                    .map(|own| [&common[..], &own, &traces].concat())
                    .collect()
            }
        }
    }
}

impl GridLoad {
    fn name(&self) -> &str {
        match self {
            GridLoad::Workload(name, _) => name,
            GridLoad::Trace(input) => &input.name,
        }
    }

    fn least_cpus(&self) -> u16 {
        match self {
            GridLoad::Workload(_, least) => *least,
            GridLoad::Trace(_) => 1,
        }
    }

    /// Returns the word for `simulate`, or the operand of `compare`, which replays traces only.
    fn word(&self, command: Command) -> Word {
        match (self, command) {
            (GridLoad::Workload(name, _), _) => Word::plain(format!("--workloads={name}")),
            (GridLoad::Trace(input), Command::Simulate) => input.word("--trace="),
            (GridLoad::Trace(input), Command::Compare) => input.word(""),
        }
    }
}

fn joined<T: ToString>(items: impl IntoIterator<Item = T>, between: &str) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    texts.join(between)
}

fn command(file: &Table) -> Result<Command, Error> {
    let names = Command::ALL.map(Command::name);
    let Some(value) = file.get("command") else {
        return Err(Error::usage(
            "`command` is missing\nhelp: add command = \"simulate\", or command = \"compare\"",
        ));
    };
    let text = value.as_str().unwrap_or_default();
    let found = Command::ALL.into_iter().find(|own| own.name() == text);
    found.ok_or_else(|| Error::usage(unknown("command", text, &names)))
}

/// Reads the options of systems. Each must be one that a system takes.
fn options(file: &Table, systems: &[String]) -> Result<Vec<(String, Choice)>, Error> {
    let Some(value) = file.get("options") else {
        return Ok(Vec::new());
    };
    let table = value
        .as_table()
        .ok_or_else(|| Error::usage("`options` must be a table\nhelp: write a line [options]"))?;
    let known: Vec<&str> = OPTIONS.iter().map(|option| option.key).collect();
    let mut all = Vec::new();
    for (key, value) in table {
        if !known.contains(&key.as_str()) {
            let what = unknown("option", key, &known);
            return Err(Error::usage(format!("[options]: {what}")));
        }
        let mut takers = systems.iter().filter_map(|name| choice::one(name).ok());
        if !takers.any(|spec| spec.row().takes(key)) {
            return Err(Error::usage(format!(
                "[options]: no system of the grid takes `{key}`\nhelp: `everybuddy systems` lists the options of each"
            )));
        }
        all.push((key.clone(), Choice::of(key, value)?));
    }
    Ok(all)
}

fn loads(file: &Table, folder: &Path) -> Result<Vec<GridLoad>, Error> {
    let mut loads = Vec::new();
    if let Some(value) = file.get("workloads") {
        let variants = choice::workloads(&texts("workloads", value)?)?;
        let own = variants.iter();
        loads.extend(own.map(|variant| GridLoad::Workload(variant.name, variant.threads)));
    }
    if let Some(value) = file.get("traces") {
        for text in texts("traces", value)? {
            loads.push(GridLoad::Trace(Input::trace(folder, &text)?));
        }
    }
    if loads.is_empty() {
        Err(Error::usage(
            "nothing to run\nhelp: list `traces`, or for `simulate` `workloads`, too",
        ))
    } else {
        Ok(loads)
    }
}

fn cpus(file: &Table, command: Command) -> Result<Vec<u16>, Error> {
    let Some(value) = file.get("cpus") else {
        return match command {
            Command::Simulate => Err(Error::usage(
                "`cpus` is missing\nhelp: list the numbers of CPUs, such as cpus = [1, 16, 64]",
            )),
            Command::Compare => Ok(Vec::new()),
        };
    };
    let all: BTreeSet<u16> = numbers("cpus", value, 1..=u16::MAX.into())?
        .into_iter()
        .map(|number| number as u16)
        .collect();
    Ok(all.into_iter().collect())
}

/// Reads the seeds: a list, or the number of seeds from 1 on.
fn seeds(file: &Table) -> Result<Vec<u64>, Error> {
    let most = i64::from(u32::MAX);
    let all: BTreeSet<u64> = match file.get("seeds") {
        None => BTreeSet::from([1]),
        Some(Value::Integer(count @ 1..=1_000_000)) => (1..=*count as u64).collect(),
        Some(Value::Integer(count)) => {
            return Err(Error::usage(format!(
                "`seeds`: `{count}` is not a number of seeds from 1 to 1000000\nhelp: write a list to choose seeds"
            )));
        }
        Some(value) => {
            let all = numbers("seeds", value, 0..=most)?;
            all.into_iter().map(|number| number as u64).collect()
        }
    };
    Ok(all.into_iter().collect())
}

/// Checks that rows say which file they are of.
fn distinct<'i>(key: &str, inputs: impl IntoIterator<Item = &'i Input>) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for input in inputs {
        if !names.insert(&input.name) {
            return Err(Error::usage(format!(
                "`{key}`: `{}` is given twice\nhelp: rename one of the files, so that rows say which one they are of",
                input.name
            )));
        }
    }
    Ok(())
}
