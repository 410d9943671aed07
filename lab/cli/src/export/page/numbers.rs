//! The numbers of systems, from their rows.
//!
//! The rows of an earlier run make a page again, with the same numbers. Histograms, memory maps and the times of single
//! calls are not rows, so that such a page has no figures of them.
//!
//! # Invariants
//! A number without a row is left out.

use everybuddy_page::report as page;

use everybuddy_measure::choice;
use everybuddy_measure::replay::outcome::Comparison;
use everybuddy_measure::rows::Row;

/// Returns the systems of the rows of one trace, in the order of their table.
pub(super) fn systems(comparison: &Comparison, rows: &[Row]) -> Vec<page::System> {
    let mut names: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.is_of_system()) {
        if !names.contains(&row.name()) {
            names.push(row.name());
        }
    }
    names.sort_by_key(|name| choice::no_kernel_has(name));
    let own = |name: String| {
        let find = |operation: &str, metric: &str, statistic: &str| {
            let key = (operation, metric, statistic, None);
            let mut rows = rows.iter().filter(|row| {
                row.source == comparison.trace
                    && !row.experiment.contains('@')
                    && (row.operation, row.metric, row.statistic, row.order) == key
            });
            rows.find(|row| row.name() == name).map(|row| row.value)
        };
        let count = |operation, metric| find(operation, metric, "count").unwrap_or(0.0) as u64;
        let latency = |operation| page::Latency {
            mean: find(operation, "latency", "mean"),
            stddev: find(operation, "latency", "stddev"),
            p50: find(operation, "latency", "p50"),
            p99: find(operation, "latency", "p99"),
            p999: find(operation, "latency", "p999"),
            max: find(operation, "latency", "max"),
            ..page::Latency::default()
        };
        page::System {
            parameters: parameters(comparison, &name),
            is_apart: choice::no_kernel_has(&name),
            latency: ["allocate", "free"].map(latency),
            service_ratio: find("all", "service_ratio", "value"),
            miss_rate: find("all", "miss_rate", "value"),
            locks_per_call: find("all", "lock_acquisitions", "mean"),
            contention_rate: find("all", "contention_rate", "value"),
            contention_rate_core: find("all", "contention_rate_core", "value"),
            residual: ["allocate", "free"].map(|operation| find(operation, "residual", "mean")),
            splits: count("all", "splits"),
            coalescings: count("all", "coalescings"),
            refused: count("allocate", "blocking_probability"),
            samples: page::Samples::default(),
            maps: Vec::new(),
            name,
        }
    };
    names.into_iter().map(own).collect()
}

/// Returns the parameters of a system on the machine of a comparison; empty if this program does not know the system.
fn parameters(comparison: &Comparison, name: &str) -> String {
    let memory = &comparison.memory;
    let ranges = memory.ranges();
    let setup = memory.setup(comparison.machine, &ranges, comparison.cpus);
    let spec = choice::one(name).ok();
    let parameters = spec.and_then(|spec| spec.parameters(&setup).ok());
    parameters.map(|own| own.to_string()).unwrap_or_default()
}
