//! Tasks of developers: `cargo run -p xtask -- tidy | docs | numbers DOCUMENT | book [check]`.
//!
//! A rule that no tool checks is forgotten. `tidy` checks what rustfmt, clippy and the compiler cannot check. `docs`
//! writes what is generated from the code and the results, and `numbers` lists the measured numbers of DOCUMENT that no
//! result fills. `book` writes the tree that mdBook reads, and checks what it wrote.

mod book;
mod cycles;
mod decisions;
mod docs;
mod documents;
mod graph;
mod names;
mod numbers;
mod packages;
mod prose;
mod tidy;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// What a task returns: a file that cannot be read is not a fault but an error.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let verb = std::env::args().nth(1).unwrap_or_default();
    let path = std::env::args().nth(2);
    let faults = match (verb.as_str(), path) {
        ("tidy", None) => tidy::faults(&root),
        ("docs", None) => tidy::files(&root).and_then(|files| docs::write(&root, &files)),
        ("numbers", Some(document)) => numbers::facts::list(&root, &document),
        ("book", None) => book::write(&root),
        ("book", Some(check)) if check == "check" => book::check(&root),
        _ => {
            Err("usage: cargo run -p xtask -- tidy | docs | numbers DOCUMENT | book [check]".into())
        }
    };
    match faults {
        Ok(faults) if faults.is_empty() => {
            println!("{verb}: ok");
            ExitCode::SUCCESS
        }
        Ok(faults) => {
            faults.iter().for_each(|fault| println!("{fault}"));
            println!("{verb}: {} faults", faults.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
