//! `everybuddy bench`: a comparison of systems on synthetic workloads.
//!
//! Measures the speed of the systems relative to each other, without other influences.
//!
//! # Invariants
//! All names are parsed and checked before the first visit, and files are written after the last.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, value_parser};
use everybuddy_workload::{Variant, WORKLOADS};

use everybuddy_trace::shown;

use crate::export::{self, Outputs};
use crate::run::{self, Cell, Run, RunOptions, Stage, missing};
use crate::show::bench::{self as tables, Benchmark};
use crate::show::{self, output, progress::Progress};
use everybuddy_measure::Error;
use everybuddy_measure::bench::rows;
use everybuddy_measure::bench::{self, BenchPlan, ContenderSpec, instructions, start};
use everybuddy_measure::choice;
use everybuddy_measure::claim::{self, Claim, Verdict};
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::host::Arena;
use everybuddy_measure::replay::machine::Machine;
use everybuddy_measure::replay::memory::{Initial, Memory};
use everybuddy_measure::rows::Row;
use everybuddy_measure::size::{self, Size};
use everybuddy_measure::touched::Ablation;
use everybuddy_page::document::Block;

use super::files::{Files, Sinks, titled};
use super::numbers;
use super::start::Start;

mod cold;

/// Rows, and whether what they say passes.
type Judged = (Vec<Row>, Result<(), Error>);

/// Measure systems and third-party allocators on synthetic workloads.
///
/// All contenders take turns within one run, in an order that rotates every round. Each visit uses
/// a new allocator. Only the workloads `touch` use the memory behind the frames; they run if named.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = include_str!("help/bench.txt"))]
pub(super) struct Arguments {
    /// Select workloads or variants [default: all but touch]
    #[arg(long, value_name = "W,X", value_delimiter = ',')]
    workloads: Option<Vec<String>>,

    /// Select systems or peers [default: lbs-31, linux-6+percpu=locked, llfree, everybuddy]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    systems: Option<Vec<String>>,

    /// Measure all systems: 15 minutes or more; --check always takes all
    #[arg(long, conflicts_with = "systems")]
    all: bool,

    /// Include third-party allocators (requires a build with `--features peers`)
    #[arg(long)]
    peers: bool,

    /// Include the allocator of a shared library, as everybuddy-peer.h describes it (repeatable)
    #[arg(long, value_name = "FILE")]
    peer: Vec<PathBuf>,

    /// Also report each result relative to this contender
    #[arg(long, value_name = "NAME", conflicts_with_all = ["check", "instructions"])]
    baseline: Option<String>,

    /// Set the numbers of threads [default: 1,2, limited by the number of CPUs]
    #[arg(long, value_name = "N,M", value_delimiter = ',', value_parser = numbers::threads)]
    threads: Option<Vec<u16>>,

    /// Set the memory that the contenders manage, such as 512MiB [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    #[command(flatten)]
    start: Start,

    /// Set the memory of the machine, which lists follow [default: what is managed]
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["check", "instructions"])]
    machine: Option<Size>,

    /// Repeat N rounds, in each of which all contenders take turns
    #[arg(long, value_name = "N", default_value_t = BenchPlan::ROUNDS, value_parser = value_parser!(u32).range(1..))]
    rounds: u32,

    /// Set the seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Shorten every section N times (smoke test; do not use the results)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    shrink: u32,

    /// Change the memory behind frames that are used: small-pages, cold-caches, random-order
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with_all = ["check", "instructions"])]
    ablate: Vec<String>,

    /// Count instructions with callgrind instead of measuring times
    #[arg(long, conflicts_with_all = ["check", "start"])]
    instructions: bool,

    /// Check every contender against a shadow of memory instead of measuring
    #[arg(long, conflicts_with = "RunOptions")]
    check: bool,

    /// Time each call apart while programs use the caches: four minutes
    #[arg(long, conflicts_with_all = ["check", "instructions", "workloads", "baseline", "machine", "ablate",
        "RunOptions"])]
    cold: bool,

    /// With --cold: simulate the same on this machine (name or file)
    #[arg(long, value_name = "NAME", requires = "cold")]
    predict: Option<String>,

    #[command(flatten)]
    run: RunOptions,

    /// Measure nothing: take the rows from FILE, the --json of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workloads", "systems", "all", "peers", "peer", "threads",
        "memory", "start", "machine", "rounds", "seed", "shrink", "ablate", "instructions", "check", "cold", "predict",
        "RunOptions"])]
    rows: Option<PathBuf>,

    #[command(flatten)]
    files: Files,

    /// Run N rounds of a workload, for callgrind
    #[arg(long, hide = true, requires = "contender", value_parser = value_parser!(u32).range(1..))]
    count: Option<u32>,

    /// Select the contender of `--count`
    #[arg(long, hide = true)]
    contender: Option<String>,
}

/// The heading of the page.
const TITLE: &str = "Buddy systems under workloads";

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    if let Some(file) = &arguments.rows {
        return earlier(&arguments, file);
    }
    if arguments.cold {
        return cold::run(&arguments);
    }
    let variants = variants(&arguments)?;
    if let (Some(rounds), Some(name)) = (arguments.count, &arguments.contender) {
        return count(&variants, name, rounds, &arguments.peer);
    }
    let plan = plan(&arguments, variants)?;
    check_ablation(&plan)?;
    if plan.cells().is_empty() {
        return Err(Error::usage(
            "--threads 1: no workload is left, because handover needs two threads",
        ));
    }
    if let Some(name) = &arguments.baseline {
        baseline(
            name,
            &plan
                .contenders
                .iter()
                .map(ContenderSpec::name)
                .collect::<Vec<_>>(),
        )?;
    }
    if !arguments.check {
        bench::vet(&plan, &Timer::calibrated(), &mut Arena::default())?;
    }
    let mut outputs = Outputs::beside(arguments.start.files().to_vec());
    let sinks = arguments.files.open(&mut outputs)?;
    let cpus = plan.threads.iter().copied().max().unwrap_or(1);
    // The lists of all systems follow one memory: `everybuddy` knows no other one than it manages.
    let frames = arguments
        .machine
        .map_or(plan.memory.frames, |size| size.frames);
    let machine = Machine::sized(Some(frames), cpus);
    let own = Own {
        sinks: &sinks,
        options: &arguments.run,
        peers: &arguments.peer,
    };
    let (rows, passed) = match (arguments.instructions, arguments.check) {
        (true, _) => (own.count(&plan)?, Ok(())),
        (_, true) => own.check(&plan)?,
        _ => own.measure(&plan, machine, arguments.baseline.as_deref())?,
    };
    let mut rows = rows;
    let mut experiment = claim::bench::EXPERIMENT.to_string();
    if let Initial::As(map) = &plan.memory.initial {
        experiment += &format!("+start={}", map.label());
    }
    if !arguments.ablate.is_empty() {
        experiment += &format!("+ablate={}", arguments.ablate.join(":"));
    }
    if experiment != claim::bench::EXPERIMENT {
        // A system starts up in memory of its own.
        for row in rows.iter_mut().filter(|row| row.source != rows::START) {
            row.experiment = row
                .experiment
                .replacen(claim::bench::EXPERIMENT, &experiment, 1);
        }
    }
    // The rows are written whatever the verdict is.
    sinks.write(&rows, titled(TITLE))?;
    passed
}

/// Returns the workloads.
fn variants(arguments: &Arguments) -> Result<Vec<&'static Variant>, Error> {
    match &arguments.workloads {
        Some(texts) => choice::workloads(texts),
        None => {
            let all = WORKLOADS.iter().flat_map(|row| row.variants);
            let is_usual = |own: &&Variant| !own.is_published() && !own.touches;
            Ok(all.filter(is_usual).collect())
        }
    }
}

/// Returns what the arguments ask for.
fn plan(arguments: &Arguments, variants: Vec<&'static Variant>) -> Result<BenchPlan, Error> {
    Ok(BenchPlan {
        contenders: contenders(arguments)?,
        variants,
        threads: threads(arguments)?,
        memory: memory(arguments)?,
        rounds: arguments.rounds,
        seed: arguments.seed,
        shrink: arguments.shrink,
        ablation: Ablation::of(&arguments.ablate)?,
        is_strict: false,
    })
}

/// States how long a measurement takes, if that is long.
fn duration(plan: &BenchPlan) -> Option<String> {
    let seconds = plan.seconds();
    let time = match seconds {
        ..20.0 => return None,
        ..90.0 => format!("{seconds:.0} seconds"),
        _ => format!("{:.0} minutes", seconds / 60.0),
    };
    Some(format!(
        "{} passes, about {time} on a quiet machine",
        size::count(plan.visits())
    ))
}

/// How a benchmark runs, and the destination of its tables.
struct Own<'s> {
    sinks: &'s Sinks,
    options: &'s RunOptions,
    /// The shared libraries of contenders.
    peers: &'s [PathBuf],
}

impl Own<'_> {
    /// Runs all passes as one cell: they take turns, so that a part of them has no result.
    fn rows(
        &self,
        (what, plan): (&str, &BenchPlan),
        machine: Option<Machine>,
        passes: u64,
        work: impl FnOnce(&Stage<'_>) -> Result<Vec<Row>, Error>,
    ) -> Result<Vec<Row>, Error> {
        let identity = || {
            let own = format!("{what} {plan:?} {machine:?} {}", run::host());
            Ok(own + &run::contents(&[], self.peers)?)
        };
        let cell = Cell {
            name: what.to_string(),
            identity: self.options.identity(identity)?,
            table: 0,
            weight: passes,
            passes: Some(passes),
            is_timed: true,
        };
        let run = Run::new(vec![cell], self.options, missing)?;
        let known = run.go(
            |_, _| Ok(()),
            |stage| match &stage.known()[0] {
                Some(_) => Ok(()),
                None => stage.ended(0, Some(work(stage)?)),
            },
        )?;
        Ok(known.into_iter().flatten().flatten().collect())
    }

    fn measure(
        &self,
        plan: &BenchPlan,
        machine: Machine,
        baseline: Option<&str>,
    ) -> Result<Judged, Error> {
        let host = HostInfo::look();
        let timer = Timer::calibrated();
        if let Some(text) = duration(plan) {
            output::note(&text);
        }
        let mut huge = None;
        let exported = self.rows(("bench", plan), Some(machine), plan.visits(), |stage| {
            let mut arena = Arena::default();
            arena.place(Some(machine));
            let results = bench::measure(plan, &timer, &mut arena, |what| stage.step(what))?;
            huge = results.huge;
            let starts = start::measure(plan, Some(machine))?;
            let mut rows = rows::of(&results);
            rows.extend(rows::of_starts(&starts, plan.seed));
            Ok(rows)
        })?;
        // Neither shortened sections nor fewer rounds decide anything, and claims are about memory that is free.
        // They were written for calls alone, too.
        let uses_frames = plan.variants.iter().any(|variant| variant.touches);
        let decides = plan.shrink == 1 && plan.rounds >= BenchPlan::ROUNDS && !uses_frames;
        let decides = decides && plan.memory.initial == Initial::Fresh;
        let benchmark = Benchmark::of(&exported);
        let passed = tables(
            self.sinks,
            &benchmark,
            baseline,
            decides.then_some(&exported[..]),
        )?;
        let closing = tables::closing(plan, &benchmark, huge, &host, &timer);
        self.sinks.show(closing)?;
        Ok((exported, passed))
    }

    fn check(&self, plan: &BenchPlan) -> Result<Judged, Error> {
        let timer = Timer::calibrated();
        let visits = plan.cells().len() * plan.contenders.len();
        let progress = Progress::new(visits as u64);
        let verdicts = bench::check(plan, &timer, &mut Arena::default(), |what| {
            progress.says(what);
            progress.step();
        })?;
        progress.done();
        self.sinks.print(&tables::verdicts(&verdicts))?;
        let passed = match verdicts.iter().find(|verdict| verdict.faults > 0) {
            Some(v) => {
                let what = "a frame was handed out twice or lost";
                Err(Error::Failed(format!("{}: {what}", v.contender.name())))
            }
            None => Ok(()),
        };
        Ok((rows::of_check(&verdicts, plan.seed), passed))
    }

    fn count(&self, plan: &BenchPlan) -> Result<Vec<Row>, Error> {
        instructions::available()?;
        let one_thread = plan
            .variants
            .iter()
            .filter(|v| v.threads == 1 && !v.counts_large_blocks);
        let variants: Vec<&'static Variant> = one_thread.copied().collect();
        let passes = (variants.len() * plan.contenders.len()) as u64;
        let exported = self.rows(("instructions", plan), None, passes, |stage| {
            let mut all = Vec::new();
            for variant in variants {
                for contender in &plan.contenders {
                    stage.says(variant.name);
                    let count = instructions::count(contender, variant)?;
                    all.extend(count.map(|c| rows::of_instructions(contender, variant.name, c)));
                    stage.step(variant.name);
                }
            }
            Ok(all)
        })?;
        self.sinks.show(Benchmark::of(&exported).instructions())?;
        Ok(exported)
    }
}

/// Prints the tables of times, and the verdicts on `judged`, the rows that decide claims. Returns whether none failed.
fn tables(
    sinks: &Sinks,
    benchmark: &Benchmark<'_>,
    baseline: Option<&str>,
    judged: Option<&[Row]>,
) -> Result<Result<(), Error>, Error> {
    sinks.show(benchmark.times())?;
    if let Some(name) = baseline {
        let at = self::baseline(name, benchmark.names())?;
        sinks.show(benchmark.relative(at))?;
    }
    sinks.show(benchmark.starts())?;
    let verdicts: Vec<(Claim, Verdict)> = match judged {
        Some(rows) => claim::bench::judge(rows)?,
        None => Vec::new(),
    };
    sinks.show(show::claims::listed(&verdicts))?;
    let judged = verdicts.iter().map(|(claim, verdict)| ("", claim, verdict));
    Ok(show::claims::none_failed(judged))
}

/// Shows the rows of an earlier run.
fn earlier(arguments: &Arguments, file: &Path) -> Result<(), Error> {
    let rows = export::earlier::rows("--rows", file)?;
    let benchmark = Benchmark::of(&rows);
    if benchmark.names().is_empty() {
        return Err(Error::usage(format!(
            "--rows: {}: it has no rows of a benchmark in free memory\nhelp: --rows takes what `everybuddy bench \
             --json FILE` wrote",
            shown(file)
        )));
    }
    if let Some(name) = &arguments.baseline {
        baseline(name, benchmark.names())?;
    }
    let mut outputs = Outputs::beside(vec![file.to_path_buf()]);
    let sinks = arguments.files.open(&mut outputs)?;
    if rows.iter().any(|row| row.metric == "instructions") {
        sinks.show(benchmark.instructions())?;
    } else {
        let passed = tables(
            &sinks,
            &benchmark,
            arguments.baseline.as_deref(),
            Some(&rows),
        )?;
        let from = format!("Measured by the machine that wrote {}.", shown(file));
        sinks.show(benchmark.variants())?;
        sinks.show(vec![Block::text(from)])?;
        sinks.write(&rows, titled(TITLE))?;
        return passed;
    }
    sinks.write(&rows, titled(TITLE))
}

/// Runs rounds of a workload for callgrind. Prints the number of operations, unless the contender cannot run it.
fn count(
    variants: &[&'static Variant],
    name: &str,
    rounds: u32,
    files: &[PathBuf],
) -> Result<(), Error> {
    let mut peers = ContenderSpec::floors().to_vec();
    peers.extend(ContenderSpec::peers().unwrap_or_default());
    peers.extend(ContenderSpec::load(files)?);
    let contender = match peers.into_iter().find(|peer| peer.name() == name) {
        Some(peer) => peer,
        None => ContenderSpec::System(choice::one(name)?),
    };
    let Some(variant) = variants.first() else {
        return Err(Error::usage("--count needs a workload"));
    };
    match instructions::perform(&contender, variant, rounds)? {
        Some(operations) => output::text(&format!("{operations}\n")),
        None => Ok(()),
    }
}

fn contenders(arguments: &Arguments) -> Result<Vec<ContenderSpec>, Error> {
    let loaded = ContenderSpec::load(&arguments.peer)?;
    let mut published = if arguments.peers {
        ContenderSpec::peers()?
    } else {
        Vec::new()
    };
    // A peer can be selected by its name, too.
    let mut systems = arguments.systems.clone();
    if let Some(texts) = &mut systems {
        let mut known = ContenderSpec::floors().to_vec();
        known.extend(ContenderSpec::peers().unwrap_or_default());
        for peer in known {
            let name = peer.name();
            let is_new = published.iter().all(|other| other.name() != name);
            if is_new && texts.contains(&name) {
                published.push(peer);
            }
        }
        texts.retain(|text| published.iter().all(|peer| peer.name() != *text));
    }
    let has_peers = !published.is_empty();
    // The floor first, then our systems, then third-party allocators.
    let (floors, others): (Vec<_>, Vec<_>) =
        published.into_iter().partition(ContenderSpec::is_floor);
    let mut contenders = if loaded.is_empty() {
        floors
    } else {
        // What a call through the table of functions costs is part of every loaded contender's time.
        ContenderSpec::floors().to_vec()
    };
    let systems = match &systems {
        Some(texts) if texts.is_empty() && has_peers => Vec::new(),
        Some(texts) => choice::parse(texts)?,
        None if arguments.all || arguments.check || arguments.cold => choice::compared(),
        None => choice::main()?,
    };
    contenders.extend(systems.into_iter().map(ContenderSpec::System));
    contenders.extend(others);
    contenders.extend(loaded);
    Ok(contenders)
}

/// Rejects what would change nothing, or measure something else.
fn check_ablation(plan: &BenchPlan) -> Result<(), Error> {
    if plan.ablation != Ablation::default() && !plan.variants.iter().all(|own| own.touches) {
        return Err(Error::usage(
            "--ablate is about workloads that use their frames\nhelp: add --workloads touch",
        ));
    }
    if plan.ablation.cold_caches && plan.threads != [1] {
        return Err(Error::usage(
            "--ablate cold-caches: the time of a thread stands still while it makes caches cold\n\
             help: add --threads 1",
        ));
    }
    Ok(())
}

/// Finds the contender that is the baseline.
fn baseline(name: &str, names: &[String]) -> Result<usize, Error> {
    names.iter().position(|other| other == name).ok_or_else(|| {
        Error::usage(format!(
            "--baseline {name}: this contender is not part of the run\nhelp: choose one of {}",
            names.join(", ")
        ))
    })
}

fn threads(arguments: &Arguments) -> Result<Vec<u16>, Error> {
    let cores = HostInfo::look().cores.unwrap_or(1);
    let Some(given) = &arguments.threads else {
        return Ok((1..=2).filter(|n| usize::from(*n) <= cores).collect());
    };
    match given.iter().find(|n| **n == 0 || usize::from(**n) > cores) {
        Some(n) => Err(Error::usage(format!(
            "--threads {n}: each thread needs its own CPU, and there are {cores}"
        ))),
        None => {
            let mut given = given.clone();
            let mut seen = BTreeSet::new();
            given.retain(|n| seen.insert(*n));
            Ok(given)
        }
    }
}

fn memory(arguments: &Arguments) -> Result<Memory, Error> {
    /// 16 MiB: blocks of order 10 for two threads, and enough memory to fill.
    const LEAST: u64 = 4096;
    /// 64 GiB: slots for all frames are stored.
    const MOST: u64 = 1 << 24;
    let size = arguments.memory.map(|size| size.frames);
    let memory = match arguments.start.read(arguments.seed)? {
        Some(map) => {
            let free = size.unwrap_or(map.free());
            Memory::started(map.part(free)?.into())
        }
        None if arguments.start.is_recorded() => {
            return Err(Error::usage(
                "--start recorded: `bench` has no trace\nhelp: use `compare`, or pass files",
            ));
        }
        None => {
            let frames = size.unwrap_or(BenchPlan::FRAMES.into());
            // Rounded up to whole blocks of order 10.
            Memory::fresh(frames.next_multiple_of(1024))
        }
    };
    if memory.free() < LEAST || memory.frames > MOST {
        let option = if size.is_some() { "memory" } else { "start" };
        return Err(Error::usage(format!(
            "--{option}: {} of memory, {} of them free\nhelp: choose --memory from 16MiB to 64GiB",
            size::frames(memory.frames),
            size::frames(memory.free())
        )));
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        own: Arguments,
    }

    fn planned(words: &str) -> BenchPlan {
        let words = ["bench"].into_iter().chain(words.split_whitespace());
        let arguments = Command::try_parse_from(words).unwrap().own;
        plan(&arguments, variants(&arguments).unwrap()).unwrap()
    }

    #[test]
    fn the_default_takes_about_two_minutes_and_all_systems_are_asked_for() {
        let default = planned("");
        let names: Vec<String> = default.contenders.iter().map(ContenderSpec::name).collect();
        let main = ["lbs-31", "linux-6+percpu=locked", "llfree", "everybuddy"];
        assert_eq!(names, main);
        // No more than 1,400 passes; on a host of one CPU they are fewer.
        assert!(
            (400..1400).contains(&default.visits()),
            "{}",
            default.visits()
        );
        assert!(
            (40.0..180.0).contains(&default.seconds()),
            "{}",
            default.seconds()
        );
        let text = duration(&default).unwrap();
        assert!(text.contains(" passes, about "), "{text}");
        let all = planned("--all");
        assert_eq!(all.contenders.len(), choice::compared().len());
        assert_eq!(all.variants.len(), default.variants.len());
        assert!(duration(&all).unwrap().contains(" minutes"));
        for all_too in ["--check", "--cold"] {
            assert_eq!(planned(all_too).contenders.len(), all.contenders.len());
        }
        assert_eq!(duration(&planned("--systems bs --workloads hot")), None);
        assert_eq!(duration(&planned("--shrink 100")), None);
    }
}
