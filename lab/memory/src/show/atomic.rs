//! Files that appear complete or not at all.
//!
//! # Purpose
//!
//! A collector may read a file at any time.
//!
//! # Invariants
//!
//! The file is written next to its final place, and renamed. A device or a pipe is written directly.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that replaces another one when it is finished.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    temporary: Option<PathBuf>,
    writer: BufWriter<File>,
}

impl AtomicFile {
    /// Creates the file.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be written.
    pub fn create(path: &Path) -> io::Result<AtomicFile> {
        let named =
            |cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", path.display()));
        let is_special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        let temporary = (!is_special).then(|| {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{}.part", std::process::id()));
            path.with_file_name(name)
        });
        let file = match &temporary {
            Some(temporary) => File::create(temporary),
            None => File::options().write(true).open(path),
        };
        let writer = BufWriter::new(file.map_err(named)?);
        Ok(AtomicFile {
            path: path.to_owned(),
            temporary,
            writer,
        })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written. The former file remains.
    pub fn finish(mut self) -> io::Result<()> {
        let named = |cause: io::Error| {
            io::Error::new(cause.kind(), format!("{}: {cause}", self.path.display()))
        };
        self.writer.flush().map_err(named)?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path).map_err(named)?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}
