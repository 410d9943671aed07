//! Which commit the program was built from, as far as that can be found out.
//!
//! Exists so that a page which is found in a year says what it was made with. Asked when a page is made, not when
//! the program is built: else every commit would build the program anew.
//!
//! Invariant: what can't be found out is left out, never guessed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Returns the program's name and version, with the commit where the tree that it was built from is still there.
pub(crate) fn version() -> String {
    let own = concat!("everybuddy ", env!("CARGO_PKG_VERSION"));
    match commit(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        Some(commit) => format!("{own} ({commit})"),
        None => own.to_string(),
    }
}

/// The commit of a tree, in words: `commit 0123abc`, `with changes`; `before` it if the program is older.
fn commit(tree: &Path) -> Option<String> {
    let hash = ask(tree, &["rev-parse", "--short", "HEAD"])?;
    let is_changed = !ask(tree, &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    // Written whenever another commit becomes the tree's.
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

/// What `git` answers; none without one, or outside a tree.
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
