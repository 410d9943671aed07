//! Goes through every state of the systems in small memories, and judges every step.
//!
//! `everybuddy-explore SCOPE...` explores the scopes given, each as one argument: `'bs+order=2 frames=4 hole=2'`.
mod exceptions;
mod key;
mod oracle;
mod scope;
mod search;
mod step;

use std::process::ExitCode;
use std::time::Instant;

use scope::Scope;
use search::{Explorer, quiet};

fn main() -> ExitCode {
    quiet();
    let mut is_bad = false;
    for text in std::env::args().skip(1) {
        let scope: Scope = match text.parse() {
            Ok(scope) => scope,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        };
        let started = Instant::now();
        let mut explorer = match Explorer::new(&scope) {
            Ok(explorer) => explorer,
            Err(error) => {
                eprintln!("{scope}: {error}");
                return ExitCode::FAILURE;
            }
        };
        explorer.run();
        let counts = explorer.counts;
        let verdict = match explorer.is_closed() {
            true => "closed".to_owned(),
            false => format!("to depth {}", explorer.depth()),
        };
        println!(
            "{scope}\t{verdict}\t{} states\t{} of bytes\t{} steps\t{} transitions\tmerged {}\tcompared {}\tmismatches {}\texperiments {}\twalked {}\trefused {} moved {}\tdepth {}\t{:.1} s",
            explorer.nodes.len(), counts.bytes, explorer.steps.len(), counts.transitions, counts.merged, counts.compared,
            counts.mismatches, explorer.experiments.len(), counts.walked, counts.refused, counts.moved,
            explorer.nodes.last().map_or(0, |n| n.depth),
            started.elapsed().as_secs_f64()
        );
        for (exception, count) in exceptions::EXCEPTIONS.iter().zip(explorer.exceptions) {
            if count > 0 {
                println!("  exception, {count} times: {}", exception.text);
            }
        }
        for (kind, finding) in &explorer.findings {
            is_bad = true;
            println!("{kind} ({} times):\n{}", finding.count, finding.way);
        }
    }
    if is_bad { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
