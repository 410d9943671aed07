//! A benchmark as a page of the docs.
//!
//! Exists so that the published numbers are what a command printed, with all that one needs to repeat it.
//!
//! Invariant: tables are plain text as on a terminal; nothing on the page is written by hand but the method.

use super::bench as tables;
use super::bench_claims;
use super::output::Style;
use everybuddy_measure::bench::Results;
use everybuddy_measure::bench::start::Start;
use everybuddy_measure::replay::bystanders::Machine;
use everybuddy_measure::replay::clock::Timer;

/// How it is measured, in words.
const METHOD: &str = include_str!("bench_method.md");

/// Makes the page.
pub fn page(results: &Results, starts: &[Start], machine: &Machine, timer: &Timer) -> String {
    let style = &Style::PLAIN;
    let command = "cargo run --release --features peers -- bench --peers --doc docs/benchmarks.md";
    let mut out = format!(
        "# Benchmarks\n\nHow fast, beside whom. Made by `{command}`; don't edit it.\n\n\
         ## Results\n\n```text\n{}{}{}{}```\n",
        tables::text(results, style),
        tables::starts(starts, style),
        bench_claims::text(results, starts, style),
        tables::closing(results, machine, timer, style),
    );
    out += "\n## Who takes part\n\n| name | version | what it is | cannot |\n|---|---|---|---|\n";
    for entrant in results.entrants() {
        let [name, version, summary, cannot] = entrant.description();
        out += &format!("| `{name}` | {version} | {summary} | {cannot} |\n");
    }
    out.push('\n');
    out += METHOD;
    out
}
