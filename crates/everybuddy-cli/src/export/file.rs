//! Files that appear completely or not at all.
//!
//! # Purpose
//!
//! An interrupted run must not leave a partial result that looks complete.
//!
//! # Invariants
//!
//! Until [`Pending::finish`], the named file is unchanged.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that will be written. If it is dropped unfinished, it leaves nothing behind.
#[derive(Debug)]
pub struct Pending {
    path: PathBuf,
    /// The temporary file in the same directory that is written first; `None` for pipes and devices, which cannot be
    /// replaced.
    beside: Option<PathBuf>,
    file: File,
}

impl Pending {
    /// Prepares to write `path`.
    ///
    /// # Errors
    /// Returns any error that prevents writing a file there.
    pub fn create(path: &Path) -> io::Result<Pending> {
        let known = fs::metadata(path).ok();
        if known.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "is a directory; name a file",
            ));
        }
        if known.is_some_and(|known| !known.is_file()) {
            let file = File::options().write(true).open(path)?;
            return Ok(Pending {
                path: path.to_path_buf(),
                beside: None,
                file,
            });
        }
        let Some(name) = path.file_name() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "is not a file name",
            ));
        };
        let mut beside = name.to_os_string();
        beside.push(format!(".{}.part", std::process::id()));
        let beside = path.with_file_name(beside);
        let file = File::create(&beside)?;
        Ok(Pending {
            path: path.to_path_buf(),
            beside: Some(beside),
            file,
        })
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends `bytes` to the earlier output and completes the file.
    ///
    /// # Errors
    /// Returns any write error; the file is then unchanged.
    pub fn finish(mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.flush()?;
        if let Some(beside) = self.beside.take()
            && let Err(error) = fs::rename(&beside, &self.path)
        {
            self.beside = Some(beside);
            return Err(error);
        }
        Ok(())
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // A temporary file that cannot be deleted is left behind.
            let _ = fs::remove_file(beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_appear_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("everybuddy-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rows.csv");
        fs::write(&path, "old").unwrap();
        drop(Pending::create(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        Pending::create(&path).unwrap().finish(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(Pending::create(&folder).is_err());
        assert!(Pending::create(&folder.join("no/such/folder")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
