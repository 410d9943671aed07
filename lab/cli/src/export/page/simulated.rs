//! A simulation as a page: converts its rows to the types of [`everybuddy_page::simulation`].
//!
//! The page does not depend on machines and systems, and simulations do not depend on pages.
//!
//! # Invariants
//! Every number is from rows that are also exported. Every title of a result says that it is simulated; a title of
//! waits that a trace contains also says that they are recorded.

use std::collections::BTreeMap;

use chrono::Utc;
use everybuddy_measure::rows::Row;
use everybuddy_measure::size;
use everybuddy_page::simulation::{Lines, Load, Simulation};
use everybuddy_page::study::{Axis, Figure, Key, Panel, Series, Shape};
use everybuddy_simulate::machines::{Machine, NUMBERS};
use everybuddy_simulate::rows::part_of;
use everybuddy_simulate::{self as simulate, Plan, Scaling};

use crate::commit;
use crate::show::limits::Limits;
use crate::show::simulated::{LEFT_OUT, dealt};
use crate::show::waits::{RECORDED, Waits};

/// The name of the line of as many CPUs that do not disturb each other.
const LINEAR: &str = "linear";
/// Parts that a table names for a system.
const NAMED: usize = 3;
/// Parts with fewer moves or waits per call are not named.
const LEAST: f64 = 0.005;

/// Creates the page.
pub fn simulation(
    machine: &Machine,
    plan: &Plan,
    scalings: &[Scaling],
    rows: &[Row],
) -> Simulation {
    let of = |load| Results {
        plan,
        load,
        scalings: scalings
            .iter()
            .filter(|own| own.load == load.name())
            .collect(),
        rows,
    };
    let results: Vec<Results<'_>> = plan.loads.iter().map(of).collect();
    let (overview, causes) = match &Limits::new(scalings) {
        limits if limits.loads() > 1 => (limits.grid(), causes_of(limits)),
        _ => Default::default(),
    };
    let has_recorded = results.iter().any(|own| matches!(own.waits(), Some(Ok(_))));
    Simulation {
        title: format!("Buddy systems on many CPUs, simulated: {}", machine.name),
        about: about(machine, plan, has_recorded),
        command: super::command_line(),
        date: Utc::now().format("%Y-%m-%d %H:%M UTC").to_string(),
        version: commit::version(),
        overview,
        causes,
        loads: results.iter().map(Results::section).collect(),
        machine: parameters(machine),
    }
}

/// Creates the page of the rows of earlier runs: where systems stop scaling.
pub fn of_rows(machine: &str, scalings: &[Scaling]) -> Simulation {
    let limits = Limits::new(scalings);
    Simulation {
        title: format!("Where buddy systems stop scaling, simulated: {machine}"),
        about: format!(
            "Nothing on this page was measured: all results are simulated, on the machine {machine}. The page shows \
             the rows of earlier runs. docs/simulator.md describes the model and its limits."
        ),
        command: super::command_line(),
        date: Utc::now().format("%Y-%m-%d %H:%M UTC").to_string(),
        version: commit::version(),
        overview: limits.grid(),
        causes: causes_of(&limits),
        ..Simulation::default()
    }
}

/// Returns the table of what stops systems.
fn causes_of(limits: &Limits<'_>) -> Lines {
    Lines {
        title: "What stops each system, with the number of loads, simulated".to_string(),
        note: "The part of the metadata on which calls spend most of their time with memory, on the first number of \
               CPUs beyond the limit."
            .to_string(),
        heads: ["system", "loads without a limit", "stopped by (loads)"].map(String::from).to_vec(),
        lines: limits.causes(),
    }
}

fn about(machine: &Machine, plan: &Plan, has_recorded: bool) -> String {
    let seeds = match plan.seeds.len() {
        1 => "one seed".to_string(),
        seeds => format!("means of {seeds} seeds"),
    };
    let systems = match plan.specs.len() {
        1 => "One system".to_string(),
        systems => format!("{systems} systems"),
    };
    let measured = if has_recorded {
        "The results on this page are simulated, except the waits labelled recorded."
    } else {
        "Nothing on this page was measured: all results are simulated."
    };
    format!(
        "{measured} {systems} on up to {} CPUs of {} ({}, {} CPUs at {} MHz), with {} cycles between two calls; \
         {seeds}{}. The simulator charges each access to shared memory by a model of caches, which docs/simulator.md \
         describes together with its limits.",
        plan.cpus.last().copied().unwrap_or(0),
        machine.name,
        machine.title,
        machine.hardware.cpus(),
        machine.hardware.mhz,
        plan.think,
        plan.remarks(),
    )
}

/// The results under one load.
struct Results<'r> {
    plan: &'r Plan,
    load: &'r simulate::Load,
    scalings: Vec<&'r Scaling>,
    rows: &'r [Row],
}

impl Results<'_> {
    fn section(&self) -> Load {
        let mut tables = vec![self.limits(), self.causes()];
        let mut remarks = match self.load {
            simulate::Load::Workload(_) => {
                format!(
                    "The systems manage {}.",
                    size::frames(u64::from(self.plan.frames))
                )
            }
            simulate::Load::Trace(traced) => dealt(self.plan, traced).replace('`', ""),
        };
        let waits = self.waits();
        match &waits {
            Some(Ok(waits)) => tables.push(lines_of(waits)),
            Some(Err(remark)) => remarks += &format!(" {remark}"),
            None => {}
        }
        Load {
            name: self.load.name().to_string(),
            title: format!("{}, simulated", self.load.name()),
            remarks,
            figure: self.figure(waits.and_then(Result::ok).as_ref()),
            tables,
        }
    }

    /// Returns the recorded waits next to the simulated ones, if the load has any.
    fn waits(&self) -> Option<Result<Waits, String>> {
        let simulate::Load::Trace(traced) = self.load else {
            return None;
        };
        let systems: Vec<String> = self.scalings.iter().map(|own| own.system.clone()).collect();
        Waits::of(self.plan, traced, &systems, self.rows)
    }

    /// Returns a number of each system with each number of CPUs: means over the seeds.
    fn curves(&self, metric: &str, statistic: &str, operation: &str) -> Vec<Vec<(u16, f64)>> {
        let curve = |own: &&Scaling| {
            let mut sums: BTreeMap<u16, (f64, f64)> = BTreeMap::new();
            for row in self.rows {
                if (row.metric, row.statistic, row.operation) == (metric, statistic, operation)
                    && row.source == own.load
                    && row.name() == own.system
                {
                    let (sum, count) = sums.entry(row.cpus).or_default();
                    (*sum, *count) = (*sum + row.value, *count + 1.0);
                }
            }
            let means = sums
                .into_iter()
                .map(|(cpus, (sum, count))| (cpus, sum / count));
            means.collect()
        };
        self.scalings.iter().map(curve).collect()
    }

    fn figure(&self, waits: Option<&Waits>) -> Figure {
        let mut panels = vec![self.throughput()];
        for (operation, noun) in [("allocate", "allocation"), ("free", "free")] {
            for (statistic, what) in [("p50", "Median"), ("p99", "99th percentile")] {
                let curves = self.curves("latency", statistic, operation);
                let title = format!("{what} of the time of {}, simulated", article(noun));
                panels.push(self.panel(title, "nanoseconds, logarithmic", &curves));
            }
        }
        if let simulate::Load::Trace(_) = self.load {
            panels.push(self.idle());
        }
        let names = self.scalings.iter().map(|own| own.system.clone());
        let key = |(look, name): (usize, String)| Key {
            name,
            look,
            shape: Shape::Interval,
        };
        let mut legend: Vec<Key> = names.enumerate().map(key).collect();
        legend.push(Key {
            name: LINEAR.to_string(),
            look: legend.len(),
            shape: Shape::Line,
        });
        let mut note = format!(
            "Simulated on {}. Linear: as many CPUs that do not disturb each other, from the best system on the \
             fewest CPUs.",
            self.plan.machine
        );
        if let Some(waits) = waits {
            let own = Key {
                name: RECORDED.to_string(),
                look: legend.len(),
                shape: Shape::Ring,
            };
            panels.push(self.waits_panel(waits, &own));
            legend.push(own);
            note += " Recorded: the waits for the zone's lock that the kernel of the trace reported. A \
                     system has no point at numbers of CPUs where it never waits.";
        }
        Figure {
            note,
            panels,
            legend,
        }
    }

    /// Returns the simulated waits over the number of CPUs, and the recorded ones.
    fn waits_panel(&self, waits: &Waits, key: &Key) -> Panel {
        let mut curves = self.curves("contended_wait", "rate", "all");
        let rates = curves.iter_mut().flatten();
        rates.for_each(|(_, rate)| *rate *= 1e3);
        let label = "waits per 1,000 calls, logarithmic";
        let mut panel = self.panel(
            "Waits for locks, recorded and simulated".to_string(),
            label,
            &curves,
        );
        let mut own = Series {
            name: key.name.clone(),
            look: key.look,
            shape: key.shape,
            labels: vec![key.name.clone()],
            ..Series::default()
        };
        if waits.per_1000_calls > 0.0 {
            let place = (f64::from(waits.cpus).log2(), waits.per_1000_calls.log10());
            own.points.push(place);
        }
        panel.series.push(own);
        panel.y = logarithmic(label, &panel.series);
        panel
    }

    /// Returns the calls per second, and the line of systems that scale without limit.
    fn throughput(&self) -> Panel {
        let curves: Vec<Vec<(u16, f64)>> =
            self.scalings.iter().map(|own| own.rates.clone()).collect();
        let title = "Calls per second of all CPUs, simulated".to_string();
        let mut panel = self.panel(title, "calls per second, logarithmic", &curves);
        let firsts = curves.iter().filter_map(|curve| curve.first());
        let best = firsts.max_by(|one, other| one.1.total_cmp(&other.1));
        if let (Some((least, rate)), Some(most)) = (best, self.plan.cpus.last()) {
            let at = |cpus: u16| {
                let linear = rate / f64::from(*least) * f64::from(cpus);
                (f64::from(cpus).log2(), linear.log10())
            };
            panel.series.push(Series {
                name: LINEAR.to_string(),
                look: curves.len(),
                shape: Shape::Line,
                points: vec![at(*least), at(*most)],
                ..Series::default()
            });
            panel.y = logarithmic(&panel.y.label, &panel.series);
        }
        panel
    }

    fn idle(&self) -> Panel {
        let curves = self.curves("idle_share", "value", "all");
        let title = "Share of the CPUs' time without calls, simulated".to_string();
        let mut panel = self.panel(title, "share", &[]);
        panel.series = self.series(&curves, Some);
        panel.y = Axis {
            range: (0.0, 1.0),
            marks: (0..=5)
                .map(|at| (f64::from(at) / 5.0, format!("{}", f64::from(at) / 5.0)))
                .collect(),
            ..panel.y
        };
        panel
    }

    /// Returns a panel over the numbers of CPUs with a logarithmic axis of values.
    fn panel(&self, title: String, label: &str, curves: &[Vec<(u16, f64)>]) -> Panel {
        let place = |cpus: &u16| (f64::from(*cpus).log2(), cpus.to_string());
        let marks: Vec<(f64, String)> = self.plan.cpus.iter().map(place).collect();
        let ends = marks.first().zip(marks.last());
        let (least, most) = ends.map_or((0.0, 0.0), |(first, last)| (first.0, last.0));
        let series = self.series(curves, |value| (value > 0.0).then(|| value.log10()));
        Panel {
            title,
            x: Axis {
                label: "CPUs, logarithmic".to_string(),
                range: (least - 0.2, most + 0.2),
                marks,
                base: Some(2.0),
            },
            y: logarithmic(label, &series),
            series,
            shade: None,
        }
    }

    fn series(
        &self,
        curves: &[Vec<(u16, f64)>],
        place: impl Fn(f64) -> Option<f64>,
    ) -> Vec<Series> {
        let pairs = self.scalings.iter().zip(curves);
        let series = pairs.zip(0..).map(|((own, curve), look)| {
            let points = curve.iter().filter_map(|(cpus, value)| {
                let place = place(*value)?;
                Some((f64::from(*cpus).log2(), place))
            });
            Series {
                name: own.system.clone(),
                look,
                shape: Shape::Interval,
                points: points.collect(),
                ..Series::default()
            }
        });
        series.collect()
    }

    /// Returns where each system stops scaling, and why.
    fn limits(&self) -> Lines {
        let ends = |own: &Scaling| {
            let (first, last) = (own.rates.first()?, own.rates.last()?);
            Some((*first, *last))
        };
        let of = self.scalings.iter().find_map(|own| ends(own));
        let least = of.unwrap_or_default().0.0;
        let most = self.plan.cpus.last().copied().unwrap_or(0);
        let line = |own: &&Scaling| {
            let ((_, alone), (last, together)) = ends(own).unwrap_or_default();
            let linear = alone / f64::from(least) * f64::from(last);
            let on = if last == most {
                String::new()
            } else {
                format!(" on {last}")
            };
            vec![
                own.system.clone(),
                format!("{:.2}", alone / 1e6),
                format!("{:.2}{on}", together / 1e6),
                format!("{:.0}%", together / linear * 100.0),
                own.scales_to(),
                match &own.hottest {
                    Some((what, share)) => format!("{what}, {:.0}%", share * 100.0),
                    None => String::new(),
                },
            ]
        };
        Lines {
            title: "Where each system stops scaling, and why, simulated".to_string(),
            note: format!(
                "Calls per microsecond. A system has stopped scaling where twice as many CPUs bring less than 1.2 \
                 times the calls. The last column is the part of the metadata on which calls spend most of their time \
                 with memory, and its share of this time, on the first number of CPUs beyond the limit, or on the \
                 largest one.{}",
                if self.plan.stops { LEFT_OUT } else { "" },
            ),
            heads: vec![
                "system".into(),
                size::cpus(u64::from(least)),
                size::cpus(u64::from(most)),
                "of linear".into(),
                "scales to".into(),
                "most time with memory".into(),
            ],
            lines: self.scalings.iter().map(line).collect(),
        }
    }

    /// Names the largest number of CPUs of a system's results.
    fn most(&self) -> String {
        match (self.plan.stops, self.plan.cpus.last()) {
            (false, Some(most)) => size::cpus(u64::from(*most)),
            _ => "the largest number of CPUs with a result".to_string(),
        }
    }

    /// Returns which lines move, and what CPUs wait for.
    fn causes(&self) -> Lines {
        let line = |own: &&Scaling| {
            let most = own.rates.last().map_or(0, |(cpus, _)| *cpus);
            let parts = |metric| self.parts(own, most, metric);
            vec![own.system.clone(), parts("line_moves"), parts("waits")]
        };
        Lines {
            title: format!("What moves between CPUs, and what is waited for, on {}, simulated", self.most()),
            note: "Times per call. A line moves when it comes from another core, or is taken away from all others that \
                   had it. Parts of the metadata on which calls spend less than 1% of their time with memory are left \
                   out."
                .to_string(),
            heads: ["system", "lines that move most", "waited for"].map(String::from).to_vec(),
            lines: self.scalings.iter().map(line).collect(),
        }
    }

    /// Names the parts of a system's metadata with the largest numbers, means over the seeds.
    fn parts(&self, own: &Scaling, most: u16, metric: &str) -> String {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for row in self.rows {
            if (row.metric, row.cpus) == (metric, most)
                && row.name() == own.system
                && let Some(part) = part_of(&own.load, row)
            {
                *sums.entry(part).or_default() += row.value / self.plan.seeds.len() as f64;
            }
        }
        let mut parts: Vec<(&str, f64)> = sums.into_iter().filter(|own| own.1 >= LEAST).collect();
        parts.sort_by(|one, other| other.1.total_cmp(&one.1));
        let named = parts.iter().take(NAMED);
        let texts: Vec<String> = named
            .map(|(part, value)| format!("{part} {value:.2}"))
            .collect();
        texts.join(", ")
    }
}

/// Returns the table of recorded and simulated waits.
fn lines_of(waits: &Waits) -> Lines {
    let heads = waits.columns.iter().map(|own| own.head.join(" "));
    let line = |(at, name): (usize, &String)| {
        let texts = waits.columns.iter().map(|own| own.texts[at].clone());
        std::iter::once(name.clone()).chain(texts).collect()
    };
    Lines {
        title: waits.title.clone(),
        note: waits.note.replace('`', ""),
        heads: std::iter::once("system".to_string()).chain(heads).collect(),
        lines: waits.names.iter().enumerate().map(line).collect(),
    }
}

fn article(noun: &str) -> String {
    if noun.starts_with('a') {
        format!("an {noun}")
    } else {
        format!("a {noun}")
    }
}

/// Returns an axis that includes all points, with marks at 1, 2 and 5 times the powers of ten.
fn logarithmic(label: &str, series: &[Series]) -> Axis {
    let values = || {
        series
            .iter()
            .flat_map(|own| own.points.iter().map(|point| point.1))
    };
    let (least, most) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(f64::NEG_INFINITY, f64::max),
    );
    if least > most {
        return Axis {
            label: label.to_string(),
            range: (0.0, 1.0),
            marks: Vec::new(),
            base: Some(10.0),
        };
    }
    let range = (least - 0.1, most + 0.1);
    let digits: &[f64] = match most - least {
        few if few < 2.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let powers = range.0.floor() as i32..=range.1.ceil() as i32;
    let marks = powers.flat_map(|power| digits.iter().map(move |digit| (power, *digit)));
    let marks = marks.map(|(power, digit)| digit * 10f64.powi(power));
    let marks = marks.map(|value| (value.log10(), few(value)));
    Axis {
        label: label.to_string(),
        range,
        marks: marks
            .filter(|(at, _)| (range.0..=range.1).contains(at))
            .collect(),
        base: Some(10.0),
    }
}

/// Formats a number of one digit.
fn few(value: f64) -> String {
    match value {
        large if large >= 1e9 => format!("{}G", large / 1e9),
        large if large >= 1e6 => format!("{}M", large / 1e6),
        small if small < 1.0 => format!("{small}"),
        value => size::count(value.round() as u64),
    }
}

/// Returns the parameters of a machine, with their sources.
fn parameters(machine: &Machine) -> Lines {
    let line = |own: &everybuddy_simulate::machines::Number| {
        let value = own.text(&machine.hardware)?;
        let value = match own.unit {
            "" => value,
            unit => format!("{value} {unit}"),
        };
        let source = machine.source(own.key).unwrap_or_default();
        let key = own.key.to_string();
        Some(vec![
            key,
            value,
            own.meaning.to_string(),
            source.to_string(),
        ])
    };
    Lines {
        title: format!("The simulated machine: {}", machine.name),
        note: machine.text.clone(),
        heads: ["parameter", "value", "meaning", "source"]
            .map(String::from)
            .to_vec(),
        lines: NUMBERS.iter().filter_map(line).collect(),
    }
}

#[cfg(test)]
mod tests;
