//! What `everybuddy simulate --sensitivity` found.
//!
//! One paragraph for each assumption on which a conclusion depends, and one list of all others.
//!
//! # Invariants
//! Every assumption that was changed is mentioned.

use everybuddy_simulate::sensitivity::{Difference, MARGIN};

use everybuddy_page::document::{Block, Section};

/// A change of one assumption, and the conclusions that differ with it.
pub struct Changed {
    /// The assumption.
    pub key: String,
    /// What is assumed, and what was assumed instead.
    pub values: [String; 2],
    /// The conclusions that differ.
    pub differences: Vec<Difference>,
}

/// Returns what changes.
pub fn blocks(changes: &[Changed], cpus: u16) -> Vec<Block> {
    let mut out = String::new();
    let width = |of: &dyn Fn(&Changed) -> String| {
        let widths = changes.iter().map(|own| of(own).chars().count());
        widths.max().unwrap_or(0)
    };
    let values = |own: &Changed| format!("{} → {}", own.values[0], own.values[1]);
    let (keys, numbers) = (width(&|own| own.key.clone()), width(&values));
    let mut unchanged = Vec::new();
    for own in changes {
        if own.differences.is_empty() {
            unchanged.push(format!("{} {}", own.key, own.values[1]));
        }
        let mut lead = format!(" {:keys$}  {:numbers$}  ", own.key, values(own));
        for difference in &own.differences {
            out += &lead;
            out += &line(difference);
            out.push('\n');
            lead = " ".repeat(keys + numbers + 5);
        }
    }
    let summary = if unchanged.is_empty() {
        "Each of these assumptions matters.".to_string()
    } else {
        format!("No conclusion changes with: {}.", unchanged.join(", "))
    };
    if unchanged.len() < changes.len() {
        out.push('\n');
    }
    let conclusions = format!(
        "Conclusions: up to how many CPUs a system scales, and which of two systems makes {MARGIN} times the calls of \
         the other on {cpus} CPUs."
    );
    let section = Section {
        name: "sensitivity".to_string(),
        ..Section::default()
    };
    let rest = ": conclusions that change with an assumption, simulated";
    vec![
        Block::Section(section).on_page(),
        Block::title("Sensitivity", rest),
        Block::Space,
        Block::Verbatim(out),
        Block::text(summary),
        Block::text(conclusions),
    ]
}

fn line(difference: &Difference) -> String {
    let number = |limit: &Option<u16>| match limit {
        Some(limit) => limit.to_string(),
        None => "all CPUs".to_string(),
    };
    match difference {
        Difference::Limit {
            load,
            system,
            before,
            after,
        } => format!(
            "{load}: {system} scales to {}, not to {}",
            number(after),
            number(before)
        ),
        Difference::Order {
            load,
            before,
            after,
        } => format!("{load}: {after} is faster than {before}, not slower"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::document;
    use crate::show::output::Style;

    #[test]
    fn every_assumption_is_mentioned() {
        let changed = |key: &str, to: &str, differences| Changed {
            key: key.to_string(),
            values: ["84".to_string(), to.to_string()],
            differences,
        };
        let limit = |after| Difference::Limit {
            load: "burst".to_string(),
            system: "is".to_string(),
            before: None,
            after,
        };
        let order = Difference::Order {
            load: "burst".to_string(),
            before: "is".to_string(),
            after: "spring".to_string(),
        };
        let changes = [
            changed("near.clean", "42", vec![]),
            changed("near.clean", "168", vec![limit(Some(8)), order]),
            changed("memory", "42", vec![]),
        ];
        let text = document::text(&blocks(&changes, 64), &Style::PLAIN);
        let expected = "Sensitivity: conclusions that change with an assumption, simulated\n\n \
             near.clean  84 → 168  burst: is scales to 8, not to all CPUs\n                       \
             burst: spring is faster than is, not slower\n\n\
             No conclusion changes with: near.clean 42, memory 42.\n";
        assert!(text.starts_with(expected), "{text}");
    }
}
