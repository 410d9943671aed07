//! The times of single calls, with programs between them that use the caches.
//!
//! # Invariants
//! A number that was not predicted is shown alone, and no verdict says anything about it.

use everybuddy_measure::bench::ContenderSpec;
use everybuddy_measure::bench::cold::{Between, ColdPlan, ColdResults, Singles, WORKLOAD};
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::outcome::median;
use everybuddy_measure::rows::Row;
use everybuddy_measure::size::{bytes, count};
use everybuddy_simulate::machines::Machine;

use super::output::Style;
use super::table;

/// The shortest time that is not taken for a step of the clock, in ns.
const STEP: f64 = 0.5;
/// A prediction that is wrong by more than this factor is marked.
const FACTOR: f64 = 2.0;

/// Renders the answer, a table, and how it was measured.
pub fn text(
    plan: &ColdPlan,
    results: &ColdResults,
    rows: &[Row],
    (machine, host): (Option<&Machine>, &HostInfo),
    style: &Style,
) -> String {
    let names: Vec<String> = plan.contenders.iter().map(ContenderSpec::name).collect();
    let mut columns = Vec::new();
    let mut verdicts = Vec::new();
    for (program, between) in Between::ALL.into_iter().enumerate() {
        let mut ratios = Vec::new();
        for (kind, operation) in ["allocate", "free"].into_iter().enumerate() {
            let texts = names.iter().zip(&results.cells).map(|(name, cells)| {
                let own = cells[program][kind].p50;
                match prediction(rows, (name, between, operation)) {
                    Some(other) => {
                        ratios.push(other / own.max(STEP));
                        let mark = if is_near(other / own.max(STEP)) {
                            ""
                        } else {
                            "!"
                        };
                        format!("{mark}{own:.1}: {other:.1}")
                    }
                    None => format!("{own:.1}"),
                }
            });
            let head = [between.name().to_string(), format!("{operation} ns")];
            columns.push(table::plain("latency", head, texts.collect()));
        }
        if !ratios.is_empty() {
            let near = ratios.iter().filter(|own| is_near(**own)).count() as u64;
            verdicts.push(format!(
                "{}: {} of {} within a factor of {FACTOR}, the median of predicted over measured is {:.2}",
                between.name(),
                count(near),
                count(ratios.len() as u64),
                median(ratios.clone()),
            ));
        }
    }
    let mut out = style.paragraph(&answer(results));
    out += "\n";
    out += &table::text(&names, &columns, 0..0, style);
    out += "\n";
    if let Some(machine) = machine {
        let head = format!(
            "Measured: predicted, simulated for the machine {}; ! is wrong by more than a factor of {FACTOR}. ",
            machine.name
        );
        out += &style.paragraph(&(head + &verdicts.join("; ") + "."));
    }
    out + &style.paragraph(&method(plan, results, host))
}

fn is_near(ratio: f64) -> bool {
    (1.0 / FACTOR..=FACTOR).contains(&ratio)
}

/// Returns the simulated median of a call.
fn prediction(rows: &[Row], (name, between, operation): (&str, Between, &str)) -> Option<f64> {
    let source = format!("{WORKLOAD}:{}", between.name());
    let mut own = rows.iter().filter(|row| row.platform.is_simulated());
    let row = own.find(|row| {
        row.name() == name
            && row.source == source
            && row.operation == operation
            && row.statistic == "p50"
    })?;
    (row.value > 0.0).then_some(row.value)
}

/// States what cold caches cost.
fn answer(results: &ColdResults) -> String {
    let pair = |cells: &[[Singles; 2]; Between::ALL.len()], between: Between| {
        let own = &cells[between as usize];
        own[0].p50 + own[1].p50
    };
    let slower = |between: Between| {
        let ratios = results
            .cells
            .iter()
            .map(|cells| pair(cells, between) / pair(cells, Between::Nothing).max(STEP));
        median(ratios.collect())
    };
    format!(
        "An allocation and a free of a frame take {:.1} times as long once a program has swept the second cache, and \
         {:.2} times as long if it only zeroes its frames (medians of {}).",
        slower(Between::Swept),
        slower(Between::Zeroed),
        match results.cells.len() {
            1 => "one system".to_string(),
            systems => format!("{} systems", count(systems as u64)),
        }
    )
}

/// States how it was measured.
fn method(plan: &ColdPlan, results: &ColdResults, host: &HostInfo) -> String {
    let all = results.cells.iter().flatten().flatten();
    let (calls, out) = all.fold((0, 0), |sum, own| (sum.0 + own.calls, sum.1 + own.left_out));
    let huge = match results.huge {
        Some(share) => format!("{:.0} % of its memory lies in huge pages", 100.0 * share),
        None => "whether its memory lies in huge pages is not known".to_string(),
    };
    format!(
        "Medians of single calls, in ns, {}; the clock is taken off. A program zeroes each frame, sweeps {}, or follows\
         \x20\
         8,192 pointers in 8 MiB before each call; {huge}. {} count; {} that took more than 7 us are left out. \
         {} of {} rounds of a system lost the CPU meanwhile.",
        host.processor.as_deref().unwrap_or("unknown processor"),
        bytes(results.swept as f64),
        count(calls),
        count(out),
        count(results.disturbed),
        count(u64::from(plan.rounds) * (plan.contenders.len() * Between::ALL.len()) as u64),
    )
}
