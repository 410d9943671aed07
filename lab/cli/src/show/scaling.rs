//! Measured next to predicted calls per second.
//!
//! Readers see at a glance where the simulation is right about a machine and where it is not.
//!
//! # Invariants
//! A number that was not measured is missing, and no verdict says anything about it.

use everybuddy_measure::Error;
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::rows::{Platform, Row};
use everybuddy_measure::size::{self, count, frames};
use everybuddy_metrics::short;
use everybuddy_page::document::{Block, Section, Table};
use everybuddy_simulate::machines::Machine;
use everybuddy_simulate::machines::host::{self, locks::LOCKS};

use super::table;
use super::values::{mean, value_at};

/// A number of calls per second, and how it compares with the prediction.
struct Number {
    measured: Option<f64>,
    /// The prediction, and its band.
    predicted: [f64; 3],
}

impl Number {
    fn is_inside(&self) -> Option<bool> {
        let [_, least, most] = self.predicted;
        self.measured.map(|own| (least..=most).contains(&own))
    }

    fn text(&self) -> String {
        let [rate, least, most] = self.predicted.map(millions);
        let predicted = format!("{rate} ({least} to {most})");
        match (self.measured, self.is_inside()) {
            (Some(own), Some(is_inside)) => {
                let mark = if is_inside { "" } else { "!" };
                format!("{mark}{}: {predicted}", millions(own))
            }
            _ => predicted,
        }
    }
}

/// Returns different values in the order in which they come first.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut own = Vec::new();
    for value in all {
        if !own.contains(&value) {
            own.push(value);
        }
    }
    own
}

/// Returns a section for each load of the rows: for each system and number of CPUs, the measured number, the predicted
/// one and its band. `managed` is the number of frames.
pub fn blocks(managed: u32, rows: &[Row], host: Option<&HostInfo>) -> Vec<Block> {
    let predicted = || {
        rows.iter()
            .filter(|row| row.metric == "predicted_throughput")
    };
    let names = distinct(predicted().map(Row::name));
    let machine = predicted().find_map(|row| match &row.platform {
        Platform::Sim(machine) => Some(machine.as_str()),
        _ => None,
    });
    let (mut blocks, mut inside, mut measured) = (Vec::new(), 0_u64, 0_u64);
    for load in distinct(predicted().map(|row| row.source.as_str())) {
        let mut columns = Vec::new();
        let own = predicted().filter(|row| row.source == load);
        for cpus in distinct(own.map(|row| row.cpus)) {
            let own = names.iter().map(|name| number(load, name, cpus, rows));
            let own: Vec<Option<Number>> = own.collect();
            for is_inside in own.iter().flatten().filter_map(Number::is_inside) {
                measured += 1;
                inside += u64::from(is_inside);
            }
            let texts = own
                .iter()
                .map(|own| own.as_ref().map_or_else(String::new, Number::text));
            let head = [size::cpus(u64::from(cpus)), "Mcalls/s".to_string()];
            columns.push(table::plain("predicted_throughput", head, texts.collect()));
        }
        let section = Section {
            name: load.to_string(),
            ..Section::default()
        };
        let table = table::table(&names, &columns, 0..names.len());
        blocks.extend([Block::Section(section), Block::Table(table), Block::Space]);
    }
    let what = match host {
        None => "predicted, with the band".to_string(),
        Some(_) => "measured: predicted, with the band; ! is outside of it".to_string(),
    };
    let mut note = format!(
        "Million calls per second, {what}. The prediction is simulated, for the machine {}, with {} of managed memory; \
         the band is what it would be with transfers and memory that take half of the time, or twice the time.",
        machine.unwrap_or("of the rows"),
        frames(u64::from(managed)),
    );
    if let Some(host) = host {
        let processor = host.processor.as_deref().unwrap_or("unknown processor");
        let sum = |metric| -> f64 {
            let own = rows.iter().filter(|row| row.metric == metric);
            own.map(|row| row.value).sum()
        };
        note += &format!(
            " Measured on {processor}: {} of {} numbers are inside the band. {} sections count, and {} were discarded, \
             because a thread lost its CPU or a CPU was slow.",
            count(inside),
            count(measured),
            count(sum("sections") as u64),
            count(sum("sections_dropped") as u64)
        );
    }
    blocks.push(Block::text(note));
    blocks
}

/// States that a line takes another time from CPU to CPU than when the host was measured; both in ns. A virtual
/// machine's CPUs can be on cores that share a cache, and minutes later on others.
pub fn moved(before: f64, after: f64) -> Option<String> {
    let is_moved = !(0.67..=1.5).contains(&(after / before));
    is_moved.then(|| {
        format!(
            "a line took {before:.0} ns from CPU to CPU when this host was measured, and takes {after:.0} ns now: the \
             predictions are of other distances\nhelp: measure this host again"
        )
    })
}

/// The cycles of small programs with a lock, and those between two turns.
const SECTIONS: [u32; 3] = [0, 100, 500];
const THINKS: [u32; 3] = [0, 200, 2000];

/// Measures and simulates small programs of two CPUs with a lock, and returns a table of them.
///
/// # Errors
/// Like [`measured`](host::locks::measured).
pub fn locks(machine: &Machine) -> Result<Vec<Block>, Error> {
    let (mut names, mut texts) = (Vec::new(), [const { Vec::new() }; 4]);
    let mut disturbed = [0; 2];
    for (lock, name) in LOCKS.iter().enumerate() {
        for (section, think) in SECTIONS
            .iter()
            .flat_map(|own| THINKS.map(|think| (own, think)))
        {
            let (own, others) =
                host::locks::measured(machine.hardware.mhz, lock, [*section, think])?;
            let other = host::locks::simulated(&machine.hardware, lock, [*section, think]);
            names.push(format!("{name}, {section} and {think}"));
            texts[0].push(format!("{:.0}", own.cycles));
            texts[1].push(format!("{:.0}", other.cycles));
            texts[2].push(format!("{:.0}%", 100.0 * own.again));
            texts[3].push(format!("{:.0}%", 100.0 * other.again));
            disturbed = [0, 1].map(|at| disturbed[at] + others[at]);
        }
    }
    let heads = ["turn", "simulated", "again", "simulated"];
    let columns = heads.iter().zip(texts);
    let columns: Vec<_> = columns
        .map(|(head, texts)| table::plain("latency", [*head, ""], texts))
        .collect();
    let note = format!(
        "Two CPUs take turns at a lock, with these cycles in a turn and between two. `turn`: cycles of a turn, of both \
         CPUs together. `again`: the share of turns that follow one of the same CPU. The rest is simulated, for the \
         machine {}. {} rounds were disturbed, of which {} count, since too few others were found.",
        machine.name,
        count(disturbed[0] as u64),
        count(disturbed[1] as u64)
    );
    let table = Table {
        note,
        ..table::table(&names, &columns, 0..names.len())
    };
    Ok(vec![Block::Table(table)])
}

/// Returns what is known about a system under a load, or `None` if nothing is predicted.
fn number(load: &str, name: &str, cpus: u16, rows: &[Row]) -> Option<Number> {
    let of = |metric, statistic, operation| {
        let key = (metric, statistic, operation);
        value_at(load, name, cpus, rows, key, mean)
    };
    let predicted = |statistic| of("predicted_throughput", statistic, "all");
    let rate = |operation| of("throughput", "rate", operation);
    // Where allocations and frees are timed apart, as many of both take the time of both.
    let both = |allocate: f64, free: f64| 2.0 / (allocate.recip() + free.recip());
    let apart = rate("allocate")
        .zip(rate("free"))
        .map(|(own, free)| both(own, free));
    Some(Number {
        measured: rate("all").or(rate("pair")).or(apart),
        predicted: [predicted("rate")?, predicted("min")?, predicted("max")?],
    })
}

/// Returns a rate in millions with three digits.
fn millions(rate: f64) -> String {
    short(rate / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_moved_are_noticed() {
        let note = moved(64.0, 17.0).unwrap();
        assert!(
            note.contains("took 64 ns") && note.contains("takes 17 ns now"),
            "{note}"
        );
        assert!(moved(17.0, 64.0).is_some());
        assert_eq!(moved(17.0, 20.0), None);
    }

    #[test]
    fn what_is_outside_of_the_band_is_marked() {
        let row = |metric, statistic, operation, value| Row {
            source: "burst:random".to_string(),
            system: "bs".into(),
            cpus: 4,
            metric,
            statistic,
            operation,
            value,
            ..Row::default()
        };
        let mut rows = vec![
            row("predicted_throughput", "rate", "all", 8e6),
            row("predicted_throughput", "min", "all", 4e6),
            row("predicted_throughput", "max", "all", 12e6),
        ];
        let text = |rows: &[Row]| number("burst:random", "bs", 4, rows).unwrap().text();
        assert_eq!(text(&rows), "8.00 (4.00 to 12.0)");
        // 20 million allocations and 5 million frees per second: 8 million calls.
        rows.push(row("throughput", "rate", "allocate", 20e6));
        rows.push(row("throughput", "rate", "free", 5e6));
        assert_eq!(text(&rows), "8.00: 8.00 (4.00 to 12.0)");
        rows[3].value = 5e6;
        rows[4].value = 2e6;
        assert_eq!(text(&rows), "!2.86: 8.00 (4.00 to 12.0)");
        assert!(number("burst:random", "bs", 2, &rows).is_none());
    }
}
