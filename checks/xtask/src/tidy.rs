//! What rustfmt, clippy and the compiler don't check.
//!
//! Each rule has a short name, by which a fault is reported and found in the list of rules in
//! CONTRIBUTING.md.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{cycles, decisions, documents, names, numbers, packages, prose, repeats, words};

/// Files that may hold `unsafe`.
const UNSAFE_FILES: &[&str] = &[
    "crates/everybuddy/src/arena.rs",
    "crates/everybuddy/src/frame_table.rs",
    "crates/everybuddy/src/wrapping_slice.rs",
    "crates/everybuddy-c/src/",
    "crates/everybuddy-adapters/src/x86_64.rs",
    "crates/everybuddy-adapters/tests/all/x86_64.rs",
    "crates/everybuddy-kernel/src/",
    "lab/measure/src/replay/fence.rs",
    "lab/papers/src/emulation/standalone.rs",
    "lab/sim/src/engine",
    "checks/model/src",
    "lab/peers/src/frame_alloc.rs",
    "lab/peers/src/buddy_slab.rs",
    "lab/peers/src/floor_table.rs",
    "lab/peers/src/load.rs",
    "lab/peers/src/table.rs",
    "crates/everybuddy-pool/src/allocator.rs",
    "crates/everybuddy-pool/src/mapping.rs",
    "crates/everybuddy-pool/src/pages.rs",
    "crates/everybuddy-pool/src/pool.rs",
    "crates/everybuddy-pool/src/shared.rs",
    "crates/everybuddy-pool/tests/all/raw.rs",
    "crates/everybuddy-pool/examples/page_cache/sources.rs",
    "checks/suite/src/plain.rs",
    "examples/boot/src/",
    "examples/jemalloc/src/",
    "examples/kernel/src/",
];

/// The one room of the allocators whose memory is not behind the platform: the platforms themselves. Every other file
/// is guarded, also one that is new.
const UNGUARDED_ROOM: &str = "crates/everybuddy/src/platform/";

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

/// How lines begin that a merge leaves in a file.
const CONFLICTS: [&str; 2] = ["<<<<<<< ", ">>>>>>> "];

const LONGEST_FILE: usize = 650;
const LONGEST_LINE: usize = 120;
/// The words of all documents together, without comments, results and what is generated.
const MOST_WORDS: usize = 70_000;

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
    let mut sources = Vec::new();
    for name in files.iter().filter(|name| name.ends_with(".rs")) {
        let text = fs::read_to_string(root.join(name)).unwrap_or_default();
        sources.push(names::Source::new(name, &text));
    }
    for name in &files {
        let Ok(text) = fs::read_to_string(root.join(name)) else {
            continue;
        };
        if name.ends_with(".rs") && !name.starts_with("checks/xtask/src/tidy.rs") {
            source(name, &text, &mut faults);
        }
        if name.ends_with(".md") {
            documents::links(root, name, &text, &mut faults);
            documents::raw(name, &text, &mut faults);
        }
        for (index, line) in text.lines().enumerate() {
            if CONFLICTS.iter().any(|mark| line.starts_with(mark)) {
                faults.push(format!(
                    "{name}:{}: leftover: an unresolved merge",
                    index + 1
                ));
            }
        }
        // Results are records.
        if name.ends_with(".md") && !name.starts_with("results/") {
            names::check(name, &text, &sources, &mut faults);
        }
        if name == "GLOSSARY.md" {
            documents::glossary(&text, &mut faults);
        }
    }
    dependencies(root, &mut faults)?;
    generated(root, &mut faults);
    words::check(root, &files, MOST_WORDS, &mut faults);
    decisions::check(root, &files, &mut faults)?;
    cycles::check(root, &mut faults)?;
    repeats::check(root, &files, &mut faults)?;
    numbers::check(root, &files, &mut faults)?;
    documents::lengths(root, &mut faults);
    documents::results(root, &files, &mut faults);
    prose::check(root, &files, &mut faults)?;
    faults.sort();
    Ok(faults)
}

/// Returns `true` if a line of a crate's file includes a file from outside of the crate. A package would lack it.
/// Documentation that is only compiled for tests does not count.
fn leaves_package(name: &str, line: &str) -> bool {
    let Some(inside) = packages::inside(name) else {
        return false;
    };
    let included = ["include_str!(\"", "include_bytes!(\""];
    let found = included
        .iter()
        .find_map(|start| line.split_once(start))
        .filter(|_| !line.trim_start().starts_with("#[doc"));
    found.is_some_and(|(_, path)| path.matches("../").count() > inside.matches('/').count())
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
    // Not `mod tests;`: that may stand among other modules at the head of a file.
    let is_tests = |at: usize| {
        lines[at] == "#![cfg(test)]"
            || lines[at] == "#[cfg(test)]"
                && lines
                    .get(at + 1)
                    .is_some_and(|next| next.starts_with("mod tests {"))
    };
    let tests = (0..lines.len())
        .find(|at| is_tests(*at))
        .unwrap_or(lines.len());
    let for_tests = ["/tests/", "/tests.rs", "/examples/", "checks/suite/"];
    let is_test = for_tests.iter().any(|part| name.contains(part));
    let is_guarded =
        name.starts_with("crates/everybuddy/src/") && !name.starts_with(UNGUARDED_ROOM);
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
        if leaves_package(name, line) {
            fault(
                at,
                "package",
                "the included file is not in the crate's package",
            );
        }
        if is_guarded {
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
        if is_guarded && orders.iter().any(|order| code.contains(order)) {
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

/// The allocators depend on nothing, no crate depends on the models or the program, and a crate for people to link
/// depends on no part of the laboratory.
fn dependencies(root: &Path, faults: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    let packages = packages::all(root)?;
    let linked = packages
        .iter()
        .filter(|package| package.folder.starts_with("crates"));
    let linked: BTreeSet<String> = linked.map(packages::Package::name).collect();
    for package in &packages {
        let name = package.folder.join("Cargo.toml").display().to_string();
        let section = package
            .manifest
            .split("[dependencies]")
            .nth(1)
            .unwrap_or_default();
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
            if line.starts_with("everybuddy-model") || line.starts_with("everybuddy-cli") {
                faults.push(format!("{name}:1: direction: nothing depends on `{line}`"));
            }
            // What people link must not bring the laboratory along.
            let used = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let is_linked = package.folder.starts_with("crates");
            if is_linked && !linked.contains(used) && used.starts_with("everybuddy") {
                faults.push(format!(
                    "{name}:1: direction: `{used}` is not for people to link"
                ));
            }
        }
    }
    Ok(())
}

fn generated(root: &Path, faults: &mut Vec<String>) {
    for path in crate::docs::stale(root) {
        let what = "out of date: cargo run -p xtask -- docs";
        faults.push(format!("{path}:1: generated: {what}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_broken(name: &str, code: &str) -> Vec<String> {
        let mut faults = Vec::new();
        source(name, &format!("//! A file.\n\n{code}\n"), &mut faults);
        let rule = |fault: &String| fault.split(": ").nth(1).unwrap_or_default().to_owned();
        faults.iter().map(rule).collect()
    }

    const LEAK: &str = "use core::cell::UnsafeCell;";
    const ORDER: &str = "cell.store(1, Ordering::Release);";

    #[test]
    fn every_room_of_the_allocators_but_the_platforms_is_guarded() {
        for file in [
            "serewa/queue.rs",
            "zone/new.rs",
            "layered.rs",
            "wrapping_slice.rs",
            "frame_table.rs",
        ] {
            let name = format!("crates/everybuddy/src/{file}");
            assert_eq!(rules_broken(&name, LEAK), ["seam"], "{file}");
            assert_eq!(
                rules_broken(&name, "static X: u32 = 0;"),
                ["seam"],
                "{file}"
            );
            assert_eq!(rules_broken(&name, ORDER), ["careful-atomics"], "{file}");
            let argued = format!("// Release: pairs with the acquire in `take`.\n{ORDER}");
            assert!(rules_broken(&name, &argued).is_empty(), "{file}");
        }
        for name in [
            "crates/everybuddy/src/platform/native.rs",
            "lab/sim/src/engine.rs",
        ] {
            assert!(
                rules_broken(name, LEAK).is_empty() && rules_broken(name, ORDER).is_empty(),
                "{name}"
            );
        }
    }

    #[test]
    fn a_package_contains_what_its_sources_include() {
        let name = "lab/cli/src/sweep/search.rs";
        let outside = "const A: &str = include_str!(\"../../../../python/a.py\");";
        let inside = "const A: &str = include_str!(\"../../python/a.py\");";
        assert_eq!(rules_broken(name, outside), ["package"]);
        assert!(rules_broken(name, inside).is_empty());
        let documentation = "#[doc = include_str!(\"../../../../docs/guide.md\")]";
        assert!(rules_broken(name, documentation).is_empty());
        assert!(rules_broken("examples/kernel/src/main.rs", outside).is_empty());
    }

    #[test]
    fn what_follows_the_tests_at_the_end_of_a_file_is_not_guarded_and_what_follows_their_declaration_is()
     {
        let name = "crates/everybuddy/src/zone/mod.rs";
        let at_the_end = format!("#[cfg(test)]\nmod tests {{\n    {LEAK}\n}}");
        let declared = format!("#[cfg(test)]\nmod tests;\n{LEAK}");
        assert!(rules_broken(name, &at_the_end).is_empty());
        assert_eq!(rules_broken(name, &declared), ["seam"]);
    }
}
