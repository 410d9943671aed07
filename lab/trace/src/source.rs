//! Where the files of a trace are: in a folder, or in the program itself.
//!
//! A program that carries traces with it reads them as it reads files: the same checks, the same errors.
//!
//! # Invariants
//! A trace that is part of the program never reads a file.

use std::fs::File;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use parquet::errors::Result;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::error::{Problem, TraceError};
use crate::guard::guarded;

/// How the names of companion files end.
const ENDS: [&str; 3] = [".faults.parquet", ".vmas.parquet", ".locks.parquet"];

/// Returns `true` if a name can only be that of a companion file.
pub(crate) fn is_companion(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ENDS.iter().any(|end| name.ends_with(end))
}

/// Returns the files of the trace `NAME.parquet`: itself, `NAME.faults.parquet`, `NAME.vmas.parquet` and
/// `NAME.locks.parquet`. The companions need not exist.
pub fn files(trace: &Path) -> [PathBuf; 4] {
    let mut stem = trace.file_name().unwrap_or_default().to_os_string();
    if trace.extension().is_some_and(|end| end == "parquet") {
        stem = trace.file_stem().unwrap_or_default().to_os_string();
    }
    let companion = |end: &str| {
        let mut name = stem.clone();
        name.push(end);
        trace.with_file_name(name)
    };
    let [faults, regions, locks] = ENDS.map(companion);
    [trace.to_path_buf(), faults, regions, locks]
}

/// A trace that is part of the program.
#[derive(Clone, Copy)]
pub struct Embedded {
    /// The name of the trace.
    pub name: &'static str,
    /// The contents of `NAME.parquet`.
    pub calls: &'static [u8],
    /// The contents of its companions in the order of [`files`]; `None` for one that does not exist.
    pub companions: [Option<&'static [u8]>; 3],
}

/// One file of a trace.
pub(crate) struct Source {
    /// The file, or the name that errors give to what is part of the program.
    pub(crate) path: PathBuf,
    /// The contents; `None` if they have to be read from the file.
    contents: Option<&'static [u8]>,
}

impl Source {
    /// Returns the trace `NAME.parquet` and its companions, `None` for one that does not exist.
    pub(crate) fn of_path(trace: &Path) -> (Source, [Option<Source>; 3]) {
        let [trace, companions @ ..] = files(trace);
        let contents = None;
        let of = |path| Source { path, contents };
        // A missing trace is an error, which opening it reports.
        let companions = companions.map(|path| path.exists().then(|| of(path)));
        (of(trace), companions)
    }

    /// Returns a trace that is part of the program, and its companions.
    pub(crate) fn of_embedded(trace: &Embedded) -> (Source, [Option<Source>; 3]) {
        let [path, faults, regions, locks] = files(Path::new(&format!("{}.parquet", trace.name)));
        let of =
            |path, contents: Option<_>| contents.is_some().then_some(Source { path, contents });
        let [first, second, third] = trace.companions;
        let companions = [of(faults, first), of(regions, second), of(locks, third)];
        let contents = Some(trace.calls);
        (Source { path, contents }, companions)
    }

    /// Opens the file. Returns its reader and its number of bytes.
    pub(crate) fn open(&self) -> std::result::Result<(Box<dyn FileReader>, u64), TraceError> {
        let (path, failed) = (&self.path, |error| TraceError::io(&self.path, error));
        if let Some(contents) = self.contents {
            let reader = guarded(path, || boxed(Bytes::from_static(contents)))?;
            return Ok((reader, contents.len() as u64));
        }
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.is_file() && about.len() == 0 {
            return Err(TraceError::new(path, None, Problem::Empty));
        }
        Ok((guarded(path, || boxed(file))?, about.len()))
    }
}

fn boxed(input: impl parquet::file::reader::ChunkReader + 'static) -> Result<Box<dyn FileReader>> {
    Ok(Box::new(SerializedFileReader::new(input)?))
}
