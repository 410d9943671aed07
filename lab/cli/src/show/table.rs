//! Aligned columns of numbers with the best value of each marked.
//!
//! A table fits the terminal and can be read column by column.
//!
//! # Invariants
//! Without colour the text contains no escape codes; marks never change the layout. A name is never broken over lines.

use std::borrow::Cow;
use std::ops::Range;

use comfy_table::{CellAlignment, ContentArrangement, presets};
use everybuddy_page::document::{self, Table};

pub use everybuddy_measure::rows::table::Column;
pub use everybuddy_metrics::Better;

use everybuddy_measure::claim::short;

use crate::show::output::Style;

/// What expected numbers are of that a paper printed.
pub(super) const SOURCE: &str = "source";

/// Zero-width characters that represent escape codes during the layout.
const BEST: char = '\u{2062}';
const DIM: char = '\u{2061}';
const END: char = '\u{2063}';

/// Returns a column of words, none of which is the best.
pub(super) fn plain<T: Into<Cow<'static, str>>>(
    metric: &'static str,
    head: [T; 2],
    texts: Vec<String>,
) -> Column {
    Column {
        metric,
        legend: "".into(),
        head: head.map(Into::into),
        better: Better::Neither,
        values: vec![None; texts.len()],
        texts,
    }
}

/// Returns a table of systems.
pub fn table(names: &[String], columns: &[Column], competing: Range<usize>) -> Table {
    let column = |own: &Column| document::Column {
        head: own.head.clone().map(Cow::into_owned),
        best: own.best(&competing),
        texts: own.texts.clone(),
        beside: None,
    };
    Table {
        first: "system".to_string(),
        names: names.to_vec(),
        columns: columns.iter().map(column).collect(),
        competing: competing.clone(),
        ..Table::default()
    }
}

/// Renders a table in which no line competes with others.
pub(super) fn words(names: &[String], columns: &[Column], style: &Style) -> String {
    text(&table(names, columns, 0..names.len()), style)
}

/// Renders a table, without its title and its note. What is too wide for one table becomes several, one below the
/// other.
pub(super) fn text(table: &Table, style: &Style) -> String {
    let mut columns = Vec::with_capacity(table.columns.len());
    for own in &table.columns {
        columns.push(Cow::Borrowed(own));
        // What a source has printed is a column of its own; what follows from the method is not.
        if let Some(beside) = own.beside.as_ref().filter(|beside| beside.by == SOURCE) {
            let text = |value: &Option<f64>| value.map_or(String::new(), short);
            columns.push(Cow::Owned(document::Column {
                head: [own.head[0].clone(), SOURCE.to_string()],
                texts: beside.expected.iter().map(text).collect(),
                ..document::Column::default()
            }));
        }
    }
    let mut out = String::new();
    let mut rest = &columns[..];
    while !rest.is_empty() || out.is_empty() {
        // As many columns as fit, one at least.
        let mut wide = rest.len();
        let mut text = lay_out(table, rest, style);
        while wide > 1 && text.lines().map(visible_width).max().unwrap_or(0) > style.width {
            wide -= 1;
            text = lay_out(table, &rest[..wide], style);
        }
        rest = &rest[wide..];
        if !out.is_empty() {
            out.push('\n');
        }
        out += &text;
    }
    paint(out, style)
}

fn lay_out(table: &Table, columns: &[Cow<'_, document::Column>], style: &Style) -> String {
    let mut out = comfy_table::Table::new();
    let mut preset = presets::NOTHING;
    preset.header_separator = presets::UTF8_HORIZONTAL_ONLY.header_separator;
    out.load_style(preset);
    out.set_content_arrangement(ContentArrangement::Dynamic);
    out.set_width(u16::MAX);
    let has_both = columns.iter().any(|column| !column.head[1].is_empty());
    let head = |[first, second]: [&str; 2]| {
        if has_both {
            format!("{first}\n{second}")
        } else {
            first.to_string()
        }
    };
    let heads = columns
        .iter()
        .map(|column| head(column.head.each_ref().map(String::as_str)));
    out.set_header(std::iter::once(head([&table.first, ""])).chain(heads));
    for (row, name) in table.names.iter().enumerate() {
        let is_apart = !table.competing.contains(&row);
        let own = |text: &str, is_best: bool| match (is_apart, is_best) {
            (true, _) => mark(DIM, text, style),
            (false, true) => mark(BEST, text, style),
            (false, false) => text.to_string(),
        };
        let mut cells = vec![own(name, false)];
        for column in columns {
            let text = column.texts.get(row).map_or("", String::as_str);
            cells.push(own(text, column.best.get(row) == Some(&true)));
        }
        out.add_row(cells);
    }
    for (index, column) in out.column_iter_mut().enumerate() {
        // A name is never broken: it can be copied, and found.
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_padding((1, 0));
        }
    }
    let mut text = out.trim_fmt();
    text.push('\n');
    text
}

fn mark(kind: char, text: &str, style: &Style) -> String {
    if style.colour && !text.is_empty() {
        format!("{kind}{text}{END}")
    } else {
        text.to_string()
    }
}

fn paint(text: String, style: &Style) -> String {
    if !style.colour {
        return text;
    }
    text.replace(BEST, "\x1b[1;32m")
        .replace(DIM, "\x1b[2m")
        .replace(END, "\x1b[0m")
}

fn visible_width(line: &str) -> usize {
    line.chars()
        .filter(|c| ![BEST, DIM, END].contains(c))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(head: &'static str, values: [f64; 3]) -> Column {
        Column {
            metric: "latency",
            legend: "".into(),
            head: [head.into(), "ns".into()],
            better: Better::Lower,
            values: values.map(Some).to_vec(),
            texts: values.map(|v| format!("{v:.1}")).to_vec(),
        }
    }

    #[test]
    fn the_best_is_marked_and_nothing_moves() {
        let names = ["bs", "lbs-31+batch=7+high=42+percpu=locked", "floor"].map(String::from);
        let columns = [
            column("alloc", [3.0, 2.0, 1.0]),
            column("free", [5.0, 5.0, 1.0]),
        ];
        let table = super::table(&names, &columns, 0..2);
        let plain = text(
            &table,
            &Style {
                colour: false,
                width: 80,
            },
        );
        let coloured = text(
            &table,
            &Style {
                colour: true,
                width: 80,
            },
        );
        assert!(!plain.contains('\x1b'));
        assert!(coloured.contains("\x1b[1;32m2.0\x1b[0m"), "{coloured}");
        assert!(
            !coloured.contains("\x1b[1;32m5.0"),
            "all equal: no value is best"
        );
        assert!(
            !coloured.contains("\x1b[1;32m1.0"),
            "the floor does not compete"
        );
        let stripped = ["\x1b[1;32m", "\x1b[2m", "\x1b[0m"]
            .iter()
            .fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(stripped, plain);
        assert!(
            plain.lines().all(|line| line.chars().count() <= 60),
            "{plain}"
        );
        for name in &names {
            assert!(plain.lines().any(|line| line.contains(name)), "{plain}");
        }
    }

    #[test]
    fn what_is_too_wide_becomes_several_tables() {
        let names = ["bs", "is", "floor"].map(String::from);
        let columns = [
            column("alloc", [3.0, 2.0, 1.0]),
            column("free", [5.0, 4.0, 1.0]),
        ];
        let style = |width| Style {
            colour: false,
            width,
        };
        let table = super::table(&names, &columns, 0..2);
        let narrow = text(&table, &style(18));
        let expected = " system   alloc
             ns
═══════════════
 bs         3.0
 is         2.0
 floor      1.0

 system   free
            ns
══════════════
 bs        5.0
 is        4.0
 floor     1.0
";
        assert_eq!(narrow, expected);
        assert_eq!(text(&table, &style(80)).lines().count(), 6);
    }
}
