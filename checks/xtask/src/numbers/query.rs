//! Numbers of committed results: which rows are meant, and how their values are written.
//!
//! # Purpose
//!
//! Tables and facts ask for numbers in the same words:
//!
//! ```text
//! bench hot:order0@2 system=lbs-31 pair latency p50     experiment, source@CPUs, operation metric statistic
//! order=9 in=bench-zen5/64gib of=compare                rows of an order; another file below results; an experiment
//! gcc_build,dbench_tar@                                 a list, with any number of CPUs; `~` stands for a space
//! */8@, system=*+check=border, free _ _                 around or beside what other words name
//! =mean, =min, =max, =sum                               of the list, or of all seeds
//! /1e6, x100                                            scales
//! over system=bs, minus @1, over system=bs,is =min      compared with what differs so
//! .2, 3s, 0%, -0%, +0%                                  places, significant digits; percent, saved, more
//! (p99), ±ci95                                          a second statistic behind the first
//! ```
//!
//! A later word replaces an earlier one, so the words of a column add to those of their table.
//!
//! # Invariants
//!
//! A row that the results do not have is an error. So are several rows where one is meant.

use std::rc::Rc;

use super::results::{Results, Row};

/// The metric without a row for a system that scales to all CPUs.
const LIMIT: &str = "scaling_limit";

/// The words of a query, by what they say.
#[derive(Clone, Default)]
pub(crate) struct Query<'q> {
    experiment: &'q str,
    file: Option<&'q str>,
    source: Name<'q>,
    cpus: Option<&'q str>,
    system: Name<'q>,
    operation: &'q str,
    metric: &'q str,
    statistic: &'q str,
    /// Empty for rows that are about no order.
    order: &'q str,
    /// How one value is made of a list.
    reduction: Option<Reduction>,
    scale: Option<f64>,
    format: Format,
    second: Option<(char, &'q str)>,
    /// The words that differ in what the values are compared with, and how they are compared.
    base: Option<(Comparison, Vec<&'q str>)>,
}

/// How a value is compared with another one.
type Comparison = fn(f64, f64) -> f64;

/// A name or a list of names, and a second one that contains each in place of a star.
#[derive(Clone, Copy, Default)]
struct Name<'q> {
    own: &'q str,
    around: &'q str,
}

impl<'q> Name<'q> {
    fn set(&mut self, name: &'q str) {
        if name.contains('*') && name != "*" {
            self.around = name;
        } else {
            self.own = name;
        }
    }

    fn text(self) -> String {
        let name = |own| match self.around {
            "" => String::from(own),
            around => around.replace('*', own),
        };
        let names: Vec<String> = self.own.split(',').map(name).collect();
        names.join(",")
    }
}

impl<'q> Query<'q> {
    /// Reads an experiment and the words behind it.
    pub(crate) fn parse(text: &'q str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let experiment = words.next().ok_or("a query begins with its experiment")?;
        let query = Self {
            experiment,
            ..Self::default()
        };
        query.with(words)
    }

    /// Returns the query with further words.
    pub(crate) fn with(mut self, words: impl Iterator<Item = &'q str>) -> Result<Self, String> {
        let mut bare = Vec::new();
        let mut words = words;
        while let Some(word) = words.next() {
            if let Some(statistic) = word.strip_prefix('(') {
                self.second = Some(('(', statistic.trim_end_matches(')')));
            } else if let Some(statistic) = word.strip_prefix('±') {
                self.second = Some(('±', statistic));
            } else if let "over" | "minus" = word {
                let compare: Comparison = if word == "over" {
                    |value, base| value / base
                } else {
                    |value, base| value - base
                };
                self.base = Some((compare, words.by_ref().collect()));
            } else if let Some(format) = Format::parse(word) {
                self.format = format;
            } else if let Some(scale) = scale(word) {
                self.scale = Some(scale);
            } else if let Some((key, value)) = word.split_once('=') {
                match key {
                    "in" => self.file = Some(value),
                    "of" => self.experiment = value,
                    "source" => self.source.set(value),
                    "system" => self.system.set(value),
                    "order" => self.order = value,
                    "" => self.reduction = Some(Reduction::parse(value)?),
                    _ => return Err(format!("`{word}`: no query has a `{key}`")),
                }
            } else if let Some((source, cpus)) = word.split_once('@') {
                if !source.is_empty() {
                    self.source.set(source);
                }
                self.cpus = Some(cpus).filter(|cpus| !cpus.is_empty());
            } else {
                bare.push(word);
            }
        }
        match bare[..] {
            [] => {}
            [operation, metric, statistic] => {
                let fields = [&mut self.operation, &mut self.metric, &mut self.statistic];
                for (field, word) in fields.into_iter().zip([operation, metric, statistic]) {
                    if word != "_" {
                        *field = word;
                    }
                }
            }
            _ => {
                return Err(format!(
                    "`{}` is not `OPERATION METRIC STATISTIC`",
                    bare.join(" ")
                ));
            }
        }
        Ok(self)
    }

    /// Returns the query for a system, unless its words name one.
    pub(crate) fn of_system(mut self, system: &'q str) -> Self {
        if self.system.own.is_empty() {
            self.system.own = system;
        }
        self
    }

    /// Returns the number as a document has it.
    pub(crate) fn text(&self, results: &Results) -> Result<String, String> {
        let first = self.number(results)?;
        let Some((sign, statistic)) = self.second else {
            return Ok(first);
        };
        let query = Self {
            statistic,
            ..self.clone()
        };
        let second = query.number(results)?;
        Ok(match sign {
            '±' => format!("{first} ± {second}"),
            _ => format!("{first} ({second})"),
        })
    }

    fn number(&self, results: &Results) -> Result<String, String> {
        let rows = self.rows(results)?;
        match self.values(&rows, results) {
            Ok(values) => {
                let texts: Vec<String> = values.iter().map(|value| self.shown(*value)).collect();
                Ok(texts.join(", "))
            }
            Err(missing) => self.instead(&rows).ok_or(missing),
        }
    }

    fn shown(&self, value: f64) -> String {
        match self.metric {
            LIMIT => format!("{value:.0}"),
            _ => self.format.text(value),
        }
    }

    /// Returns the rows of the file.
    fn rows(&self, results: &Results) -> Result<Rc<Vec<Row>>, String> {
        match self.file {
            Some(file) => results.file(&format!("results/{file}.jsonl")),
            None => results.file(results.of(self.experiment)?),
        }
    }

    /// Returns the numbers that the query asks for.
    fn values(&self, rows: &[Row], results: &Results) -> Result<Vec<f64>, String> {
        let mut values = self.plain(rows)?;
        if let Some((compare, words)) = &self.base {
            let base = Self {
                base: None,
                scale: None,
                reduction: self.reduction.filter(|own| *own == Reduction::Mean),
                ..self.clone()
            };
            let base = base.with(words.iter().copied())?;
            let bases = base.values(&base.rows(results)?, results)?;
            if ![1, values.len()].contains(&bases.len()) {
                return Err(format!("{} values against {}", values.len(), bases.len()));
            }
            let bases = bases.iter().cycle();
            for (value, base) in values.iter_mut().zip(bases) {
                *value = compare(*value, *base);
            }
        }
        if let Some(reduction) = self.reduction {
            values = vec![reduction.of(&values)];
        }
        let scale = self.scale.unwrap_or(1.0);
        Ok(values.iter().map(|value| value * scale).collect())
    }

    /// Returns the values of the rows that are meant, in the order of the lists.
    fn plain(&self, rows: &[Row]) -> Result<Vec<f64>, String> {
        let mut found = Vec::new();
        for wanted in self.spread() {
            let is_meant = |row: &&Row| {
                let mut pairs = wanted.iter().zip(row.names());
                row.experiment == self.experiment
                    && pairs.all(|(wanted, own)| wanted == "*" || wanted.replace('~', " ") == own)
                    && self.cpus.is_none_or(|cpus| cpus == row.cpus)
            };
            let values: Vec<f64> = rows.iter().filter(is_meant).map(|row| row.value).collect();
            let is_one = self.reduction.is_none() && !wanted.iter().any(|name| name == "*");
            if values.is_empty() || values.len() > 1 && is_one {
                let (count, cpus) = (values.len(), self.cpus.unwrap_or("any number of"));
                let names = wanted.join(" ");
                let experiment = self.experiment;
                return Err(format!(
                    "{count} rows of {experiment}: `{names}` on {cpus} CPUs"
                ));
            }
            found.extend(values);
        }
        // The mean of seeds is formed before anything is compared with it.
        Ok(match self.reduction {
            Some(Reduction::Mean) => vec![Reduction::Mean.of(&found)],
            _ => found,
        })
    }

    /// Returns all combinations of the alternatives of each field.
    fn spread(&self) -> Vec<Vec<String>> {
        let (source, system) = (self.source.text(), self.system.text());
        let fields = [
            source.as_str(),
            &system,
            self.operation,
            self.metric,
            self.statistic,
            self.order,
        ];
        let mut all: Vec<Vec<String>> = vec![Vec::new()];
        for field in fields {
            let names = || field.split(',').map(str::to_owned);
            let longer = |begun: &Vec<String>| -> Vec<_> {
                names().map(|own| [&begun[..], &[own]].concat()).collect()
            };
            all = all.iter().flat_map(longer).collect();
        }
        all
    }

    /// Returns what stands for a number that has no row: that the timer cannot tell a high percentile from zero, that a
    /// benchmark has no median since the system cannot run it, or that a system scales to all CPUs.
    fn instead(&self, rows: &[Row]) -> Option<String> {
        let (source, system) = (self.source.text(), self.system.text());
        let all = || rows.iter().filter(|row| row.experiment == self.experiment);
        let own = || all().filter(|row| row.source == source && row.system == system);
        if self.metric == LIMIT {
            let shares = own().filter(|row| row.metric == "linearity");
            let most = shares.filter_map(|row| row.cpus.parse::<u32>().ok()).max();
            let is_limited = own().any(|row| row.metric == LIMIT);
            let is_whole = (self.operation, self.statistic, self.cpus) == ("all", "value", None);
            return most
                .filter(|_| is_whole && !is_limited)
                .map(|most| format!("> {most}"));
        }
        all().find(|row| row.system == system)?;
        let floor = all()
            .find(|row| row.system == "timer" && row.metric == "latency" && row.source == source);
        match (self.statistic, floor) {
            ("p99" | "p999", Some(floor)) => Some(format!("≤{:.0}", floor.value)),
            ("p50", _) => Some("–".to_owned()),
            _ => None,
        }
    }
}

/// How one value is made of a list.
#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    Mean,
    Min,
    Max,
    Sum,
}

impl Reduction {
    fn parse(name: &str) -> Result<Self, String> {
        match name {
            "mean" => Ok(Self::Mean),
            "min" => Ok(Self::Min),
            "max" => Ok(Self::Max),
            "sum" => Ok(Self::Sum),
            _ => Err(format!(
                "`={name}` is none of `=mean`, `=min`, `=max`, `=sum`"
            )),
        }
    }

    fn of(self, values: &[f64]) -> f64 {
        let all = values.iter().copied();
        match self {
            Self::Mean => all.sum::<f64>() / values.len() as f64,
            Self::Min => all.fold(f64::INFINITY, f64::min),
            Self::Max => all.fold(f64::NEG_INFINITY, f64::max),
            Self::Sum => all.sum(),
        }
    }
}

fn scale(word: &str) -> Option<f64> {
    if let Some(divisor) = word.strip_prefix('/') {
        return divisor.parse().ok().map(|divisor: f64| 1.0 / divisor);
    }
    word.strip_prefix('x')?.parse().ok()
}

/// How a number is written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Format {
    /// As in the tables of the program.
    #[default]
    Short,
    Significant(usize),
    Places(usize),
    Percent(usize),
    Saved(usize),
    More(usize),
}

impl Format {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        if let Some(digits) = word.strip_suffix('s') {
            return digits.parse().ok().map(Self::Significant);
        }
        let Some(places) = word.strip_suffix('%') else {
            return word.strip_prefix('.')?.parse().ok().map(Self::Places);
        };
        let (kind, places): (fn(usize) -> Self, _) = match places.split_at_checked(1) {
            Some(("-", places)) => (Self::Saved, places),
            Some(("+", places)) => (Self::More, places),
            _ => (Self::Percent, places),
        };
        places.trim_start_matches('.').parse().ok().map(kind)
    }

    fn text(self, value: f64) -> String {
        match self {
            Self::Percent(1) if (0.9995..1.0005).contains(&value) => "100%".to_owned(),
            Self::Percent(places) => format!("{:.places$}%", value * 100.0),
            Self::Saved(places) => Self::Percent(places).text(1.0 - value),
            Self::More(places) => Self::Percent(places).text(value - 1.0),
            Self::Places(places) => grouped(&format!("{value:.places$}")),
            Self::Short if value == 0.0 => "0".to_owned(),
            Self::Short if value >= 100.0 || value >= 10.0 && value.fract() == 0.0 => {
                format!("{value:.0}")
            }
            Self::Short if value >= 10.0 => format!("{value:.1}"),
            Self::Short => format!("{value:.2}"),
            Self::Significant(digits) => {
                let places = |value: f64| match value {
                    0.0 => digits as i32 - 1,
                    value => digits as i32 - 1 - value.abs().log10().floor() as i32,
                };
                let scale = 10f64.powi(places(value));
                let rounded = (value * scale).round() / scale;
                // 0.996 has one place fewer when it becomes 1.0.
                let places = places(rounded);
                grouped(&format!("{rounded:.0$}", places.max(0) as usize))
            }
        }
    }
}

/// Puts commas between groups of three digits.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (sign, digits) = match whole.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", whole),
    };
    let mut out = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_digits_and_commas() {
        let text = |format, value| Format::parse(format).expect(format).text(value);
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
            assert_eq!(Format::parse(wrong), None, "{wrong}");
        }
        let short = [9.154, 17.32, 226.4, 20.0, 0.0].map(|value| Format::Short.text(value));
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
        for (words, expected) in [
            ("e x@ system=bs all m mean", "10"),
            ("e x@ system=bs all m mean .1 ±ci95", "10.0 ± 0.5"),
            ("e x@ system=bs all m mean .1 (ci95)", "10.0 (0.5)"),
            ("e x@2 system=is all m mean .1", "5.0"),
            ("e x@ system=bs all m mean over system=is", ""),
            ("e x@1 system=bs all m mean .2 over system=is", "2.50"),
            ("e x@1 system=is all m mean -0% over system=bs", "60%"),
            ("e x@1 system=is all m mean .0 x100 minus system=bs", "-600"),
            ("e x,y@ system=bs all m mean .0", "10, 20"),
            (
                "e x,y@ system=bs all m mean =max .1 over x@1 system=is",
                "5.0",
            ),
            (
                "e x@1 system=is all m mean .1 over x,y@ system=bs =min",
                "0.4",
            ),
            ("e x,y@ system=bs all m mean =max over =min", "2.00"),
            ("e x@1 system=is all m mean over x,y@ system=bs", ""),
            ("e x,y@ system=bs all m mean =sum", "30"),
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
        ] {
            assert_eq!(text(words).unwrap_or_default(), expected, "{words}");
        }
    }

    #[test]
    fn some_numbers_without_a_row_have_a_text() {
        let (_folder, results) = results(&[
            ("b", "timer", 1, "latency", "value", 10.4),
            ("b", "bs", 4, "scaling_limit", "value", 2.0),
            ("b", "spring", 64, "linearity", "value", 0.9),
            ("b", "spring", 256, "linearity", "value", 0.5),
        ]);
        let text = |words: &str| Query::parse(words)?.text(&results);
        for (words, expected) in [
            ("e b@ system=bs all scaling_limit value", "2"),
            ("e b@ system=spring all scaling_limit value", "> 256"),
            ("e b@ system=none all scaling_limit value", ""),
            ("e b@2 system=spring all scaling_limit value", ""),
            ("e b@ system=bs free latency p99", "≤10"),
            ("e b@ system=bs free latency p50", "–"),
            ("e b@ system=none free latency p50", ""),
            ("e b@ system=bs free latency mean", ""),
        ] {
            assert_eq!(text(words).unwrap_or_default(), expected, "{words}");
        }
    }
}
