//! Fills the numbers of tables in documents from committed results.
//!
//! A table below a marker keeps its head, its first column (the system, in code font) and all other columns that are
//! written by hand; its last columns are filled from rows of the results:
//!
//! ```text
//! <!-- numbers: results/RUN/compare.jsonl gcc_build: allocate latency mean (p99); all miss_rate value % -->
//! ```
//!
//! After the path of the results (rows as JSON lines) and the source, one entry per column names operation, metric and
//! statistic. `SOURCE@CPUS` before the operation selects another source, on that number of CPUs. A second statistic in
//! parentheses follows in parentheses; `%` and `x1000` scale the value.
//!
//! # Invariants
//!
//! A number that the results do not have is an error. Two exceptions: a high percentile that the timer
//! cannot tell from zero is shown as such, and a dash is the median of a benchmark that a system cannot run.

use std::error::Error;
use std::fs;
use std::path::Path;

/// How a marker begins.
const MARKER: &str = "<!-- numbers: ";

/// Fills the tables of all documents.
pub(crate) fn write(root: &Path, files: &[String]) -> Result<(), Box<dyn Error>> {
    for file in documents(files) {
        let path = root.join(file);
        let text = fs::read_to_string(&path)?;
        let new = filled(root, file, &text)?;
        if new != text {
            fs::write(path, new)?;
        }
    }
    Ok(())
}

/// Reports tables whose numbers are not those of the results.
pub(crate) fn check(
    root: &Path,
    files: &[String],
    faults: &mut Vec<String>,
) -> Result<(), Box<dyn Error>> {
    for file in documents(files) {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        match filled(root, file, &text) {
            Ok(new) if new == text => {}
            Ok(_) => faults.push(format!(
                "{file}:1: generated: out of date: cargo run -p xtask -- docs"
            )),
            Err(error) => faults.push(format!("{file}:1: generated: {error}")),
        }
    }
    Ok(())
}

fn documents(files: &[String]) -> impl Iterator<Item = &String> {
    let is_ours = |file: &&String| file.ends_with(".md") && !file.starts_with("results/");
    files.iter().filter(is_ours)
}

/// Returns the text with the numbers of its tables as the results have them.
fn filled(root: &Path, file: &str, text: &str) -> Result<String, Box<dyn Error>> {
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
        let results = fs::read_to_string(root.join(table.results))
            .map_err(|error| format!("{}: {error}", table.results))?;
        let numbers = Numbers::read(&results);
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
    fn row(&self, line: &str, numbers: &Numbers<'_>) -> Result<String, Box<dyn Error>> {
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
            Some((source, cpus)) => (source, Some(cpus)),
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
            scale: Scale::One,
        };
        for word in words {
            match word {
                "%" => column.scale = Scale::Percent,
                "x1000" => column.scale = Scale::Thousand,
                _ => column.second = Some(word.strip_prefix('(')?.strip_suffix(')')?),
            }
        }
        Some(column)
    }

    fn text(&self, system: &str, numbers: &Numbers<'_>) -> Result<String, String> {
        let first = self.number(system, self.statistic, numbers)?;
        Ok(match self.second {
            Some(second) => format!("{first} ({})", self.number(system, second, numbers)?),
            None => first,
        })
    }

    fn number(
        &self,
        system: &str,
        statistic: &str,
        numbers: &Numbers<'_>,
    ) -> Result<String, String> {
        let of = |system: &str, operation: &str, metric: &str, statistic: &str| {
            let mut rows = numbers.rows.iter();
            let row = rows.find(|row| {
                row.names == [self.source, system, operation, metric, statistic]
                    && self.cpus.is_none_or(|cpus| cpus == row.cpus)
            });
            row.map(|row| row.value)
        };
        if let Some(value) = of(system, self.operation, self.metric, statistic) {
            return Ok(shown(value, self.scale));
        }
        let floor = of("timer", "all", "latency", "value");
        let is_known = numbers.rows.iter().any(|row| row.names[1] == system);
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

/// The rows of the results, without those about one order or one moment.
struct Numbers<'r> {
    rows: Vec<Row<'r>>,
}

struct Row<'r> {
    /// Source, system, operation, metric and statistic.
    names: [&'r str; 5],
    cpus: &'r str,
    value: f64,
}

impl<'r> Numbers<'r> {
    fn read(results: &'r str) -> Self {
        let row = |line: &'r str| {
            let text = |name: &str| field(line, name).map(|value| value.trim_matches('"'));
            let is_empty = |name: &str| matches!(text(name), None | Some("null" | ""));
            let is_whole =
                is_empty("order") && is_empty("options") && !text("experiment")?.contains('@');
            is_whole.then_some(Row {
                names: [
                    text("source")?,
                    text("system")?,
                    text("operation")?,
                    text("metric")?,
                    text("statistic")?,
                ],
                cpus: text("cpus")?,
                value: text("value")?.parse().ok()?,
            })
        };
        Self {
            rows: results.lines().filter_map(row).collect(),
        }
    }
}

/// Returns the text of a field of a flat JSON object.
fn field<'r>(row: &'r str, name: &str) -> Option<&'r str> {
    let key = format!("\"{name}\":");
    let start = row.find(&key)? + key.len();
    let rest = row[start..].trim_start();
    let end = match rest.strip_prefix('"') {
        Some(text) => text.find('"')? + 2,
        None => rest.find([',', '}'])?,
    };
    Some(&rest[..end])
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
{"experiment":"compare@0.5","source":"a","system":"bs","options":"","cpus":2,"operation":"all","order":null,
 "metric":"miss_rate","statistic":"value","value":0.9}
"#;

    /// Returns the rows, each on one line.
    fn rows() -> String {
        ROWS.replace(",\n ", ",")
    }

    #[test]
    fn the_last_cells_of_a_row_are_filled() {
        let marker =
            "<!-- numbers: x.jsonl a: free latency mean (p99); a@2 all miss_rate value % -->";
        let table = Table::parse(marker).expect("the marker is whole");
        let results = rows();
        let numbers = Numbers::read(&results);
        let row = table.row("| `bs` | by hand | ? | ? |", &numbers);
        let expected = "| `bs` | by hand | 9.15 (≤10) | 4.7% |";
        assert_eq!(row.expect("the rows have it"), expected);
        let new = table.row("| `bs` |", &numbers);
        assert_eq!(
            new.expect("the rows have it"),
            "| `bs` | 9.15 (≤10) | 4.7% |"
        );
        assert!(table.row("| `bs` | ? |", &numbers).is_err());
        assert!(table.row("| `none` | by hand | ? | ? |", &numbers).is_err());
    }

    #[test]
    fn another_source_or_number_of_cpus_has_other_numbers() {
        let results = rows();
        let numbers = Numbers::read(&results);
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
    fn numbers_have_three_digits() {
        let texts = [9.154, 17.32, 226.4, 20.0, 0.0].map(|value| shown(value, Scale::One));
        assert_eq!(texts, ["9.15", "17.3", "226", "20", "0"]);
        assert_eq!(shown(0.0487, Scale::Thousand), "49");
        assert_eq!(shown(1.0, Scale::Percent), "100%");
    }

    #[test]
    fn text_without_markers_stays() {
        let text = "no marker\n| a |\n";
        assert_eq!(
            filled(Path::new("/"), "x.md", text).expect("nothing is read"),
            text
        );
    }
}
