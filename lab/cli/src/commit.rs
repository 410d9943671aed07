//! The commit from which the program was built, if it can be determined.
//!
//! A page that is found a year later states the version that made it. The commit is determined when a page is made,
//! not when the program is built; otherwise every commit would require a rebuild.
//!
//! # Invariants
//! Unknown facts are omitted, never guessed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Returns the program's name and version, with the commit if the source tree still exists.
pub(crate) fn version() -> String {
    let own = concat!("everybuddy ", env!("CARGO_PKG_VERSION"));
    match commit(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        Some(commit) => format!("{own} ({commit})"),
        None => own.to_string(),
    }
}

/// Describes the commit of a tree: `commit 0123abc`, followed by `with changes`, or preceded by `built before` if the
/// program is older.
fn commit(tree: &Path) -> Option<String> {
    let hash = ask(tree, &["rev-parse", "--short", "HEAD"])?;
    let is_changed = !ask(tree, &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    // This file is written whenever the tree's commit changes.
    let moved = ask(tree, &["rev-parse", "--git-path", "logs/HEAD"])?;
    let moved = written(&tree.join(PathBuf::from(moved)))?;
    let built = written(&std::env::current_exe().ok()?)?;
    let when = if built < moved { "built before " } else { "" };
    let changes = if is_changed { " with changes" } else { "" };
    Some(format!("{when}commit {hash}{changes}"))
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
}
