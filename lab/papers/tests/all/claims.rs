//! The page of all claims.
//!
//! The page is generated: `cargo run -p xtask -- docs` writes it, by this test with `WRITE=1`. What was measured is on
//! the page, and no test fails because of it. `tidy` reports that the rows or the claims have changed since the page
//! was written.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use everybuddy_measure::claim::{Claim, State, Verdict};
use everybuddy_measure::rows::Row;
use everybuddy_papers::{Experiment, all_experiments, list};

use everybuddy_text::sum;

use crate::bounds::{Bounds, EXPERIMENTS, committed};

/// The folders with the claims and the rows that the page is made from.
const INPUTS: [&str; 4] = [
    "lab/measure/src/claim",
    "lab/papers/src",
    "results/bench-zen4",
    "results/papers",
];

/// The papers, in the order of the page, as sources of experiments begin.
const PAPERS: [&str; 5] = ["[iBuddy]", "[Porter]", "[Spring]", "[BL89]", "[Serewa]"];
const OTHERS: &str = "Others and our own";

const HEAD: &str = "\
All claims of `everybuddy reproduce`, judged by the [committed results](../results/papers/README.md). Each names its
experiment: `everybuddy experiments NAME` describes it, `everybuddy reproduce NAME` runs it. The number is that of the
case that decides: where it was measured, of which systems, and what the claim allows. *Not decided* means that rounds
disagree, or that the number is not among the committed ones. `relative_time / expected` is our number over the printed
one. *Older* stands where rows are of an older program.
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
    let verdicts: Vec<_> = verdicts.collect();
    let case = |of: &Verdict| {
        let mut cases = of.cases.iter().filter(|case| case.0 == of.state);
        let case = cases.next().map_or("", |case| &case.1);
        case.replace('|', "\\|")
    };
    let known = verdicts
        .iter()
        .filter(|own| own.state != State::Inconclusive);
    let Some(verdict) = known.max_by_key(|own| own.state) else {
        let cases: Vec<String> = verdicts.iter().map(case).collect();
        // Rounds that disagree say more than rows that are missing.
        let mut said = cases.iter().filter(|case| !case.is_empty());
        let lacks = |case: &str| case.contains("no numbers") || case.starts_with("rows missing");
        let why = said.find(|case| !lacks(case));
        let why = why.map_or("rows are missing", String::as_str);
        return (2, format!("| {why} | not decided |"));
    };
    let case = case(verdict);
    let why = claim.differs.as_deref().unwrap_or_default();
    let why = why.split_inclusive(". ").next().unwrap_or_default();
    let why = why.trim().trim_end_matches('.').replace('\n', " ");
    match verdict.state {
        State::Pass => (0, format!("| {case} | holds |")),
        _ => (1, format!("| {case} | **fails**: {why} |")),
    }
}

/// Returns the last part of the page.
fn bounds() -> String {
    let Bounds {
        known,
        judged,
        loose,
    } = Bounds::committed();
    let mut text = format!(
        "\n## Bounds\n\nA known deviation may grow up to its bound. Of {known}, those of benchmarks included, \
         committed rows decide {judged}.\n"
    );
    text += match loose.len() {
        0 => "No bound is more than twice as far off as what was measured.\n",
        _ => "These bounds are more than twice as far off as what was measured:\n\n",
    };
    text + &loose
        .iter()
        .map(|own| format!("- {own}\n"))
        .collect::<String>()
}

/// Returns the experiment and the text of each claim on a page.
fn listed(page: &str) -> Vec<[&str; 2]> {
    let cells = |line| {
        let mut cells = str::split(line, " | ");
        let name = cells.next()?.strip_prefix("| `")?.split('`').next()?;
        Some([name, cells.next()?])
    };
    page.lines().filter_map(cells).collect()
}

/// Returns the page as the committed rows have it.
fn page(root: &Path) -> String {
    let runs = EXPERIMENTS.map(committed);
    let all = all_experiments().unwrap();
    let stale = fs::read_to_string(root.join("results/stale.tsv")).unwrap();
    let older = |name: &str| {
        let run = format!("papers/reproduce/{name}\t");
        let is_older = stale.lines().any(|line| line.starts_with(&run));
        if is_older { " *(older)*" } else { "" }
    };
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
                let _ = writeln!(
                    table,
                    "| `{}`{} | {text} {line}",
                    own.name,
                    older(&own.name)
                );
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
    let sum = sum::files(root, &INPUTS).unwrap();
    let generated = format!(
        "<!-- generated by lab/papers/tests/all/claims.rs from {}: {sum:08x} -->",
        INPUTS.join(" ")
    );
    format!(
        "# Claims\n\n{generated}\n\n{HEAD}\n| source | hold | fail | not decided |\n|---|---|---|---|\n\
         {summary}{tables}{}",
        bounds()
    )
}

#[test]
fn the_page_of_claims_lists_each_claim() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (path, page) = (root.join("docs/claims.md"), page(&root));
    if env::var_os("WRITE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert!(listed(&page).len() > 100);
    // Not the numbers and the verdicts: rows decide those, and not the program.
    assert_eq!(
        listed(&written),
        listed(&page),
        "claims have changed: cargo run -p xtask -- docs, and read docs/claims.md"
    );
}
