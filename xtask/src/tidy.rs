//! What rustfmt, clippy and the compiler don't check.
//!
//! Each rule has a short name, by which a fault is reported and found in the list of rules in
//! CONTRIBUTING.md.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{documents, prose};

/// Files that may hold `unsafe`.
const UNSAFE_FILES: &[&str] = &[
    "crates/everybuddy/src/arena.rs",
    "crates/everybuddy/src/frame_table.rs",
    "crates/everybuddy/src/circle.rs",
    "crates/everybuddy-sim/src/engine",
    "crates/everybuddy-model/src",
    "crates/everybuddy-peers/src/frame_alloc.rs",
    "crates/everybuddy-peers/src/buddy_slab.rs",
];

/// Rooms whose shared memory must go through the platform.
const SEAM_ROOMS: &[&str] = &["structure", "coalesce", "zone", "percpu"];

/// Words of a plain memory, which neither a simulator nor a model checker would see.
const SEAM_LEAKS: &[&str] = &[
    "UnsafeCell",
    "core::sync::atomic",
    "std::sync",
    "thread_local",
    "core::cell",
    "std::cell",
];

/// Leftovers.
const LEFTOVERS: &[&str] = &["TODO", "FIXME", "XXX", "dbg!(", "todo!(", "unimplemented!("];

const LONGEST_FILE: usize = 650;
const LONGEST_LINE: usize = 120;

/// Returns the files that git tracks or would track.
pub(crate) fn files(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let listed = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-co", "--exclude-standard"])
        .output()?;
    if !listed.status.success() {
        return Err("`git ls-files` failed: tidy checks the files that git knows".into());
    }
    let files = String::from_utf8(listed.stdout)?;
    Ok(files.lines().map(str::to_owned).collect())
}

/// Returns all faults, sorted by file.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let files = files(root)?;
    let mut faults = Vec::new();
    for name in &files {
        let Ok(text) = fs::read_to_string(root.join(name)) else {
            continue;
        };
        if name.ends_with(".rs") && !name.starts_with("xtask/src/tidy.rs") {
            source(name, &text, &mut faults);
        }
        if name.ends_with(".md") {
            documents::links(root, name, &text, &mut faults);
        }
        if name == "GLOSSARY.md" {
            documents::glossary(&text, &mut faults);
        }
    }
    dependencies(root, &mut faults)?;
    generated(root, &mut faults);
    documents::readme(root, &mut faults);
    prose::check(root, &files, &mut faults)?;
    faults.sort();
    Ok(faults)
}

fn source(name: &str, text: &str, faults: &mut Vec<String>) {
    let mut fault = |line: usize, rule: &str, what: &str| {
        faults.push(format!("{name}:{line}: {rule}: {what}"));
    };
    if !text.starts_with("//!") {
        fault(
            1,
            "module-docs",
            "the file does not open with what it is and why it exists",
        );
    }
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() > LONGEST_FILE {
        fault(
            lines.len(),
            "small-rooms",
            "the file is too long: is it two?",
        );
    }
    let is_tests = |at: usize| {
        lines[at] == "#![cfg(test)]"
            || lines[at] == "#[cfg(test)]"
                && lines
                    .get(at + 1)
                    .is_some_and(|next| next.starts_with("mod tests"))
    };
    let tests = (0..lines.len())
        .find(|at| is_tests(*at))
        .unwrap_or(lines.len());
    let is_test = name.contains("/tests/") || name.contains("/examples/");
    let room = name
        .strip_prefix("crates/everybuddy/src/")
        .and_then(|path| path.split('/').next())
        .unwrap_or_default();
    for (index, line) in lines.iter().enumerate() {
        let at = index + 1;
        let code = line.split("//").next().unwrap_or_default();
        if line.chars().count() > LONGEST_LINE && !line.starts_with("//! |") {
            fault(at, "line-length", "longer than 120 characters");
        }
        if let Some(word) = LEFTOVERS.iter().find(|word| line.contains(**word)) {
            fault(at, "leftover", word);
        }
        // A platform's promise is one line, with its argument, in the file of each platform.
        let is_promise = lines.get(index + 1).is_some_and(|next| {
            next.starts_with("unsafe impl") && next.contains("Platform for")
                || next.contains("pub unsafe trait Platform")
        });
        if line.contains("allow(unsafe_code)")
            && !is_promise
            && !UNSAFE_FILES.iter().any(|f| name.starts_with(f))
        {
            fault(at, "unsafe-rooms", "`unsafe` is not for this file");
        }
        if index >= tests || is_test {
            continue;
        }
        if code.contains(".unwrap()") {
            fault(at, "no-unwrap", "say what went wrong instead");
        }
        if SEAM_ROOMS.contains(&room) {
            if let Some(word) = SEAM_LEAKS.iter().find(|word| code.contains(**word)) {
                fault(
                    at,
                    "seam",
                    &format!("`{word}` hides memory from the platform"),
                );
            }
            if code.trim_start().starts_with("static ") {
                fault(at, "seam", "a static hides memory from the platform");
            }
        }
        let orders = ["Ordering::Acquire", "Ordering::Release", "Ordering::AcqRel"];
        let layers = SEAM_ROOMS.contains(&room) || room == "lock";
        if layers && orders.iter().any(|order| code.contains(order)) {
            let above = lines[index.saturating_sub(14)..index]
                .join(" ")
                .to_lowercase();
            if !above.contains("pairs with") {
                fault(
                    at,
                    "careful-atomics",
                    "no comment says what this ordering pairs with",
                );
            }
        }
    }
}

/// The allocators depend on nothing; nobody depends on the models or the program.
fn dependencies(root: &Path, faults: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(root.join("crates"))? {
        let manifest = entry?.path().join("Cargo.toml");
        let name = manifest.display().to_string();
        let text = fs::read_to_string(&manifest)?;
        let section = text.split("[dependencies]").nth(1).unwrap_or_default();
        let section = section.split("\n[").next().unwrap_or_default();
        let used: Vec<&str> = section
            .lines()
            .filter(|line| !line.trim_start().starts_with('#') && line.contains('='))
            .collect();
        if name.ends_with("crates/everybuddy/Cargo.toml") && !used.is_empty() {
            faults.push(format!(
                "{name}:1: direction: the allocators have no dependencies"
            ));
        }
        for line in used {
            if line.starts_with("everybuddy-model") || line.starts_with("everybuddy-lab") {
                faults.push(format!("{name}:1: direction: nothing depends on `{line}`"));
            }
        }
    }
    Ok(())
}

fn generated(root: &Path, faults: &mut Vec<String>) {
    if fs::read_to_string(root.join("SYSTEMS.md")).unwrap_or_default() != crate::docs::systems() {
        let what = "out of date: cargo run -p xtask -- docs";
        faults.push(format!("SYSTEMS.md:1: generated: {what}"));
    }
}
