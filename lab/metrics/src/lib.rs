//! The metrics of all results: one table, from which everything that names a metric is made.
//!
//! A result is a row with the name of a metric. What the name means, its unit, which values are good and how a table
//! heads it are defined here and nowhere else. Rows take their units from here, experiments and claims are checked
//! against it, and tables, the page, `everybuddy metrics` and docs/metrics.md are generated from it.
//!
//! This is a crate of its own so that `xtask`, which generates docs/metrics.md, compiles in a second: it depends on
//! the allocators, which have no dependencies, and not on what measures them.
//!
//! | file | contents |
//! |---|---|
//! | `metrics.txt` | the metrics that are calculated |
//! | `columns` | the columns of the table that `compare` makes |
//! | `markdown` | the lists in docs/metrics.md |
//!
//! **To add a metric** that counts an event of the allocators: an event and a field of
//! [`Counts`] with the metric's name, and the place that records the event. Rows, docs and
//! `compare --all-columns` follow. To add any other metric: its entry in `metrics.txt`, and what makes its rows.
//!
//! # Invariants
//! Names differ. Every row that leaves the program names a metric of this table, and one of its statistics.

mod columns;
mod markdown;

use std::sync::LazyLock;

use everybuddy::{Counted, Counts};
use everybuddy_text::named;

pub use columns::{At, COLUMNS, Column, Places, When, short};
pub use everybuddy_text::size::grouped as count;
pub use markdown::markdown;

/// Which values of a metric are good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Better {
    /// Small ones.
    #[default]
    Lower,
    /// Large ones.
    Higher,
    /// Neither: the metric describes.
    Neither,
}

impl Better {
    /// Returns the word for it, as `everybuddy metrics` and experiments write it.
    pub const fn name(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "",
        }
    }
}

named! {
    /// What a metric is about: the sections of docs/metrics.md.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Group {
        /// How long calls take.
        Time => "Time",
        /// What happens inside an allocator.
        Inside => "Internal counters",
        /// What free memory looks like.
        Memory => "Free memory",
        /// What a trace is like.
        Trace => "Traces",
        /// What only `bench` measures.
        Bench => "Benchmarks only",
        /// What only simulated machines show.
        Machine => "Simulated machines only",
        /// What only experiments measure.
        Experiment => "Experiments only",
    }
}

/// The unit of metrics that are parts of a whole: from 0 to 1. Rows have the unit `1`.
pub const SHARE: &str = "share";

/// A metric.
#[derive(Clone, Debug)]
pub struct Metric {
    /// The name in rows and in files of experiments.
    pub name: &'static str,
    /// What it is about.
    pub group: Group,
    /// A short heading for a table.
    pub head: &'static str,
    /// The unit: `ns`, `B`, `cycles`, `frames`, `1/s`, `1` for numbers and ratios, or [`SHARE`].
    pub unit: &'static str,
    /// Which values are good.
    pub better: Better,
    /// The statistics that rows have.
    pub statistics: Vec<&'static str>,
    /// How it is calculated, where a formula says it; plain text.
    pub formula: &'static str,
    /// What it is: sentences, with names in back quotes.
    pub definition: String,
    /// The count that is reported as it is, for metrics that are counts.
    pub counted: Option<&'static Counted>,
}

impl Metric {
    /// Returns `true` if one of its statistics is a part of a whole: at least 0, and at most 1.
    pub fn is_share(&self, statistic: &str) -> bool {
        self.unit == SHARE && statistic != "count"
    }

    /// Returns the unit of one of its statistics: a number of events and a share have none.
    pub fn unit(&self, statistic: &str) -> &'static str {
        match (statistic, self.unit) {
            ("rate", "1/s") => "1/s",
            ("count" | "rate", _) | (_, SHARE) => "1",
            (_, unit) => unit,
        }
    }

    /// Returns its name as a title: `miss_rate` becomes `Miss rate`.
    pub fn title(&self) -> String {
        let words = self.name.replace('_', " ");
        let mut letters = words.chars();
        let first = letters
            .next()
            .map(|letter| letter.to_ascii_uppercase())
            .into_iter();
        first.chain(letters).collect()
    }

    /// Returns its heading in two lines; the second is the statistic if the heading is one word.
    pub fn heading(&self, statistic: &str) -> [String; 2] {
        let words = self.head.replace('_', " ");
        let (first, second) = words.rsplit_once(' ').unwrap_or((&words, statistic));
        [first.to_string(), second.to_string()]
    }

    /// Returns what it is in a line: the beginning of the definition.
    pub fn line(&self) -> String {
        let sentence = self.definition.split(". ").next().unwrap_or_default();
        let line = sentence.split(": ").next().unwrap_or_default();
        let mut letters = line.trim_end_matches('.').chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        first.into_iter().chain(letters).collect()
    }

    /// Creates the metric of a count.
    fn counting(counted: &'static Counted) -> Metric {
        Metric {
            name: counted.metric,
            group: Group::Inside,
            head: counted.metric,
            unit: "1",
            better: Better::Lower,
            statistics: OF_COUNTS.to_vec(),
            formula: "",
            definition: counted.definition.trim_ascii().to_string(),
            counted: Some(counted),
        }
    }

    /// Reads an entry of `metrics.txt`. Returns `None` if its head is incomplete.
    fn read(group: Group, entry: &'static str) -> Option<Metric> {
        let (head, lines) = entry.split_once('\n')?;
        let mut parts = head.split(" | ");
        let mut lines: Vec<&str> = lines.lines().map(str::trim_ascii).collect();
        let formula = lines.pop_if(|line| line.starts_with("= "));
        Some(Metric {
            name: parts.next()?,
            group,
            head: parts.next()?,
            unit: parts.next()?,
            better: match parts.next()? {
                "lower" => Better::Lower,
                "higher" => Better::Higher,
                "neither" => Better::Neither,
                _ => return None,
            },
            statistics: parts.next()?.split(' ').collect(),
            formula: formula.map_or("", |formula| &formula["= ".len()..]),
            definition: lines.join(" "),
            counted: None,
        })
    }
}

/// Statistics of a count: of a replay, or of its calls.
const OF_COUNTS: [&str; 8] = [
    "mean", "stddev", "ci95", "p99", "p999", "max", "count", "rate",
];

/// The metrics that are counts of the allocators.
const COUNTED: &[Counted] = Counts::COUNTED;

/// All metrics: those that are calculated, then those that are counted.
pub static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    let (mut all, mut group) = (Vec::new(), Group::Time);
    // The first paragraph describes the form.
    for entry in include_str!("metrics.txt").split("\n\n").skip(1) {
        if let Some(title) = entry.strip_prefix("# ") {
            let named = Group::ALL.into_iter().find(|own| own.name() == title);
            group = named.expect("a title of metrics.txt names a group");
        } else {
            let metric = Metric::read(group, entry);
            all.push(metric.expect("an entry of metrics.txt is complete"));
        }
    }
    all.extend(COUNTED.iter().map(Metric::counting));
    all
});

/// The statistics, and what they are.
#[rustfmt::skip]
pub const STATISTICS: &[(&str, &str)] = &[
    ("value", "a single number"),
    ("count", "a number of events, or of the values that others of its statistics sum up"),
    ("rate", "events per second, or the share of the events that are meant"),
    ("mean", "the mean"),
    ("stddev", "the standard deviation"),
    ("ci95", "half the width of the 95% confidence interval of the mean (Student's distribution)"),
    ("min", "the smallest value"),
    ("p5", "the 5th percentile (nearest rank: a value that occurred)"),
    ("p10", "the 10th percentile"),
    ("p25", "the first quartile"),
    ("p50", "the median"),
    ("p75", "the third quartile"),
    ("p90", "the 90th percentile"),
    ("p95", "the 95th percentile"),
    ("p99", "the 99th percentile"),
    ("p999", "the 99.9th percentile"),
    ("max", "the largest value"),
    ("published", "what the source printed"),
    ("scaled", "after multiplication of all values by the factor that fits best"),
];

/// The operations that rows are about, and what they are. Rows of `emulation` name functions of a program instead.
pub const OPERATIONS: &[(&str, &str)] = &[
    ("allocate", "allocations"),
    ("free", "frees"),
    ("pair", "an allocation and a free, measured together"),
    ("all", "allocations and frees, or neither"),
];

/// Returns the metric of this name.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_complete_and_differ() {
        for (at, metric) in METRICS.iter().enumerate() {
            let others = METRICS.iter().skip(at + 1);
            assert!(
                others.clone().all(|other| other.name != metric.name),
                "{}",
                metric.name
            );
            assert!(
                [
                    "1", SHARE, "ns", "B", "GiB", "GiB s", "CPUs", "cycles", "frames", "1/s"
                ]
                .contains(&metric.unit),
                "{}",
                metric.name
            );
            assert!(metric.definition.ends_with('.'), "{}", metric.name);
            assert!(!metric.head.is_empty(), "{}", metric.name);
            assert!(!metric.statistics.is_empty(), "{}", metric.name);
            for statistic in &metric.statistics {
                assert!(
                    STATISTICS.iter().any(|known| known.0 == *statistic),
                    "{statistic}"
                );
            }
        }
        for counted in COUNTED {
            assert!(find(counted.metric).is_some_and(|metric| metric.counted.is_some()));
        }
    }

    #[test]
    fn columns_are_of_metrics_and_differ() {
        for (at, column) in COLUMNS.iter().enumerate() {
            let metric = find(column.metric).expect(column.metric);
            assert!(
                metric.statistics.contains(&column.statistic),
                "{}",
                column.metric
            );
            // Besides what is better or worse, only what describes a system's list.
            assert!(
                metric.better != Better::Neither || column.metric == "batch",
                "{}",
                column.metric
            );
            assert!(
                COLUMNS
                    .iter()
                    .skip(at + 1)
                    .all(|other| other.heading() != column.heading())
            );
        }
        // What a column does not say is said by its metric.
        let misses = COLUMNS.iter().find(|column| column.metric == "miss_rate");
        let misses = misses.expect("a column");
        assert_eq!(misses.heading(), ["list", "misses %"]);
        assert!(misses.line().starts_with("share of the order-0 calls"));
        assert!(
            COLUMNS
                .iter()
                .all(|column| !column.line().is_empty() && !column.line().contains('`'))
        );
        let always = |own: &&Column| own.is_default && own.when == When::Always;
        assert!(
            COLUMNS.iter().filter(always).count() <= 8,
            "a table that is read, not searched"
        );
    }

    #[test]
    fn units_follow_from_metric_and_statistic() {
        let unit = |name, statistic| find(name).expect(name).unit(statistic);
        assert_eq!(unit("latency", "p99"), "ns");
        assert_eq!(unit("latency", "count"), "1");
        assert_eq!(unit("throughput", "rate"), "1/s");
        assert_eq!(unit("residual", "mean"), "frames");
        assert_eq!(unit("blocking_probability", "rate"), "1");
        assert_eq!(unit("miss_rate", "value"), "1");
    }

    #[test]
    fn each_name_has_one_definition() {
        for metric in METRICS.iter() {
            let same = METRICS.iter().filter(|own| own.name == metric.name);
            assert_eq!(same.count(), 1, "{}", metric.name);
        }
    }

    #[test]
    fn what_is_defined_as_a_share_has_the_unit_of_a_share() {
        for metric in METRICS.iter() {
            let is_defined = metric.definition.starts_with("Share of");
            assert!(!is_defined || metric.unit == SHARE, "{}", metric.name);
        }
        let of = |name: &str, statistic| find(name).expect(name).is_share(statistic);
        assert!(of("service_ratio", "value") && of("blocking_probability", "rate"));
        assert!(!of("blocking_probability", "count") && !of("time_ratio", "mean"));
    }
}
