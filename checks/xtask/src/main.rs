//! Tasks of developers: `cargo run -p xtask -- tidy | docs [all] | book [check]`.
//!
//! A rule that no tool checks is forgotten. `tidy` checks what rustfmt, clippy and the compiler cannot check. `docs`
//! writes what is generated from the code and the results (`all`: also what takes minutes), and `book` the tree that
//! mdBook reads; it also checks what mdBook wrote.

mod book;
mod cycles;
mod decisions;
mod docs;
mod documents;
mod explored;
mod generators;
mod graph;
mod names;
mod numbers;
mod packages;
mod prose;
mod repeats;
mod stale;
mod tidy;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// What a task returns: a file that cannot be read is not a fault but an error.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    // Asked when it runs: checkouts that share a target folder share this program.
    let own =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = PathBuf::from(own).join("../..");
    let verb = std::env::args().nth(1).unwrap_or_default();
    let faults = match (verb.as_str(), std::env::args().nth(2)) {
        ("tidy", None) => tidy::faults(&root),
        ("docs", None) => tidy::files(&root).and_then(|files| docs::write(&root, &files, false)),
        ("docs", Some(all)) if all == "all" => {
            tidy::files(&root).and_then(|files| docs::write(&root, &files, true))
        }
        ("book", None) => book::write(&root),
        ("book", Some(check)) if check == "check" => book::check(&root),
        _ => Err("usage: cargo run -p xtask -- tidy | docs [all] | book [check]".into()),
    };
    let faults = match faults {
        Ok(faults) => faults,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    faults.iter().for_each(|fault| println!("{fault}"));
    println!("{verb}: {} faults", faults.len());
    ExitCode::from(u8::from(!faults.is_empty()))
}
