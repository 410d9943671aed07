//! The page of all claims.
//!
//! The page is generated: `WRITE=1 cargo test -p everybuddy-papers page_of_claims` writes it.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use everybuddy_measure::claim::{Claim, State};
use everybuddy_measure::rows::Row;
use everybuddy_papers::{Experiment, all_experiments, list};

use crate::bounds::{EXPERIMENTS, committed};

/// The papers, in the order of the page, as sources of experiments begin.
const PAPERS: [&str; 5] = ["[iBuddy]", "[Porter]", "[Spring]", "[BL89]", "[Serewa]"];
const OTHERS: &str = "Others and our own";

const HEAD: &str = "\
# Claims

All claims of `everybuddy reproduce`, judged by the [committed results](../results/papers/README.md). Each names its
experiment: `everybuddy experiments NAME` describes it, `everybuddy reproduce NAME` runs it. The number is that of the
case that decides: where it was measured, of which systems, and what the claim allows. *Not decided* means that rounds
disagree, or that the number is not among the committed ones. `relative_time / expected` is our number over the printed
one.
";

/// Returns the verdict in a line of the table, and whether the claim holds, fails or is not decided.
fn judged(own: &Experiment, claim: &Claim, runs: &[Vec<Row>]) -> (usize, String) {
    let only = Experiment {
        claims: vec![claim.clone()],
        ..own.clone()
    };
    let verdicts = runs
        .iter()
        .map(|rows| list::judge_earlier(&only, rows).unwrap().remove(0));
    let known = verdicts.filter(|own| own.state != State::Inconclusive);
    let Some(verdict) = known.max_by_key(|own| own.state) else {
        return (2, "| | not decided |".to_string());
    };
    let mut cases = verdict.cases.iter();
    let case = cases
        .find(|case| case.0 == verdict.state)
        .map_or("", |case| &case.1);
    let case = case.replace('|', "\\|");
    let why = claim.differs.as_deref().unwrap_or_default();
    let why = why.split_inclusive(". ").next().unwrap_or_default();
    let why = why.trim().trim_end_matches('.').replace('\n', " ");
    match verdict.state {
        State::Pass => (0, format!("| {case} | holds |")),
        _ => (1, format!("| {case} | **fails**: {why} |")),
    }
}

#[test]
fn the_page_of_claims_is_that_of_the_committed_rows() {
    let runs = EXPERIMENTS.map(committed);
    let all = all_experiments().unwrap();
    let paper = |own: &Experiment| {
        PAPERS
            .iter()
            .position(|paper| own.source.starts_with(paper))
    };
    let names = PAPERS.iter().map(|paper| paper.trim_matches(['[', ']']));
    let (mut summary, mut tables) = (String::new(), String::new());
    for (at, name) in names.chain([OTHERS]).enumerate() {
        let mut counts = [0; 3];
        let mut table =
            String::from("| experiment | claim | number | verdict |\n|---|---|---|---|\n");
        for own in all
            .iter()
            .filter(|own| paper(own).unwrap_or(PAPERS.len()) == at)
        {
            let is_own = |row: &&Row| row.experiment.split('@').next() == Some(&own.name);
            let runs = runs
                .each_ref()
                .map(|rows| rows.iter().filter(is_own).cloned().collect::<Vec<_>>());
            let own = list::run_of(own.clone(), false, &runs[0]).unwrap();
            for claim in &own.claims {
                let (state, line) = judged(&own, claim, &runs);
                counts[state] += 1;
                let text = claim.text.replace('|', "\\|");
                let _ = writeln!(table, "| `{}` | {text} {line}", own.name);
            }
        }
        let [holds, fails, open] = counts;
        let _ = writeln!(
            summary,
            "| [{name}](#{}) | {holds} | {fails} | {open} |",
            name.to_lowercase().replace(' ', "-")
        );
        let _ = write!(tables, "\n## {name}\n\n{table}");
    }
    let page = format!(
        "{HEAD}\n| source | hold | fail | not decided |\n|---|---|---|---|\n{summary}{tables}"
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/claims.md");
    if env::var_os("WRITE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let is_written = fs::read_to_string(&path).is_ok_and(|text| text == page);
    assert!(
        is_written,
        "docs/claims.md is older: set WRITE=1, run this test again and read the page"
    );
}
