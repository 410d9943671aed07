//! Experiments as text: the list, the tables, the claims.
//!
//! The results of all experiments have the same layout.
//!
//! # Invariants
//! Shows exported rows, and nothing else.

use everybuddy_measure::claim::{Claim, Verdict, short};
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::rows::Row;
use everybuddy_papers::run_of;
use everybuddy_papers::shared::{Experiment, TableSpec, grid};

use super::claims;
use super::output::{self, Style};
use super::table::{self, Better, Column, plain};

const CLAIM: &str = "claim";

/// Returns how a claim is announced: whether every run judges it, or only a full one.
fn head_of(own: &Experiment, claim: &Claim) -> &'static str {
    let short = run_of(own.clone(), false, &[]);
    let is_of_short = |short: Experiment| short.claims.iter().any(|known| known.text == claim.text);
    if short.is_ok_and(is_of_short) {
        CLAIM
    } else {
        "claim, with --full"
    }
}

/// Renders the list.
pub fn list(experiments: &[Experiment]) -> String {
    let style = Style::of_output(false);
    let mut out = String::new();
    for own in experiments {
        out += &style.entry(&own.name, 22, &own.title);
        out += &style.wrapped("", 22, &own.source);
        out += &style.wrapped("", 22, &format!("needs: {}", own.needs));
        let claims = match own.claims.len() {
            1 => "1 claim".to_string(),
            count => format!("{count} claims"),
        };
        out += &style.wrapped("", 22, &claims);
        out.push('\n');
    }
    out += "`everybuddy experiments NAME` describes one experiment in full, with its claims.\n";
    out += "`everybuddy reproduce NAME` runs one experiment, `everybuddy reproduce all` runs all.\n\
         Papers: SYSTEMS.md. Verdicts of all claims: docs/claims.md.\n";
    out
}

/// Renders the description of one experiment.
pub fn full(own: &Experiment) -> String {
    let style = Style::of_output(false);
    let mut out = style.bold(&own.name) + "\n";
    let platform = own.platform.to_string();
    let memory = own.memory.clone().unwrap_or_default();
    for (head, text) in [
        ("title", &own.title),
        ("source", &own.source),
        ("needs", &own.needs),
        ("platform", &platform),
        ("systems", &own.systems.join(", ")),
        ("traces", &own.traces.join(", ")),
        ("workloads", &own.workloads.join(", ")),
        ("memory", &memory),
        ("remarks", &own.remarks),
    ] {
        if !text.is_empty() {
            out += &style.wrapped(&format!("  {head}"), 13, text);
        }
    }
    for claim in &own.claims {
        let text = match head_of(own, claim) {
            CLAIM => claim.text.clone(),
            _ => format!("with --full: {}", claim.text),
        };
        out += &style.wrapped("  claim", 13, &text);
        if let Some(why) = &claim.differs {
            out += &style.wrapped("", 13, &format!("known deviation: {why}"));
        }
    }
    out
}

/// Renders the part above the tables: name, title, source, remarks.
pub fn head(experiment: &Experiment, style: &Style) -> String {
    let mut out = style.bold(&experiment.name) + "\n";
    out += &style.paragraph(&experiment.title);
    out += &style.wrapped("source", 8, &experiment.source);
    out
}

/// Renders the tables of an experiment's rows.
pub fn tables(experiment: &Experiment, rows: &[Row], style: &Style) -> String {
    let mut out = String::new();
    for spec in &experiment.tables {
        out.push('\n');
        out += &style.paragraph(&spec.title);
        out += &table(experiment, spec, rows, style);
    }
    out += &published(experiment, style);
    out
}

fn table(experiment: &Experiment, spec: &TableSpec, rows: &[Row], style: &Style) -> String {
    let grid::Grid { names, columns } = grid::Grid::of(experiment, spec, rows);
    let texts = |values: &[Option<f64>]| {
        let text = |value: &Option<f64>| value.map_or(String::new(), short);
        values.iter().map(text).collect()
    };
    let mut shown = Vec::new();
    for own in columns {
        shown.push(Column {
            metric: "",
            legend: "".into(),
            head: [own.source.clone().into(), own.what.into()],
            better: spec.better(),
            texts: texts(&own.values),
            values: own.values,
        });
        if spec.beside && own.expected.iter().any(Option::is_some) {
            // The source does not compete.
            let head = [own.source, "source".to_string()];
            shown.push(plain("", head, texts(&own.expected)));
        }
    }
    if names.is_empty() {
        return "no measurements\n".to_string();
    }
    let is_neither = spec.better() == Better::Neither;
    let competing = if is_neither { 0..0 } else { 0..names.len() };
    // A column without a better direction is not dimmed either.
    let style = Style {
        colour: style.colour && !is_neither,
        ..*style
    };
    table::text(&names, &shown, competing, &style)
}

/// Renders the table of the source's printed numbers.
fn published(experiment: &Experiment, style: &Style) -> String {
    if experiment.published.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n");
    let on = experiment
        .printed
        .as_deref()
        .unwrap_or("on other workloads");
    let title = format!("published numbers of {}, {on}:", experiment.source);
    out += &style.paragraph(&title);
    let names: Vec<String> = experiment
        .published
        .iter()
        .map(|p| p.what.clone())
        .collect();
    let column = |head: &'static str, of: &dyn Fn(usize) -> String| {
        plain("", [head, ""], (0..names.len()).map(of).collect())
    };
    let all = &experiment.published;
    let mut columns = vec![
        column("metric", &|at| all[at].metric.clone()),
        column("operation", &|at| all[at].operation.clone()),
        column("mean", &|at| match all[at].mean {
            // Probabilities.
            small if small < 0.1 => short(small),
            mean => format!("{mean:.2}"),
        }),
    ];
    let deviation = |at: usize| {
        all[at]
            .stddev
            .map_or(String::new(), |own| format!("{own:.2}"))
    };
    if all.iter().any(|published| published.stddev.is_some()) {
        columns.push(column("stddev", &deviation));
    }
    // The first column contains workloads here.
    let text = table::text(&names, &columns, 0..0, &style.without_colour());
    let text = text.replacen("system", "source", 1);
    // Headings of one line.
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        out += line;
        out.push('\n');
    }
    out
}

/// Renders the verdicts and the remarks.
pub fn verdicts(
    experiment: &Experiment,
    verdicts: Option<&[(Claim, Verdict)]>,
    style: &Style,
) -> String {
    let mut out = String::from("\n");
    let Some(verdicts) = verdicts else {
        out += "claims are not judged because the run was shortened\n\n";
        return out;
    };
    out += &claims::text(verdicts, style);
    if !experiment.remarks.is_empty() {
        out += &style.wrapped("remarks", 11, &experiment.remarks);
    }
    out.push('\n');
    out
}

/// Renders the description of the machine, below all experiments.
pub fn closing(
    experiments: &[Experiment],
    machine: &HostInfo,
    timer: &Timer,
    style: &Style,
) -> String {
    let simulated = experiments.iter().filter(|own| own.platform.is_simulated());
    let simulated: Vec<&str> = simulated.map(|own| own.name.as_str()).collect();
    let mut out = String::new();
    if !simulated.is_empty() {
        let what = format!("{}: the same on every machine", simulated.join(", "));
        out += &style.wrapped("simulated", 11, &what);
    }
    if simulated.len() == experiments.len() {
        return out;
    }
    let mut on = vec!["measured natively".to_string()];
    on.extend(output::machine(machine));
    on.push(format!("reading the clock costs {:.1} ns", timer.mean()));
    out += &style.wrapped("machine", 11, &on.join(" · "));
    if machine.was_busy() {
        let busy = "other programs were running: the order and the ratios are more reliable than the times";
        out += &style.warning(&style.wrapped("busy", 11, busy));
    }
    out
}
