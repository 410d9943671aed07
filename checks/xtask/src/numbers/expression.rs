//! Expressions over rows of results.
//!
//! # Purpose
//!
//! Prose compares: a ratio of two systems, a range over traces. Such a number is calculated from the rows each time,
//! and not copied.
//!
//! ```text
//! [EXPERIMENT SOURCE SYSTEM OPERATION METRIC STATISTIC]    the value of one row
//! [... order=9 cpus=2 run=results/RUN/FILE.jsonl]          of one order, number of CPUs, or another file
//! [fragmentation sequence bs,is ...]  [... * ...]          a list: of these in this order, or of all
//! [... seed=*]                                             a list: of all seeds
//! [division gcc_build:64~by~dbench_tar ...]                `~` stands for a space in a name
//! a + b, a - b, a * b, a / b, (a), 2.5                     arithmetic, value by value
//! min(...), max(...), mean(...), sum(...)                  of a list, or of several expressions
//! EXPRESSION as FORMAT                                     3s: significant digits; .2: decimal places; 0% or .1%
//! ```
//!
//! # Invariants
//!
//! A row that the results do not have is an error. So are several rows where one is meant.

use super::results::{Results, Row};

/// The reason why an expression has no value.
#[derive(Debug, PartialEq)]
pub(crate) enum Lack {
    /// No committed output has the experiment: a run must produce it.
    NoRun(String),
    /// A mistake.
    Wrong(String),
}

impl From<String> for Lack {
    fn from(what: String) -> Self {
        Lack::Wrong(what)
    }
}

/// Returns the text of `EXPRESSION as FORMAT`.
pub(crate) fn text(source: &str, results: &Results) -> Result<String, Lack> {
    let (expression, format) = source
        .rsplit_once(" as ")
        .ok_or_else(|| format!("`{source}` has no format: end with `as 3s`, `as .2` or `as 0%`"))?;
    let format = Format::parse(format.trim())
        .ok_or_else(|| format!("`{format}` is not a format: 3s, .2, 0% or .1%"))?;
    let mut parser = Parser {
        rest: expression.trim(),
        results,
    };
    let values = parser.sum()?;
    if !parser.rest.is_empty() {
        return Err(format!("`{}` is left over", parser.rest).into());
    }
    let texts: Vec<String> = values.iter().map(|value| format.text(*value)).collect();
    Ok(texts.join(", "))
}

/// How a number is written.
#[derive(Clone, Copy)]
enum Format {
    Significant(usize),
    Places(usize),
    Percent(usize),
}

impl Format {
    fn parse(text: &str) -> Option<Self> {
        if let Some(digits) = text.strip_suffix('s') {
            return digits.parse().ok().map(Format::Significant);
        }
        if let Some(places) = text.strip_suffix('%') {
            return places
                .trim_start_matches('.')
                .parse()
                .ok()
                .map(Format::Percent);
        }
        text.strip_prefix('.')?.parse().ok().map(Format::Places)
    }

    fn text(self, value: f64) -> String {
        match self {
            Format::Percent(places) => format!("{:.places$}%", value * 100.0),
            Format::Places(places) => grouped(&format!("{value:.places$}")),
            Format::Significant(digits) => {
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
    let (whole, rest) = match number.find('.') {
        Some(at) => number.split_at(at),
        None => (number, ""),
    };
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

struct Parser<'p> {
    rest: &'p str,
    results: &'p Results,
}

impl Parser<'_> {
    /// Consumes a symbol, if it comes next.
    fn has(&mut self, symbol: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(symbol);
        self.rest = rest.unwrap_or(self.rest).trim_start();
        rest.is_some()
    }

    fn sum(&mut self) -> Result<Vec<f64>, Lack> {
        let mut values = self.product()?;
        loop {
            if self.has('+') {
                values = joined(values, self.product()?, |a, b| a + b)?;
            } else if self.has('-') {
                values = joined(values, self.product()?, |a, b| a - b)?;
            } else {
                return Ok(values);
            }
        }
    }

    fn product(&mut self) -> Result<Vec<f64>, Lack> {
        let mut values = self.factor()?;
        loop {
            if self.has('*') {
                values = joined(values, self.factor()?, |a, b| a * b)?;
            } else if self.has('/') {
                values = joined(values, self.factor()?, |a, b| a / b)?;
            } else {
                return Ok(values);
            }
        }
    }

    fn factor(&mut self) -> Result<Vec<f64>, Lack> {
        if self.has('(') {
            let values = self.sum()?;
            return self.closed(')', values);
        }
        if self.has('[') {
            let (reference, rest) = self
                .rest
                .split_once(']')
                .ok_or_else(|| "a `[` without `]`".to_owned())?;
            self.rest = rest.trim_start();
            return values(reference, self.results);
        }
        let word = self
            .rest
            .find(|letter: char| !(letter.is_alphanumeric() || letter == '.'));
        let (word, rest) = self.rest.split_at(word.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        if let Ok(number) = word.parse() {
            return Ok(vec![number]);
        }
        if !self.has('(') {
            return Err(format!("`{word}` is neither a number nor a function").into());
        }
        let mut all = self.sum()?;
        while self.has(',') {
            all.extend(self.sum()?);
        }
        let all = self.closed(')', all)?;
        let value = match word {
            "min" => all.iter().copied().fold(f64::INFINITY, f64::min),
            "max" => all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            "sum" => all.iter().sum(),
            "mean" => all.iter().sum::<f64>() / all.len() as f64,
            _ => return Err(format!("`{word}` is not a function: min, max, mean, sum").into()),
        };
        Ok(vec![value])
    }

    fn closed(&mut self, symbol: char, values: Vec<f64>) -> Result<Vec<f64>, Lack> {
        match self.has(symbol) {
            true => Ok(values),
            false => Err(format!("`{symbol}` is missing before `{}`", self.rest).into()),
        }
    }
}

/// Applies an operator value by value; a single value applies to all of the others.
fn joined(a: Vec<f64>, b: Vec<f64>, operator: fn(f64, f64) -> f64) -> Result<Vec<f64>, Lack> {
    match (a.len(), b.len()) {
        (n, m) if n == m => Ok(a.iter().zip(&b).map(|(a, b)| operator(*a, *b)).collect()),
        (_, 1) => Ok(a.iter().map(|a| operator(*a, b[0])).collect()),
        (1, _) => Ok(b.iter().map(|b| operator(a[0], *b)).collect()),
        (n, m) => Err(format!("{n} values against {m}").into()),
    }
}

/// Returns the values of a reference.
fn values(reference: &str, results: &Results) -> Result<Vec<f64>, Lack> {
    let wrong = |what: &str| Lack::Wrong(format!("[{reference}] {what}"));
    let (mut words, mut order, mut cpus, mut run) = (Vec::new(), "", None, None);
    let mut all_seeds = false;
    for word in reference.split_whitespace() {
        match word.split_once('=') {
            Some(("order", value)) => order = value,
            Some(("cpus", value)) => cpus = Some(value),
            Some(("run", value)) => run = Some(value),
            Some(("seed", "*")) => all_seeds = true,
            _ => words.push(word),
        }
    }
    let Ok(words) = <[&str; 6]>::try_from(words) else {
        return Err(wrong(
            "needs experiment, source, system, operation, metric, statistic",
        ));
    };
    let experiment = words[0].split('@').next().unwrap_or_default();
    let path = match (run, results.of(experiment)?) {
        (Some(path), _) => path,
        (None, Some(path)) if results.has(experiment, words[4])? => path,
        _ => return Err(Lack::NoRun(experiment.to_owned())),
    };
    let rows = results.file(path)?;
    let parts = |row: &Row| {
        [
            row.experiment.clone(),
            row.source.clone(),
            row.system.clone(),
            row.operation.clone(),
            row.metric.clone(),
            row.statistic.clone(),
        ]
    };
    let mut found = Vec::new();
    // A list in a field asks for one row after the other.
    for wanted in spread(&words) {
        let is_meant = |row: &&Row| {
            let own = parts(row);
            let mut pairs = wanted.iter().zip(&own);
            let is = |wanted: &str, own: &str| wanted == "*" || wanted.replace('~', " ") == own;
            row.order == order
                && cpus.is_none_or(|cpus| cpus == row.cpus)
                && pairs.all(|(wanted, own)| is(wanted, own))
        };
        let own: Vec<f64> = rows.iter().filter(is_meant).map(|row| row.value).collect();
        match own.len() {
            0 if wanted[2] != "*" && !rows.iter().any(|row| row.system == wanted[2]) => {
                return Err(Lack::NoRun(format!("{experiment} {}", wanted[2])));
            }
            0 => return Err(wrong(&format!("is not in {path}"))),
            1 => {}
            _ if all_seeds || wanted.contains(&"*") => {}
            rows => return Err(wrong(&format!("is {rows} rows of {path}"))),
        }
        found.extend(own);
    }
    Ok(found)
}

/// Returns all combinations of the alternatives of each field.
fn spread<'w>(words: &[&'w str; 6]) -> Vec<Vec<&'w str>> {
    let mut all: Vec<Vec<&str>> = vec![Vec::new()];
    for word in words {
        all = all
            .iter()
            .flat_map(|begun| {
                word.split(',').map(|own| {
                    let mut begun = begun.clone();
                    begun.push(own);
                    begun
                })
            })
            .collect();
    }
    all
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
        assert!(Format::parse("x").is_none());
    }
}
