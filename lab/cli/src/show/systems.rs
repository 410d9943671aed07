//! The lists of systems and of workloads.
//!
//! The contents of [`everybuddy::systems::ROWS`] and [`everybuddy_workload::WORKLOADS`] can be read in a terminal.
//!
//! # Invariants
//! Shows only the contents of the rows.

use everybuddy::systems::{Parameters, ROWS};
use everybuddy::{FrameRange, Pfn, Setup, SystemSpec};
use everybuddy_measure::Error;
use everybuddy_workload::WORKLOADS;

use super::output::Style;

/// Renders the list: what a system is, its layers and its source.
pub fn list() -> String {
    let style = Style::of_output(false);
    let mut out = String::new();
    for row in ROWS {
        out += &style.entry(row.name, 20, row.summary);
        out += &style.wrapped("", 20, &format!("{} · {}", row.composition(), row.source));
        out.push('\n');
    }
    out += "a > b > c: the layers of a system, from the CPU's own to the one that keeps free blocks.\n\
            `everybuddy systems NAME` has its options, how far it follows its source, and its deviations.\n";
    out
}

/// Renders the list of workloads.
pub fn workloads() -> String {
    let style = Style::of_output(false);
    let mut out = String::new();
    for row in WORKLOADS {
        out += &style.entry(row.name, 13, row.summary);
        out += &style.wrapped("", 13, row.source);
        for variant in row.variants {
            out += &style.wrapped(&format!("  {}", variant.name), 26, variant.summary);
        }
    }
    out
}

/// Leaves out the marks that a document needs around names.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

/// Returns what the options of a system make of it on a machine of 1 GiB and 2 CPUs.
///
/// # Errors
/// Returns a usage error if it cannot be built.
pub fn built(spec: &SystemSpec) -> Result<Parameters, Error> {
    let ranges = [FrameRange::new(Pfn(0), 1 << 18)];
    let parameters = spec.parameters(&Setup::new(&ranges, 2));
    parameters.map_err(|error| Error::usage(format!("system `{spec}` cannot be built: {error}")))
}

/// Describes one system in full: its row, and what its options make of it.
pub fn full(spec: &SystemSpec, built: &Parameters) -> String {
    let style = Style::of_output(false);
    let row = spec.row();
    let mut out = style.bold(&spec.to_string()) + "\n";
    let built = format!("{built}, with 1 GiB and 2 CPUs.");
    let parts = [
        ("summary", row.summary),
        ("layers", &row.composition().to_string()),
        ("built", &built),
        ("source", row.source),
        ("faithful", row.faithful),
        ("deviates", row.deviates),
    ];
    for (head, text) in parts {
        out += &style.wrapped(&format!("  {head}"), 13, text);
    }
    out += "  options, each written +KEY=VALUE\n";
    for option in row.options() {
        let (values, default) = (plain(option.values), plain(option.default));
        let text = format!("{values}. {} Default: {default}.", option.meaning);
        out += &style.wrapped(&format!("    {}", option.key), 16, &text);
    }
    out
}
