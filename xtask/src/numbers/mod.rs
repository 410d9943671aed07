//! Fills the numbers in documents from committed results.
//!
//! # Purpose
//!
//! The run behind a number that was copied by hand is unknown a year later. Three kinds of marks fill numbers:
//! [`table`] those of a whole table, [`excerpt`] those of a table that `compare` prints, and a span those of prose and
//! of single cells:
//!
//! ```text
//! <!--= [fragmentation sequence bs all free_blocks mean order=10] as 3s -->176<!--/-->
//! <!--= link fragmentation -->[2026-11-20-epyc-2cpu-3](../results/2026-11-20-epyc-2cpu-3)<!--/-->
//! ```
//!
//! [`expression`] defines what stands between `<!--=` and `-->`. An experiment without a committed output gives a dash,
//! and `<!--? EXPERIMENT NAME -->` (a metric or a system) is followed by the command that produces it, until a run has
//! it.
//!
//! # Invariants
//!
//! `docs` changes nothing but what marks enclose, and `tidy` fails if it would change anything. In the documents that
//! [`measured`] lists, every measured number lies in a mark or is exempted with a reason.

mod excerpt;
pub(crate) mod expression;
pub(crate) mod measured;
pub(crate) mod results;
mod table;

use std::error::Error;
use std::fs;
use std::path::Path;

use expression::Lack;
use results::Results;

/// How a span begins and ends, and how its mark ends.
const SPAN: [&str; 3] = ["<!--= ", " -->", "<!--/-->"];
/// How the mark begins after which a missing run is named.
const MISSING: &str = "<!--? ";
/// The text of a number that no run has produced.
const NO_RUN: &str = "–";

/// Fills the numbers of all documents.
pub(crate) fn write(root: &Path, files: &[String]) -> Result<(), Box<dyn Error>> {
    let results = Results::new(root);
    for file in documents(files) {
        let path = root.join(file);
        let text = fs::read_to_string(&path)?;
        let new = filled(file, &text, &results)?;
        if new != text {
            fs::write(path, new)?;
        }
    }
    Ok(())
}

/// Reports numbers that are not those of the results.
pub(crate) fn check(
    root: &Path,
    files: &[String],
    faults: &mut Vec<String>,
) -> Result<(), Box<dyn Error>> {
    let results = Results::new(root);
    for file in documents(files) {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        match filled(file, &text, &results) {
            Ok(new) if new == text => {}
            Ok(_) => faults.push(format!(
                "{file}:1: generated: out of date: cargo run -p xtask -- docs"
            )),
            Err(error) => faults.push(format!("{file}:1: generated: {error}")),
        }
    }
    measured::check(root, faults)
}

fn documents(files: &[String]) -> impl Iterator<Item = &String> {
    let is_ours = |file: &&String| file.ends_with(".md") && !file.starts_with("results/");
    files.iter().filter(is_ours)
}

/// Returns the text with its numbers as the results have them.
fn filled(file: &str, text: &str, results: &Results) -> Result<String, String> {
    let text = excerpt::filled(file, text, results)?;
    let text = table::filled(file, &text, results)?;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let place = |what: String| format!("{file}:{}: {what}", index + 1);
        let up = "../".repeat(file.matches('/').count());
        let line = spans(line, &up, results).map_err(place)?;
        lines.push(missing(&line, results).map_err(place)?);
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    Ok(lines.join("\n") + end)
}

/// Fills the spans of a line.
fn spans(line: &str, up: &str, results: &Results) -> Result<String, String> {
    let [begin, middle, end] = SPAN;
    let (mut out, mut rest) = (String::new(), line);
    while let Some((before, span)) = rest.split_once(begin) {
        let parts = span.split_once(middle);
        let parts = parts.and_then(|(source, text)| Some((source, text.split_once(end)?.1)));
        let (source, after) = parts.ok_or("a span is not closed on its line by <!--/-->")?;
        let number = match source.strip_prefix("link ") {
            Some(experiment) => link(experiment, up, results)?,
            None => match expression::text(source, results) {
                Ok(number) => number,
                Err(Lack::NoRun(_)) => NO_RUN.to_owned(),
                Err(Lack::Wrong(what)) => return Err(what),
            },
        };
        out += &format!("{before}{begin}{source}{middle}{number}{end}");
        rest = after;
    }
    Ok(out + rest)
}

/// Returns a link to the run that an experiment's numbers come from.
fn link(experiment: &str, up: &str, results: &Results) -> Result<String, String> {
    let path = results.of(experiment)?;
    let run = path.and_then(|path| path.split('/').nth(1));
    Ok(run.map_or(NO_RUN.to_owned(), |run| {
        format!("[{run}]({up}results/{run})")
    }))
}

/// Replaces what follows a mark for a missing run: the command that produces it, or nothing.
fn missing(line: &str, results: &Results) -> Result<String, String> {
    let Some(experiment) = line.strip_prefix(MISSING) else {
        return Ok(line.to_owned());
    };
    let wanted = experiment
        .split_once(SPAN[1])
        .ok_or("a mark is not closed")?
        .0;
    let (experiment, metric) = wanted.split_once(' ').unwrap_or((wanted, ""));
    let command = match experiment {
        "bench" | "compare" => experiment.to_owned(),
        _ => format!("reproduce {experiment}"),
    };
    let note = match results.has(experiment, metric)? {
        true => String::new(),
        false => format!(
            " *No committed output has these numbers yet: `everybuddy {command}` measures them.*"
        ),
    };
    Ok(format!("{MISSING}{wanted}{}{note}", SPAN[1]))
}

/// Returns a line without marks, as a reader sees it.
pub(crate) fn without_marks(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(at) = rest.find("<!--") {
        let is_ours = [SPAN[0], SPAN[2], MISSING]
            .iter()
            .any(|mark| rest[at..].starts_with(mark));
        let Some(end) = rest[at..].find("-->").filter(|_| is_ours) else {
            break;
        };
        out += &rest[..at];
        rest = &rest[at + end + 3..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of one run, in a folder that is removed with the value.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let own = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            Self(own)
        }

        fn run(&self, run: &str, rows: &[(&str, &str, f64)]) {
            let folder = self.0.join("results").join(run);
            fs::create_dir_all(&folder).expect("a folder");
            let row = |(source, system, value): &(&str, &str, f64)| {
                format!(
                    "{{\"experiment\":\"e\",\"source\":\"{source}\",\"system\":\"{system}\",\"options\":\"\",\
                     \"cpus\":1,\"operation\":\"all\",\"order\":null,\"metric\":\"m\",\"statistic\":\"mean\",\
                     \"value\":{value}}}\n"
                )
            };
            let text: String = rows.iter().map(row).collect();
            fs::write(folder.join("reproduce.jsonl"), text).expect("a file");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn spans_are_filled_from_the_last_run() {
        let folder = Folder::new("spans");
        folder.run("2000-a", &[("x", "bs", 8.0), ("x", "is", 2.0)]);
        folder.run(
            "2001-a",
            &[
                ("x", "bs", 10.0),
                ("y", "bs", 20.0),
                ("x", "is", 4.0),
                ("x by y", "bs", 7.0),
                ("seeds", "bs", 1.0),
                ("seeds", "bs", 3.0),
            ],
        );
        let results = Results::new(&folder.0);
        let line = |source: &str| format!("`bs` <!--= {source} -->?<!--/--> and more");
        let text = |source: &str| filled("x.md", &line(source), &results);
        let is = |source: &str, expected: &str| {
            let own = text(source).expect(source);
            assert_eq!(own, line(source).replace('?', expected));
            assert_eq!(
                filled("x.md", &own, &results),
                Ok(own.clone()),
                "nothing more changes"
            );
            assert_eq!(without_marks(&own), format!("`bs` {expected} and more"));
        };
        is("[e x bs all m mean] as 2s", "10");
        is("[e x bs all m mean] / [e x is all m mean] as .2", "2.50");
        is("[e x,y bs all m mean] as .0", "10, 20");
        is("[e x~by~y bs all m mean] as .0", "7");
        is("mean([e seeds bs all m mean seed=*]) as .0", "2");
        is(
            "1 - min([e x,y bs all m mean]) / max([e y bs all m mean], 5) as 0%",
            "50%",
        );
        is(
            "[e x bs all m mean run=results/2000-a/reproduce.jsonl] as 1s",
            "8",
        );
        is("[none x bs all m mean] as 1s", "–");
        for wrong in [
            "[e z bs all m mean] as 1s",
            "[e x bs all m] as 1s",
            "[e x bs all m mean]",
            "[e x bs all m mean] + as 1s",
            "[e seeds bs all m mean] as 1s",
            "[e x,y bs all m mean] / [e x,y,x bs all m mean] as 1s",
        ] {
            assert!(text(wrong).is_err(), "{wrong}");
        }
        assert!(filled("x.md", "<!--= 1 as 1s -->1", &results).is_err());
    }

    #[test]
    fn a_missing_run_is_named_until_it_is_there() {
        let folder = Folder::new("missing");
        folder.run("2000-a", &[("x", "bs", 8.0)]);
        let results = Results::new(&folder.0);
        let new = filled("x.md", "<!--? f -->\n<!--? e --> *old*\n", &results).expect("marks");
        let [first, second] =
            [new.lines().next(), new.lines().nth(1)].map(Option::unwrap_or_default);
        assert!(first.contains("`everybuddy reproduce f`"), "{first}");
        assert_eq!(second, "<!--? e -->");
    }
}
