//! Numbers in documents, from committed results.
//!
//! The run behind a number that was copied by hand is unknown a year later. Measured numbers are in tables that a
//! comment above them fills ([`table`]), or in sentences that a list names ([`facts`]). Both use the words of
//! [`query`].
//!
//! # Invariants
//! `docs` changes nothing but cells of such tables. `tidy` fails if it would change any, if a sentence has another
//! number than the results, and if comments take more than a tenth of a document.

mod digests;
pub(crate) mod facts;
mod query;
mod results;
mod table;

pub(crate) use digests::{DIGESTS, NONE, systems};
pub(crate) use results::{ENDING, Results};
pub(crate) use table::{filled, unmarked};

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
            // Rows that are not packed are read, too.
            let path = self.0.join("results").join(format!("{file}{ENDING}"));
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
    fn a_system_that_changes_makes_its_rows_older_and_no_others() {
        let folder = Folder::new("stale");
        let row = |system: &str, digest| {
            format!(
                "{{\"experiment\":\"e\",\"source\":\"x\",\"system\":\"{system}\",\"platform\":\"sim:flat\",\"cpus\":1,\
                 \"operation\":\"all\",\"metric\":\"m\",\"statistic\":\"mean\",\"value\":5,\
                 \"program\":\"0123abc {digest} 4\"}}\n"
            )
        };
        folder.store("a/reproduce", &(row("bs", 1) + &row("is", 2)));
        let write = |file: &str, text: &str| fs::write(folder.0.join("results").join(file), text);
        write(
            "runs.tsv",
            "\na/reproduce\t2026\t0123abc\t-\t7\tsimulated\tc\n",
        )
        .expect("a file");
        let judged = |digests: &str| {
            write("digests.tsv", digests).expect("a file");
            let (results, mut faults) = (Results::new(&folder.0), Vec::new());
            let files = ["results/a/reproduce.jsonl.gz".to_owned()];
            let list = crate::stale::list(&folder.0, &files, &results, &mut faults);
            assert!(faults.is_empty(), "{faults:?}");
            let table = |system: &str| {
                let head = "<!-- numbers: e all m mean: x@ -->\n| a | b |\n|---|---|\n";
                let text = filled("x.md", &format!("{head}| `{system}` | 5.00 |\n"), &results);
                text.is_ok_and(|text| text.contains("| a (older rows) | b |"))
            };
            let line = list.lines().nth(1).unwrap_or_default().to_owned();
            (line, table("bs"), table("is"))
        };
        let none = (String::new(), false, false);
        assert_eq!(judged("bs\t1\nis\t2\nsim:flat\t4\n"), none);
        let line =
            |older, systems| format!("a/reproduce\t2026\t2\t{older}\t7\tsimulated\t-\t{systems}");
        let changed = judged("bs\t1\nis\t3\nsim:flat\t4\n");
        assert_eq!(changed, (line(1, "is"), false, true));
        let changed = judged("bs\t1\nis\t2\nsim:flat\t5\n");
        assert_eq!(changed, (line(2, "all"), true, true));
    }

    #[test]
    fn a_document_with_numbers_of_older_rows_is_right() {
        let folder = Folder::new("marks");
        folder.run("a", &[("x", "bs", 1, "m", "mean", 5.0)]);
        let is_right = |number: &str| {
            let head = "<!-- numbers: e all m mean: x@ -->\n| a | b |\n|---|---|\n";
            let text = format!("{head}| `bs` | {number} |\n");
            fs::write(folder.0.join("x.md"), text).expect("a file");
            let mut faults = Vec::new();
            let files = ["x.md".to_owned()];
            crate::docs::check(&folder.0, &files, &Results::new(&folder.0), &mut faults);
            !faults.iter().any(|fault| fault.starts_with("x.md"))
        };
        let digests = folder.0.join("results/digests.tsv");
        for digest in ["", "bs\t1\t1\n"] {
            fs::write(&digests, digest).expect("a file");
            assert!(is_right("5.00") && !is_right("6.00"), "{digest}");
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
        assert!(error.contains("a/reproduce"), "{error}");
        assert!(error.contains("b/reproduce"), "{error}");
        assert!(two.of("none").is_err());
        assert_eq!(two.rows("b/reproduce", "e").map(|rows| rows.len()), Ok(1));
    }
}
