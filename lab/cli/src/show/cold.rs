//! The times of single calls, with programs between them that use the caches.
//!
//! # Invariants
//! A number that was not predicted is shown alone, and no verdict says anything about it.

use everybuddy_measure::bench::ContenderSpec;
use everybuddy_measure::bench::cold::{Between, ColdPlan, ColdResults, LONGEST, Singles, WORKLOAD};
use everybuddy_measure::bench::outcome::extremes;
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::outcome::median;
use everybuddy_measure::rows::Row;
use everybuddy_measure::size::{bytes, count};
use everybuddy_page::document::Block;
use everybuddy_simulate::machines::Machine;

use super::bench::nanos;
use super::table;

/// The shortest time that is not taken for a step of the clock, in ns.
const STEP: f64 = 0.5;
/// A prediction that is wrong by more than this factor is marked.
const FACTOR: f64 = 2.0;

/// Returns the answer, a table, and how it was measured.
pub fn blocks(
    plan: &ColdPlan,
    results: &ColdResults,
    rows: &[Row],
    (machine, host): (Option<&Machine>, &HostInfo),
) -> Vec<Block> {
    let names: Vec<String> = plan.contenders.iter().map(ContenderSpec::name).collect();
    let mut columns = Vec::new();
    let mut verdicts = Vec::new();
    for (program, between) in Between::ALL.into_iter().enumerate() {
        let mut ratios = Vec::new();
        let texts = names.iter().zip(&results.cells).map(|(name, cells)| {
            let measured = cells[program].map(|own| measured(&own)).join("/");
            let mut predicted = Vec::new();
            for (operation, own) in ["allocate", "free"].into_iter().zip(cells[program]) {
                let Some(other) = prediction(rows, (name, between, operation)) else {
                    continue;
                };
                let ratio = other / own.p50.max(STEP);
                let mark = if is_near(ratio) { "" } else { "!" };
                predicted.push(format!("{mark}{}", nanos(other)));
                ratios.push(ratio);
            }
            if predicted.is_empty() {
                return measured;
            }
            format!("{measured}: {}", predicted.join("/"))
        });
        let texts = texts.collect();
        columns.push(table::plain(
            "latency",
            [between.name(), "alloc/free"],
            texts,
        ));
        if !ratios.is_empty() {
            let near = ratios.iter().filter(|own| is_near(**own)).count() as u64;
            verdicts.push(format!(
                "  {}: {} of {} within a factor of {FACTOR}; predicted over measured is {:.2} (median)",
                between.name(),
                count(near),
                count(ratios.len() as u64),
                median(ratios.clone()),
            ));
        }
    }
    let mut blocks = vec![
        Block::text(answer(plan, results)),
        Block::Space,
        Block::Table(table::table(&names, &columns, 0..names.len())),
        Block::Space,
    ];
    if let Some(machine) = machine.filter(|_| !verdicts.is_empty()) {
        let head = format!(
            "After each colon: predicted by a simulation of the machine {}; ! is wrong by more than a factor of \
             {FACTOR}.",
            machine.name
        );
        blocks.push(Block::text(head));
        blocks.push(Block::Verbatim(verdicts.join("\n") + "\n"));
    }
    blocks.push(Block::text(method(results, host)));
    blocks
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

/// States what cold caches cost: differences, because a hit is too short for the clock where nothing is between calls.
fn answer(plan: &ColdPlan, results: &ColdResults) -> String {
    let longer = |between: Between| -> Vec<f64> {
        let pair = |own: &[Singles; 2]| own[0].p50 + own[1].p50;
        let of = |cells: &[[Singles; 2]; Between::ALL.len()]| {
            pair(&cells[between as usize]) - pair(&cells[Between::Nothing as usize])
        };
        let systems = plan.contenders.iter().zip(&results.cells);
        let systems = systems.filter(|(own, _)| !own.is_floor());
        systems.map(|(_, cells)| of(cells)).collect()
    };
    let text = |nanos: f64| match nanos.round() {
        0.0 => "as long as before".to_string(),
        less if less < 0.0 => format!("{:.0} ns less", -less),
        more => format!("{more:.0} ns longer"),
    };
    let swept = longer(Between::Swept);
    if swept.is_empty() {
        return "Only the floor was measured: name a system.".to_string();
    }
    let range = match (extremes(&swept), swept.len()) {
        (Some((least, most)), systems @ 2..) => {
            let systems = count(systems as u64);
            format!(" (median of {systems} systems; {least:.0} to {most:.0} ns)")
        }
        _ => String::new(),
    };
    format!(
        "Once a program has swept the second cache, an allocation and a free of a frame take {}{range}. If it only \
         zeroes its frames, they take {}.",
        text(median(swept)),
        text(median(longer(Between::Zeroed))),
    )
}

/// Renders a median. One of disturbed sections is marked.
fn measured(own: &Singles) -> String {
    let mark = if own.is_disturbed { "~" } else { "" };
    format!("{mark}{}", nanos(own.p50))
}

/// States how it was measured.
fn method(results: &ColdResults, host: &HostInfo) -> String {
    let all = || results.cells.iter().flatten().flatten();
    let sum = |of: fn(&Singles) -> u64| count(all().map(of).sum());
    let huge = |share: Option<f64>| match share {
        Some(share) => format!("{:.0} %", 100.0 * share),
        None => "unknown".to_string(),
    };
    let mut text = format!(
        "The floor loads little more than the code of a call. Medians of single allocations and frees, in ns, {}; the \
         clock is taken off. A program zeroes each frame, sweeps {}, or follows 8,192 pointers in 8 MiB before each \
         call. In huge pages: {} of its memory, and {} of the metadata of the system with the least there. {} calls \
         count. {} took more than {:.0} ns, since something else ran, and {} are next to a lost or slow CPU: these are \
         left out.",
        host.processor.as_deref().unwrap_or("unknown processor"),
        bytes(results.swept as f64),
        huge(results.huge),
        huge(results.huge_metadata),
        sum(|own| own.calls),
        sum(|own| own.left_out),
        LONGEST,
        sum(|own| own.dropped),
    );
    if all().any(|own| own.is_disturbed) {
        text += " Next to all calls marked ~ the CPU was lost or slow.";
    }
    text
}
