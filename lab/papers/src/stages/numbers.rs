//! The numbers of a simulation: by stage, by moment, and over several seeds.
//!
//! The figure of the source has a shape: what each stage changes. Claims about it need the end of a stage, and the
//! difference to the end of the stage before.
//!
//! # Invariants
//! A number of a stage that no sample met does not exist.

use everybuddy::{Order, Snapshot};

use crate::shared::prelude::*;

/// The sources of means over a stage.
pub(super) const STAGES: [&str; 4] = ["a-start", "b-run", "c-end", "d-quiet"];
/// The sources of the last moment of each stage.
pub(super) const ENDS: [&str; 4] = ["end of a", "end of b", "end of c", "end of d"];
/// The sources of means over the two halves of stage b.
pub(super) const HALVES: [&str; 2] = ["first half of b", "second half of b"];
/// The index of stage b.
const RUN: usize = 1;
/// The source of the moment after all lists were drained.
pub(super) const HOME: &str = "home";

/// A fragmentation rate of the source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Printed {
    /// The system here.
    pub(super) system: String,
    /// The rate while programs run.
    pub(super) rate: f64,
}

/// The numbers that are made of what is seen.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'p> {
    /// The orders whose free blocks are counted.
    pub(super) orders: &'p [u8],
    /// What the source printed about stage b.
    pub(super) printed: &'p [Printed],
}

/// The observations of a system.
pub(super) struct Seen {
    /// Cycle and stage of each sample.
    pub(super) samples: Vec<(u64, usize, Snapshot)>,
    pub(super) home: Snapshot,
    pub(super) max_order: Order,
    pub(super) cycles: u64,
    /// Whether the number of domains follows the load.
    pub(super) is_elastic: bool,
}

/// Returns the numbers of a moment.
fn of(own: Numbers<'_>, seen: &Seen, snapshot: &Snapshot, common: &Row) -> Vec<Row> {
    let rate = snapshot.unusable_index(seen.max_order);
    let mut rows = Vec::new();
    rows.put(common, "fragmentation_rate", "mean", rate);
    rows.put(common, "domains", "mean", f64::from(snapshot.domains));
    for (common, order) in orders(common, own.orders) {
        let blocks = snapshot.available_blocks(order) as f64;
        rows.put(&common, "free_blocks", "mean", blocks);
    }
    rows
}

/// Returns the rows of each moment, for the figure.
pub(super) fn moments(own: Numbers<'_>, seen: &Seen, common: &Row) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, stage, snapshot) in &seen.samples {
        let position = rounded(*at as f64 / seen.cycles as f64);
        let common = common
            .at(format_args!("{position:.4}"))
            .about(STAGES[*stage]);
        rows.extend(of(own, seen, snapshot, &common));
    }
    for row in &mut rows {
        row.statistic = "value";
    }
    rows
}

/// Returns the means of the numbers of some moments.
fn average(own: Numbers<'_>, seen: &Seen, moments: &[&Snapshot], common: &Row) -> Vec<Row> {
    let of = |snapshot: &&Snapshot| of(own, seen, snapshot, common);
    let each: Vec<Vec<Row>> = moments.iter().map(of).collect();
    means(&each)
}

/// Returns the mean of each number over lists of numbers. What a list lacks does not count.
fn means(each: &[Vec<Row>]) -> Vec<Row> {
    let Some(first) = each.first() else {
        return Vec::new();
    };
    let of = |first: &Row| {
        let same = |row: &&Row| {
            (row.metric, row.order, &row.source) == (first.metric, first.order, &first.source)
        };
        let values = each.iter().filter_map(|rows| rows.iter().find(same));
        let value = mean(values.map(|row| row.value))?;
        Some(Row {
            value: rounded(value),
            ..first.clone()
        })
    };
    first.iter().filter_map(of).collect()
}

/// Returns the numbers of a seed: of each stage, of its end, of the halves of stage b, and after all lists were
/// drained.
pub(super) fn stages(own: Numbers<'_>, seen: &Seen, common: &Row) -> Vec<Row> {
    let at = |source: &str| common.about(source);
    let moments = |stage: usize| -> Vec<&Snapshot> {
        let own = seen.samples.iter().filter(|sample| sample.1 == stage);
        own.map(|sample| &sample.2).collect()
    };
    let mut rows = Vec::new();
    // Memory is whole at first.
    let mut before = 0.0;
    for (stage, (source, end)) in STAGES.iter().zip(ENDS).enumerate() {
        let moments = moments(stage);
        rows.extend(average(own, seen, &moments, &at(source)));
        if let Some(last) = moments.last() {
            let rate = last.unusable_index(seen.max_order);
            rows.extend(of(own, seen, last, &at(end)));
            rows.put(&at(end), "fragmentation_change", "mean", rate - before);
            before = rate;
        }
    }
    let running = moments(RUN);
    let (first, second) = running.split_at(running.len() / 2);
    for (half, source) in [first, second].into_iter().zip(HALVES) {
        rows.extend(average(own, seen, half, &at(source)));
    }
    for row in &mut rows {
        let is_printed = row.metric == "fragmentation_rate" && row.source == STAGES[RUN];
        let mut printed = own.printed.iter();
        let found = printed.find(|printed| printed.system == row.name());
        row.expected = found.filter(|_| is_printed).map(|printed| printed.rate);
    }
    let home = of(own, seen, &seen.home, &at(HOME)).into_iter();
    rows.extend(
        home.map(|row| row.expecting((row.metric == "domains" && seen.is_elastic).then_some(1.0))),
    );
    rows
}

/// Returns the means over the seeds, and the numbers of each seed as those of a round.
pub(super) fn over_seeds(seeds: &[Vec<Row>]) -> Vec<Row> {
    let mut rows = means(seeds);
    for (round, own) in seeds.iter().enumerate() {
        rows.extend(
            own.iter()
                .map(|row| row.at(format_args!("seed{}", round + 1))),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_over_seeds_has_the_seeds_as_its_rounds() {
        let seed = |rate, blocks| {
            let common = Row {
                experiment: "stages".to_string(),
                source: "b-run".to_string(),
                ..Row::default()
            };
            vec![
                row(&common, "fragmentation_rate", "mean", rate),
                row(&common, "free_blocks", "mean", blocks),
            ]
        };
        let rows = over_seeds(&[seed(0.1, 4.0), seed(0.3, 8.0)]);
        let values = |experiment: &str| -> Vec<f64> {
            let own = rows.iter().filter(|row| row.experiment == experiment);
            own.map(|row| row.value).collect()
        };
        assert_eq!(values("stages"), [0.2, 6.0]);
        assert_eq!(values("stages@seed1"), [0.1, 4.0]);
        assert_eq!(values("stages@seed2"), [0.3, 8.0]);
    }
}
