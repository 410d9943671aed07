//! Goes through every state of the systems in small memories, and judges every step.
//!
//! ```text
//! everybuddy-explore [--out FILE] gate|systems|options|larger|SCOPE...
//! ```
//!
//! A scope is one argument, such as `'bs+order=2 frames=4 hole=2'`. A row of FILE is written for each scope; one that has
//! a row already is not explored again, so an interrupted run is resumed by the same command.
mod exceptions;
mod key;
mod oracle;
mod pairs;
mod report;
mod scope;
mod search;
mod step;

use std::process::ExitCode;

use report::{Report, quiet};
use scope::{LISTS, Scope};

fn main() -> ExitCode {
    quiet();
    match explore(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("everybuddy-explore: {error}");
            ExitCode::from(2)
        }
    }
}

/// Explores what the arguments name. Returns `true` if nothing was found.
fn explore(mut arguments: Vec<String>) -> Result<bool, String> {
    let out = match arguments.iter().position(|argument| argument == "--out") {
        Some(at) if at + 1 < arguments.len() => arguments.drain(at..at + 2).nth(1),
        _ => None,
    };
    let mut report = Report::to(out)?;
    for argument in &arguments {
        let list = LISTS.iter().find(|(name, _)| name == argument);
        let alone = [argument.as_str()];
        for text in list.map_or(&alone[..], |(_, list)| list) {
            let scope: Scope = text.parse()?;
            if !report.has(&scope) {
                report.explore(&scope)?;
            }
        }
    }
    Ok(report.is_clean())
}
