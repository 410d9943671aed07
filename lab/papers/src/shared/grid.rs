//! A table of an experiment as numbers: lines, columns, and expected values.
//!
//! The terminal and the page show the same table, each in its own layout.
//!
//! # Invariants
//! Every column has as many values as there are names; all values come from exported rows.

use super::{Experiment, TableSpec};
use everybuddy_measure::rows::Row;

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// The trace or workload.
    pub source: String,
    /// The statistic, with the operation if the table has several.
    pub what: String,
    /// The values; `None` if there is no value.
    pub values: Vec<Option<f64>>,
    /// The expected values according to the source.
    pub expected: Vec<Option<f64>>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The systems, in the order of the rows.
    pub names: Vec<String>,
    /// The columns: by source, operation and statistic.
    pub columns: Vec<Column>,
}

impl Grid {
    /// Finds the rows of a table, and arranges them.
    pub fn of(experiment: &Experiment, spec: &TableSpec, rows: &[Row]) -> Grid {
        let fits = |row: &&Row| {
            row.experiment == experiment.name
                && row.is_of_system()
                && row.metric == spec.metric
                && row.order == spec.order
                && spec.operations.iter().any(|own| own == row.operation)
                && spec.statistics.iter().any(|own| own == row.statistic)
                && (spec.sources.is_empty() || spec.sources.contains(&row.source))
        };
        let own: Vec<&Row> = rows.iter().filter(fits).collect();
        let mut names: Vec<String> = Vec::new();
        let mut sources: Vec<&str> = Vec::new();
        for row in &own {
            if !names.contains(&row.name()) {
                names.push(row.name());
            }
            if !sources.contains(&row.source.as_str()) {
                sources.push(&row.source);
            }
        }
        let mut columns = Vec::new();
        for source in sources {
            for operation in &spec.operations {
                for statistic in &spec.statistics {
                    let is_here = |row: &&&Row| {
                        row.source == source
                            && row.operation == operation
                            && row.statistic == statistic
                    };
                    let here: Vec<&&Row> = own.iter().filter(is_here).collect();
                    if here.is_empty() {
                        continue;
                    }
                    let of = |what: &dyn Fn(&Row) -> Option<f64>| {
                        let value = |name: &String| {
                            let row = here.iter().find(|row| row.name() == *name)?;
                            what(row)
                        };
                        names.iter().map(value).collect()
                    };
                    columns.push(Column {
                        source: source.to_string(),
                        what: match spec.operations.len() {
                            1 => statistic.clone(),
                            _ => format!("{operation} {statistic}"),
                        },
                        values: of(&|row| Some(row.value)),
                        expected: of(&|row| row.expected),
                    });
                }
            }
        }
        Grid { names, columns }
    }
}
