//! Statistics of sizes from a file, for a memory.
//!
//! Exists because what was gathered for one memory says little of another: who divides memory by it must ask here.
//!
//! Invariant: a file that can't be used is refused with its name; one for another memory is not used.

use std::fs;
use std::path::Path;

use everybuddy_trace::Sizes;

use crate::Error;
use crate::show::output;
use crate::size;

/// Reads statistics of sizes.
///
/// # Errors
/// A usage error that says what is wrong with the file.
pub fn read(path: &Path) -> Result<Sizes, Error> {
    let refuse = |what: String| Error::usage(format!("sizes {}: {what}", path.display()));
    let bytes = fs::read(path).map_err(|cause| refuse(cause.to_string()))?;
    Sizes::from_json(&bytes).map_err(|error| refuse(error.to_string()))
}

/// Returns the statistics if they are for a memory of so many frames; else says that memory is divided as without them.
pub fn fitting<'s>(sizes: &'s Sizes, path: &Path, frames: u64) -> Option<&'s Sizes> {
    if sizes.frames == frames {
        return Some(sizes);
    }
    output::note(&other_memory(sizes, path, frames));
    None
}

fn other_memory(sizes: &Sizes, path: &Path, frames: u64) -> String {
    format!(
        "sizes {}: they are of a memory of {}, and this one has {}: memory is divided as without them \
         (`everybuddy trace sizes --memory {}` gathers those for it)",
        path.display(),
        size::frames(sizes.frames),
        size::frames(frames),
        size::frames(frames).replace(' ', ""),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_another_memory_are_not_used() {
        let sizes = Sizes {
            frames: 4096,
            ..Sizes::default()
        };
        let path = Path::new("x.sizes.json");
        assert_eq!(fitting(&sizes, path, 4096), Some(&sizes));
        assert_eq!(fitting(&sizes, path, 8192), None);
        let says = other_memory(&sizes, path, 8192);
        assert!(says.contains("16 MiB") && says.contains("32 MiB"), "{says}");
        assert!(says.contains("x.sizes.json"), "{says}");
    }
}
