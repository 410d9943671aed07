//! Aligned columns of numbers with the best value of each marked.
//!
//! # Purpose
//!
//! A table fits the terminal and can be read column by column.
//!
//! # Invariants
//!
//! Without colour the text contains no escape codes; marks never change the layout.

use std::borrow::Cow;
use std::ops::Range;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use crate::show::output::Style;

/// The direction in which values improve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Smaller values are better.
    Lower,
    /// Larger values are better.
    Higher,
}

/// A column of numbers.
#[derive(Clone, Debug)]
pub struct Column {
    /// The name and the unit: the two lines of the heading.
    pub head: [Cow<'static, str>; 2],
    /// The direction in which values improve.
    pub better: Better,
    /// The values for comparison, one per row; `None` if there is no value.
    pub values: Vec<Option<f64>>,
    /// The values as text.
    pub texts: Vec<String>,
    /// If the table is too wide, columns are dropped in decreasing order of this rank; rank 0 is never dropped.
    pub expendable: u8,
}

/// Zero-width characters that represent escape codes during the layout.
const BEST: char = '\u{2062}';
const DIM: char = '\u{2061}';
const END: char = '\u{2063}';

/// Renders a table from names and columns; rows outside `competing` are never the best.
pub fn text(
    names: &[String],
    columns: &[Column],
    competing: Range<usize>,
    style: &Style,
) -> String {
    let mut columns: Vec<&Column> = columns.iter().collect();
    loop {
        let text = lay_out(names, &columns, &competing, style);
        let widest = text.lines().map(visible_width).max().unwrap_or(0);
        let next = columns
            .iter()
            .filter(|c| c.expendable > 0)
            .map(|c| c.expendable)
            .max();
        match next {
            Some(rank) if widest > style.width => columns.retain(|c| c.expendable != rank),
            _ => return paint(text, style),
        }
    }
}

fn lay_out(
    names: &[String],
    columns: &[&Column],
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
    let bests: Vec<Option<&str>> = columns
        .iter()
        .map(|column| best(column, competing))
        .collect();
    for (row, name) in names.iter().enumerate() {
        let mut cells = vec![if competing.contains(&row) {
            name.clone()
        } else {
            mark(DIM, name, style)
        }];
        for (column, best) in columns.iter().zip(&bests) {
            let text = column.texts.get(row).map_or("", String::as_str);
            cells.push(match best {
                _ if !competing.contains(&row) => mark(DIM, text, style),
                Some(best) if *best == text => mark(BEST, text, style),
                _ => text.to_string(),
            });
        }
        table.add_row(cells);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if index == 0 {
            // Long variants are broken between their options.
            column.set_delimiter('+');
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(26)));
        } else {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_padding((1, 0));
        }
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// Returns the text of the best value among the competing rows, unless all are equal.
fn best<'c>(column: &'c Column, competing: &Range<usize>) -> Option<&'c str> {
    let all = || column.values.iter().zip(&column.texts);
    let competitors = || all().take(competing.end).skip(competing.start);
    let numbers = competitors().filter_map(|(value, text)| value.map(|value| (value, text)));
    let best = match column.better {
        Better::Lower => numbers.min_by(|a, b| a.0.total_cmp(&b.0)),
        Better::Higher => numbers.max_by(|a, b| a.0.total_cmp(&b.0)),
    };
    let text = best?.1.as_str();
    competitors()
        .any(|(_, other)| other != text)
        .then_some(text)
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

    fn column(head: &'static str, values: [f64; 3], expendable: u8) -> Column {
        Column {
            head: [head.into(), "ns".into()],
            better: Better::Lower,
            values: values.map(Some).to_vec(),
            texts: values.map(|v| format!("{v:.1}")).to_vec(),
            expendable,
        }
    }

    #[test]
    fn the_best_is_marked_and_nothing_moves() {
        let names = ["bs", "lbs-31+batch=7+high=42+percpu=locked", "floor"].map(String::from);
        let columns = [
            column("alloc", [3.0, 2.0, 1.0], 0),
            column("free", [5.0, 5.0, 1.0], 1),
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
            plain.lines().all(|line| line.chars().count() <= 50),
            "{plain}"
        );
    }

    #[test]
    fn columns_go_when_there_is_no_room() {
        let names = ["bs", "is", "floor"].map(String::from);
        let columns = [
            column("alloc", [3.0, 2.0, 1.0], 0),
            column("free", [5.0, 4.0, 1.0], 1),
        ];
        let narrow = text(
            &names,
            &columns,
            0..2,
            &Style {
                colour: false,
                width: 18,
            },
        );
        assert!(
            narrow.contains("alloc") && !narrow.contains("free"),
            "{narrow}"
        );
    }
}
