//! The tables of a benchmark: one per workload, with a line per contender and a column per variant.
//!
//! Shows at a glance which contender is fast at which workload, and by how much.
//!
//! # Invariants
//! The floor comes first and does not compete. An empty cell means that the contender cannot run the workload.

use std::collections::HashMap;

use everybuddy_workload::{Variant, WORKLOADS, WorkloadInfo};

use everybuddy_page::document::{Block, Look, Section};

use super::table::{self, Better, Column};
use everybuddy_measure::bench::outcome::extremes;
use everybuddy_measure::bench::ratio::Ratio;
use everybuddy_measure::bench::rows::ROUND_TRIP;
use everybuddy_measure::bench::visit::LARGE_ORDERS;
use everybuddy_measure::bench::{BenchPlan, ContenderSpec, Verdict};
use everybuddy_measure::claim::bench::EXPERIMENT;
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::replay::memory::Initial;
use everybuddy_measure::replay::outcome::median;
use everybuddy_measure::rows::Row;
use everybuddy_measure::size;
use everybuddy_metrics::COLUMNS;

/// The number of columns that leaves enough room for the names within 120 characters.
const MOST_COLUMNS: usize = 10;

/// The operations that are timed, and their abbreviations in column headings.
const OPERATIONS: [(&str, &str); 4] = [
    ("pair", ""),
    ("allocate", "alloc "),
    ("free", "free "),
    ("all", ""),
];

/// The shares of refused requests, and what their column headings say: of all requests, and of those above order 0.
const REFUSALS: [(&str, &str); 2] = [
    ("blocking_probability", "refused "),
    ("blocking_probability_large", "ord>0 refused "),
];

/// The rows of a benchmark, found by what they are about.
pub struct Benchmark<'b> {
    rows: &'b [Row],
    /// The contenders, the floors first.
    names: Vec<String>,
    floors: usize,
    /// The values over all rounds.
    values: HashMap<Key<'b>, f64>,
    /// The latencies of the rounds.
    rounds: HashMap<Key<'b>, Vec<f64>>,
}

/// What a value is about: workload, threads, operation, metric, statistic, order, contender.
type Key<'b> = (&'b str, u16, &'b str, &'b str, &'b str, Option<u8>, String);

impl<'b> Benchmark<'b> {
    /// Sorts the rows of a benchmark. The contenders have the order of the rows, the floors first.
    pub fn of(rows: &'b [Row]) -> Benchmark<'b> {
        let mut names: Vec<String> = Vec::new();
        for row in rows.iter().filter(|row| row.experiment == EXPERIMENT) {
            let name = row.name();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let floors = ContenderSpec::floors().map(|floor| floor.name());
        names.sort_by_key(|name| !floors.contains(name));
        let mut own = Benchmark {
            rows,
            floors: names.iter().filter(|name| floors.contains(name)).count(),
            names,
            values: HashMap::new(),
            rounds: HashMap::new(),
        };
        for row in rows {
            let key = (
                row.source.as_str(),
                row.cpus,
                row.operation,
                row.metric,
                row.statistic,
                row.order,
                row.name(),
            );
            if row.experiment == EXPERIMENT {
                own.values.insert(key, row.value);
            } else {
                own.rounds.entry(key).or_default().push(row.value);
            }
        }
        own
    }

    /// Returns the value of every contender.
    fn values(
        &self,
        (source, cpus): (&'b str, u16),
        operation: &'b str,
        (metric, statistic): (&'b str, &'b str),
        order: Option<u8>,
    ) -> Vec<Option<f64>> {
        let key = |name: &String| {
            (
                source,
                cpus,
                operation,
                metric,
                statistic,
                order,
                name.clone(),
            )
        };
        let names = self.names.iter();
        names
            .map(|name| self.values.get(&key(name)).copied())
            .collect()
    }

    /// Returns which contenders had only disturbed sections in some round.
    fn disturbed(&self, place: (&'b str, u16)) -> Vec<bool> {
        let counts = self.values(place, "all", ("rounds_disturbed", "count"), None);
        counts
            .iter()
            .map(|count| count.is_some_and(|count| count > 0.0))
            .collect()
    }

    /// Returns the ratio of every contender's latency to that of the one at `baseline`; `None` for disturbed ones.
    fn ratios(
        &self,
        (source, cpus): (&'b str, u16),
        operation: &'b str,
        baseline: usize,
    ) -> Vec<Option<Ratio>> {
        let disturbed = self.disturbed((source, cpus));
        let rounds = |at: usize| {
            let name = self.names[at].clone();
            let key = (source, cpus, operation, "latency", "value", None, name);
            self.rounds.get(&key).filter(|_| !disturbed[at])
        };
        let ratio = |at| Ratio::of(rounds(at)?, rounds(baseline)?);
        (0..self.names.len()).map(ratio).collect()
    }

    /// Returns the variants of a workload and their numbers of threads, in the order of the rows.
    fn places(&self, workload: &WorkloadInfo) -> Vec<(&'static Variant, u16)> {
        let mut places: Vec<(&'static Variant, u16)> = Vec::new();
        for row in self.rows.iter().filter(|row| row.experiment == EXPERIMENT) {
            let variant = workload
                .variants
                .iter()
                .find(|variant| variant.name == row.source);
            if let Some(variant) = variant
                && !places
                    .iter()
                    .any(|(own, cpus)| own.name == variant.name && *cpus == row.cpus)
            {
                places.push((variant, row.cpus));
            }
        }
        places
    }

    /// Returns the tables of all measured workloads.
    pub fn times(&self) -> Vec<Block> {
        self.tables("", |workload| self.time_columns(workload))
    }

    /// Returns the same tables with ratios to the contender at `baseline`. A ratio whose interval over the rounds
    /// contains 1 is marked `=`.
    pub fn relative(&self, baseline: usize) -> Vec<Block> {
        let name = &self.names[baseline];
        let text = format!(
            "Time relative to {name}: median of the ratios within each round; =: not significant, the rounds \
             disagree"
        );
        let mut blocks = vec![Block::text(text), Block::Space];
        let over = format!(" over {name}");
        blocks.extend(self.tables(&over, |workload| self.ratio_columns(workload, baseline)));
        blocks
    }

    /// Returns the headline and the table of each workload. `over` is at the end of the names of sections.
    fn tables(&self, over: &str, columns: impl Fn(&WorkloadInfo) -> Vec<Column>) -> Vec<Block> {
        let mut blocks = Vec::new();
        for workload in WORKLOADS {
            let columns = columns(workload);
            if columns.is_empty() {
                continue;
            }
            let section = Section {
                name: format!("{}{over}", workload.name),
                title: workload.summary.to_string(),
                source: String::new(),
            };
            blocks.push(Block::Section(section).on_page());
            let text = format!("{}: {}", workload.name, workload.summary);
            blocks.push(Block::text(text).in_terminal());
            // Wide workloads are split into several tables of equal width.
            let tables = columns.len().div_ceil(MOST_COLUMNS).max(1);
            for part in columns.chunks(columns.len().div_ceil(tables).max(1)) {
                blocks.extend([self.table(part), Block::Space]);
            }
        }
        blocks
    }

    fn table(&self, columns: &[Column]) -> Block {
        let competing = self.floors..self.names.len();
        Block::Table(table::table(&self.names, columns, competing))
    }

    fn time_columns(&self, workload: &WorkloadInfo) -> Vec<Column> {
        let mut columns = Vec::new();
        for (variant, threads) in self.places(workload) {
            let place = (variant.name, threads);
            let short = short_name(workload, variant);
            let head = |what: &str| [short.clone().into(), format!("{what}{threads}T").into()];
            for (operation, what) in OPERATIONS {
                let values = self.values(place, operation, ("latency", "p50"), None);
                if values.iter().all(Option::is_none) {
                    continue;
                }
                let mut column = column("latency", head(what), values, &nanos);
                // What can't be trusted must not look like the rest.
                for (row, _) in self
                    .disturbed(place)
                    .iter()
                    .enumerate()
                    .filter(|own| *own.1)
                {
                    if column.values[row].take().is_some() {
                        column.texts[row].insert(0, '~');
                    }
                }
                columns.push(column);
                let cpu = self.values(place, operation, ("cpu_time", "p50"), None);
                if cpu.iter().any(Option::is_some) {
                    let what = format!("{what}cpu ");
                    columns.push(self::column("cpu_time", head(&what), cpu, &nanos));
                }
            }
            let spread = self.values(place, "all", ("owner_spread", "value"), Some(9));
            if spread.iter().any(Option::is_some) {
                columns.push(column("owner_spread", head("spread "), spread, &nanos));
            }
            // Only where a contender refused anything.
            let mut shown = Vec::new();
            for (metric, what) in REFUSALS {
                let shares = self.values(place, "allocate", (metric, "rate"), None);
                // Without requests for single frames both shares are the same.
                if shares.iter().flatten().any(|share| *share > 0.0) && shares != shown {
                    let percent = |share| format!("{:.1}%", share * 100.0);
                    columns.push(column(metric, head(what), shares.clone(), &percent));
                    shown = shares;
                }
            }
            for order in LARGE_ORDERS {
                let free = ("free_blocks", "value");
                let values = self.values(place, "all", free, Some(order));
                if values.iter().any(Option::is_some) {
                    let head = head(&format!("order {order} "));
                    let whole = |blocks| format!("{blocks:.0}");
                    columns.push(column(free.0, head, values, &whole));
                }
            }
        }
        columns
    }

    fn ratio_columns(&self, workload: &WorkloadInfo, baseline: usize) -> Vec<Column> {
        let mut columns = Vec::new();
        for (variant, threads) in self.places(workload) {
            for (operation, what) in OPERATIONS {
                let ratios = self.ratios((variant.name, threads), operation, baseline);
                if ratios.iter().all(Option::is_none) {
                    continue;
                }
                let head = [
                    short_name(workload, variant).into(),
                    format!("{what}{threads}T").into(),
                ];
                let values = ratios
                    .iter()
                    .map(|ratio| ratio.map(|own| own.median))
                    .collect();
                let mut column = column("latency", head, values, &nanos);
                for (row, ratio) in ratios.iter().enumerate().filter(|own| own.0 != baseline) {
                    if ratio.is_some_and(|ratio| ratio.is_undecided()) {
                        column.texts[row].push('=');
                    }
                }
                columns.push(column);
            }
        }
        columns
    }

    /// Returns the contenders, the floors first.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Describes the variants.
    pub fn variants(&self) -> Vec<Block> {
        let mut named: Vec<&Variant> = WORKLOADS
            .iter()
            .flat_map(|workload| self.places(workload))
            .map(|place| place.0)
            .collect();
        named.dedup_by_key(|variant| variant.name);
        let line = |own: &&Variant| Block::entry(format!("  {}", own.name), 24, own.summary);
        let section = Section {
            name: "workloads".to_string(),
            ..Section::default()
        };
        let heads = [
            Block::Section(section).on_page(),
            Block::text("Workloads").in_terminal(),
        ];
        heads.into_iter().chain(named.iter().map(line)).collect()
    }

    /// Returns the table of start-up times.
    pub fn starts(&self) -> Vec<Block> {
        let place = ("start", 1);
        let millis = |nanos: &Option<f64>| nanos.map(|nanos| nanos / 1e6);
        let times = self.values(place, "all", ("start_time", "p50"), None);
        let times = times.iter().map(millis).collect();
        let metadata = ("metadata_bytes_per_frame", "value");
        let bytes = self.values(place, "all", metadata, None);
        let show = |value| format!("{value:.2}");
        let [start, _] = heading("start_time");
        let mut columns = [
            column("start_time", [start.into(), "ms".into()], times, &show),
            column(
                metadata.0,
                heading(metadata.0).map(Into::into),
                bytes,
                &show,
            ),
        ];
        for (text, value) in columns[1].texts.iter_mut().zip(&columns[1].values) {
            if value.is_none() {
                *text = "unknown".to_string();
            }
        }
        let title = "a million frames (4 GiB), metadata in fresh memory";
        let section = Section {
            name: "start".to_string(),
            title: title.to_string(),
            source: String::new(),
        };
        vec![
            Block::Section(section).on_page(),
            Block::text(format!("start: {title}")).in_terminal(),
            self.table(&columns),
            Block::Space,
        ]
    }

    /// Returns the tables of instruction counts: one line per contender, one column per workload.
    pub fn instructions(&self) -> Vec<Block> {
        let mut columns = Vec::new();
        for (variant, threads) in WORKLOADS.iter().flat_map(|workload| self.places(workload)) {
            let (head, rest) = variant.name.split_once(':').unwrap_or((variant.name, ""));
            let head = [head.into(), rest.replace("scattered", "scatt").into()];
            let metric = ("instructions", "mean");
            let values = self.values((variant.name, threads), "all", metric, None);
            let whole = |count| format!("{count:.0}");
            columns.push(column(metric.0, head, values, &whole));
        }
        let title = "instructions per operation (half a pair), one thread, counted by callgrind";
        let mut blocks = vec![Block::text(title)];
        for part in columns.chunks(MOST_COLUMNS) {
            blocks.extend([self.table(part), Block::Space]);
        }
        blocks
    }

    /// Returns the sum of a count over all cells.
    fn sum(&self, metric: &str) -> u64 {
        let own = self.rows.iter().filter(|row| row.metric == metric);
        own.map(|row| row.value as u64).sum()
    }

    /// Returns the round trips of a cache line before all rounds on several threads.
    fn round_trips(&self) -> Vec<f64> {
        let of_rounds = self.rounds.iter().filter(|(key, _)| key.3 == ROUND_TRIP);
        of_rounds.flat_map(|(_, values)| values).copied().collect()
    }

    /// Returns the median of all latencies' relative spread over the rounds.
    fn spread(&self) -> f64 {
        let mut spreads = Vec::new();
        for (key, middle) in &self.values {
            if key.3 == "latency" && key.4 == "p50" {
                let end = |statistic| {
                    let mut key = key.clone();
                    key.4 = statistic;
                    self.values.get(&key).copied()
                };
                if let (Some(least), Some(most)) = (end("min"), end("max")) {
                    spreads.push((most - least) / middle.max(1e-9));
                }
            }
        }
        median(spreads)
    }
}

/// Returns the heading of a metric: that of its column in the table of `compare`, or its own.
fn heading(name: &str) -> [String; 2] {
    let column = COLUMNS.iter().find(|column| column.metric == name);
    let own = || everybuddy_metrics::find(name).map(|metric| metric.heading(""));
    column
        .map(|column| column.heading())
        .or_else(own)
        .unwrap_or_default()
}

/// Returns a column with its numbers as text.
fn column(
    metric: &'static str,
    head: [std::borrow::Cow<'static, str>; 2],
    values: Vec<Option<f64>>,
    show: &dyn Fn(f64) -> String,
) -> Column {
    let texts = values.iter().map(|value| value.map_or(String::new(), show));
    Column {
        metric,
        head,
        legend: "".into(),
        better: everybuddy_metrics::find(metric).map_or(Better::Neither, |own| own.better),
        texts: texts.collect(),
        values,
    }
}

/// Returns the variant's name without the workload's name.
fn short_name(row: &WorkloadInfo, variant: &Variant) -> String {
    let rest = variant.name.strip_prefix(row.name).unwrap_or(variant.name);
    match rest.strip_prefix(':') {
        Some(rest) => rest.replace("scattered", "scatt"),
        None => String::new(),
    }
}

/// Formats three significant digits.
pub(super) fn nanos(nanos: f64) -> String {
    match nanos {
        n if n < 9.95 => format!("{n:.2}"),
        n if n < 99.5 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

/// Renders the result of a check.
pub fn verdicts(verdicts: &[Verdict]) -> String {
    let faulty = verdicts.iter().filter(|verdict| verdict.faults > 0);
    let mut out: String = faulty
        .map(|v| {
            format!(
                "{} on {} with {} threads: {} of {} blocks were in the wrong state\n",
                v.contender.name(),
                v.variant,
                v.threads,
                size::count(v.faults),
                size::count(v.checked.unwrap_or(0)),
            )
        })
        .collect();
    let checked: u64 = verdicts.iter().filter_map(|verdict| verdict.checked).sum();
    let faults: u64 = verdicts.iter().map(|verdict| verdict.faults).sum();
    out += &format!(
        "checked {} allocated and freed blocks of {} contenders on workloads: {} in the wrong state\n",
        size::count(checked),
        verdicts.len(),
        size::count(faults),
    );
    out
}

/// Returns the notes on the method.
pub fn closing(
    plan: &BenchPlan,
    benchmark: &Benchmark<'_>,
    huge: Option<f64>,
    machine: &HostInfo,
    timer: &Timer,
) -> Vec<Block> {
    let (counted, dropped) = (benchmark.sum("sections"), benchmark.sum("sections_dropped"));
    let spread = benchmark.spread() * 100.0;
    let mut blocks = benchmark.variants();
    let section = Section {
        name: "notes".to_string(),
        ..Section::default()
    };
    blocks.extend([
        Block::Space,
        Block::Section(section).on_page(),
        Block::text("Notes").in_terminal(),
    ]);
    let mut note = |head: &str, text: String| {
        blocks.push(Block::entry(format!("  {head}"), 12, text));
    };
    let frames = size::frames(plan.memory.free());
    let initial = match &plan.memory.initial {
        Initial::As(map) => format!(", those that are free in {}", map.described()),
        _ => String::new(),
    };
    let mut machines = benchmark
        .rows
        .iter()
        .filter(|row| row.metric == "machine_frames");
    let lists = match machines.next() {
        Some(row) => format!(
            " Lists as on a machine of {}.",
            size::frames(row.value as u64)
        ),
        None => String::new(),
    };
    let threads_note = "per thread while all threads run";
    note(
        "numbers",
        format!(
            "nanoseconds per pair of one allocation and one free (burst: per call; churn: per \
             operation; touch: per frame, with its use), {threads_note}; median of {} rounds. nT: on n \
             pinned threads. Empty: unsupported, or most requests fail. {frames} of frames{initial}, {}.{lists}",
            plan.rounds,
            match (plan.variants.iter().any(|own| own.touches), huge) {
                (false, _) => "which are never touched".to_string(),
                (true, None) => "which are used".to_string(),
                (true, Some(huge)) => format!(
                    "which are used, {:.0} % of them in huge pages",
                    huge * 100.0
                ),
            },
        ),
    );
    note(
        "trust",
        format!(
            "half of the cells vary by less than {spread:.0} % from round to round ((maximum - minimum) / \
             median). {} sections were measured; {} more were dropped because of a context switch or \
             little overlap of the threads{}. The cost of the timer, {:.1} ns, is subtracted.",
            size::count(counted),
            size::count(dropped),
            match benchmark.sum("rounds_disturbed") {
                0 => String::new(),
                1 => "; 1 cell, marked ~, had only disturbed sections in some round".to_string(),
                cells =>
                    format!("; {cells} cells, marked ~, had only disturbed sections in some round"),
            },
            timer.mean(),
        ),
    );
    let trips = benchmark.round_trips();
    if let Some((least, most)) = extremes(&trips) {
        let [least, most, middle] = [least, most, median(trips)].map(nanos);
        let text = format!(
            "{least} to {most} ns to the other CPU and back (median {middle}), before each round on several threads: \
             {ROUND_TRIP} in the rows"
        );
        note("line", text);
    }
    let processor = machine.processor.as_deref().unwrap_or("unknown processor");
    let cores = machine
        .cores
        .map_or(String::new(), |c| format!(", {}", size::cpus(c as u64)));
    note("machine", format!("{processor}{cores}"));
    if machine.was_busy() {
        let load = machine.load.unwrap_or(0.0);
        let text = format!(
            "the machine was busy (load {load:.1} before the run): ratios are more reliable than times"
        );
        blocks.push(Block::entry("  beware", 12, text).looking(Look::Warning));
    }
    blocks
}
