//! Allocators in shared libraries.
//!
//! A user measures an allocator without a change of this program: a library that exports the table of
//! `include/everybuddy-peer.h` becomes a row like those of the list.
//!
//! # Invariants
//! A library stays loaded until the program ends, and so do its row and its functions. Nothing else of a table is read
//! before its version was compared, and only a table that passed every check becomes a row.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};
use core::fmt;
use std::path::{Path, PathBuf};

use everybuddy::Order;
use libloading::Library;
use libloading::os::unix;

use crate::rows::PeerRow;
use crate::table::{Functions, Table, VERSION};

/// The name of the exported table.
const SYMBOL: &str = "everybuddy_peer";
/// The length of the longest name, which tables of results have room for.
const LONGEST_NAME: usize = 40;

/// The reason why a library cannot be a contender.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The file does not exist, or cannot be read.
    File(PathBuf, std::io::Error),
    /// The file is not a shared library for this machine, or lacks something that it needs.
    Library(PathBuf, libloading::Error),
    /// The library exports no table.
    NoTable(PathBuf),
    /// The table has another version.
    Version(PathBuf, u32),
    /// A function of the table is null.
    Null(PathBuf, &'static str),
    /// The table's name is null, or not a name.
    Name(PathBuf),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::File(path, cause) => write!(
                f,
                "--peer {}: failed to read ({cause})\nhelp: pass the path of a shared library",
                path.display()
            ),
            LoadError::Library(path, cause) => write!(
                f,
                "--peer {}: failed to load the library ({})\nhelp: compile with `cc -shared -fPIC`, for this machine",
                path.display(),
                // The cause of the loader names the reason; the error itself only the function that failed.
                std::error::Error::source(cause)
                    .map_or_else(|| cause.to_string(), ToString::to_string)
            ),
            LoadError::NoTable(path) => write!(
                f,
                "--peer {}: the library does not export `{SYMBOL}`\nhelp: define the table of everybuddy-peer.h, as \
                 examples/peer/bitmap.c does",
                path.display()
            ),
            LoadError::Version(path, version) => write!(
                f,
                "--peer {}: the table has version {version}, but this program reads version {VERSION}\nhelp: compile \
                 the library with the everybuddy-peer.h of this program",
                path.display()
            ),
            LoadError::Null(path, function) => write!(
                f,
                "--peer {}: the function `{function}` of the table is null\nhelp: everybuddy-peer.h requires it",
                path.display()
            ),
            LoadError::Name(path) => write!(
                f,
                "--peer {}: the name in the table is not a name\nhelp: use 1 to {LONGEST_NAME} letters, digits, `-`, \
                 `_` and `.`",
                path.display()
            ),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::File(_, cause) => Some(cause),
            LoadError::Library(_, cause) => Some(cause),
            _ => None,
        }
    }
}

/// Loads a shared library. Its code runs in this process: a mistake in it can end the process.
///
/// # Errors
/// Returns an error if the file is not a shared library with a valid table.
pub fn load(path: &Path) -> Result<&'static PeerRow, LoadError> {
    let file = || path.to_path_buf();
    // An absolute path: the loader would search its own folders for a name without a slash.
    let whole = path
        .canonicalize()
        .map_err(|cause| LoadError::File(file(), cause))?;
    // SAFETY: loading runs the initializers of a library that the user asked for. The program has no way to check them.
    // Now: a function that is missing would otherwise end the program at its first call.
    let library = unsafe { unix::Library::open(Some(&whole), unix::RTLD_NOW | unix::RTLD_LOCAL) };
    let library = Library::from(library.map_err(|cause| LoadError::Library(file(), cause))?);
    // The row is used until the program ends.
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: an object's symbol is its address, which `get` returns as it is for a type of a pointer's size.
    let table = unsafe { library.get::<*const Table>(SYMBOL) };
    let table = table.map_err(|_| LoadError::NoTable(file()))?;
    // SAFETY: the header declares that an object of this name is a table, and the library is never unloaded.
    unsafe { row(*table, path) }
}

/// Checks a table, and makes it a row.
///
/// # Safety
/// The pointer is null, or leads to an aligned number that can be read. If this number is [`VERSION`], it begins a
/// table that keeps the contract of the header, and lives forever.
unsafe fn row(table: *const Table, path: &Path) -> Result<&'static PeerRow, LoadError> {
    let file = || path.to_path_buf();
    if table.is_null() {
        return Err(LoadError::NoTable(file()));
    }
    // SAFETY: every version of the table begins with its version.
    let version = unsafe { table.cast::<u32>().read() };
    if version != VERSION {
        return Err(LoadError::Version(file(), version));
    }
    // SAFETY: the version is right, so it is a table of this structure, which no function changes.
    let table = unsafe { &*table };
    let required = |function: &'static str| LoadError::Null(file(), function);
    let functions = Functions {
        init: table.init.ok_or_else(|| required("init"))?,
        allocate: table.allocate.ok_or_else(|| required("allocate"))?,
        free: table.free.ok_or_else(|| required("free"))?,
        metadata_bytes: table.metadata_bytes,
        destroy: table.destroy.ok_or_else(|| required("destroy"))?,
    };
    // SAFETY: a text of the table is null or ends with a zero, and lives as long as the table.
    let name = unsafe { text(table.name) };
    // SAFETY: as for the name.
    let summary = unsafe { text(table.summary) };
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let name = name
        .filter(|name| (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_letter))
        .ok_or_else(|| LoadError::Name(file()))?;
    let max_order = table.max_order.min(u32::from(Order::TEN.get()));
    Ok(Box::leak(Box::new(PeerRow {
        name,
        package: Box::leak(path.display().to_string().into_boxed_str()),
        version: "",
        summary: summary.unwrap_or("an allocator in a shared library"),
        max_order: Order::new(max_order as u8).unwrap_or(Order::TEN),
        cannot: &[],
        is_floor: false,
        functions: Some(Box::leak(Box::new(functions))),
    })))
}

/// Returns a text of a table.
///
/// # Safety
/// The pointer is null, or leads to a text that ends with a zero and lives forever.
unsafe fn text(start: *const c_char) -> Option<&'static str> {
    if start.is_null() {
        return None;
    }
    // SAFETY: the contract of this function.
    unsafe { CStr::from_ptr(start) }.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::c_void;
    use core::ptr::{null, null_mut};

    unsafe extern "C" fn init(_frames: u32, _cpus: u32) -> *mut c_void {
        null_mut()
    }
    unsafe extern "C" fn allocate(_handle: *mut c_void, _cpu: u32, _order: u32) -> u32 {
        0
    }
    unsafe extern "C" fn free(_handle: *mut c_void, _cpu: u32, _frame: u32, _order: u32) -> i32 {
        0
    }
    unsafe extern "C" fn destroy(_handle: *mut c_void) {}

    fn table() -> Table {
        Table {
            version: VERSION,
            max_order: 99,
            name: c"mine-1.0".as_ptr(),
            summary: null(),
            init: Some(init),
            allocate: Some(allocate),
            free: Some(free),
            metadata_bytes: None,
            destroy: Some(destroy),
        }
    }

    fn checked(table: Table) -> Result<&'static PeerRow, LoadError> {
        // SAFETY: the texts of the tables are constants, and the table is leaked.
        unsafe { row(Box::leak(Box::new(table)), Path::new("mine.so")) }
    }

    #[test]
    fn a_valid_table_becomes_a_row() {
        let row = checked(table()).unwrap();
        assert_eq!((row.name, row.package), ("mine-1.0", "mine.so"));
        assert_eq!(row.max_order, Order::TEN);
        assert!(row.functions.is_some() && !row.is_floor);
    }

    #[test]
    fn an_invalid_table_is_refused_with_its_reason() {
        let reason = |table: Table| checked(table).unwrap_err().to_string();
        let other = reason(Table {
            version: 2,
            ..table()
        });
        assert!(other.contains("version 2"), "{other}");
        assert!(other.contains("version 1"), "{other}");
        #[rustfmt::skip]
        let cases = [
            ("init", Table { init: None, ..table() }),
            ("allocate", Table { allocate: None, ..table() }),
            ("free", Table { free: None, ..table() }),
            ("destroy", Table { destroy: None, ..table() }),
        ];
        for (name, broken) in cases {
            let reason = reason(broken);
            assert!(
                reason.contains(&format!("`{name}` of the table is null")),
                "{reason}"
            );
        }
        let long = [b'a' as c_char; LONGEST_NAME + 2];
        let mut long = long;
        long[LONGEST_NAME + 1] = 0;
        for name in [
            null(),
            c"".as_ptr(),
            c"a b".as_ptr(),
            c"a+b".as_ptr(),
            long.as_ptr(),
        ] {
            let reason = reason(Table { name, ..table() });
            assert!(reason.contains("is not a name"), "{reason}");
        }
    }
}
