//! A document as Markdown: what one pastes into a discussion.
//!
//! # Invariants
//! A text is never markup. Every block has its place, except figures, which Markdown cannot draw, and what only a
//! terminal shows.

use crate::document::{Block, Claim, Document, Grid, Look, Reader, Section, Table, Text, Verdict};
use crate::html::few;

/// Returns a document as Markdown with tables.
pub fn of(document: &Document) -> String {
    let mut out = format!("# {}\n", escaped(&document.title));
    paragraph(&mut out, &escaped(&document.lede));
    for (_, remark) in &document.remarks {
        paragraph(&mut out, &format!("**Note**: {}", escaped(remark)));
    }
    let blocks = document.blocks.iter();
    blocks
        .filter_map(|block| block.seen_by(Reader::Page))
        .for_each(|block| put(&mut out, block));
    let made = &document.made;
    let mut line = format!("Made by `{}`", made.command.replace('`', "'"));
    for (word, text) in [
        (" with ", &made.version),
        (" on ", &made.date),
        (", ", &made.more),
    ] {
        if !text.is_empty() {
            line += &format!("{word}{}", escaped(text));
        }
    }
    paragraph(&mut out, &(line + "."));
    out
}

fn put(out: &mut String, block: &Block) {
    match block {
        Block::Section(own) => section(out, own),
        Block::Text(own) => text(out, own),
        Block::Claims(own) => claims(out, own),
        Block::Table(own) => table(out, own),
        Block::Grid(own) => grid(out, own),
        Block::Verbatim(own) => paragraph(out, &format!("```text\n{}\n```", own.trim_end())),
        Block::Figure(_) | Block::Space | Block::Only(..) => {}
    }
}

fn section(out: &mut String, own: &Section) {
    paragraph(out, &format!("## {}", escaped(&own.name)));
    paragraph(out, &escaped(&own.title));
    if !own.source.is_empty() {
        paragraph(out, &format!("Source: {}", escaped(&own.source)));
    }
}

fn text(out: &mut String, own: &Text) {
    let (head, text) = (escaped(own.head.trim()), escaped(&own.text));
    let line = match (own.look, head.as_str()) {
        (_, "") => text,
        (Look::Title, head) => format!("**{head}**{text}"),
        (_, head) => format!("**{head}** {text}"),
    };
    paragraph(out, &line);
}

fn claims(out: &mut String, all: &[Claim]) {
    out.push('\n');
    for claim in all {
        let word = match claim.verdict {
            Verdict::Pass => "pass",
            Verdict::KnownDeviation => "known deviation",
            Verdict::Fail => "fail",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotJudged => "not judged",
        };
        *out += &format!("- **{word}**: {}\n", escaped(&claim.text));
        let why = claim
            .why
            .iter()
            .filter(|_| claim.verdict == Verdict::KnownDeviation);
        let cases = claim.cases.iter().map(|case| case.1.clone());
        let beyond = claim.beyond.iter();
        let beyond = beyond.map(|case| format!("further off than recorded: {case}"));
        for case in cases
            .chain(why.map(|why| format!("why: {why}")))
            .chain(beyond)
        {
            *out += &format!("  - {}\n", escaped(&case));
        }
    }
}

fn table(out: &mut String, own: &Table) {
    paragraph(out, &escaped(&own.title));
    if own.names.is_empty() {
        paragraph(out, "No measurements.");
        return;
    }
    let mut heads = vec![escaped(&own.first)];
    let mut lines: Vec<Vec<String>> = own.names.iter().map(|name| vec![escaped(name)]).collect();
    for column in &own.columns {
        heads.push(escaped(column.head.join(" ").trim()));
        for (at, line) in lines.iter_mut().enumerate() {
            let text = escaped(column.texts.get(at).map_or("", String::as_str));
            let is_best = column.best.get(at) == Some(&true);
            line.push(if is_best { format!("**{text}**") } else { text });
        }
        if let Some(beside) = &column.beside {
            heads.push(escaped(&format!("{} {}", column.head[0], beside.by)));
            for (line, expected) in lines.iter_mut().zip(&beside.expected) {
                line.push(expected.map_or(String::new(), few));
            }
        }
    }
    cells(out, &heads, &lines);
    paragraph(out, &escaped(&own.note));
}

fn grid(out: &mut String, own: &Grid) {
    paragraph(out, &escaped(&own.title));
    let heads = own.heads.iter().map(|head| escaped(head));
    let heads: Vec<String> = [String::new()].into_iter().chain(heads).collect();
    let line = |(name, cells): &(String, Vec<crate::document::Cell>)| {
        let cells = cells.iter().map(|cell| escaped(&cell.text));
        [escaped(name)].into_iter().chain(cells).collect()
    };
    let lines: Vec<Vec<String>> = own.lines.iter().map(line).collect();
    cells(out, &heads, &lines);
    paragraph(out, &escaped(&own.note));
}

/// Adds a table of cells: the first column on the left, numbers on the right.
fn cells(out: &mut String, heads: &[String], lines: &[Vec<String>]) {
    let ends = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    *out += &format!("\n{}", ends(heads));
    let marks = (0..heads.len()).map(|at| if at == 0 { ":---" } else { "---:" });
    *out += &format!("|{}|\n", marks.collect::<Vec<_>>().join("|"));
    lines.iter().for_each(|line| *out += &ends(line));
}

/// Adds a paragraph, if it has a text.
fn paragraph(out: &mut String, text: &str) {
    if !text.is_empty() {
        out.push('\n');
        *out += text;
        out.push('\n');
    }
}

/// Returns a text in which nothing is markup, except names in backquotes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_code = text.matches('`').count() % 2 == 1;
    for letter in text.chars() {
        match letter {
            '`' => is_code = !is_code,
            '\n' | '\u{a0}' => {
                out.push(' ');
                continue;
            }
            // A cell ends at it, also in code.
            '|' => out.push('\\'),
            '<' | '*' | '[' | ']' | '\\' | '_' | '~' | '#' if !is_code => out.push('\\'),
            _ => {}
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Beside, Column};

    #[test]
    fn a_document_reads_well() {
        let column = Column {
            head: ["alloc".into(), "ns".into()],
            texts: vec!["9.50".into(), "12.0".into()],
            best: vec![true, false],
            beside: Some(Beside {
                by: "source".into(),
                expected: vec![Some(9.0), None],
                values: vec![Some(9.5), Some(12.0)],
            }),
        };
        let claim = Claim {
            text: "is wins".into(),
            verdict: Verdict::KnownDeviation,
            cases: vec![(Verdict::Fail, "hot: is 9.50 > bs".into())],
            why: Some("it is made up".into()),
            beyond: vec![],
        };
        let document = Document {
            title: "A <b>title</b>".into(),
            lede: "See `a_b` and a_b.".into(),
            blocks: vec![
                Block::Section(Section {
                    name: "hot".into(),
                    title: "one thing".into(),
                    source: "a paper".into(),
                }),
                Block::text("for a terminal").in_terminal(),
                Block::Claims(vec![claim]),
                Block::Table(Table {
                    title: "times".into(),
                    first: "system".into(),
                    names: vec!["is".into(), "a|b".into()],
                    columns: vec![column],
                    ..Table::default()
                }),
                Block::entry("  machine", 12, "a\u{a0}host"),
            ],
            ..Document::default()
        };
        let expected = "# A \\<b>title\\</b>\n\nSee `a_b` and a\\_b.\n\n## hot\n\none thing\n\nSource: a paper\n\n\
            - **known deviation**: is wins\n  - hot: is 9.50 > bs\n  - why: it is made up\n\ntimes\n\n\
            | system | alloc ns | alloc source |\n|:---|---:|---:|\n| is | **9.50** | 9.00 |\n| a\\|b | 12.0 |  |\n\n\
            **machine** a host\n\nMade by ``.\n";
        assert_eq!(of(&document), expected);
    }
}
