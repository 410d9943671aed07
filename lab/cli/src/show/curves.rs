//! Figures of simulations: what each system does on each number of CPUs.
//!
//! # Invariants
//! Every number is from rows that are also exported. Every title says that it is simulated; a title of waits that a
//! trace contains also says that they are recorded.

use std::collections::BTreeMap;

use everybuddy_measure::rows::Row;
use everybuddy_measure::size;
use everybuddy_page::document::{Axis, Figure, Key, Panel, Series, Shape};
use everybuddy_simulate::{Load, Plan, Scaling};

use super::waits::{RECORDED, Waits};

/// The name of the line of as many CPUs that do not disturb each other.
const LINEAR: &str = "linear";

/// The results under one load.
pub(super) struct Results<'r> {
    pub(super) plan: &'r Plan,
    pub(super) load: &'r Load,
    /// Those of this load.
    pub(super) scalings: Vec<&'r Scaling>,
    pub(super) rows: &'r [Row],
}

impl Results<'_> {
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

    /// Returns the figure, with recorded waits if there are any.
    pub(super) fn figure(&self, waits: Option<&Waits>) -> Figure {
        let mut panels = vec![self.throughput()];
        for (operation, noun) in [("allocate", "allocation"), ("free", "free")] {
            for (statistic, what) in [("p50", "Median"), ("p99", "99th percentile")] {
                let curves = self.curves("latency", statistic, operation);
                let title = format!("{what} of the time of {}, simulated", article(noun));
                panels.push(self.panel(title, "nanoseconds, logarithmic", &curves));
            }
        }
        if let Load::Trace(_) = self.load {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> Vec<Series> {
        vec![Series {
            points: values.iter().map(|value| (0.0, value.log10())).collect(),
            ..Series::default()
        }]
    }

    #[test]
    fn an_axis_includes_all_points_and_has_marks() {
        for values in [&[3.0, 4.0][..], &[0.02, 7e9], &[5.0], &[]] {
            let axis = logarithmic("", &series(values));
            let (least, most) = axis.range;
            assert!(
                values
                    .iter()
                    .all(|value| (least..most).contains(&value.log10()))
            );
            assert!(axis.marks.iter().all(|(at, _)| (least..=most).contains(at)));
            assert!(values.len() < 2 || !axis.marks.is_empty(), "{values:?}");
        }
    }

    #[test]
    fn marks_are_short() {
        let texts = [0.2, 5.0, 2000.0, 5e6, 1e10].map(few);
        assert_eq!(texts, ["0.2", "5", "2,000", "5M", "10G"]);
    }
}
