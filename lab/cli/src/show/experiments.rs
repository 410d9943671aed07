//! Experiments: the list, and what they found.
//!
//! The results of all experiments have the same layout.
//!
//! # Invariants
//! Shows exported rows, and nothing else.

use everybuddy_measure::Error;
use everybuddy_measure::claim::{Claim, Verdict, short};
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::clock::Timer;
use everybuddy_measure::rows::Row;
use everybuddy_page::document::{self, Beside, Block, Document, Look, Made, Section, Table};
use everybuddy_papers::shared::chart::Drawing;
use everybuddy_papers::shared::method::Conditions;
use everybuddy_papers::shared::{Experiment, TableSpec, grid};
use everybuddy_papers::{list, run_of};

use super::document::{judged, worded};
use super::figures;
use super::output::{self, Style};
use super::table::{self, Column, plain};

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
pub fn listed(experiments: &[Experiment]) -> String {
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
            CLAIM => worded(claim),
            _ => format!("with --full: {}", worded(claim)),
        };
        out += &style.wrapped("  claim", 13, &text);
        if let Some(why) = &claim.differs {
            out += &style.wrapped("", 13, &format!("known deviation: {why}"));
        }
    }
    out
}

/// What an experiment found.
pub struct Results<'r> {
    /// The experiment.
    pub experiment: &'r Experiment,
    /// The rows about it.
    pub rows: &'r [Row],
    /// The verdicts on its claims; `None` if they were not judged.
    pub verdicts: Option<&'r [(Claim, Verdict)]>,
    /// Its figure, if one is shown.
    pub drawing: Option<&'r Drawing>,
}

impl Results<'_> {
    /// Returns the section of the experiment.
    ///
    /// # Errors
    /// Like [`list::method`].
    pub fn blocks(&self) -> Result<Vec<Block>, Error> {
        let own = self.experiment;
        let mut blocks = vec![Block::Section(Section {
            name: own.name.clone(),
            title: own.title.clone(),
            source: own.source.clone(),
        })];
        // Readers of a page see the answer first; at a terminal, it is what they see last.
        blocks.push(self.claims().on_page());
        blocks.extend(self.drawing.map(|own| Block::Figure(figures::figure(own))));
        for spec in &own.tables {
            blocks.extend([Block::Space, Block::Table(self.table(spec))]);
        }
        if let Some(published) = published(own) {
            blocks.extend([Block::Space, Block::Table(published)]);
        }
        blocks.extend([Block::Space, self.claims().in_terminal()]);
        let is_judged = self.verdicts.is_some();
        let remarks = [Some(&own.remarks).filter(|own| !own.is_empty())];
        blocks.extend(remarks.into_iter().flatten().map(|remarks| {
            let remarks = Block::entry("remarks", 11, remarks);
            if is_judged {
                remarks
            } else {
                remarks.on_page()
            }
        }));
        let repeats = list::method(own)?.repeats().words();
        let command = format!("{repeats} Command: `everybuddy reproduce {}`.", own.name);
        blocks.push(Block::entry("measured", 11, command.trim_start()).on_page());
        blocks.push(Block::Space);
        Ok(blocks)
    }

    fn claims(&self) -> Block {
        let unjudged = |claim: &Claim| document::Claim {
            text: worded(claim),
            ..document::Claim::default()
        };
        Block::Claims(match self.verdicts {
            Some(verdicts) => verdicts.iter().map(judged).collect(),
            None => self.experiment.claims.iter().map(unjudged).collect(),
        })
    }

    fn table(&self, spec: &TableSpec) -> Table {
        let grid::Grid { names, columns } = grid::Grid::of(self.experiment, spec, self.rows);
        let columns = columns.into_iter().map(|own| {
            let column = Column {
                metric: "",
                legend: "".into(),
                head: [own.source.into(), own.what.into()],
                better: spec.better(),
                texts: texts(&own.values),
                values: own.values,
            };
            (column, own.expected)
        });
        let (columns, expected): (Vec<Column>, Vec<Vec<Option<f64>>>) = columns.unzip();
        let mut table = table::table(&names, &columns, 0..names.len());
        let by = if spec.beside {
            table::SOURCE
        } else {
            "expected"
        };
        for ((own, column), expected) in table.columns.iter_mut().zip(columns).zip(expected) {
            own.beside = expected.iter().any(Option::is_some).then(|| Beside {
                by: by.to_string(),
                values: column.values,
                expected,
            });
        }
        Table {
            title: spec.title.clone(),
            ..table
        }
    }
}

fn texts(values: &[Option<f64>]) -> Vec<String> {
    let text = |value: &Option<f64>| value.map_or(String::new(), short);
    values.iter().map(text).collect()
}

/// Returns the table of the source's printed numbers, if there are any.
fn published(experiment: &Experiment) -> Option<Table> {
    let all = &experiment.published;
    if all.is_empty() {
        return None;
    }
    let on = experiment.printed.as_deref();
    let on = on.unwrap_or("on other workloads");
    let names: Vec<String> = all.iter().map(|own| own.what.clone()).collect();
    let column = |head: &'static str, of: &dyn Fn(usize) -> String| {
        plain("", [head, ""], (0..names.len()).map(of).collect())
    };
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
    Some(Table {
        title: format!("published numbers of {}, {on}:", experiment.source),
        first: "source".to_string(),
        is_folded: true,
        ..table::table(&names, &columns, 0..names.len())
    })
}

/// Describes the machine, below all experiments. A page says it at its top.
pub fn closing(experiments: &[Experiment], machine: &HostInfo, timer: &Timer) -> Vec<Block> {
    let simulated = experiments.iter().filter(|own| own.platform.is_simulated());
    let simulated: Vec<&str> = simulated.map(|own| own.name.as_str()).collect();
    let mut blocks = Vec::new();
    if !simulated.is_empty() {
        let what = format!("{}: the same on every machine", simulated.join(", "));
        blocks.push(Block::entry("simulated", 11, what).in_terminal());
    }
    if simulated.len() == experiments.len() {
        return blocks;
    }
    let mut on = vec!["measured natively".to_string()];
    on.extend(output::machine(machine));
    on.push(format!("reading the clock costs {:.1} ns", timer.mean()));
    blocks.push(Block::entry("machine", 11, on.join(" · ")).in_terminal());
    if machine.was_busy() {
        let busy = Block::entry("busy", 11, BUSY);
        blocks.push(busy.looking(Look::Warning).in_terminal());
    }
    blocks
}

/// What readers must know of times of a busy machine.
const BUSY: &str =
    "other programs were running: the order and the ratios are more reliable than the times";

/// Returns the top of the page: what was tested, on which machine, and what readers must know.
pub fn about(
    experiments: &[Experiment],
    machine: &HostInfo,
    timer: &Timer,
    conditions: &Conditions,
) -> Document {
    let tested = match experiments.len() {
        1 => "One experiment of a paper".to_string(),
        count => format!("{count} experiments of papers"),
    };
    let claims: usize = experiments.iter().map(|own| own.claims.len()).sum();
    let claims = match claims {
        1 => "one claim".to_string(),
        count => format!("{count} claims"),
    };
    let mut lede = format!(
        "{tested} on buddy systems, repeated. The results are shown next to the published numbers, with {claims} that \
         the program checks."
    );
    let is_native = experiments.iter().any(|own| !own.platform.is_simulated());
    let on = output::machine(machine);
    if is_native && !on.is_empty() {
        lede += &format!(" Measured on {}.", on.join(", "));
    }
    let mut remarks = Vec::new();
    if conditions.shrink > 1 {
        let what = format!(
            "Everything was shortened {} times as a smoke test: these numbers are not measurements, and claims are not \
             judged.",
            conditions.shrink
        );
        remarks.push((true, what));
    }
    if is_native && machine.was_busy() {
        remarks.push((true, format!("Beware: {BUSY}.")));
    }
    Document {
        title: "Papers’ experiments on buddy systems, reproduced".to_string(),
        lede,
        remarks,
        made: Made {
            more: format!(
                "seed {}; reading the clock costs {:.1} ns",
                conditions.seed,
                timer.mean()
            ),
            ..Made::default()
        },
        blocks: Vec::new(),
    }
}
