//! Blocks of a document as text for a terminal.
//!
//! # Invariants
//! A block that a page shows in another form is left out, and figures are. Everything else is the same text at each
//! width, but for the places of line ends.

use everybuddy_measure::claim::{self, State, Whose};
use everybuddy_page::document::{Block, Claim, Look, Reader, Section, Table, Text, Verdict};

use super::output::Style;
use super::table;

/// The width of the column of verdicts.
const INDENT: usize = 17;

/// Renders blocks.
pub fn text(blocks: &[Block], style: &Style) -> String {
    let blocks = blocks.iter();
    let seen = blocks.filter_map(|block| block.seen_by(Reader::Terminal));
    seen.map(|block| one(block, style)).collect()
}

fn one(block: &Block, style: &Style) -> String {
    match block {
        Block::Section(own) => section(own, style),
        Block::Text(own) => words(own, style),
        Block::Claims(own) => claims(own, style),
        Block::Table(own) => lines(own, style),
        Block::Verbatim(own) => own.clone(),
        Block::Space => "\n".to_string(),
        Block::Grid(_) | Block::Figure(_) | Block::Only(..) => String::new(),
    }
}

fn section(own: &Section, style: &Style) -> String {
    let name = style.bold(&own.name);
    match (own.title.as_str(), own.source.as_str()) {
        ("", _) => format!("{name}\n\n"),
        (title, "") => format!("{name}: {title}\n\n"),
        (title, source) => {
            format!("{name}\n{}", style.paragraph(title)) + &style.wrapped("source", 8, source)
        }
    }
}

fn words(own: &Text, style: &Style) -> String {
    let Text {
        head, indent, text, ..
    } = own;
    match own.look {
        Look::Plain if head.is_empty() => style.wrapped("", *indent, text),
        Look::Plain => style.wrapped(head, *indent, text),
        // The head is made bold after wrapping, so that no escape code counts as text.
        Look::Title => {
            let whole = style.paragraph(&format!("{head}{text}"));
            let rest = whole.strip_prefix(head.as_str()).unwrap_or(&whole);
            style.bold(head) + rest
        }
        Look::Entry => style.entry(head, *indent, text),
        Look::Warning => style.warning(&style.wrapped(head, *indent, text)),
        Look::Dim => {
            let whole = style.wrapped(head, *indent, text);
            whole.lines().map(|line| style.dim(line) + "\n").collect()
        }
    }
}

fn lines(own: &Table, style: &Style) -> String {
    let mut out = match own.title.as_str() {
        "" => String::new(),
        title => style.paragraph(title),
    };
    if own.names.is_empty() {
        return out + "no measurements\n";
    }
    out += &table::text(own, style);
    if !own.note.is_empty() {
        out += "\n";
        out += &style.paragraph(&own.note);
    }
    out
}

/// A verdict is a word, never a colour alone.
fn claims(all: &[Claim], style: &Style) -> String {
    if all.iter().any(|claim| claim.verdict == Verdict::NotJudged) {
        return "claims are not judged because the run was shortened\n".to_string();
    }
    let mut out = String::new();
    for claim in all {
        let word = match claim.verdict {
            Verdict::Pass => "pass",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Fail => "FAIL",
            Verdict::KnownDeviation => "known deviation",
            Verdict::NotJudged => "not judged",
        };
        let text = style.wrapped(word, INDENT, &claim.text);
        out += &match claim.verdict {
            Verdict::Pass => text,
            _ => style.warning(&text),
        };
        for (verdict, case) in &claim.cases {
            let mark = match verdict {
                Verdict::Pass => "+",
                Verdict::Inconclusive | Verdict::NotJudged => "?",
                Verdict::Fail | Verdict::KnownDeviation => "-",
            };
            out += &style.wrapped(&format!("{:INDENT$}{mark}", ""), INDENT + 2, case);
        }
        if let (Verdict::Fail | Verdict::KnownDeviation, Some(why)) = (claim.verdict, &claim.why) {
            out += &style.wrapped("", INDENT + 2, &format!("why: {why}"));
            for case in &claim.beyond {
                let text = format!("further off than recorded: {case}");
                out += &style.wrapped("", INDENT + 2, &text);
            }
        }
    }
    out
}

/// Converts a claim and its verdict.
pub fn judged((claim, verdict): &(claim::Claim, claim::Verdict)) -> Claim {
    let word = |state| match state {
        State::Pass => Verdict::Pass,
        State::Inconclusive => Verdict::Inconclusive,
        State::Fail if verdict.is_failure(claim) => Verdict::Fail,
        State::Fail => Verdict::KnownDeviation,
    };
    let cases = verdict.cases.iter();
    Claim {
        text: worded(claim),
        verdict: word(verdict.state),
        cases: cases
            .map(|case| (word(case.state), case.text.clone()))
            .collect(),
        why: claim.differs.as_deref().map(|why| reason(why, claim)),
        beyond: verdict.beyond.clone(),
    }
}

/// Returns a claim in words, with a mark if they are not those of the source.
pub fn worded(claim: &claim::Claim) -> String {
    let mark = match claim.whose {
        Whose::Source => "",
        Whose::Reading => " (another reading)",
        Whose::Ours => " (ours)",
    };
    claim.text.clone() + mark
}

/// Returns the reason of a deviation, and what shows it.
fn reason(why: &str, claim: &claim::Claim) -> String {
    match &claim.shown_by {
        Some(by) => format!("{}; shown by {by}", why.trim_end_matches('.')),
        None => format!("{} (not measured)", why.trim_end_matches('.')),
    }
}
