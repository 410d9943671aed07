//! Numbers in documents, from committed results.
//!
//! # Purpose
//!
//! The run behind a number that was copied by hand is unknown a year later. Measured numbers are in tables that a
//! comment above them fills ([`table`]), or in sentences that a list names ([`facts`]). Both use the words of
//! [`query`].
//!
//! # Invariants
//!
//! `docs` changes nothing but cells of such tables. `tidy` fails if it would change any, if a sentence has another
//! number than the results, and if comments take more than a tenth of a document.

mod excerpt;
pub(crate) mod facts;
mod query;
mod results;
mod table;

use std::error::Error;
use std::fs;
use std::path::Path;

use results::Results;

/// Fills the tables of all documents.
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
    facts::check(root, &results, faults)
}

/// Returns the text with its tables as the results have them.
fn filled(file: &str, text: &str, results: &Results) -> Result<String, String> {
    let text = excerpt::filled(file, text, results)?;
    table::filled(file, &text, results)
}

fn documents(files: &[String]) -> impl Iterator<Item = &String> {
    let is_ours = |file: &&String| file.ends_with(".md") && !file.starts_with("results/");
    files.iter().filter(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of one run, in a folder that is removed with the value.
    pub(super) struct Folder(pub(super) std::path::PathBuf);

    impl Folder {
        pub(super) fn new(name: &str) -> Self {
            let name = format!("xtask-{name}-{:?}", std::thread::current().id());
            Self(std::env::temp_dir().join(format!("{name}-{}", std::process::id())))
        }

        /// Stores rows of the experiment `e`: source, system, CPUs, metric, statistic and value.
        pub(super) fn run(&self, run: &str, rows: &[(&str, &str, u32, &str, &str, f64)]) {
            let folder = self.0.join("results").join(run);
            fs::create_dir_all(&folder).expect("a folder");
            let row = |(source, system, cpus, metric, statistic, value): &(
                &str,
                &str,
                u32,
                &str,
                &str,
                f64,
            )| {
                format!(
                    "{{\"experiment\":\"e\",\"source\":\"{source}\",\"system\":\"{system}\",\"options\":\"\",\
                     \"cpus\":{cpus},\"operation\":\"all\",\"order\":null,\"metric\":\"{metric}\",\
                     \"statistic\":\"{statistic}\",\"value\":{value}}}\n"
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
    fn an_experiment_of_two_runs_needs_a_file() {
        let folder = Folder::new("two");
        let row = [("x", "bs", 1, "m", "mean", 5.0)];
        folder.run("a", &row);
        assert!(Results::new(&folder.0).of("e").is_ok());
        folder.run("b", &row);
        let two = Results::new(&folder.0);
        let error = two.of("e").expect_err("two runs have it");
        assert!(
            error.contains("results/a/") && error.contains("results/b/"),
            "{error}"
        );
        assert!(two.of("none").is_err());
        assert_eq!(
            two.file("results/b/reproduce.jsonl").map(|rows| rows.len()),
            Ok(1)
        );
    }
}
