//! Excerpts of the table that `compare` prints.
//!
//! # Purpose
//!
//! A reader who runs the command sees the table again. So an excerpt has the program's headings and its way of writing
//! numbers, and chooses only systems and columns:
//!
//! ```text
//! <!-- excerpt: compare gcc_build, pictured from results/RUN/compare.jsonl -->
//! | system | alloc mean ns | list misses % |
//! |---|---|---|
//! | `bs` | 8.76 | 100.0 |
//! ```
//!
//! # Invariants
//!
//! Every cell but those of the first column is filled. A heading that `compare` does not print is an error, and so is a
//! picture of another run than that of the numbers.

use everybuddy_metrics::{At, COLUMNS, Column, Places};

use super::results::{Results, Row};

/// How a marker begins.
const MARKER: &str = "<!-- excerpt: compare ";
/// What separates the trace from the rows that the picture above the table shows.
const PICTURED: &str = ", pictured from ";
/// How a marker ends.
const END: &str = " -->";

/// Returns the text with its excerpts as the results have them.
pub(super) fn filled(file: &str, text: &str, results: &Results) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for at in 0..lines.len() {
        let Some(marker) = lines[at].strip_prefix(MARKER).map(str::to_owned) else {
            continue;
        };
        let place = |what: String| format!("{file}:{}: {what}", at + 1);
        let marker = marker.strip_suffix(END);
        let marker = marker.ok_or_else(|| place("the marker is not closed on its line".into()))?;
        let (source, pictured) = match marker.split_once(PICTURED) {
            Some((source, path)) => (source, Some(path)),
            None => (marker, None),
        };
        let path = results.of("compare")?;
        if let Some(other) = pictured.filter(|own| *own != path) {
            return Err(place(format!(
                "the picture is of {other}, the numbers are of {path}: `ci/picture.sh` makes it anew"
            )));
        }
        let rows = results.file(path)?;
        let table = lines.iter_mut().skip(at + 1);
        let table: Vec<&mut String> = table.take_while(|line| line.starts_with('|')).collect();
        let mut table = table.into_iter();
        let heads = table.next().map(|line| cells(line)).unwrap_or_default();
        let columns: Result<Vec<&Column>, String> =
            heads.iter().skip(1).map(|head| column(head)).collect();
        let columns = columns.map_err(place)?;
        for line in table.skip(1) {
            let system = cells(line)
                .first()
                .map(|cell| cell.trim_matches('`').to_owned());
            let numbers = Numbers {
                rows: &rows,
                source,
                system: &system.unwrap_or_default(),
            };
            *line = numbers.line(&columns).map_err(place)?;
        }
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    Ok(lines.join("\n") + end)
}

/// Returns the cells of a line of a table.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_matches('|');
    inner
        .split('|')
        .map(|cell| cell.trim().to_owned())
        .collect()
}

/// Returns the column with a heading, of those that `compare` prints without options.
fn column(head: &str) -> Result<&'static Column, String> {
    let mut printed = COLUMNS.iter().filter(|column| column.is_default);
    printed
        .clone()
        .find(|column| column.title() == head)
        .ok_or_else(|| {
            let known: Vec<String> = printed.by_ref().map(Column::title).collect();
            format!(
                "`compare` prints no column `{head}`; it prints: {}",
                known.join(", ")
            )
        })
}

/// The numbers of a system on a trace.
struct Numbers<'n> {
    rows: &'n [Row],
    source: &'n str,
    system: &'n str,
}

impl Numbers<'_> {
    fn line(&self, columns: &[&Column]) -> Result<String, String> {
        let mut line = format!("| `{}` |", self.system);
        for column in columns {
            line += &format!(" {} |", self.text(column)?);
        }
        Ok(line)
    }

    fn text(&self, column: &Column) -> Result<String, String> {
        let value = self.find(self.system, column, column.statistic);
        let is_fast = || {
            column.places == Places::AboveFloor && self.find(self.system, column, "mean").is_some()
        };
        let value = value.or_else(|| is_fast().then_some(0.0)).ok_or_else(|| {
            let (title, system, source) = (column.title(), self.system, self.source);
            format!("the results have no `{title}` of `{system}` on {source}")
        })?;
        let floor = self.rows.iter().find(|row| {
            (
                row.system.as_str(),
                row.statistic.as_str(),
                row.source.as_str(),
            ) == ("timer", "value", self.source)
        });
        if value <= 0.0 && column.places == Places::AboveFloor && floor.is_none() {
            return Err(format!(
                "the results have no floor of the timer on {}",
                self.source
            ));
        }
        Ok(column.text(value * column.factor, floor.map_or(0.0, |row| row.value)))
    }

    fn find(&self, system: &str, column: &Column, statistic: &str) -> Option<f64> {
        let order = match column.at {
            At::NoOrder => String::new(),
            At::Order(order) => order.to_string(),
        };
        let key = [
            self.source,
            system,
            column.operation,
            column.metric,
            statistic,
            &order,
        ];
        let row = self.rows.iter().find(|row| {
            let own = [
                &row.source,
                &row.system,
                &row.operation,
                &row.metric,
                &row.statistic,
                &row.order,
            ];
            row.experiment == "compare" && own == key
        });
        row.map(|row| row.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// The root of the repository.
    fn root() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn the_readme_shows_what_compare_prints() {
        let text = fs::read_to_string(root().join("README.md")).expect("a README");
        let results = Results::new(&root());
        assert!(
            text.contains(MARKER) && text.contains(PICTURED),
            "its table is an excerpt"
        );
        assert!(
            !text.contains("<!-- numbers: compare"),
            "a table of compare with headings of its own"
        );
        assert_eq!(filled("README.md", &text, &results).as_ref(), Ok(&text));
        let other = text.replacen("| alloc mean ns |", "| allocation |", 1);
        let error = filled("README.md", &other, &results).expect_err("a head of its own");
        assert!(error.contains("prints no column `allocation`"), "{error}");
        let other = text.replacen(PICTURED, ", pictured from x", 1);
        let error = filled("README.md", &other, &results).expect_err("another picture");
        assert!(error.contains("ci/picture.sh"), "{error}");
        let other = text.replacen("| `bs` |", "| `bsd` |", 1);
        let error = filled("README.md", &other, &results).expect_err("no system");
        assert!(error.contains("`bsd`"), "{error}");
    }

    #[test]
    fn numbers_are_written_as_in_the_terminal() {
        let row = |system: &str, operation: &str, metric: &str, statistic: &str, value: f64| Row {
            experiment: "compare".to_owned(),
            source: "t".to_owned(),
            system: system.to_owned(),
            operation: operation.to_owned(),
            metric: metric.to_owned(),
            statistic: statistic.to_owned(),
            order: String::new(),
            cpus: "1".to_owned(),
            value,
        };
        let rows = [
            row("timer", "all", "latency", "value", 20.4),
            row("bs", "allocate", "latency", "mean", 9.154),
            row("bs", "free", "latency", "p99", 30.02),
            row("bs", "all", "miss_rate", "value", 1.0),
            row("bs", "all", "lock_acquisitions", "mean", 1.2),
        ];
        let numbers = Numbers {
            rows: &rows,
            source: "t",
            system: "bs",
        };
        let text = |head: &str| numbers.text(column(head).expect(head));
        assert_eq!(text("alloc mean ns").as_deref(), Ok("9.15"));
        assert_eq!(text("alloc p99 ns").as_deref(), Ok("≤20"));
        assert_eq!(text("free p99 ns").as_deref(), Ok("30.0"));
        assert_eq!(text("list misses %").as_deref(), Ok("100.0"));
        assert_eq!(text("locks per 1k calls").as_deref(), Ok("1200"));
        assert!(text("free mean ns").is_err());
    }
}
