//! Aligned columns of numbers with the best value of each marked.
//!
//! A table fits the terminal and can be read column by column.
//!
//! # Invariants
//! Without colour the text contains no escape codes; marks never change the layout. A name is never broken over lines.

use std::borrow::Cow;
use std::ops::Range;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

pub use everybuddy_measure::rows::table::Column;
pub use everybuddy_metrics::Better;

use crate::show::output::Style;

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

/// Renders a table from names and columns; rows outside `competing` are never the best. What is too wide for one table
/// becomes several, one below the other.
pub fn text(
    names: &[String],
    columns: &[Column],
    competing: Range<usize>,
    style: &Style,
) -> String {
    let mut out = String::new();
    let mut rest = columns;
    while !rest.is_empty() || out.is_empty() {
        // As many columns as fit, one at least.
        let mut wide = rest.len();
        let mut text = lay_out(names, rest, &competing, style);
        while wide > 1 && text.lines().map(visible_width).max().unwrap_or(0) > style.width {
            wide -= 1;
            text = lay_out(names, &rest[..wide], &competing, style);
        }
        rest = &rest[wide..];
        if !out.is_empty() {
            out.push('\n');
        }
        out += &text;
    }
    paint(out, style)
}

fn lay_out(
    names: &[String],
    columns: &[Column],
    competing: &Range<usize>,
    style: &Style,
) -> String {
    let mut table = Table::new();
    let mut preset = presets::NOTHING;
    preset.header_separator = presets::UTF8_HORIZONTAL_ONLY.header_separator;
    table.load_style(preset);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::MAX);
    let head = columns
        .iter()
        .map(|column| format!("{}\n{}", column.head[0], column.head[1]));
    table.set_header(std::iter::once("system\n".to_string()).chain(head));
    let bests: Vec<Vec<bool>> = columns
        .iter()
        .map(|column| column.best(competing))
        .collect();
    for (row, name) in names.iter().enumerate() {
        let mut cells = vec![if competing.contains(&row) {
            name.clone()
        } else {
            mark(DIM, name, style)
        }];
        for (column, best) in columns.iter().zip(&bests) {
            let text = column.texts.get(row).map_or("", String::as_str);
            cells.push(match competing.contains(&row) {
                false => mark(DIM, text, style),
                true if best[row] => mark(BEST, text, style),
                true => text.to_string(),
            });
        }
        table.add_row(cells);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        // A name is never broken: it can be copied, and found.
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_padding((1, 0));
        }
    }
    let mut text = table.trim_fmt();
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
        let plain = text(
            &names,
            &columns,
            0..2,
            &Style {
                colour: false,
                width: 80,
            },
        );
        let coloured = text(
            &names,
            &columns,
            0..2,
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
        let narrow = text(&names, &columns, 0..2, &style(18));
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
        assert_eq!(text(&names, &columns, 0..2, &style(80)).lines().count(), 6);
    }
}
