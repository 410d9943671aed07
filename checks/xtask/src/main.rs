//! Tasks of developers: `cargo run -p xtask -- tidy | docs | numbers DOCUMENT | prose [PATH] | book [check] |
//! mutants FOLDER`.
//!
//! A rule that no tool checks is forgotten. `tidy` checks what rustfmt, clippy and the compiler cannot check, `docs`
//! writes what is generated from the code, `numbers` lists the measured numbers of
//! DOCUMENT that no result fills, and `prose` stores the limits of the rules of plain English, or lists the
//! places below PATH that break them. `book` writes the tree that mdBook reads, and checks what it wrote. `mutants`
//! writes mutants into a copy of the sources.

mod book;
mod cycles;
mod decisions;
mod docs;
mod documents;
mod graph;
mod mutants;
mod names;
mod numbers;
mod packages;
mod prose;
mod repeats;
mod tidy;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let verb = std::env::args().nth(1).unwrap_or_default();
    let path = std::env::args().nth(2);
    let faults = match (verb.as_str(), path) {
        ("tidy", None) => tidy::faults(&root),
        ("docs", None) => tidy::files(&root).and_then(|files| docs::write(&root, &files)),
        ("numbers", Some(document)) => numbers::facts::list(&root, &document),
        ("mutants", Some(folder)) => mutants::write(folder.as_ref()),
        ("book", None) => book::write(&root),
        ("book", Some(check)) if check == "check" => book::check(&root),
        ("prose", None) => tidy::files(&root).and_then(|files| prose::store(&root, &files)),
        ("prose", Some(path)) => {
            tidy::files(&root).and_then(|files| prose::list(&root, &files, &path))
        }
        _ => Err(
            "usage: cargo run -p xtask -- tidy | docs | numbers DOCUMENT | prose [PATH] | book | mutants FOLDER"
                .into(),
        ),
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
