//! The tables of SYSTEMS.md about what the explorer went through.
//!
//! # Invariants
//! They are made from two committed files, as the explorer and `ci/defects.sh` wrote them. Columns are found by their
//! names.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use everybuddy_metrics::count;

/// The explorer's rows.
const FILE: &str = "results/checks/explore.tsv";

/// The defects that were put in by hand, and how each was found.
const DEFECTS: &str = "results/checks/defects.tsv";

/// A row by column.
struct Row<'t>(HashMap<&'t str, &'t str>);

impl Row<'_> {
    fn text(&self, column: &str) -> Result<&str, String> {
        let value = self.0.get(column).copied();
        value.ok_or_else(|| format!("explored: no column {column} in a row"))
    }

    fn number(&self, column: &str) -> Result<u64, String> {
        let value = self.text(column)?.parse();
        value.map_err(|_| format!("explored: {column} is not a number"))
    }

    /// Returns the scope without the number of states at which the search ends: the verdict says how far it came.
    fn scope(&self) -> Result<String, String> {
        let words = self.text("scope")?.split(' ');
        let words =
            words.filter(|word| !word.starts_with("states=") && !word.starts_with("pairs="));
        Ok(words.collect::<Vec<_>>().join(" "))
    }
}

/// Returns the rows of a table.
fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    lines.map(move |line| Row(columns.iter().copied().zip(line.split('\t')).collect()))
}

/// Returns what SYSTEMS.md has of the explorer's rows.
pub(crate) fn explored(root: &Path) -> Result<String, String> {
    let read = |file: &str| {
        fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
    };
    Ok(tables(&read(FILE)?)? + &defects(&read(DEFECTS)?)?)
}

/// Returns the table of defects.
fn defects(text: &str) -> Result<String, String> {
    let mut out = String::from(
        "\nThe same search finds defects that are put in by hand (`ci/defects.sh`), each in one scope, which has no \
         finding without the defect. *Steps* are those of the shortest counterexample, which is printed as a test.\n\n\
         | defect | scope | shortest finding | steps | after |\n|---|---|---|---|---|\n",
    );
    for row in rows(text) {
        let (what, scope, finding) = (row.text("text")?, row.scope()?, row.text("finding")?);
        let (steps, after) = (row.number("steps")?, count(row.number("after")?));
        let unit = row.text("unit")?;
        let _ = writeln!(
            out,
            "| {what} | `{scope}` | {finding} | {steps} | {after} {unit} |"
        );
    }
    Ok(out)
}

fn tables(text: &str) -> Result<String, String> {
    let (mut alone, mut both) = (Vec::new(), Vec::new());
    for row in rows(text) {
        if row.number("pairs_from")? == 0 {
            alone.push(row);
        } else {
            both.push(row);
        }
    }
    let sum = |rows: &[Row<'_>], column: &str| -> Result<String, String> {
        let numbers = rows.iter().map(|row| row.number(column));
        Ok(count(numbers.sum::<Result<u64, String>>()?))
    };
    let findings = sum(&alone, "findings")? + " and " + &sum(&both, "findings")?;
    let mut out = format!(
        "\n## States that were explored\n\nThe explorer (`ci/explore.sh`) executes every operation with every \
         argument that differs, misuse included, from every state that it reaches, and judges each result and each \
         state. *Closed*: there are no other states. *But for mismatches*: the experiments that were learned do not \
         tell all states apart. *To depth D*: every sequence of D operations was executed. States are the same if \
         no experiment tells them apart, or, with `bytes`, if their metadata are equal. `everybuddy` did not close \
         within ten million states. The order of the frames in its lists and its counters are the likely cause. \
         Unless a scope says more, memory has 4 frames and one CPU. In all there were {} states and {} transitions. \
         The second table has pairs of operations of two CPUs, under all schedules with at most two preemptions, \
         and operations that a nested call interrupts at each access. Pairs begin in states that were chosen so \
         that their operations take as many different paths as possible. The two tables have {findings} findings \
         that are not exceptions.\n\n",
        sum(&alone, "states")?,
        sum(&alone, "transitions")?,
    );
    out.push_str("| scope | reached | states | transitions |\n|---|---|---|---|\n");
    for row in &alone {
        let (scope, reached) = (row.scope()?, row.text("verdict")?);
        let [states, transitions] = ["states", "transitions"].map(|column| row.number(column));
        let (states, transitions) = (count(states?), count(transitions?));
        let _ = writeln!(out, "| `{scope}` | {reached} | {states} | {transitions} |");
    }
    out.push_str(
        "\n| scope | states | paths | pairs | that share a word | schedules | interrupted accesses |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in &both {
        let scope = row.scope()?;
        let of = |column: &str| row.number(column).map(count);
        let (from, covered, paths) = (of("pairs_from")?, of("paths_covered")?, of("paths")?);
        let (pairs, share) = (of("pairs")?, of("pairs_that_share")?);
        let (schedules, interrupted) = (of("schedules")?, of("interrupted")?);
        let _ = writeln!(
            out,
            "| `{scope}` | {from} | {covered} of {paths} | {pairs} | {share} | {schedules} | {interrupted} |"
        );
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "scope\tverdict\tstates\ttransitions\tfindings\tpairs_from\tpaths\tpaths_covered\tpairs\t\
                        pairs_that_share\tschedules\tinterrupted\n\
                        bs frames=4 states=9\tclosed\t1234\t1234567\t0\t0\t0\t0\t0\t0\t0\t0\n\
                        bs cpus=2 pairs=200\tto depth 3\t9\t99\t0\t2\t7\t5\t4\t3\t1000\t12\n";

    #[test]
    fn searches_and_pairs_have_a_table_each() {
        let text = tables(TEXT).expect("tables");
        assert!(text.contains("\n| `bs frames=4` | closed | 1,234 | 1,234,567 |\n"));
        assert!(text.contains("\n| `bs cpus=2` | 2 | 5 of 7 | 4 | 3 | 1,000 | 12 |\n"));
        assert!(text.contains("0 and 0 findings"));
    }

    #[test]
    fn a_defect_is_a_line() {
        let text = "text\tscope\tfinding\tsteps\tafter\tunit\nno lock\tbs pairs=9\tlost\t3\t1234\tschedules\n";
        let line = "\n| no lock | `bs` | lost | 3 | 1,234 schedules |\n";
        assert!(defects(text).expect("a table").ends_with(line));
        assert!(defects("text\tscope\nno lock\tbs\n").is_err());
    }

    #[test]
    fn a_row_without_a_column_is_an_error() {
        assert!(tables("scope\tverdict\nbs\tclosed\n").is_err());
    }
}
