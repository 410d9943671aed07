//! Results of an older program.
//!
//! A row has a digest of what its system does, and one of its machine. If these are not those of today, or if it has
//! none, it is of an older program. `results/runs.tsv` lists the runs with their commands. A run without such rows has
//! a sum of the digests that its command names. `docs` writes `results/stale.tsv`: the runs to make again, the oldest
//! first. `ci/results.sh` makes them.
//!
//! # Invariants
//! Each file with rows has a line in the list of runs: the run is its path below `results`, without its ending.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::numbers::{DIGESTS, ENDING, NONE, Results, systems};

/// The list that `docs` writes.
pub(crate) const LIST: &str = "results/stale.tsv";

const RUNS: &str = "results/runs.tsv";
const HEAD: &str = "run\tdate\trows\tolder\tseconds\twhere\tprogram\tsystems\n";

/// What is known of the rows of a run.
#[derive(Default)]
struct Rows {
    all: usize,
    older: usize,
    systems: BTreeSet<String>,
}

/// Returns the list of runs that are of an older program, and reports what it cannot judge.
pub(crate) fn list(
    root: &Path,
    files: &[String],
    results: &Results,
    faults: &mut Vec<String>,
) -> String {
    let digests = &results.digests;
    let runs = fs::read_to_string(root.join(RUNS)).unwrap_or_default();
    let runs: Vec<Vec<&str>> = runs
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect())
        .collect();
    let mut found: BTreeMap<String, Rows> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for file in files {
        let run = file.strip_prefix("results/");
        let run = run.and_then(|file| file.strip_suffix(ENDING));
        let Some((run, rows)) = run.and_then(|run| Some((run, results.rows(run, "").ok()?))) else {
            continue;
        };
        let found = found.entry(run.to_owned()).or_default();
        found.all += rows.len();
        for row in rows.iter() {
            let system = &row.names[1];
            if row.is_older {
                found.older += 1;
                found.systems.insert(system.clone());
            }
            let words = systems(system).filter(|own| !digests.0.contains_key(*own));
            unknown.extend(words.map(str::to_owned));
        }
    }
    let mut fault = |what: String| faults.push(format!("{RUNS}:1: stale: {what}"));
    for name in unknown {
        fault(format!(
            "results have `{name}`: add it to {DIGESTS}, cargo run -p xtask -- docs all"
        ));
    }
    let mut lines = Vec::new();
    for run in &runs {
        let [name, date, _, program, seconds, place, command] = run[..] else {
            fault(format!("a line is not of seven columns: {run:?}"));
            continue;
        };
        let rows = found.remove(name).unwrap_or_default();
        let now = digests.of_command(command);
        let (is_older, of) = if rows.all == 0 {
            (program != now, now.as_str())
        } else {
            (rows.older > 0, NONE)
        };
        let systems = if rows.older == rows.all {
            "all".to_owned()
        } else {
            rows.systems.into_iter().collect::<Vec<_>>().join(",")
        };
        if is_older {
            let (all, older) = (rows.all, rows.older);
            lines.push((
                date,
                format!("{name}\t{date}\t{all}\t{older}\t{seconds}\t{place}\t{of}\t{systems}\n"),
            ));
        }
    }
    found
        .into_keys()
        .for_each(|run| fault(format!("no line for `{run}`")));
    lines.sort();
    HEAD.to_owned() + &lines.into_iter().map(|line| line.1).collect::<String>()
}
