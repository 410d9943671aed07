//! Fills the numbers of tables in documents from committed results.
//!
//! A comment above a table has the query that all numbers share, what differs between its columns, and what differs
//! between its rows:
//!
//! ```text
//! <!-- numbers: bench pair latency p50: hot:order0@1; hot:order0@2; handover@2 -->
//! <!-- numbers: components all speedup p50 .2: gcc_build@; sysbench_mt_cut@ | system=lis-1; -; system=spring -->
//! ```
//!
//! Without a part for rows, each row is of the system that its first cell names, in code font. The last cells of a row
//! are filled, as many as there are columns; those before them are written by hand. So is a column or a row of which
//! the comment has a dash, and a cell that is blank.

use super::query::Query;
use super::results::Results;

/// How a comment begins.
const MARKER: &str = "<!-- numbers: ";

/// Returns the text with the numbers of its tables as the results have them.
pub(super) fn filled(file: &str, text: &str, results: &Results) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let markers = (0..lines.len()).filter(|at| lines[*at].starts_with(MARKER));
    for at in markers.collect::<Vec<_>>() {
        let place = |what: String| format!("{file}:{}: {what}", at + 1);
        let close = (at..lines.len()).find(|line| lines[*line].trim_end().ends_with("-->"));
        let close = close.ok_or_else(|| place("the comment has no end".to_owned()))?;
        let marker = lines[at..=close].join(" ");
        let table = Table::parse(&marker).map_err(place)?;
        // Head and rule.
        let first = close + 3;
        let rows = lines
            .iter()
            .skip(first)
            .take_while(|line| line.starts_with('|'));
        let rows: Vec<String> = rows.cloned().collect();
        if let Some(rules) = table
            .rows
            .as_ref()
            .filter(|rules| rules.len() != rows.len())
        {
            let (rules, rows) = (rules.len(), rows.len());
            return Err(place(format!(
                "{rules} rows in the comment, {rows} in the table"
            )));
        }
        for (index, row) in rows.iter().enumerate() {
            lines[first + index] = table.row(index, row, results).map_err(place)?;
        }
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    Ok(lines.join("\n") + end)
}

/// What a comment says.
struct Table<'t> {
    query: Query<'t>,
    columns: Vec<Option<&'t str>>,
    rows: Option<Vec<Option<&'t str>>>,
}

impl<'t> Table<'t> {
    fn parse(marker: &'t str) -> Result<Self, String> {
        let text = marker.trim_end().trim_start_matches(MARKER);
        let text = text.trim_end_matches("-->");
        let (query, rest) = text
            .split_once(": ")
            .ok_or("a comment is `QUERY: COLUMN; COLUMN`, or that and ` | ROW; ROW`")?;
        let (columns, rows) = match rest.split_once('|') {
            Some((columns, rows)) => (columns, Some(rows)),
            None => (rest, None),
        };
        let parts = |text: &'t str| {
            let parts = text.split(';').map(str::trim);
            parts
                .map(|part| Some(part).filter(|part| *part != "-"))
                .collect()
        };
        Ok(Self {
            query: Query::parse(query)?,
            columns: parts(columns),
            rows: rows.map(parts),
        })
    }

    /// Returns a row of the table with its last cells filled.
    fn row(&self, index: usize, line: &str, results: &Results) -> Result<String, String> {
        let line = line.trim();
        let inner = line.strip_prefix('|').unwrap_or(line);
        let inner = inner.strip_suffix('|').unwrap_or(inner);
        let cells: Vec<&str> = inner.split('|').collect();
        let first = cells[0].trim();
        let words = match &self.rows {
            Some(rows) => match rows[index] {
                Some(words) => words,
                None => return Ok(line.to_owned()),
            },
            None => "",
        };
        // A row that has only its first cell yet gets all numbers.
        let own = match cells.len() {
            1 => 1,
            all => all
                .checked_sub(self.columns.len())
                .filter(|own| *own > 0)
                .ok_or_else(|| format!("{first} has fewer cells than its table"))?,
        };
        let mut row = String::from("|");
        for cell in &cells[..own] {
            row += &format!("{cell}|");
        }
        for (at, column) in self.columns.iter().enumerate() {
            let cell = cells.get(own + at).copied();
            let kept = cell.filter(|cell| column.is_none() || cell.trim().is_empty());
            let column = column.unwrap_or_default().split_whitespace();
            row += &match kept {
                Some(cell) => format!("{cell}|"),
                None => {
                    let query = self.query.clone().with(column)?;
                    let query = query.with(words.split_whitespace())?;
                    let query = query.of_system(first.trim_matches('`'));
                    format!(" {} |", query.text(results)?)
                }
            };
        }
        Ok(row)
    }
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
        is("x@; y@", "| `is` |", "| `is` | 3.0 | 4.0 |");
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
            ("x@; y@", "| `none` | ? | ? |"),
            ("x@; y@", "| by hand | ? | ? |"),
            ("system=bs | x@", "| a | ? |\n| b | ? |"),
        ] {
            assert!(filled(marker, rows).is_err(), "{marker}");
        }
    }

    fn filled_again(text: &str, results: &Results) -> String {
        filled("x.md", text, results).expect("it was filled before")
    }
}
