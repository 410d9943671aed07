//! What rustfmt, clippy and the compiler don't check.
//!
//! Each rule has a short name, by which a fault is reported and found in the list of rules in CONTRIBUTING.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::documents::{self, Patterns};
use crate::numbers::{Results, facts};
use crate::{Outcome, cycles, decisions, docs, names, packages, prose, repeats};

/// Files that may hold `unsafe`.
const UNSAFE_FILES: &[&str] = &[
    "crates/everybuddy/src/arena.rs",
    "crates/everybuddy/src/boot.rs",
    "crates/everybuddy/src/frame_table.rs",
    "crates/everybuddy/src/platform/bare.rs",
    "crates/everybuddy/src/wrapping_slice.rs",
    "crates/everybuddy-c/src/",
    "crates/everybuddy-adapters/examples/recipes.rs",
    "crates/everybuddy-adapters/src/x86_64.rs",
    "crates/everybuddy-adapters/tests/all/multiboot2.rs",
    "crates/everybuddy-adapters/tests/all/x86_64.rs",
    "crates/everybuddy-kernel/src/",
    "lab/cli/src/pages.rs",
    "lab/measure/src/replay/fence.rs",
    "lab/measure/src/touched.rs",
    "lab/memory/src/exports.rs",
    "lab/session/src/exports.rs",
    "lab/session/src/memory.rs",
    "lab/papers/src/emulation/standalone.rs",
    "lab/sim/src/engine",
    "checks/explore/src/pairs.rs",
    "checks/explore/src/platform.rs",
    "checks/explore/src/world.rs",
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

/// The places of the allocators whose memory is not behind the platform: the platforms themselves, and the static of a
/// kernel, which no simulator has. Every other file is guarded, also one that is new.
const UNGUARDED: &[&str] = &[
    "crates/everybuddy/src/platform/",
    "crates/everybuddy/src/boot.rs",
];

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
pub(crate) fn files(root: &Path) -> Outcome<Vec<String>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-co", "--exclude-standard"]);
    let listed = list.current_dir(root).output()?;
    if !listed.status.success() {
        return Err("`git ls-files` failed: tidy checks the files that git knows".into());
    }
    let files = String::from_utf8(listed.stdout)?;
    Ok(files.lines().map(str::to_owned).collect())
}

/// Returns all faults, sorted by file.
pub(crate) fn faults(root: &Path) -> Outcome<Vec<String>> {
    let files = files(root)?;
    let mut faults = Vec::new();
    let read = |name: &String| Some((name.clone(), fs::read_to_string(root.join(name)).ok()?));
    let texts: Vec<(String, String)> = files.iter().filter_map(read).collect();
    let patterns = Patterns::new()?;
    for (name, text) in &texts {
        if name.ends_with(".rs") && name != "checks/xtask/src/tidy.rs" {
            source(name, text, &mut faults);
        }
        if name.ends_with(".md") {
            patterns.links(root, name, text, &mut faults);
            patterns.raw(name, text, &mut faults);
        }
        if name == "GLOSSARY.md" {
            documents::glossary(text, &mut faults);
        }
        for (at, line) in (1..).zip(text.lines()) {
            if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
                faults.push(format!("{name}:{at}: leftover: an unresolved merge"));
            }
        }
    }
    // Results are records.
    let is_current = |(name, _): &&(String, String)| !name.starts_with("results/");
    let current: Vec<&(String, String)> = texts.iter().filter(is_current).collect();
    patterns.words(&current, &mut faults);
    names::check(&current, &mut faults);
    decisions::check(&current, &mut faults)?;
    prose::check(&current, &mut faults)?;
    dependencies(root, &mut faults)?;
    cycles::check(root, &mut faults)?;
    repeats::check(root, &files, &mut faults)?;
    let results = Results::new(root);
    docs::check(root, &files, &results, &mut faults);
    facts::check(root, &results, &mut faults)?;
    documents::results(root, &files, &mut faults);
    faults.sort();
    Ok(faults)
}

/// The rooms whose packages are published.
const PACKED: [&str; 2] = ["crates/", "lab/"];

/// Returns `true` if a line of a crate's file includes a file from outside of the crate. A package would lack it, also if
/// it is compiled only for tests of the documentation: users and distributions run them.
fn leaves_package(name: &str, line: &str) -> bool {
    let starts = ["include_str!(\"", "include_bytes!(\""];
    let included = starts.iter().find_map(|start| line.split_once(start));
    let is_packed = PACKED.iter().any(|room| name.starts_with(room));
    // A file of `ROOM/PACKAGE` leaves it by as many steps as its path has folders below.
    let leaves = |path: &str| path.matches("../").count() + 2 > name.matches('/').count();
    is_packed && included.is_some_and(|own| leaves(own.1))
}

fn source(name: &str, text: &str, faults: &mut Vec<String>) {
    let mut fault = |line: usize, what: &str| faults.push(format!("{name}:{line}: {what}"));
    let lines: Vec<&str> = text.lines().collect();
    if !text.starts_with("//!") {
        fault(1, "module-docs: the file does not open with its purpose");
    }
    if lines.len() > LONGEST_FILE {
        fault(lines.len(), "small-rooms: the file is too long: is it two?");
    }
    // Not `mod tests;`: that may stand among other modules at the head of a file.
    let is_tests = |at: &usize| match lines[*at] {
        "#![cfg(test)]" => true,
        "#[cfg(test)]" => lines[at + 1..].starts_with(&["mod tests {"]),
        _ => false,
    };
    let tests = (0..lines.len()).find(is_tests).unwrap_or(lines.len());
    let for_tests = ["/tests/", "/tests.rs", "/examples/", "checks/suite/"];
    let is_test = for_tests.iter().any(|part| name.contains(part));
    let is_guarded = name.starts_with("crates/everybuddy/src/")
        && !UNGUARDED.iter().any(|place| name.starts_with(place));
    let may_be_unsafe = UNSAFE_FILES.iter().any(|file| name.starts_with(file));
    for (index, line) in lines.iter().enumerate() {
        let at = index + 1;
        let code = line.split("//").next().unwrap_or_default();
        if line.chars().count() > LONGEST_LINE && !line.starts_with("//! |") {
            fault(at, "line-length: longer than 120 characters");
        }
        if let Some(word) = LEFTOVERS.iter().find(|word| line.contains(**word)) {
            fault(at, &format!("leftover: {word}"));
        }
        // A platform's promise is one line, with its argument, in the file of each platform.
        let is_promise = lines.get(at).is_some_and(|next| {
            next.starts_with("unsafe impl") && next.contains("Platform for")
                || next.contains("pub unsafe trait Platform")
        });
        if line.contains("allow(unsafe_code)") && !is_promise && !may_be_unsafe {
            fault(at, "unsafe-rooms: `unsafe` is not for this file");
        }
        if index >= tests || is_test {
            continue;
        }
        if code.contains(".unwrap()") {
            fault(at, "no-unwrap: say what went wrong instead");
        }
        if leaves_package(name, line) {
            fault(
                at,
                "package: the included file is not in the crate's package",
            );
        }
        if !is_guarded {
            continue;
        }
        let is_static = code.trim_start().starts_with("static ");
        let leak = SEAM_LEAKS.iter().find(|word| code.contains(**word));
        if let Some(word) = leak.or(is_static.then_some(&"static")) {
            fault(
                at,
                &format!("seam: `{word}` hides memory from the platform"),
            );
        }
        let orders = ["Ordering::Acquire", "Ordering::Release", "Ordering::AcqRel"];
        let above = &lines[index.saturating_sub(14)..index];
        let is_explained = || above.join(" ").to_lowercase().contains("pairs with");
        if orders.iter().any(|order| code.contains(order)) && !is_explained() {
            fault(
                at,
                "careful-atomics: no comment says what this ordering pairs with",
            );
        }
    }
}

/// The allocators depend on nothing, no crate depends on the models or the program, and a crate for people to link
/// depends on no part of the laboratory.
fn dependencies(root: &Path, faults: &mut Vec<String>) -> Outcome<()> {
    let packages = packages::all(root)?;
    let is_linked = |package: &&packages::Package| package.folder.starts_with("crates");
    let linked = packages.iter().filter(is_linked);
    let linked: BTreeSet<String> = linked.map(packages::Package::name).collect();
    for package in &packages {
        let name = package.name();
        for used in package.dependencies() {
            let is_project = used.starts_with("everybuddy");
            let what = match used {
                _ if name == "everybuddy" => "the allocators have no dependencies",
                "everybuddy-model" | "everybuddy-cli" => "nothing depends on it",
                // What people link must not bring the laboratory along.
                _ if is_project && linked.contains(&name) && !linked.contains(used) => {
                    "it is not for people to link"
                }
                _ => continue,
            };
            let file = package.folder.join("Cargo.toml");
            faults.push(format!("{}:1: direction: `{used}`: {what}", file.display()));
        }
    }
    Ok(())
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
            assert!(rules_broken(name, LEAK).is_empty(), "{name}");
            assert!(rules_broken(name, ORDER).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_package_contains_what_its_sources_include() {
        let name = "lab/cli/src/sweep/search.rs";
        let outside = "const A: &str = include_str!(\"../../../../python/a.py\");";
        let inside = "const A: &str = include_str!(\"../../python/a.py\");";
        assert_eq!(rules_broken(name, outside), ["package"]);
        assert!(rules_broken(name, inside).is_empty());
        let documentation = "#[doc = include_str!(\"../../../docs/crate.md\")]";
        let crates = "crates/everybuddy/src/lib.rs";
        assert_eq!(rules_broken(crates, documentation), ["package"]);
        assert!(rules_broken("checks/suite/src/lib.rs", documentation).is_empty());
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
