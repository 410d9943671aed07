//! Numbers in documents, from committed results.
//!
//! The run behind a number that was copied by hand is unknown a year later. Measured numbers are in tables that a
//! comment above them fills ([`table`]), or in sentences that a list names ([`facts`]). Both use the words of
//! [`query`].
//!
//! # Invariants
//! `docs` changes nothing but cells of such tables. `tidy` fails if it would change any, if a sentence has another
//! number than the results, and if comments take more than a tenth of a document.

pub(crate) mod facts;
mod query;
mod results;
mod table;

pub(crate) use results::Results;
pub(crate) use table::filled;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Results of one run, in a folder that is removed with the value.
    pub(super) struct Folder(pub(super) std::path::PathBuf);

    impl Folder {
        pub(super) fn new(name: &str) -> Self {
            let name = format!("xtask-{name}-{:?}", std::thread::current().id());
            Self(std::env::temp_dir().join(format!("{name}-{}", std::process::id())))
        }

        /// Stores rows of the experiment `e`: source, system, CPUs, metric, statistic and value.
        pub(super) fn run(&self, run: &str, rows: &[(&str, &str, u32, &str, &str, f64)]) {
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
            self.store(&format!("{run}/reproduce"), &text);
        }

        /// Stores a file of results.
        pub(super) fn store(&self, file: &str, text: &str) {
            let path = self.0.join("results").join(format!("{file}.jsonl"));
            fs::create_dir_all(path.parent().expect("a run")).expect("a folder");
            fs::write(path, text).expect("a file");
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
            error.contains("a/reproduce") && error.contains("b/reproduce"),
            "{error}"
        );
        assert!(two.of("none").is_err());
        assert_eq!(two.rows("b/reproduce", "e").map(|rows| rows.len()), Ok(1));
    }
}
