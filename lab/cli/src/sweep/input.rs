//! Words of a command line, and the files that they name.
//!
//! A command runs on any machine and in any folder, so it names files by their whole paths. Its identity must not
//! depend on where they are: it depends on their contents.
//!
//! # Invariants
//! The key of a word that names a file has the file's name, which rows show, and the digest of its contents.

use std::path::{Path, PathBuf, absolute};

use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_trace::{files, shown};

use crate::digest::of_files;

/// A word of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The word.
    pub(crate) text: String,
    /// What the identity of a cell takes from it.
    pub(crate) key: String,
    /// The file that it names.
    pub(crate) input: Option<Input>,
}

impl Word {
    /// Creates a word that names no file.
    pub(crate) fn plain(text: impl Into<String>) -> Word {
        let text = text.into();
        Word {
            key: text.clone(),
            text,
            input: None,
        }
    }
}

/// A value of a list that may be a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    /// The name that rows show.
    pub(crate) name: String,
    /// The value on a command line: a name of the program's own, or a whole path.
    value: String,
    /// The digest of the file, if it is one.
    pub(crate) digest: Option<String>,
    /// The file.
    pub(crate) file: Option<PathBuf>,
    /// The file and its companions: all that is digested.
    parts: Vec<PathBuf>,
}

impl Input {
    /// Returns a value that names no file.
    pub(crate) fn plain(name: &str) -> Input {
        Input {
            name: name.to_string(),
            value: name.to_string(),
            digest: None,
            file: None,
            parts: Vec::new(),
        }
    }

    /// Finds a trace: a path is relative to `folder`, and a bare name is that of a bundled trace.
    ///
    /// # Errors
    /// A usage error if the trace does not exist.
    pub(crate) fn trace(folder: &Path, text: &str) -> Result<Input, Error> {
        let is_bare = !text.contains(['/', '\\', '.']);
        let path = if is_bare {
            library::file(text)?
        } else {
            Some(folder.join(text))
        };
        let Some(path) = path else {
            return Ok(Input::plain(text));
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let parts = files(&path);
        Input::file(&path, &name, parts)
    }

    /// Finds a machine: the name of a bundled one, or a path relative to `folder`.
    ///
    /// # Errors
    /// A usage error if the machine does not exist.
    pub(crate) fn machine(folder: &Path, text: &str) -> Result<Input, Error> {
        if everybuddy_simulate::machines::names().contains(&text) || !text.ends_with(".toml") {
            return Ok(Input::plain(text));
        }
        Input::other(folder, text)
    }

    /// Finds a file by its path relative to `folder`.
    ///
    /// # Errors
    /// A usage error if it cannot be read.
    pub(crate) fn other(folder: &Path, text: &str) -> Result<Input, Error> {
        let path = folder.join(text);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Input::file(&path, &name, [path.clone()])
    }

    /// Reads a file of several parts, of which all but the first may be missing.
    fn file(
        path: &Path,
        name: &str,
        parts: impl IntoIterator<Item = PathBuf>,
    ) -> Result<Input, Error> {
        let failed = |path: &Path, cause| {
            let shown = shown(path);
            Error::usage(format!(
                "{shown}: failed to read ({cause})\nhelp: paths in a grid are relative to the grid's folder"
            ))
        };
        let parts: Vec<PathBuf> = parts.into_iter().collect();
        let digest = of_files(&parts).map_err(|(part, cause)| failed(part, cause))?;
        // Links are not followed: a trace has the name and the companions of its link.
        let whole = absolute(path).map_err(|cause| failed(path, cause))?;
        let Some(value) = whole.to_str().filter(|value| !value.contains(',')) else {
            return Err(Error::usage(format!(
                "{}: the path has a comma, or is not Unicode text\nhelp: rename it",
                shown(&whole)
            )));
        };
        Ok(Input {
            name: name.to_string(),
            value: value.to_string(),
            digest: Some(digest),
            file: Some(whole.clone()),
            parts,
        })
    }

    /// Returns the word of a command line that begins with `option`.
    pub(crate) fn word(&self, option: &str) -> Word {
        Word {
            text: format!("{option}{}", self.value),
            key: format!("{option}{self}"),
            input: self.file.is_some().then(|| self.clone()),
        }
    }

    /// Returns `true` if the file has the contents that it had.
    pub(crate) fn is_unchanged(&self) -> bool {
        match &self.digest {
            None => true,
            Some(known) => of_files(&self.parts).is_ok_and(|now| now == *known),
        }
    }
}

/// Describes what is read, wherever it is.
impl std::fmt::Display for Input {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.digest {
            None => out.write_str(&self.name),
            Some(digest) => write!(out, "{} ({digest})", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_changes_is_noticed() {
        let folder = std::env::temp_dir().join(format!("everybuddy-input-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.join(name));
        fs::write(&first, "one").unwrap();
        let input = Input::file(&first, "input", [first.clone(), second.clone()]).unwrap();
        assert!(input.is_unchanged());
        fs::write(&second, "two").unwrap();
        assert!(!input.is_unchanged(), "a companion appeared");
        let input = Input::file(&first, "input", [first.clone(), second.clone()]).unwrap();
        assert!(input.is_unchanged());
        fs::write(&first, "three").unwrap();
        assert!(!input.is_unchanged());
        fs::remove_file(&first).unwrap();
        assert!(!input.is_unchanged(), "the file is gone");
        assert!(Input::plain("input").is_unchanged());
        fs::remove_dir_all(&folder).unwrap();
    }
}
