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
//! statistic. A second statistic in parentheses follows in parentheses; `%` and `x1000` scale the value.
//!
//! Invariant: a number that the results do not have is an error, except a percentile below what the timer can measure.

use std::collections::BTreeMap;
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
        let numbers = Numbers::read(&results, table.source);
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
    source: &'t str,
    columns: Vec<Column<'t>>,
}

/// The numbers of a column.
struct Column<'t> {
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
        let columns: Option<Vec<Column<'_>>> = columns.split(';').map(Column::parse).collect();
        Some(Self {
            results,
            source,
            columns: columns?,
        })
    }

    /// Returns a row of the table with its last cells filled.
    fn row(&self, line: &str, numbers: &Numbers<'_>) -> Result<String, Box<dyn Error>> {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
        let system = cells[0].trim().trim_matches('`');
        let own = cells
            .len()
            .checked_sub(self.columns.len())
            .ok_or_else(|| format!("`{system}` has fewer cells than the marker has columns"))?;
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
    fn parse(text: &'t str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (operation, metric, statistic) = (words.next()?, words.next()?, words.next()?);
        let mut column = Self {
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

    fn text(&self, system: &str, numbers: &Numbers<'_>) -> Result<String, Box<dyn Error>> {
        let get = |statistic: &str| {
            let key = (system, self.operation, self.metric, statistic);
            match numbers.values.get(&key) {
                Some(value) => Ok(shown(*value, self.scale)),
                // A percentile that the timer cannot tell from zero has no row.
                None if statistic.starts_with('p') && numbers.has(system) => {
                    numbers.floor().ok_or("no row of the timer".to_owned())
                }
                None => Err(format!("the results have no {key:?}")),
            }
        };
        let first = get(self.statistic)?;
        Ok(match self.second {
            Some(second) => format!("{first} ({})", get(second)?),
            None => first,
        })
    }
}

/// The rows of a source, without those about one order or one moment.
struct Numbers<'r> {
    values: BTreeMap<(&'r str, &'r str, &'r str, &'r str), f64>,
}

impl<'r> Numbers<'r> {
    fn read(results: &'r str, source: &str) -> Self {
        let mut values = BTreeMap::new();
        for row in results.lines() {
            let text = |name: &str| field(row, name).map(|value| value.trim_matches('"'));
            let whole = text("order") == Some("null")
                && !text("experiment").is_some_and(|experiment| experiment.contains('@'));
            if !whole || text("source") != Some(source) || text("options") != Some("") {
                continue;
            }
            let key = (
                text("system"),
                text("operation"),
                text("metric"),
                text("statistic"),
            );
            let value = field(row, "value").and_then(|value| value.parse().ok());
            if let ((Some(system), Some(operation), Some(metric), Some(statistic)), Some(value)) =
                (key, value)
            {
                values.insert((system, operation, metric, statistic), value);
            }
        }
        Self { values }
    }

    fn has(&self, system: &str) -> bool {
        self.values.keys().any(|key| key.0 == system)
    }

    /// Returns the shortest time that the timer can tell from zero.
    fn floor(&self) -> Option<String> {
        let spread = self.values.get(&("timer", "all", "latency", "value"))?;
        Some(format!("≤{}", shown(spread.floor(), Scale::One)))
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

    const ROWS: &str = "\
        {\"experiment\":\"compare\",\"source\":\"a\",\"system\":\"timer\",\"options\":\"\",\"operation\":\"all\",\
        \"order\":null,\"metric\":\"latency\",\"statistic\":\"value\",\"value\":10.4,\"unit\":\"ns\"}\n\
        {\"experiment\":\"compare\",\"source\":\"a\",\"system\":\"bs\",\"options\":\"\",\"operation\":\"free\",\
        \"order\":null,\"metric\":\"latency\",\"statistic\":\"mean\",\"value\":9.154,\"unit\":\"ns\"}\n\
        {\"experiment\":\"compare\",\"source\":\"a\",\"system\":\"bs\",\"options\":\"\",\"operation\":\"all\",\
        \"order\":null,\"metric\":\"miss_rate\",\"statistic\":\"value\",\"value\":0.0474,\"unit\":\"1\"}\n\
        {\"experiment\":\"compare@0.5\",\"source\":\"a\",\"system\":\"bs\",\"options\":\"\",\"operation\":\"all\",\
        \"order\":null,\"metric\":\"miss_rate\",\"statistic\":\"value\",\"value\":0.9,\"unit\":\"1\"}\n";

    #[test]
    fn the_last_cells_of_a_row_are_filled() {
        let marker = "<!-- numbers: x.jsonl a: free latency mean (p99); all miss_rate value % -->";
        let table = Table::parse(marker).expect("the marker is whole");
        let numbers = Numbers::read(ROWS, "a");
        let row = table.row("| `bs` | by hand | ? | ? |", &numbers);
        assert_eq!(
            row.expect("the rows have it"),
            "| `bs` | by hand | 9.15 (≤10) | 4.7% |"
        );
        assert!(table.row("| `none` | by hand | ? | ? |", &numbers).is_err());
    }

    #[test]
    fn another_source_has_no_numbers() {
        assert!(Numbers::read(ROWS, "b").values.is_empty());
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
