//! Fills the numbers of tables in documents from committed results.
//!
//! A comment above a table has the query that all numbers share, what differs between its columns, and what differs
//! between its rows:
//!
//! ```text
//! <!-- numbers: bench pair latency p50: hot:order0@1; hot:order0@2; handover@2 -->
//! <!-- numbers: components all speedup p50 .2: gcc_build@; sysbench_mt_cut@ | system=lis-1; -; system=spring -->
//! <!-- excerpt: compare gcc_build, pictured from results/RUN/compare.jsonl.gz -->
//! ```
//!
//! Without a part for rows, each row is of the system that its first cell names, in code font. The last cells of a row
//! are filled, as many as there are columns; those before them are written by hand. So is a column or a row of which
//! the comment has a dash, and a cell that is blank.
//!
//! An excerpt is of the table that `compare` prints, so a reader who runs the command sees it again: its columns are
//! those of the headings, with the program's way of writing numbers. A heading that `compare` does not print is an
//! error, and so is a picture of another run than that of the numbers.

use everybuddy_metrics::{At, COLUMNS, Column, Places};

use super::query::Query;
use super::results::{ENDING, Results};

/// What the head of a table says whose numbers are not those of today's program.
const OLDER: &str = "(older rows)";

/// How comments begin.
const MARKER: &str = "<!-- numbers: ";
const EXCERPT: &str = "<!-- excerpt: compare ";

/// Returns the text with the numbers of its tables as the results have them.
pub(crate) fn filled(file: &str, text: &str, results: &Results) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for at in 0..lines.len() {
        if !lines[at].starts_with(MARKER) && !lines[at].starts_with(EXCERPT) {
            continue;
        }
        let place = |what: String| format!("{file}:{}: {what}", at + 1);
        let close = (at..lines.len()).find(|line| lines[*line].trim_end().ends_with("-->"));
        let close = close.ok_or_else(|| place("the comment has no end".to_owned()))?;
        let comment = lines[at..=close].join(" ");
        let comment = comment.trim_end().trim_end_matches("-->");
        let heads = lines.get(close + 1).map_or("", String::as_str);
        let table = match comment.strip_prefix(EXCERPT) {
            Some(excerpt) => Table::excerpt(excerpt.trim(), heads, results),
            None => Table::parse(&comment[MARKER.len()..]),
        };
        let table = table.map_err(place)?;
        if !lines
            .get(close + 2)
            .is_some_and(|rule| rule.starts_with("|-"))
        {
            return Err(place(
                "a table with heads and a rule must follow the comment".to_owned(),
            ));
        }
        results.take_older();
        let rows = lines.iter_mut().skip(close + 3);
        let rows: Vec<&mut String> = rows.take_while(|line| line.starts_with('|')).collect();
        let (own, stated) = (rows.len(), table.rows.as_ref().map_or(rows.len(), Vec::len));
        if own != stated {
            let what = format!("{stated} rows in the comment, {own} in the table");
            return Err(place(what));
        }
        for (index, row) in rows.into_iter().enumerate() {
            *row = table.row(index, row, results).map_err(place)?;
        }
        if let Some(head) = lines.get_mut(close + 1) {
            *head = marked(head, results.take_older());
        }
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    Ok(lines.join("\n") + end)
}

/// Returns a text without what says that rows are older.
pub(crate) fn unmarked(text: &str) -> String {
    text.replace(&format!("{OLDER} "), "")
}

/// Returns the head of a table, whose first cell says whether the numbers are of an older program.
fn marked(head: &str, is_older: bool) -> String {
    let head = unmarked(head);
    match head.get(1..).and_then(|rest| rest.split_once('|')) {
        Some((first, rest)) if is_older => format!("|{} {OLDER} |{rest}", first.trim_end()),
        _ => head,
    }
}

/// What a comment says. A dash is a column or a row that is written by hand.
struct Table {
    query: Query,
    columns: Vec<Cell>,
    /// The words of each row.
    rows: Option<Vec<String>>,
}

/// What a column shows.
enum Cell {
    /// The number that these words ask for.
    Asked(String),
    /// What `compare` prints in a column.
    Printed(&'static Column),
}

impl Table {
    fn parse(comment: &str) -> Result<Self, String> {
        let wrong = "a comment is `QUERY: COLUMN; COLUMN`, or that and ` | ROW; ROW`";
        let (query, rest) = comment.split_once(": ").ok_or(wrong)?;
        let parts = |text: &str| -> Vec<String> {
            let parts = text.split(';').map(str::trim);
            parts.map(str::to_owned).collect()
        };
        let mut rest = rest.split('|').map(parts);
        let columns = rest.next().unwrap_or_default();
        Ok(Self {
            query: Query::parse(query)?,
            columns: columns.into_iter().map(Cell::Asked).collect(),
            rows: rest.next(),
        })
    }

    fn excerpt(comment: &str, heads: &str, results: &Results) -> Result<Self, String> {
        let parts = comment.split_once(", pictured from ");
        let (source, pictured) = parts.unwrap_or((comment, ""));
        let path = format!("results/{}{ENDING}", results.of("compare")?);
        if ![path.as_str(), ""].contains(&pictured) {
            return Err(format!(
                "a picture of {pictured}, numbers of {path}: `ci/picture.sh`"
            ));
        }
        let column = |head: &str| {
            let mut printed = COLUMNS.iter().filter(|column| column.is_default);
            let found = printed.find(|column| column.title() == head);
            let missing = || format!("`compare` prints no column `{head}`");
            found.map(Cell::Printed).ok_or_else(missing)
        };
        let heads = heads.trim_matches('|').split('|').skip(1);
        Ok(Self {
            query: Query::parse(&format!("compare {source}@"))?,
            columns: heads.map(str::trim).map(column).collect::<Result<_, _>>()?,
            rows: None,
        })
    }

    /// Returns a row of the table with its last cells filled.
    fn row(&self, index: usize, line: &str, results: &Results) -> Result<String, String> {
        let line = line.trim();
        let words = self.rows.as_ref().map_or("", |rows| &rows[index]);
        if words == "-" {
            return Ok(line.to_owned());
        }
        let inner = line.strip_prefix('|').unwrap_or(line);
        let inner = inner.strip_suffix('|').unwrap_or(inner);
        let cells: Vec<&str> = inner.split('|').collect();
        let first = cells[0].trim();
        let own = cells.len().checked_sub(self.columns.len());
        let own = own.filter(|own| *own > 0);
        let own = own.ok_or_else(|| format!("{first} has fewer cells than its table"))?;
        let mut row = format!("|{}|", cells[..own].join("|"));
        for (cell, column) in cells[own..].iter().zip(&self.columns) {
            let query = |words: &str| self.query.clone().with(words);
            let system = first.trim_matches('`');
            row += &match column {
                _ if cell.trim().is_empty() => format!("{cell}|"),
                Cell::Asked(own) if own == "-" => format!("{cell}|"),
                Cell::Asked(own) => {
                    let query = query(own)?.with(words)?.of_system(system);
                    format!(" {} |", query.text(results)?)
                }
                Cell::Printed(column) => {
                    let ask = |words: &str| Ok(query(words)?.values(results)?[0]);
                    format!(" {} |", printed(column, system, ask)?)
                }
            };
        }
        Ok(row)
    }
}

/// Returns the number that `compare` prints in a column, which `ask` finds.
fn printed(
    column: &Column,
    system: &str,
    ask: impl Fn(&str) -> Result<f64, String>,
) -> Result<String, String> {
    let order = match column.at {
        At::NoOrder => String::new(),
        At::Order(order) => format!("order={order}"),
    };
    let about = format!("system={system} {} {}", column.operation, column.metric);
    let value = |statistic: &str| ask(&format!("{about} {statistic} {order}"));
    let is_time = column.places == Places::AboveFloor;
    // A time below the floor of the timer has no row.
    let value = match value(column.statistic) {
        Err(_) if is_time && value("mean").is_ok() => 0.0,
        found => found?,
    };
    let mut floor = 0.0;
    if is_time && value <= 0.0 {
        floor = ask("system=timer all latency value")?;
    }
    Ok(column.text(value * column.factor, floor))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::*;

    #[test]
    fn the_last_cells_of_a_row_are_filled() {
        let folder = Folder::new("table");
        let row = |source, system, value| (source, system, 1, "m", "mean", value);
        folder.run(
            "a",
            &[
                row("x", "bs", 1.0),
                row("y", "bs", 2.0),
                row("x", "is", 3.0),
                row("y", "is", 4.0),
            ],
        );
        let results = Results::new(&folder.0);
        let filled = |marker: &str, rows: &str| {
            let head =
                format!("<!-- numbers: e all m mean .1:\n {marker} -->\n| a | b |\n|---|---|\n");
            let new = filled("x.md", &format!("{head}{rows}\nend\n"), &results)?;
            assert_eq!(filled_again(&new, &results), new, "nothing more changes");
            let new = new.strip_prefix(&head).expect("the head stays");
            Ok::<_, String>(new.replace("\nend\n", ""))
        };
        let is = |marker: &str, rows: &str, expected: &str| {
            assert_eq!(filled(marker, rows).as_deref(), Ok(expected), "{marker}");
        };
        is(
            "x@; y@",
            "| `bs` | by hand | ? | ? |",
            "| `bs` | by hand | 1.0 | 2.0 |",
        );
        is("x@; y@", "| `is` | | ? |", "| `is` | | 4.0 |");
        is(
            "x@; -; y@",
            "| `is` | ? | 7 | ? |",
            "| `is` | 3.0 | 7 | 4.0 |",
        );
        is(
            "system=bs; system=is | y@; -; x@",
            "| b | ? | ? |\n| paper | 7 | 8 |\n| a | ? | ? |",
            "| b | 2.0 | 4.0 |\n| paper | 7 | 8 |\n| a | 1.0 | 3.0 |",
        );
        for (marker, rows) in [
            ("x@; y@", "| `bs` | ? |"),
            ("x@; y@", "| `is` |"),
            ("x@; y@", "| `none` | ? | ? |"),
            ("x@; y@", "| by hand | ? | ? |"),
            ("system=bs | x@", "| a | ? |\n| b | ? |"),
        ] {
            assert!(filled(marker, rows).is_err(), "{marker}");
        }
        let bare = "<!-- numbers: e all m mean .1: x@; y@ -->\n| `bs` | ? | ? |\n";
        assert!(
            super::filled("x.md", bare, &results).is_err(),
            "no heads and no rule"
        );
    }

    fn filled_again(text: &str, results: &Results) -> String {
        filled("x.md", text, results).expect("it was filled before")
    }

    #[test]
    fn the_readme_shows_what_compare_prints() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("README.md")).expect("a README");
        let results = Results::new(&root);
        assert!(
            text.contains(EXCERPT) && text.contains(", pictured from "),
            "its table is an excerpt"
        );
        assert!(
            !text.contains("<!-- numbers: compare"),
            "a table of compare with headings of its own"
        );
        let found = filled("README.md", &text, &results).expect("numbers");
        assert_eq!(unmarked(&found), unmarked(&text));
        let other = text.replacen("| alloc mean ns |", "| allocation |", 1);
        let error = filled("README.md", &other, &results).expect_err("a head of its own");
        assert!(error.contains("prints no column `allocation`"), "{error}");
        let other = text.replacen(", pictured from ", ", pictured from x", 1);
        let error = filled("README.md", &other, &results).expect_err("another picture");
        assert!(error.contains("ci/picture.sh"), "{error}");
        let other = text.replacen("| `bs` |", "| `bsd` |", 1);
        let error = filled("README.md", &other, &results).expect_err("no system");
        assert!(error.contains(" bsd "), "{error}");
    }

    #[test]
    fn numbers_of_an_excerpt_are_written_as_in_the_terminal() {
        let folder = Folder::new("excerpt");
        let row = |(system, operation, metric, statistic, value): (&str, &str, &str, &str, f64)| {
            format!(
                "{{\"experiment\":\"compare\",\"source\":\"t\",\"system\":\"{system}\",\"cpus\":1,\
                 \"operation\":\"{operation}\",\"metric\":\"{metric}\",\"statistic\":\"{statistic}\",\
                 \"value\":{value}}}\n"
            )
        };
        let rows = [
            ("timer", "all", "latency", "value", 20.4),
            ("bs", "allocate", "latency", "mean", 9.154),
            ("bs", "free", "latency", "p99", 30.02),
            ("bs", "all", "miss_rate", "value", 1.0),
            ("bs", "all", "lock_acquisitions", "mean", 1.2),
        ];
        folder.store("a/compare", &rows.map(row).concat());
        let results = Results::new(&folder.0);
        let text = |head: &str| {
            let text = format!("{EXCERPT}t -->\n| system | {head} |\n|---|---|\n| `bs` | ? |");
            let new = filled("x.md", &text, &results)?;
            Ok::<_, String>(new.rsplit('|').nth(1).unwrap_or_default().trim().to_owned())
        };
        assert_eq!(text("alloc mean ns").as_deref(), Ok("9.15"));
        assert_eq!(text("alloc p99 ns").as_deref(), Ok("≤20"));
        assert_eq!(text("free p99 ns").as_deref(), Ok("30.0"));
        assert_eq!(text("list misses %").as_deref(), Ok("100.0"));
        assert_eq!(text("locks per 1k calls").as_deref(), Ok("1200"));
        assert!(text("free mean ns").is_err());
    }
}
