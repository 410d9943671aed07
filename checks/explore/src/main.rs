//! Goes through every state of the systems in small memories, and judges every step.
//!
//! ```text
//! everybuddy-explore [--out FILE] [--minutes N] gate|systems|options|larger|pairs|SCOPE...
//! ```
//!
//! A scope is one argument, such as `'bs+order=2 frames=4 hole=2'`. A row of FILE is written for each scope; one with
//! a row is not explored again, so an interrupted run is resumed by the same command. A search ends after 30
//! minutes, and the row says how deep it is. With all lists, every exception must be found, too.
//!
//! # Invariants
//! Findings make the program fail, and are printed as tests: the shortest way to each, by the order of the search.
mod exceptions;
mod key;
mod oracle;
mod pairs;
mod report;
mod scope;
mod search;
mod step;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use report::{Report, quiet};
use scope::{LISTS, Scope, listed};

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
    let mut value_of = |key: &str| match arguments.iter().position(|argument| argument == key) {
        Some(at) if at + 1 < arguments.len() => arguments.drain(at..at + 2).nth(1),
        _ => None,
    };
    let (out, minutes) = (value_of("--out"), value_of("--minutes"));
    let minutes = minutes.map_or(Ok(30), |minutes| minutes.parse());
    let mut report = Report::to(out, minutes.map_err(|_| "--minutes takes a number")?)?;
    for argument in &arguments {
        let mut scopes: Vec<&str> = listed(argument).collect();
        if scopes.is_empty() {
            scopes.push(argument);
        }
        for text in scopes {
            let scope: Scope = text.parse()?;
            if !report.has(&scope) {
                report.explore(&scope)?;
            }
        }
    }
    let is_whole = LISTS
        .iter()
        .all(|name| arguments.iter().any(|argument| argument == name));
    let missing = if is_whole {
        report.missing()
    } else {
        Vec::new()
    };
    for text in &missing {
        println!("an exception was never found: {text}");
    }
    Ok(report.is_clean() && missing.is_empty())
}
