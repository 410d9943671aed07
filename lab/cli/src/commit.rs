//! What made a result: the commit from which the program was built, if it can be determined, and what it does.
//!
//! A page or a row that is found a year later states the version that made it. The commit is determined when it is
//! made, not when the program is built; otherwise every commit would require a rebuild. Most commits change no number,
//! so a row also has the [digests](everybuddy_simulate::digest) of what its system and its machine do.
//!
//! # Invariants
//! Unknown facts are omitted, never guessed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use everybuddy_measure::rows::{Platform, Row};
use everybuddy_simulate::digest::{self, NONE};

/// Returns the program's name and version, with the commit if the source tree still exists.
pub(crate) fn version() -> String {
    let own = concat!("everybuddy ", env!("CARGO_PKG_VERSION"));
    let Some(Commit {
        hash,
        is_changed,
        is_later,
    }) = own_commit()
    else {
        return own.to_string();
    };
    let when = if is_later { "built before " } else { "" };
    let changes = if is_changed { " with changes" } else { "" };
    format!("{own} ({when}commit {hash}{changes})")
}

/// Returns the rows, of which each says what made it. Rows of an earlier run that say it already are left as they are.
pub(crate) fn named(rows: &[Row]) -> Vec<Row> {
    let commit = own_commit().map_or(NONE.to_owned(), |own| {
        let [changed, later] = [(own.is_changed, "+"), (own.is_later, "<")]
            .map(|(is_so, mark)| if is_so { mark } else { "" });
        format!("{}{changed}{later}", own.hash)
    });
    let mut systems: BTreeMap<String, String> = BTreeMap::new();
    let mut machines: BTreeMap<String, String> = BTreeMap::new();
    let mut name = |row: &Row| {
        let system = row.name();
        let of_system = || digest::of_system(&system);
        let own = systems.entry(system.clone()).or_insert_with(of_system);
        let machine = machines.entry(row.platform.to_string());
        let machine = machine.or_insert_with(|| match &row.platform {
            Platform::Sim(machine) => digest::of_machine(machine),
            Platform::Native => family(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            Platform::Recorded | Platform::Linux(_) => NONE.to_owned(),
        });
        format!("{commit} {own} {machine}")
    };
    let named = rows.iter().map(|row| {
        let program = match row.program.as_str() {
            "" => name(row),
            own => own.to_owned(),
        };
        Row {
            program,
            ..row.clone()
        }
    });
    named.collect()
}

/// Returns the vendor, the family and the model of the processor that `/proc/cpuinfo` describes.
fn family(info: &str) -> String {
    let field = |name: &str| {
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(own, _)| own.trim() == name);
        found.map(|(_, value)| value.trim())
    };
    let vendor = field("vendor_id").unwrap_or(std::env::consts::ARCH);
    let vendor = vendor.trim_start_matches("Authentic");
    let vendor = vendor.trim_start_matches("Genuine").to_lowercase();
    let numbers = ["cpu family", "model"].into_iter().filter_map(field);
    numbers.fold(vendor, |all, number| format!("{all}-{number}"))
}

/// The commit of a program that is given away: a variable when it is compiled (`ci/release.sh`).
const RELEASED: Option<&str> = option_env!("EVERYBUDDY_COMMIT");

/// The sources of this crate. Other machines lack them, so a program that is given away does not name them.
const TREE: &str = match RELEASED {
    None => env!("CARGO_MANIFEST_DIR"),
    Some(_) => "",
};

/// Returns the commit of this program.
fn own_commit() -> Option<Commit> {
    match RELEASED {
        None => commit(Path::new(TREE)),
        Some(hash) => Some(Commit {
            hash: hash.to_string(),
            is_changed: false,
            is_later: false,
        }),
    }
}

/// The commit of a tree.
#[derive(Debug, PartialEq)]
struct Commit {
    hash: String,
    /// Whether files differ from it.
    is_changed: bool,
    /// Whether the program was built before it.
    is_later: bool,
}

/// Returns the commit of a tree.
fn commit(tree: &Path) -> Option<Commit> {
    let hash = ask(tree, &["rev-parse", "--short", "HEAD"])?;
    let is_changed = !ask(tree, &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    // This file is written whenever the tree's commit changes.
    let moved = ask(tree, &["rev-parse", "--git-path", "logs/HEAD"])?;
    let moved = written(&tree.join(PathBuf::from(moved)))?;
    let built = written(&std::env::current_exe().ok()?)?;
    Some(Commit {
        hash,
        is_changed,
        is_later: built < moved,
    })
}

fn written(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|known| known.modified()).ok()
}

/// Runs `git` and returns its output. Returns `None` without `git` or outside a repository.
fn ask(tree: &Path, words: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    git.current_dir(tree).args(words).stderr(Stdio::null());
    let answer = git.output().ok().filter(|answer| answer.status.success())?;
    Some(String::from_utf8_lossy(&answer.stdout).trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_a_tree_there_is_no_commit() {
        assert_eq!(commit(Path::new("/")), None);
        assert_eq!(commit(Path::new("/no/such/folder")), None);
        assert!(version().starts_with("everybuddy "));
    }

    #[test]
    fn rows_say_what_made_them_once() {
        let row = |system: &str, platform: &str| Row {
            system: system.to_string(),
            platform: platform.parse().unwrap(),
            ..Row::default()
        };
        let earlier = Row {
            program: "0123abc 89abcdef -".to_string(),
            ..row("bs", "sim:flat")
        };
        let rows = [
            row("bs", "sim:flat"),
            row("floor", "native"),
            earlier.clone(),
        ];
        let named = named(&rows);
        let words: Vec<&str> = named[0].program.split(' ').collect();
        let digests = [digest::of_system("bs"), digest::of_machine("flat")];
        assert_eq!(words[1..], digests);
        let words: Vec<&str> = named[1].program.split(' ').collect();
        assert!(words.len() == 3, "{words:?}");
        assert!(words[1] == NONE, "{words:?}");
        assert!(words[2] != NONE, "{words:?}");
        assert_eq!(named[2], earlier);
    }

    #[test]
    fn a_processor_is_named_by_its_family() {
        let info =
            "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: X 7\n";
        assert_eq!(family(info), "intel-6-207");
        assert_eq!(
            family("vendor_id: AuthenticAMD\ncpu family: 25\nmodel: 1"),
            "amd-25-1"
        );
        assert_eq!(family(""), std::env::consts::ARCH);
    }
}
