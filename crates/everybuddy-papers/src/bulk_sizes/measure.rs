//! The number of frames that a refill and a drain move.
//!
//! # Purpose
//!
//! A batch is what a list asks for, not what it gets, and because what one holds a lock for
//! is the frames that really move.
//!
//! # Invariants
//!
//! Counted on one thread in the trace's order: the same numbers come out each time.

use crate::shared::Repeats;
use crate::shared::experiment::Experiment;
use crate::shared::method::{Bench, Conditions, Measure, Traced, common, replays, row};
use everybuddy_measure::Error;
use everybuddy_measure::replay::observe::{Timing, Whole};
use everybuddy_measure::replay::outcome::mean;
use everybuddy_measure::replay::pass::{self, How};
use everybuddy_measure::replay::script::Lane;
use everybuddy_measure::replay::watch::{Bulks, ExtraProbe, Watch};
use everybuddy_measure::rows::Row;
use serde::Deserialize;

/// The parameters in the experiment's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {}

impl Measure for Parameters {
    fn repeats(&self) -> Repeats {
        Repeats::Counted
    }

    /// Returns the number of replays.
    fn steps(&self, experiment: &Experiment) -> u64 {
        (experiment.traces().len() * experiment.systems.len()) as u64
    }

    /// Replays every trace on every system.
    fn run(
        &self,
        experiment: &Experiment,
        conditions: &Conditions,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Row>, Error> {
        let specs = experiment.specs()?;
        let timer = bench.timer;
        let mut rows = Vec::new();
        for traced in replays(experiment, conditions, experiment.threads)? {
            let Traced {
                name,
                script,
                memory,
                ..
            } = traced?;
            for spec in &specs {
                let how = How {
                    probe: &Watch::bulks,
                    ..How::COUNTED
                };
                let new = |lane: &Lane| Whole::new(timer, lane);
                let done = pass::watch(&script, &memory, bench.arena, spec, how, new)?;
                let mut all = Bulks::default();
                for own in &done.probes {
                    if let ExtraProbe::Bulks(own) = &own.extra {
                        all.refills.join(&own.refills);
                        all.drains.join(&own.drains);
                    }
                }
                let common = common(experiment, conditions, &name, spec, script.cpus);
                for (operation, moments) in [("allocate", all.refills), ("free", all.drains)] {
                    let own = Row {
                        operation,
                        order: Some(0),
                        ..common.clone()
                    };
                    let published = experiment.published.iter();
                    let theirs =
                        published.filter(|p| p.metric == "bulk_frames" && p.operation == operation);
                    let expected = mean(theirs.map(|published| published.mean));
                    let is_alike = experiment.comparable == Some(spec.to_string());
                    rows.push(row(&own, "bulk_frames", "count", moments.count as f64));
                    rows.extend(moments.mean().map(|mean| Row {
                        expected: expected.filter(|_| is_alike),
                        ..row(&own, "bulk_frames", "mean", mean)
                    }));
                    let stddev = moments.stddev();
                    rows.extend(
                        stddev.map(|own_stddev| row(&own, "bulk_frames", "stddev", own_stddev)),
                    );
                }
                (bench.step)(&format!("{name} {spec}"));
            }
        }
        Ok(rows)
    }
}
