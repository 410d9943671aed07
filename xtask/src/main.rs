//! Developer chores: `cargo run -p xtask -- tidy | docs`.
//!
//! Why it exists: a rule that no tool checks rots. `tidy` checks what rustfmt, clippy and the compiler can't;
//! `docs` writes what is generated from the code.

mod docs;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let verb = std::env::args().nth(1).unwrap_or_default();
    let faults = match verb.as_str() {
        "tidy" => tidy::faults(&root),
        "docs" => docs::write(&root),
        _ => Err("usage: cargo run -p xtask -- tidy | docs".into()),
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
