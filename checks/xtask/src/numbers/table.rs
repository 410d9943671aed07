//! Fills the numbers of tables in documents from committed results.
//!
//! A table below a marker keeps its head, its first column (the system, in code font) and all other columns that are
//! written by hand; its last columns are filled from rows of the results:
//!
//! ```text
//! <!-- numbers: compare gcc_build: allocate latency mean (p99); all miss_rate value % -->
//! ```
//!
//! After the experiment, or the path of results, and the source, one entry per column names operation, metric and
//! statistic. `SOURCE@CPUS` before the operation selects another source, on that number of CPUs, or on any number if
//! CPUS is empty. A second statistic in parentheses follows in parentheses; `order=N` selects rows of an order; `%` and
//! `x1000` scale the value.
//!
//! # Invariants
//!
//! A number that the results do not have is an error. Three exceptions: a high percentile that the timer
//! cannot tell from zero is shown as such, a dash is the median of a benchmark that a system cannot run, and a system
//! that scales to all simulated CPUs has no limit: `> 256`.

use std::rc::Rc;

use super::results::{Results, Row};

/// How a marker begins.
const MARKER: &str = "<!-- numbers: ";
/// The metric without a row for a system that has no limit.
const LIMIT: &str = "scaling_limit";

/// Returns the text with the numbers of its tables as the results have them.
pub(super) fn filled(file: &str, text: &str, results: &Results) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let markers: Vec<usize> = (0..lines.len())
        .filter(|at| lines[*at].starts_with(MARKER))
        .collect();
    if markers.is_empty() {
        return Ok(text.to_owned());
    }
    for at in markers {
        let close = (at..lines.len()).find(|line| lines[*line].trim_end().ends_with("-->"));
        let close = close.ok_or_else(|| format!("{file}:{}: the marker has no end", at + 1))?;
        let marker = lines[at..=close].join(" ");
        let table = Table::parse(&marker).ok_or_else(|| {
            format!(
                "{file}:{}: a marker is `RESULTS SOURCE: COLUMN; COLUMN`",
                at + 1
            )
        })?;
        let path = match table.results.contains('/') {
            true => table.results,
            false => results
                .of(table.results)?
                .ok_or_else(|| format!("no run has rows of {}", table.results))?,
        };
        let numbers = Numbers::of(results.file(path)?);
        for line in lines.iter_mut().skip(close + 3) {
            if !line.starts_with('|') {
                break;
            }
            *line = table.row(line, &numbers)?;
        }
    }
    Ok(lines.join("\n") + "\n")
}

/// What a marker says.
struct Table<'t> {
    results: &'t str,
    columns: Vec<Column<'t>>,
}

/// The numbers of a column.
struct Column<'t> {
    source: &'t str,
    /// The number of CPUs, if the column names it.
    cpus: Option<&'t str>,
    operation: &'t str,
    metric: &'t str,
    statistic: &'t str,
    /// A statistic that follows in parentheses.
    second: Option<&'t str>,
    /// The order of the rows; empty for rows that are about no order.
    order: &'t str,
    scale: Scale,
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    One,
    Percent,
    Thousand,
}

impl<'t> Table<'t> {
    fn parse(marker: &'t str) -> Option<Self> {
        let text = marker
            .strip_prefix(MARKER)?
            .trim_end()
            .strip_suffix("-->")?;
        let (place, columns) = text.split_once(": ")?;
        let (results, source) = place.split_once(' ')?;
        let parse = |column| Column::parse(column, source);
        let columns: Option<Vec<Column<'_>>> = columns.split(';').map(parse).collect();
        Some(Self {
            results,
            columns: columns?,
        })
    }

    /// Returns a row of the table with its last cells filled.
    fn row(&self, line: &str, numbers: &Numbers) -> Result<String, String> {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
        let system = cells[0].trim().trim_matches('`');
        // A row that has only its system yet gets all numbers.
        let own = match cells.len() {
            1 => 1,
            all => all
                .checked_sub(self.columns.len())
                .filter(|own| *own > 0)
                .ok_or_else(|| format!("`{system}` has fewer cells than its table"))?,
        };
        let mut row = String::from("|");
        for cell in &cells[..own] {
            row.push_str(cell);
            row.push('|');
        }
        for column in &self.columns {
            row.push(' ');
            row.push_str(&column.text(system, numbers)?);
            row.push_str(" |");
        }
        Ok(row)
    }
}

impl<'t> Column<'t> {
    fn parse(text: &'t str, source: &'t str) -> Option<Self> {
        let mut words = text.split_whitespace().peekable();
        let place = words.next_if(|word| word.contains('@'));
        let (source, cpus) = match place.and_then(|place| place.split_once('@')) {
            Some((source, cpus)) => (source, Some(cpus).filter(|cpus| !cpus.is_empty())),
            None => (source, None),
        };
        let (operation, metric, statistic) = (words.next()?, words.next()?, words.next()?);
        let mut column = Self {
            source,
            cpus,
            operation,
            metric,
            statistic,
            second: None,
            order: "",
            scale: Scale::One,
        };
        for word in words {
            if let Some(order) = word.strip_prefix("order=") {
                column.order = order;
                continue;
            }
            match word {
                "%" => column.scale = Scale::Percent,
                "x1000" => column.scale = Scale::Thousand,
                _ => column.second = Some(word.strip_prefix('(')?.strip_suffix(')')?),
            }
        }
        Some(column)
    }

    fn text(&self, system: &str, numbers: &Numbers) -> Result<String, String> {
        let first = self.number(system, self.statistic, numbers)?;
        Ok(match self.second {
            Some(second) => format!("{first} ({})", self.number(system, second, numbers)?),
            None => first,
        })
    }

    fn number(&self, system: &str, statistic: &str, numbers: &Numbers) -> Result<String, String> {
        let of = |system: &str, operation: &str, metric: &str, statistic: &str| {
            let mut rows = numbers.0.iter().filter(|row| !is_moment(row));
            let row = rows.find(|row| {
                let names = [
                    &row.source,
                    &row.system,
                    &row.operation,
                    &row.metric,
                    &row.statistic,
                ];
                // The timer's floor is about no order.
                let order = if system == "timer" { "" } else { self.order };
                names == [self.source, system, operation, metric, statistic]
                    && row.order == order
                    && self.cpus.is_none_or(|cpus| cpus == row.cpus)
            });
            row.map(|row| row.value)
        };
        if let Some(value) = of(system, self.operation, self.metric, statistic) {
            return Ok(match self.metric {
                LIMIT => format!("{value:.0}"),
                _ => shown(value, self.scale),
            });
        }
        if (self.metric, self.operation, statistic, self.cpus) == (LIMIT, "all", "value", None) {
            let own = || {
                let all = numbers.0.iter();
                all.filter(|row| row.source == self.source && row.system == system)
            };
            let all = own().filter(|row| row.metric == "linearity");
            let most = all.filter_map(|row| row.cpus.parse::<u32>().ok()).max();
            let is_limited = own().any(|row| row.metric == LIMIT);
            if let (Some(most), false) = (most, is_limited) {
                return Ok(format!("> {most}"));
            }
        }
        let floor = of("timer", "all", "latency", "value");
        let is_known = numbers.0.iter().any(|row| row.system == system);
        match (statistic, floor) {
            ("p99" | "p999", Some(floor)) if is_known => Ok(format!("≤{floor:.0}")),
            ("p50", _) if is_known => Ok("–".to_owned()),
            _ => Err(format!(
                "no {statistic} of {} of `{system}` in the results",
                self.metric
            )),
        }
    }
}

/// The rows of the results.
struct Numbers(Rc<Vec<Row>>);

impl Numbers {
    fn of(rows: Rc<Vec<Row>>) -> Self {
        Self(rows)
    }
}

/// Returns `true` for a row that is about one moment of a replay.
fn is_moment(row: &Row) -> bool {
    row.experiment.contains('@')
}

/// Prints a number with three significant digits, as the program's tables do.
fn shown(value: f64, scale: Scale) -> String {
    match scale {
        Scale::Percent if value >= 0.9995 => "100%".to_owned(),
        Scale::Percent => format!("{:.1}%", value * 100.0),
        Scale::Thousand => format!("{:.0}", value * 1000.0),
        Scale::One if value == 0.0 => "0".to_owned(),
        Scale::One if value >= 100.0 => format!("{value:.0}"),
        Scale::One if value >= 10.0 && value.fract() == 0.0 => format!("{value:.0}"),
        Scale::One if value >= 10.0 => format!("{value:.1}"),
        Scale::One => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = r#"
{"experiment":"compare","source":"a","system":"timer","options":"","cpus":2,"operation":"all","order":null,
 "metric":"latency","statistic":"value","value":10.4}
{"experiment":"compare","source":"a","system":"bs","options":"","cpus":2,"operation":"free","order":null,
 "metric":"latency","statistic":"mean","value":9.154}
{"experiment":"compare","source":"a","system":"bs","options":"","cpus":2,"operation":"all","order":null,
 "metric":"miss_rate","statistic":"value","value":0.0474}
{"experiment":"compare","source":"a","system":"bs","options":"","cpus":2,"operation":"all","order":9,
 "metric":"miss_rate","statistic":"value","value":0.5}
{"experiment":"compare@0.5","source":"a","system":"bs","options":"","cpus":2,"operation":"all","order":null,
 "metric":"miss_rate","statistic":"value","value":0.9}
"#;

    /// Returns the rows, each of one line.
    fn numbers() -> Numbers {
        let text = ROWS.replace(",\n ", ",");
        Numbers::of(Rc::new(text.lines().filter_map(Row::read).collect()))
    }

    #[test]
    fn the_last_cells_of_a_row_are_filled() {
        let marker =
            "<!-- numbers: x.jsonl a: free latency mean (p99); a@2 all miss_rate value % -->";
        let table = Table::parse(marker).expect("the marker is whole");
        let numbers = numbers();
        let row = table.row("| `bs` | by hand | ? | ? |", &numbers);
        let expected = "| `bs` | by hand | 9.15 (≤10) | 4.7% |";
        assert_eq!(row.expect("the rows have it"), expected);
        let new = table.row("| `bs` |", &numbers);
        assert_eq!(
            new.expect("the rows have it"),
            "| `bs` | 9.15 (≤10) | 4.7% |"
        );
        let marker = "<!-- numbers: x.jsonl a: all miss_rate value order=9 % -->";
        let of_order = Table::parse(marker).expect("the marker is whole");
        let row = of_order.row("| `bs` |", &numbers);
        assert_eq!(row.expect("the rows have it"), "| `bs` | 50.0% |");
        assert!(table.row("| `bs` | ? |", &numbers).is_err());
        assert!(table.row("| `none` | by hand | ? | ? |", &numbers).is_err());
    }

    #[test]
    fn another_source_or_number_of_cpus_has_other_numbers() {
        let numbers = numbers();
        let column = |text| Column::parse(text, "a").expect("the column is whole");
        assert!(
            column("b@2 all miss_rate value")
                .text("bs", &numbers)
                .is_err()
        );
        assert!(
            column("a@1 all miss_rate value")
                .text("bs", &numbers)
                .is_err()
        );
        let median = column("a@2 pair latency p50").text("bs", &numbers);
        assert_eq!(median.as_deref(), Ok("–"));
    }

    #[test]
    fn a_limit_is_a_count_or_beyond_all_cpus() {
        let row = |system: &str, cpus: u32, metric: &str, value: f64| {
            let names = format!(r#""source":"b","system":"{system}","options":"","cpus":{cpus}"#);
            let about = format!(r#""operation":"all","order":null,"metric":"{metric}""#);
            let text = format!(
                r#"{{"experiment":"simulate",{names},{about},"statistic":"value","value":{value}}}"#
            );
            Row::read(&text).expect("the row is whole")
        };
        let rows = [
            row("bs", 4, "scaling_limit", 2.0),
            row("spring", 64, "linearity", 0.9),
            row("spring", 256, "linearity", 0.5),
        ];
        let numbers = Numbers::of(Rc::new(rows.into()));
        let column = Column::parse("b@ all scaling_limit value", "a").expect("the column is whole");
        assert_eq!(column.text("bs", &numbers).as_deref(), Ok("2"));
        assert_eq!(column.text("spring", &numbers).as_deref(), Ok("> 256"));
        assert!(column.text("none", &numbers).is_err());
        for other in [
            "b@2 all scaling_limit value",
            "b@ free scaling_limit value",
            "b@ all scaling_limit mean",
        ] {
            let column = Column::parse(other, "a").expect("the column is whole");
            for system in ["bs", "spring"] {
                assert!(column.text(system, &numbers).is_err(), "{other} {system}");
            }
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [9.154, 17.32, 226.4, 20.0, 0.0].map(|value| shown(value, Scale::One));
        assert_eq!(texts, ["9.15", "17.3", "226", "20", "0"]);
        assert_eq!(shown(0.0487, Scale::Thousand), "49");
        assert_eq!(shown(1.0, Scale::Percent), "100%");
    }
}
