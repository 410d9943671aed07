//! A paper's table next to what a simulated machine gives.
//!
//! A reader of a model asks two questions: does it keep the paper's orders, and how far off are its numbers? The
//! second question needs a yardstick. A trivial predictor takes the simulated time of one system as the prediction
//! for another. A model whose errors are not smaller than those of such a predictor has explained nothing about the
//! difference between the two systems.
//!
//! # Invariants
//! Nothing is fitted to the paper's numbers, so every cell is a prediction. Two numbers of a paper that differ by
//! at most [`EQUAL`] have no order. An order is kept if the numbers here have the same one, however small their
//! difference is.

use everybuddy_measure::choice::all_known;

use crate::shared::prelude::*;

/// The relative difference up to which two numbers of a paper are equal.
const EQUAL: f64 = 0.05;

/// Returns the source of rows: a workload with a number of CPUs, and the end that a reading gives it.
pub(super) fn source_of(workload: &str, cpus: u16, reading: &str) -> String {
    format!("{workload}/{cpus}{reading}")
}

/// A table of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Printed {
    /// The metric.
    pub(crate) metric: String,
    /// The operation.
    pub(crate) operation: String,
    /// The numbers of CPUs that its columns are for.
    pub(crate) cpus: Vec<u16>,
    /// Workload, system, and a number for each of them.
    pub(crate) cells: Vec<(String, String, Vec<f64>)>,
    /// Trivial predictors: the first system is predicted to be like the second.
    #[serde(default)]
    pub(crate) predictors: Vec<(String, String)>,
}

/// A number of a paper and what is simulated for it.
#[derive(Clone, Copy)]
struct Pair<'p> {
    /// Workload and number of CPUs.
    place: (&'p str, u16),
    system: &'p str,
    printed: f64,
    own: f64,
}

impl Printed {
    /// Checks that each line has a number for each number of CPUs, and that what it names is simulated.
    pub(crate) fn check(&self, experiment: &Experiment, cpus: &[u16]) -> Result<(), String> {
        let known = |what, name: &String, all: &[String]| {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            all_known(what, std::slice::from_ref(name), &all)
                .map_err(|what| format!("[parameters]: printed: {what}"))
        };
        for (workload, system, _) in &self.cells {
            known("workload", workload, &experiment.workloads)?;
            known("system", system, &experiment.systems)?;
        }
        if let Some(wrong) = self.cpus.iter().find(|own| !cpus.contains(own)) {
            return Err(format!(
                "[parameters]: printed: {wrong} CPUs are not simulated"
            ));
        }
        let wrong = |cell: &&(String, String, Vec<f64>)| cell.2.len() != self.cpus.len();
        match self.cells.iter().find(wrong) {
            None => Ok(()),
            Some((workload, system, values)) => Err(format!(
                "[parameters]: printed: {workload}, {system}: {} numbers for {} numbers of CPUs",
                values.len(),
                self.cpus.len()
            )),
        }
    }

    /// Writes the paper's numbers into the rows that they are about. `reading` is the end of the rows' sources.
    pub(crate) fn mark(&self, rows: &mut [Row], reading: &str) {
        for (workload, system, values) in &self.cells {
            for (cpus, value) in self.cpus.iter().zip(values) {
                let source = source_of(workload, *cpus, reading);
                let mut own = rows.iter_mut().filter(|row| self.fits(row));
                if let Some(row) = own.find(|row| row.source == source && row.name() == *system) {
                    row.expected = Some(*value);
                }
            }
        }
    }

    /// Judges the rows of a reading: how many orders of the paper are kept, and how large the errors are.
    pub(crate) fn judge(&self, base: &Row, rows: &[Row], reading: &str) -> Vec<Row> {
        let pairs = self.pairs(rows, reading, |system| system);
        let row = |system: &str, metric, statistic, value: f64| Row {
            source: format!("{MEAN}{reading}"),
            system: system.to_string(),
            options: String::new(),
            cpus: 0,
            operation: base.operation,
            metric,
            statistic,
            value: rounded(value),
            ..base.clone()
        };
        let mut all = Vec::new();
        let mut count = |name: &str, (kept, judged): (usize, usize)| {
            if judged > 0 {
                let share = kept as f64 / judged as f64;
                all.push(row(name, "orders_kept", "rate", share));
                all.push(row(name, "orders_kept", "count", judged as f64));
            }
        };
        count("all systems", orders(&pairs));
        count(FIXED, orders(&fixed(&pairs)));
        let systems = self.systems();
        for (at, one) in systems.iter().enumerate() {
            for other in &systems[at + 1..] {
                let own = pairs
                    .iter()
                    .filter(|pair| [*one, *other].contains(&pair.system));
                let own: Vec<Pair<'_>> = own.copied().collect();
                count(&format!("{one} against {other}"), orders(&own));
            }
        }
        let mut add = |name: &str, pairs: &[Pair<'_>]| {
            if let Some((error, shape)) = errors(pairs) {
                all.push(row(name, "log_error", "value", error));
                all.push(row(name, "log_error", "scaled", shape));
            }
        };
        add("all systems", &pairs);
        for (system, other) in &self.predictors {
            for (name, stands_for) in [(system.clone(), system), (predictor(system, other), other)]
            {
                let pairs = self.pairs(rows, reading, |_| stands_for).into_iter();
                let own = pairs.filter(|pair| pair.system == system);
                add(&name, &own.collect::<Vec<_>>());
            }
        }
        all
    }

    /// Returns the systems of the table, in its order.
    fn systems(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for (_, system, _) in &self.cells {
            if !all.contains(&system.as_str()) {
                all.push(system);
            }
        }
        all
    }

    /// Returns all numbers of the paper for which there is one here. `stands_for` names the system whose number is
    /// taken for a system.
    fn pairs<'p>(
        &'p self,
        rows: &[Row],
        reading: &str,
        stands_for: impl Fn(&'p str) -> &'p str,
    ) -> Vec<Pair<'p>> {
        let mut all = Vec::new();
        for (workload, system, values) in &self.cells {
            for (cpus, printed) in self.cpus.iter().zip(values) {
                let source = source_of(workload, *cpus, reading);
                let other = stands_for(system);
                let mut own = rows.iter().filter(|row| self.fits(row));
                let found = own.find(|row| row.source == source && row.name() == other);
                all.extend(found.map(|row| Pair {
                    place: (workload, *cpus),
                    system,
                    printed: *printed,
                    own: row.value,
                }));
            }
        }
        all
    }

    fn fits(&self, row: &Row) -> bool {
        row.metric == self.metric && row.statistic == "mean" && row.operation == self.operation
    }
}

/// The trivial predictor of orders: one order of the systems everywhere, that of their mean numbers in the paper. It is
/// chosen in hindsight.
const FIXED: &str = "one fixed order";

/// Returns the pairs with what that predictor says.
fn fixed<'p>(pairs: &[Pair<'p>]) -> Vec<Pair<'p>> {
    let mean = |system: &str| {
        let own = pairs.iter().filter(|pair| pair.system == system);
        own.map(|pair| pair.printed.max(f64::MIN_POSITIVE).ln())
            .sum::<f64>()
    };
    let with = |pair: &Pair<'p>| Pair {
        own: mean(pair.system),
        ..*pair
    };
    pairs.iter().map(with).collect()
}

/// Returns the name of a trivial predictor, which is the subject of its rows.
pub(crate) fn predictor(system: &str, other: &str) -> String {
    format!("{system} as {other}")
}

/// Returns how many pairs of systems at a place have the paper's order, and how many have an order in the paper.
fn orders(pairs: &[Pair<'_>]) -> (usize, usize) {
    let (mut kept, mut judged) = (0, 0);
    for (at, one) in pairs.iter().enumerate() {
        for other in &pairs[at + 1..] {
            let most = one.printed.abs().max(other.printed.abs());
            if one.place != other.place || (one.printed - other.printed).abs() <= EQUAL * most {
                continue;
            }
            judged += 1;
            let is_same = (one.printed < other.printed && one.own < other.own)
                || (one.printed > other.printed && one.own > other.own);
            kept += usize::from(is_same);
        }
    }
    (kept, judged)
}

/// Returns the root mean square of ln(here / paper), and the same after the one factor that makes it smallest. A number
/// that is not positive has no logarithm: then returns `None`.
fn errors(pairs: &[Pair<'_>]) -> Option<(f64, f64)> {
    if pairs
        .iter()
        .any(|pair| pair.own <= 0.0 || pair.printed <= 0.0)
    {
        return None;
    }
    let pairs = pairs.iter();
    let logs: Vec<f64> = pairs.map(|pair| (pair.own / pair.printed).ln()).collect();
    if logs.is_empty() {
        return None;
    }
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let around = |center: f64| {
        let squares = logs.iter().map(|log| (log - center).powi(2));
        (squares.sum::<f64>() / count).sqrt()
    };
    Some((around(0.0), around(mean)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Parameters;

    fn pair(
        place: (&'static str, u16),
        system: &'static str,
        printed: f64,
        own: f64,
    ) -> Pair<'static> {
        Pair {
            place,
            system,
            printed,
            own,
        }
    }

    #[test]
    fn orders_are_counted_by_hand() {
        let (one, two) = (("a", 1), ("a", 2));
        let pairs = [
            pair(one, "x", 100.0, 1.0),
            // Equal to x in the paper; before z, and here not.
            pair(one, "y", 104.0, 9.0),
            pair(one, "z", 200.0, 2.0),
            // Another place.
            pair(two, "x", 300.0, 0.5),
            pair(two, "y", 100.0, 0.1),
        ];
        // x < z and, at the second place, y < x are kept; y < z is not.
        assert_eq!(orders(&pairs), (2, 3));
        // What is equal here has no order, so none is kept.
        let equal = [pair(one, "x", 1.0, 5.0), pair(one, "y", 2.0, 5.0)];
        assert_eq!(orders(&equal), (0, 1));
    }

    #[test]
    fn errors_are_computed_by_hand() {
        let place = ("a", 1);
        let twice = [pair(place, "x", 10.0, 20.0), pair(place, "y", 30.0, 60.0)];
        let (error, scaled) = errors(&twice).unwrap();
        assert!((error - 2f64.ln()).abs() < 1e-9 && scaled < 1e-9);
        let apart = [pair(place, "x", 10.0, 20.0), pair(place, "y", 10.0, 5.0)];
        let (error, scaled) = errors(&apart).unwrap();
        assert!((error - 2f64.ln()).abs() < 1e-9 && (scaled - error).abs() < 1e-9);
        assert_eq!(errors(&[]), None);
        assert_eq!(errors(&[pair(place, "x", 10.0, -1.0)]), None);
    }

    #[test]
    fn what_is_not_simulated_is_refused() {
        let text = include_str!("../table_1/experiment.toml");
        #[rustfmt::skip]
        let cases = [
            ("[\"ibuddy:dbench\", \"is+", "[\"ibuddy:dbenhc\", \"is+", "`ibuddy:dbench`"),
            ("\"ibuddy:stream\", \"lbs-1", "\"ibuddy:stream\", \"lbs-2", "`lbs-1"),
            ("cpus = [1, 2, 4, 8, 16, 32]\npredictors", "cpus = [1, 2, 4, 8, 15, 32]\npredictors", "15 CPUs"),
            ("190.0, ", "", "5 numbers for 6"),
        ];
        for (right, wrong, what) in cases {
            let changed = text.replacen(right, wrong, 1);
            assert_ne!(changed, *text, "{right}");
            let own = Experiment::parse("x.toml", &changed).unwrap();
            let parameters: Parameters = own.parameters.clone().try_into().unwrap();
            let message = parameters.printed[0]
                .check(&own, &parameters.cpus)
                .unwrap_err();
            assert!(message.contains(what), "{message}");
        }
    }

    #[test]
    fn numbers_are_marked_and_judged_where_they_belong() {
        let text = r#"
            metric = "cycles"
            operation = "all"
            cpus = [1, 8]
            cells = [["w", "bs", [100.0, 200.0]], ["w", "is", [50.0, 60.0]]]
            predictors = [["is", "bs"]]
        "#;
        let printed: Printed = toml::from_str(text).unwrap();
        let row = |system: &str, cpus, reading: &str, value| Row {
            source: source_of("w", cpus, reading),
            system: system.to_string(),
            cpus,
            operation: "all",
            metric: "cycles",
            statistic: "mean",
            value,
            ..Row::default()
        };
        let mut rows = vec![
            row("bs", 1, "", 100.0),
            row("is", 1, "", 50.0),
            row("bs", 8, "", 200.0),
            row("is", 8, "", 240.0),
            row("bs", 8, "+other", 7.0),
        ];
        printed.mark(&mut rows, "");
        let expected: Vec<Option<f64>> = rows.iter().map(|row| row.expected).collect();
        let numbers = [Some(100.0), Some(50.0), Some(200.0), Some(60.0), None];
        assert_eq!(expected, numbers);
        let judged = printed.judge(&Row::default(), &rows, "");
        let find = |system: &str, metric: &str, statistic: &str| {
            let mut own = judged.iter().filter(|row| row.system == system);
            let own = own.find(|row| row.metric == metric && row.statistic == statistic);
            own.map(|row| row.value)
        };
        assert_eq!(find("all systems", "orders_kept", "rate"), Some(0.5));
        assert_eq!(find("all systems", "orders_kept", "count"), Some(2.0));
        // One of the two numbers of `is` is right, the other one four times too large.
        let error = find("is", "log_error", "value").unwrap();
        assert!((error - 4f64.ln() / 2f64.sqrt()).abs() < 1e-6);
        // `bs` for `is`: twice, and 200 instead of 60.
        let guess = find("is as bs", "log_error", "value").unwrap();
        let by_hand = ((2f64.ln().powi(2) + (200.0 / 60.0f64).ln().powi(2)) / 2.0).sqrt();
        assert!((guess - by_hand).abs() < 1e-6);
        // In the paper `is` is always faster: that order keeps both.
        assert_eq!(find(FIXED, "orders_kept", "rate"), Some(1.0));
        assert_eq!(find("bs against is", "orders_kept", "rate"), Some(0.5));
    }

    #[test]
    fn each_pair_of_systems_is_counted() {
        let printed: Printed = toml::from_str(
            r#"
            metric = "cycles"
            operation = "all"
            cpus = [1]
            cells = [["w", "x", [1.0]], ["w", "y", [2.0]], ["w", "z", [3.0]], ["v", "x", [1.0]], ["v", "z", [1.02]]]
            "#,
        )
        .unwrap();
        let row = |workload, system: &str, value| Row {
            source: source_of(workload, 1, ""),
            system: system.to_string(),
            operation: "all",
            metric: "cycles",
            statistic: "mean",
            value,
            ..Row::default()
        };
        // Only y and z change places; in the second workload, x and z have no order in the paper.
        let rows = [
            row("w", "x", 1.0),
            row("w", "y", 9.0),
            row("w", "z", 5.0),
            row("v", "x", 7.0),
            row("v", "z", 1.0),
        ];
        let judged = printed.judge(&Row::default(), &rows, "");
        let own = judged.iter().filter(|row| row.metric == "orders_kept");
        let of = |statistic| {
            let own = own.clone().filter(move |row| row.statistic == statistic);
            own.filter(|row| row.system.contains(" against "))
                .map(|row| (row.system.as_str(), row.value))
                .collect::<Vec<_>>()
        };
        let pairs = ["x against y", "x against z", "y against z"];
        assert_eq!(
            of("rate"),
            [(pairs[0], 1.0), (pairs[1], 1.0), (pairs[2], 0.0)]
        );
        assert_eq!(of("count"), pairs.map(|pair| (pair, 1.0)));
    }
}
