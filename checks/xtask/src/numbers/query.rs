//! Numbers of committed results: which rows are meant, and how their values are written.
//!
//! Tables and facts ask for numbers in the same words:
//!
//! ```text
//! bench hot:order0@2 system=lbs-31 pair latency p50     experiment, source@CPUs, operation metric statistic
//! order=9 in=simulated/owned of=compare                 rows of an order; another file below results; an experiment
//! gcc_build,dbench_tar@                                 a list, with any number of CPUs; `~` stands for a space
//! */8@, system=*+percpu=locked, free _ _                around or beside what other words name
//! =mean, =min, =max                                     of the list, or of all seeds
//! /1e6, x100                                            scales
//! over system=bs, minus @1, over system=bs,is =min      compared with what differs so
//! .2, 3s, 0%, -0%, +0%                                  places, significant digits; percent, saved, more
//! (p99), ±ci95                                          a second statistic behind the first
//! ```
//!
//! A later word replaces an earlier one, so the words of a column add to those of their table.
//!
//! # Invariants
//! A row that the results do not have is an error. So are several rows where one is meant.

use everybuddy_metrics::count;

use super::results::{Results, Row};

/// The metric without a row for a system that scales to all CPUs.
const LIMIT: &str = "scaling_limit";

/// The words of a query, by what they say. Those that are missing are empty.
#[derive(Clone, Default)]
pub(super) struct Query {
    experiment: String,
    file: String,
    cpus: String,
    /// Source, system, operation, metric, statistic and order: lists, or `*` for all.
    names: [String; 6],
    reduction: String,
    scale: Option<f64>,
    format: String,
    second: String,
    /// `over` or `minus`, and the words that differ in what the values are compared with.
    base: Option<(String, String)>,
}

impl Query {
    /// Reads an experiment and the words behind it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (experiment, words) = text.split_once(' ').unwrap_or((text, ""));
        let query = Self {
            experiment: experiment.to_owned(),
            ..Self::default()
        };
        query.with(words)
    }

    /// Returns the query with further words.
    pub(super) fn with(mut self, words: &str) -> Result<Self, String> {
        let mut names = Vec::new();
        let mut words = words.split_whitespace();
        while let Some(word) = words.next() {
            if let "over" | "minus" = word {
                let others: Vec<&str> = words.by_ref().collect();
                self.base = Some((word.to_owned(), others.join(" ")));
            } else if word.starts_with(['(', '±']) {
                self.second = word.to_owned();
            } else if formatted(word, 0.0).is_some() {
                self.format = word.to_owned();
            } else if let Some(scale) = scale(word) {
                self.scale = Some(scale);
            } else if let Some((key, value)) = word.split_once('=') {
                match key {
                    "in" => self.file = value.to_owned(),
                    "of" => self.experiment = value.to_owned(),
                    "" => self.reduction = value.to_owned(),
                    "system" => name(&mut self.names[1], value),
                    "order" => self.names[5] = value.to_owned(),
                    _ => return Err(format!("`{word}`: no query has a `{key}`")),
                }
            } else if let Some((source, cpus)) = word.split_once('@') {
                name(&mut self.names[0], source);
                name(&mut self.cpus, cpus);
            } else {
                names.push(word);
            }
        }
        if ![0, 3].contains(&names.len()) {
            let names = names.join(" ");
            return Err(format!("`{names}` is not `OPERATION METRIC STATISTIC`"));
        }
        for (field, word) in self.names[2..].iter_mut().zip(names) {
            name(field, if word == "_" { "" } else { word });
        }
        Ok(self)
    }

    /// Returns the query for a system, unless its words name one.
    pub(super) fn of_system(mut self, system: &str) -> Self {
        if self.names[1].is_empty() || self.names[1].contains('*') {
            name(&mut self.names[1], system);
        }
        self
    }

    /// Returns the number as a document has it.
    pub(super) fn text(&self, results: &Results) -> Result<String, String> {
        let first = self.number(results)?;
        if self.second.is_empty() {
            return Ok(first);
        }
        let mut query = self.clone();
        query.names[4] = self.second.trim_matches(['(', ')', '±']).to_owned();
        let second = query.number(results)?;
        let is_bound = self.second.starts_with('±');
        Ok(if is_bound {
            format!("{first} ± {second}")
        } else {
            format!("{first} ({second})")
        })
    }

    fn number(&self, results: &Results) -> Result<String, String> {
        match self.values(results) {
            Ok(values) => {
                let text = |value: &f64| formatted(&self.format, *value).unwrap_or_default();
                Ok(values.iter().map(text).collect::<Vec<_>>().join(", "))
            }
            Err(missing) => self.instead(results).ok_or(missing),
        }
    }

    /// Returns the numbers that the query asks for.
    pub(super) fn values(&self, results: &Results) -> Result<Vec<f64>, String> {
        let mut values = self.plain(results)?;
        if let Some((comparison, words)) = &self.base {
            let mut base = self.clone();
            (base.base, base.scale) = (None, None);
            if base.reduction != "mean" {
                base.reduction.clear();
            }
            let bases = base.with(words)?.values(results)?;
            if ![1, values.len()].contains(&bases.len()) {
                return Err(format!("{} values against {}", values.len(), bases.len()));
            }
            for (value, base) in values.iter_mut().zip(bases.iter().cycle()) {
                *value = if comparison == "over" {
                    *value / base
                } else {
                    *value - base
                };
            }
        }
        if !self.reduction.is_empty() {
            values = vec![reduced(&self.reduction, &values)?];
        }
        let scale = self.scale.unwrap_or(1.0);
        Ok(values.iter().map(|value| value * scale).collect())
    }

    /// Returns the values of the rows that are meant, in the order of the lists.
    fn plain(&self, results: &Results) -> Result<Vec<f64>, String> {
        let rows = results.rows(&self.file, &self.experiment)?;
        let mut found = Vec::new();
        for wanted in self.spread() {
            let is_meant = |row: &&Row| {
                let mut pairs = wanted.iter().zip(&row.names);
                row.experiment == self.experiment
                    && pairs.all(|(wanted, own)| wanted == "*" || wanted == own)
                    && (self.cpus.is_empty() || self.cpus == row.cpus)
            };
            let values = results.values(rows.iter().filter(is_meant));
            let is_one = self.reduction.is_empty() && !wanted.iter().any(|name| name == "*");
            if values.is_empty() || values.len() > 1 && is_one {
                let (count, names) = (values.len(), wanted.join(" "));
                let (experiment, cpus) = (&self.experiment, &self.cpus);
                return Err(format!("{count} rows of {experiment}: `{names}` @{cpus}"));
            }
            found.extend(values);
        }
        // The mean of seeds is formed before anything is compared with it.
        Ok(match self.reduction.as_str() {
            "mean" => vec![reduced("mean", &found)?],
            _ => found,
        })
    }

    /// Returns all combinations of the alternatives of each name.
    fn spread(&self) -> Vec<Vec<String>> {
        let mut all: Vec<Vec<String>> = vec![Vec::new()];
        for names in &self.names {
            let longer = |begun: &Vec<String>| -> Vec<_> {
                let own = names.split(',').map(|name| name.replace('~', " "));
                own.map(|name| [&begun[..], &[name]].concat()).collect()
            };
            all = all.iter().flat_map(longer).collect();
        }
        all
    }

    /// Returns what stands for a number that has no row: that a benchmark has no median since the system cannot run it,
    /// or that a system scales to all CPUs.
    fn instead(&self, results: &Results) -> Option<String> {
        let rows = results.rows(&self.file, &self.experiment).ok()?;
        let [source, system, _, metric, statistic, _] = &self.names;
        let is_own = |row: &&Row| row.experiment == self.experiment && row.names[1] == *system;
        let own = || rows.iter().filter(is_own);
        let of = |metric| {
            let is_meant = move |row: &&Row| row.names[0] == *source && row.names[3] == metric;
            own().filter(is_meant)
        };
        if metric == LIMIT {
            let cpus = of("linearity").filter_map(|row| row.cpus.parse::<u32>().ok());
            let is_limited = of(LIMIT).next().is_some();
            let most = cpus.max().filter(|_| !is_limited);
            return most.map(|most| format!("> {most}"));
        }
        own().next()?;
        (statistic == "p50").then(|| "–".to_owned())
    }
}

/// Sets a name or a list, unless it is empty. A name with a star contains what was there, or what is set later.
fn name(field: &mut String, name: &str) {
    let is_around = |name: &str| name.contains('*') && name != "*";
    let (around, names) = match name {
        "" => return,
        _ if is_around(name) && !field.is_empty() => (name, field.as_str()),
        _ if is_around(field) => (field.as_str(), name),
        _ => ("*", name),
    };
    let names = names.split(',').map(|own| around.replace('*', own));
    *field = names.collect::<Vec<_>>().join(",");
}

/// Returns the one value that is made of several.
fn reduced(reduction: &str, values: &[f64]) -> Result<f64, String> {
    let all = values.iter().copied();
    match reduction {
        "mean" => Ok(all.sum::<f64>() / values.len() as f64),
        "min" => Ok(all.fold(f64::INFINITY, f64::min)),
        "max" => Ok(all.fold(f64::NEG_INFINITY, f64::max)),
        _ => Err(format!("`={reduction}` is none of `=mean`, `=min`, `=max`")),
    }
}

fn scale(word: &str) -> Option<f64> {
    match word.strip_prefix('/') {
        Some(divisor) => divisor.parse().ok().map(|divisor: f64| 1.0 / divisor),
        None => word.strip_prefix('x')?.parse().ok(),
    }
}

/// Returns a number in a format, or `None` if it is not a format. The empty one writes about three digits.
fn formatted(format: &str, value: f64) -> Option<String> {
    let value = value + 0.0;
    if format.is_empty() {
        return Some(match value {
            _ if value.fract() == 0.0 && (value == 0.0 || value >= 10.0) || value >= 100.0 => {
                format!("{value:.0}")
            }
            _ if value >= 10.0 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        });
    }
    if let Some(digits) = format.strip_suffix('s') {
        let digits: i32 = digits.parse().ok()?;
        let places = |value: f64| match value {
            0.0 => digits - 1,
            value => digits - 1 - value.abs().log10().floor() as i32,
        };
        let scale = 10f64.powi(places(value));
        let rounded = (value * scale).round() / scale;
        // 0.996 has one place fewer when it becomes 1.0.
        let places = places(rounded).max(0) as usize;
        return Some(grouped(&format!("{rounded:.places$}")));
    }
    if let Some(percent) = format.strip_suffix('%') {
        let value = match percent.chars().next() {
            Some('-') => 1.0 - value,
            Some('+') => value - 1.0,
            _ => value,
        };
        let places: usize = percent.trim_start_matches(['-', '+', '.']).parse().ok()?;
        let text = format!("{:.places$}%", value * 100.0);
        return Some(if text == "100.0%" {
            "100%".to_owned()
        } else {
            text
        });
    }
    let places: usize = format.strip_prefix('.')?.parse().ok()?;
    Some(grouped(&format!("{value:.places$}")))
}

/// Puts commas between groups of three digits.
fn grouped(number: &str) -> String {
    let digits = number.trim_start_matches('-');
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let sign = &number[..number.len() - digits.len()];
    format!("{sign}{}{rest}", count(whole.parse().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_digits_and_commas() {
        let text = |format, value| formatted(format, value).expect(format);
        assert_eq!(text("3s", 9.154), "9.15");
        assert_eq!(text("2s", 1234.5), "1,200");
        assert_eq!(text("1s", 0.0), "0");
        assert_eq!(text("2s", 0.996), "1.0");
        assert_eq!(text(".0", 11_505_990.0), "11,505,990");
        assert_eq!(text("0%", 0.126), "13%");
        assert_eq!(text(".1%", 0.126), "12.6%");
        assert_eq!(text("-0%", 0.126), "87%");
        assert_eq!(text("+.1%", 1.126), "12.6%");
        assert_eq!(text(".1%", 1.0), "100%");
        for wrong in ["x", "s", "%", "p99.9", "misses"] {
            assert_eq!(formatted(wrong, 1.0), None, "{wrong}");
        }
        let short = [9.154, 17.32, 226.4, 20.0, 0.0].map(|value| text("", value));
        assert_eq!(short, ["9.15", "17.3", "226", "20", "0"]);
    }

    /// Rows of the experiment `e`, in a folder that is removed with the value.
    fn results(
        rows: &[(&str, &str, u32, &str, &str, f64)],
    ) -> (super::super::tests::Folder, Results) {
        let folder = super::super::tests::Folder::new("query");
        folder.run("a", rows);
        let results = Results::new(&folder.0);
        (folder, results)
    }

    #[test]
    fn words_select_rows_and_compare_them() {
        let (_folder, results) = results(&[
            ("x", "bs", 1, "m", "mean", 10.0),
            ("x", "bs", 1, "m", "ci95", 0.5),
            ("y", "bs", 1, "m", "mean", 20.0),
            ("x", "is", 1, "m", "mean", 4.0),
            ("x", "is", 2, "m", "mean", 5.0),
            ("x by y", "bs", 1, "m", "mean", 7.0),
            ("seeds", "bs", 1, "m", "mean", 1.0),
            ("seeds", "bs", 1, "m", "mean", 3.0),
        ]);
        let text = |words: &str| Query::parse(words)?.text(&results);
        #[rustfmt::skip]
        let cases = [
            ("e x@ system=bs all m mean", "10"),
            ("e x@ system=bs all m mean .1 ±ci95", "10.0 ± 0.5"),
            ("e x@ system=bs all m mean .1 (ci95)", "10.0 (0.5)"),
            ("e x@2 system=is all m mean .1", "5.0"),
            ("e @2 x@ system=is all m mean .1", "5.0"),
            ("e x@ system=bs all m mean over system=is", ""),
            ("e x@1 system=bs all m mean .2 over system=is", "2.50"),
            ("e x@1 system=is all m mean -0% over system=bs", "60%"),
            ("e x@1 system=is all m mean .0 x100 minus system=bs", "-600"),
            ("e x,y@ system=bs all m mean .0", "10, 20"),
            ("e x,y@ system=bs all m mean =max .1 over x@1 system=is", "5.0"),
            ("e x@1 system=is all m mean .1 over x,y@ system=bs =min", "0.4"),
            ("e x,y@ system=bs all m mean =max over =min", "2.00"),
            ("e x@1 system=is all m mean over x,y@ system=bs", ""),
            ("e x,x@ *~by~y@ system=bs all m mean .0", "7, 7"),
            ("e x@ system=bs all m mean .0 over _ _ ci95", "20"),
            ("e x~by~y@ system=bs all m mean /7 .1", "1.0"),
            ("e seeds@ system=bs all m mean =mean .1", "2.0"),
            ("e x@ in=a/reproduce system=bs all m mean", "10"),
            ("e z@ system=bs all m mean", ""),
            ("none x@ system=bs all m mean", ""),
            ("e x@ system=bs all m", ""),
            ("e x@ system=bs all m mean =product", ""),
            ("e seeds@ system=bs all m mean", ""),
            ("e x@ system=is all m mean", ""),
        ];
        for (words, expected) in cases {
            assert_eq!(text(words).unwrap_or_default(), expected, "{words}");
        }
    }

    #[test]
    fn some_numbers_without_a_row_have_a_text() {
        let (_folder, results) = results(&[
            ("b", "bs", 4, "scaling_limit", "value", 2.0),
            ("b", "spring", 64, "linearity", "value", 0.9),
            ("b", "spring", 256, "linearity", "value", 0.5),
        ]);
        let text = |words: &str| Query::parse(words)?.text(&results);
        for (words, expected) in [
            ("e b@ system=bs all scaling_limit value .0", "2"),
            ("e b@ system=spring all scaling_limit value", "> 256"),
            ("e b@ system=none all scaling_limit value", ""),
            ("e b@ system=bs free latency p99", ""),
            ("e b@ system=bs free latency p50", "–"),
            ("e b@ system=none free latency p50", ""),
            ("e b@ system=bs free latency mean", ""),
        ] {
            assert_eq!(text(words).unwrap_or_default(), expected, "{words}");
        }
    }
}
