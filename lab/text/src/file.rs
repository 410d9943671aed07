//! Files that appear completely or not at all.
//!
//! An interrupted program must not leave a partial result that looks complete, nor a temporary file.
//!
//! # Invariants
//! Until [`Pending::finish`], the named file is unchanged and its directory has no new entry: what is written goes to a
//! file that loses its name before anything is in it. `finish` copies it to a temporary name and renames that. An
//! existing file keeps its permissions and, where the user may set it, its owner; a symbolic link stays, and the file
//! that it leads to is replaced.

use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Seek, Write};
use std::path::{Component, Path, PathBuf};

/// The maximum number of symbolic links that are followed, as on Linux.
const MAX_LINKS: usize = 40;

/// A file that will be written. If it is dropped unfinished, it leaves nothing behind.
#[derive(Debug)]
pub struct Pending {
    path: PathBuf,
    /// The file to replace, without symbolic links; `None` for pipes, devices and the program's own streams, which
    /// cannot be replaced.
    place: Option<PathBuf>,
    /// A file without a name, or the pipe or device.
    file: File,
}

impl Pending {
    /// Prepares to write `path`.
    ///
    /// # Errors
    /// Returns any error that prevents writing a file there.
    pub fn create(path: &Path) -> io::Result<Pending> {
        let pending = |place, file| Pending {
            path: path.to_path_buf(),
            place,
            file,
        };
        let known = fs::metadata(path).ok();
        if known.as_ref().is_some_and(Metadata::is_dir) {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "is a directory; name a file",
            ));
        }
        if let Some(known) = &known {
            // Appending neither changes the file here nor overwrites what other streams wrote to it.
            let file = OpenOptions::new().append(true).open(path)?;
            if !known.is_file() || is_stream(path) {
                return Ok(pending(None, file));
            }
        }
        let place = place(path)?;
        let (name, file) = new_beside(&place, 0o600)?;
        fs::remove_file(name)?;
        Ok(pending(Some(place), file))
    }

    /// Returns the file's path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the absolute path without symbolic links of the file that will appear. Returns `None` for pipes and
    /// devices.
    pub fn place(&self) -> Option<&Path> {
        self.place.as_deref()
    }

    /// Appends `bytes` to the earlier output and completes the file.
    ///
    /// # Errors
    /// Returns any write error; the file is then unchanged.
    pub fn finish(mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.flush()?;
        let Some(place) = self.place else {
            return Ok(());
        };
        self.file.rewind()?;
        // A file that may be private stays private from its first byte on.
        let known = fs::metadata(&place).ok();
        let mode = if known.is_some() { 0o600 } else { 0o666 };
        let (name, mut named) = new_beside(&place, mode)?;
        let mut complete = || {
            io::copy(&mut self.file, &mut named)?;
            if let Some(known) = &known {
                preserve(&named, known)?;
            }
            // The rename must not be persisted before the contents, in case the machine crashes in between.
            named.sync_all()?;
            fs::rename(&name, &place)
        };
        complete().inspect_err(|_| drop(fs::remove_file(&name)))
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

/// Creates a hidden file next to another one, and returns its name as well.
fn new_beside(place: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    loop {
        // The standard library has no other random numbers.
        let number = RandomState::new().build_hasher().finish() as u32;
        let path = place.with_file_name(format!(".{name}.{number:08x}.part"));
        match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (path, file)),
        }
    }
}

/// Gives a file the owner and the permissions of the file that it replaces.
fn preserve(file: &File, known: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        // Only root may give files away. The permissions come second, since a new owner clears some of them.
        let _ = fchown(file, Some(known.uid()), Some(known.gid()));
    }
    file.set_permissions(known.permissions())
}

/// Returns the absolute path of a file that need not exist, with its symbolic links followed.
fn place(path: &Path) -> io::Result<PathBuf> {
    let refuse = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_string());
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let Some(name) = path.file_name() else {
            return Err(refuse("is not a file name"));
        };
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let folder = folder.canonicalize()?;
        let place = folder.join(name);
        match fs::read_link(&place) {
            Ok(target) => path = folder.join(target),
            Err(_) => return Ok(place),
        }
    }
    Err(refuse("has too many levels of symbolic links"))
}

/// Returns `true` for the names of the program's own streams, which may lead to files: a file under such a name
/// already receives other output.
fn is_stream(path: &Path) -> bool {
    let is_of_process = |path: &Path| {
        let mut parts = path.components();
        parts.next() == Some(Component::RootDir)
            && parts.next() == Some(Component::Normal("proc".as_ref()))
    };
    is_of_process(path) || fs::read_link(path).is_ok_and(|target| is_of_process(&target))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names in a folder.
    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_appear_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let path = folder.join("rows.csv");
        fs::write(&path, "old").unwrap();
        let mut pending = Pending::create(&path).unwrap();
        pending.write_all(b"half").unwrap();
        assert_eq!(names(folder), ["rows.csv"], "nothing has a name yet");
        drop(pending);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let mut pending = Pending::create(&path).unwrap();
        pending.write_all(b"ne").unwrap();
        pending.finish(b"w").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder), ["rows.csv"]);
        assert!(Pending::create(folder).is_err());
        assert!(Pending::create(&folder.join("no/such/folder")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn permissions_and_links_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (real, link) = (folder.join("real"), folder.join("link"));
        symlink("real", &link).unwrap();
        // Through a link that leads nowhere yet, with the permissions of any new file.
        Pending::create(&link).unwrap().finish(b"first").unwrap();
        let plain = folder.join("plain");
        fs::write(&plain, "").unwrap();
        assert_eq!(mode(&real), mode(&plain));
        for private in [0o600, 0o640, 0o666] {
            fs::set_permissions(&real, fs::Permissions::from_mode(private)).unwrap();
            Pending::create(&link).unwrap().finish(b"next").unwrap();
            assert_eq!(mode(&real), private);
        }
        assert_eq!(fs::read(&real).unwrap(), b"next");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("real"));
        assert_eq!(names(folder), ["link", "plain", "real"]);
        symlink("loop", folder.join("loop")).unwrap();
        assert!(Pending::create(&folder.join("loop")).is_err());
    }

    #[test]
    fn places_have_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir(folder.join("a")).unwrap();
        let straight = Pending::create(&folder.join("x")).unwrap();
        let round = Pending::create(&folder.join("a/../x")).unwrap();
        assert_eq!(straight.place(), round.place());
        assert!(straight.place().is_some());
        #[cfg(unix)]
        assert_eq!(
            Pending::create(Path::new("/dev/null")).unwrap().place(),
            None
        );
    }
}
