//! The page of all claims.
//!
//! The page is generated: `cargo run -p xtask -- docs` writes it, by this test with `WRITE=1`. What was measured is on
//! the page, and no test fails because of it. `tidy` reports that the rows or the claims have changed since the page
//! was written.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use everybuddy_measure::claim::{Claim, State, Verdict, Whose};
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
The claims of `everybuddy reproduce`, judged by the [committed results](../results/papers/README.md). The table of a
paper has what the paper says: its sentences, numbers, orders and figures, with their places in italics. Other readings
and what is ours have tables of their own, and the summary does not count them. Each claim names its experiment:
`everybuddy experiments NAME` describes it, `everybuddy reproduce NAME` runs it. The number is that of the case that
decides, the one furthest beyond its bound: where it was measured, of which systems, and what the claim allows. *Not
decided* means that rounds disagree, or that the number is not among the committed ones. A reason says what shows it, or
that it was not measured. `relative_time / expected` is our number over the printed one. *Older* stands where rows are
of an older program. *Held before* counts the same claims as of f9da6d65, before this division was made.
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
        let case = of.deciding().map_or("", |case| &case.text);
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
    let cell = |text: &str| text.trim().replace('\n', " ").replace('|', "\\|");
    let why = cell(claim.differs.as_deref().unwrap_or_default());
    let shown = match &claim.shown_by {
        Some(by) => format!("; shown by {}", cell(by)),
        None => " *(not measured)*".to_string(),
    };
    match verdict.state {
        State::Pass => (0, format!("| {case} | holds |")),
        _ => (1, format!("| {case} | **fails**: {why}{shown} |")),
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

/// The verdicts that the page had before claims were divided into those of the sources and ours: experiment, claim and
/// verdict.
const BEFORE: &str = "results/papers/before.tsv";

/// The words of a verdict, in the order of the columns of the summary.
const VERDICTS: [&str; 3] = ["holds", "fails", "not decided"];

/// A line of the page.
struct Line {
    /// The number of its source, see [`PAPERS`].
    paper: usize,
    whose: Whose,
    /// The number of its verdict.
    state: usize,
    /// The verdict of the same claim before, if it was there.
    before: Option<usize>,
    text: String,
}

/// Returns the lines of all claims, as the committed rows decide them.
fn lines(root: &Path) -> Vec<Line> {
    let runs = EXPERIMENTS.map(committed);
    let stale = fs::read_to_string(root.join("results/stale.tsv")).unwrap();
    let older = |name: &str| {
        let run = format!("papers/reproduce/{name}\t");
        let is_older = stale.lines().any(|line| line.starts_with(&run));
        if is_older { " *(older)*" } else { "" }
    };
    let before = fs::read_to_string(root.join(BEFORE)).unwrap();
    // Some texts are those of several claims: "The same for frees."
    let before = |name: &str, text: &str, earlier: usize| {
        let key = format!("{name}\t{text}\t");
        let mut same = before.lines().filter_map(|line| line.strip_prefix(&key));
        let verdict = same.nth(earlier)?;
        VERDICTS.iter().position(|own| *own == verdict)
    };
    let paper = |own: &Experiment| {
        let mut papers = PAPERS.iter();
        let found = papers.position(|paper| own.source.starts_with(paper));
        found.unwrap_or(PAPERS.len())
    };
    let mut all = Vec::new();
    for own in all_experiments().unwrap() {
        let is_own = |row: &&Row| row.experiment.split('@').next() == Some(&own.name);
        let runs = runs
            .each_ref()
            .map(|rows| rows.iter().filter(is_own).cloned().collect::<Vec<_>>());
        let own = list::run_of(own.clone(), false, &runs[0]).unwrap();
        for (at, claim) in own.claims.iter().enumerate() {
            let earlier = own.claims[..at].iter();
            let earlier = earlier.filter(|other| other.text == claim.text).count();
            let (state, line) = judged(&own, claim, &runs);
            let text = claim.text.replace('|', "\\|");
            let said = claim.said.as_deref().unwrap_or_default();
            let said = match (claim.whose, said.replace('|', "\\|")) {
                (_, said) if said.is_empty() => String::new(),
                (_, said) => format!(" *({said})*"),
            };
            all.push(Line {
                paper: paper(&own),
                whose: claim.whose,
                state,
                before: before(&own.name, &text, earlier),
                text: format!(
                    "| `{}`{} | {text}{said} {line}\n",
                    own.name,
                    older(&own.name)
                ),
            });
        }
    }
    all
}

/// Returns the page as the committed rows have it.
fn page(root: &Path) -> String {
    let lines = lines(root);
    let head = "\n| experiment | claim | number | verdict |\n|---|---|---|---|\n";
    let names = PAPERS.iter().map(|paper| paper.trim_matches(['[', ']']));
    let names: Vec<&str> = names.chain([OTHERS]).collect();
    let (mut summary, mut tables) = (String::new(), String::new());
    for (at, name) in names.iter().enumerate() {
        let own = lines
            .iter()
            .filter(|line| line.paper == at && line.whose == Whose::Source);
        let count = |state| own.clone().filter(|line| line.state == state).count();
        let before = own.clone().filter(|line| line.before == Some(0)).count();
        let [holds, fails, open] = [0, 1, 2].map(count);
        let _ = writeln!(
            summary,
            "| [{name}](#{}) | {before} | {holds} | {fails} | {open} |",
            name.to_lowercase().replace(' ', "-")
        );
        let texts: String = own.map(|line| line.text.as_str()).collect();
        let _ = write!(tables, "\n## {name}\n{head}{texts}");
    }
    for (whose, name, about) in [
        (
            Whose::Reading,
            "Other readings",
            "Sentences of the sources under another assumption than the one that the tables above name. At most one \
             reading of a sentence can be meant.",
        ),
        (
            Whose::Ours,
            "Our own",
            "What no source says: extensions, ablations, models, and checks of the methods.",
        ),
    ] {
        let own = lines.iter().filter(|line| line.whose == whose);
        let texts: String = own.map(|line| line.text.as_str()).collect();
        let _ = write!(tables, "\n## {name}\n\n{about}\n{head}{texts}");
    }
    let sum = sum::files(root, &INPUTS).unwrap();
    let generated = format!(
        "<!-- generated by lab/papers/tests/all/claims.rs from {}: {sum:08x} -->",
        INPUTS.join(" ")
    );
    format!(
        "# Claims\n\n{generated}\n\n{HEAD}\n| source | held before | hold | fail | not decided |\n\
         |---|---|---|---|---|\n{summary}{tables}{}",
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
