//! Statistics of sizes from files, and the division of memory that they determine.
//!
//! Statistics for one memory size do not apply to another, and this module checks that.
//!
//! # Invariants
//! An unusable file is rejected with its name; a file for another memory size is not used, and a note reports it.

use everybuddy_trace::shown;
use std::fs;
use std::path::{Path, PathBuf};

use everybuddy::Order;
use everybuddy::systems::Presplit;
use everybuddy_trace::Sizes;

use crate::Error;
use crate::replay::Script;
use crate::size;

/// Statistics, and the file that contains them.
pub type Known = (PathBuf, Sizes);

/// Reads statistics of sizes.
///
/// # Errors
/// Returns a usage error with the file and the problem.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Known>, Error> {
    let read = |path: &PathBuf| {
        let refuse = |what: String| Error::usage(format!("sizes {}: {what}", shown(path)));
        let bytes = fs::read(path).map_err(|cause| refuse(cause.to_string()))?;
        let sizes = Sizes::from_json(&bytes).map_err(|error| refuse(error.to_string()))?;
        Ok((path.clone(), sizes))
    };
    paths.iter().map(read).collect()
}

/// Returns the division of a memory of `frames` frames for the first `requests` requests, from the first statistics
/// for this memory size. Returns no division if there are none; `note` is then called for each other file.
pub fn division(
    known: &[Known],
    script: &Script,
    frames: u64,
    requests: u64,
    note: &mut dyn FnMut(&str),
) -> Presplit {
    let own = |(_, sizes): &&Known| sizes.frames == frames && sizes.source == script.name;
    let fits = |(_, sizes): &&Known| sizes.frames == frames;
    let found = known.iter().find(own).or(known.iter().find(fits));
    if let Some((_, sizes)) = found {
        let largest = script.largest_order.max(Order::TEN).get();
        let blocks = everybuddy_trace::division(sizes, frames, requests, largest);
        return Presplit::new(blocks);
    }
    for (path, sizes) in known {
        note(&other_memory(&script.name, path, sizes, frames));
    }
    Presplit::default()
}

fn other_memory(trace: &str, path: &Path, sizes: &Sizes, frames: u64) -> String {
    format!(
        "sizes {}: not used, because they are for a memory of {} and {trace} is replayed in {} \
         (use `everybuddy trace sizes --memory SIZE`)",
        shown(path),
        size::frames(sizes.frames),
        size::frames(frames),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_another_memory_are_not_used() {
        use everybuddy_trace::{Need, ORDERS, Resolved};
        let script = Script::new("own", &Resolved::default(), None).unwrap();
        let sizes = |source: &str, blocks: u32| {
            let mut need = Need {
                requests: 1,
                blocks: [0; ORDERS],
            };
            need.blocks[0] = blocks;
            let sizes = Sizes {
                source: source.to_string(),
                frames: 4096,
                first: vec![need],
                ..Sizes::default()
            };
            (PathBuf::from(format!("{source}.sizes.json")), sizes)
        };
        let known = [sizes("other", 3), sizes("own", 5)];
        let divide = |known: &[Known], frames, notes: &mut Vec<String>| {
            division(known, &script, frames, 1, &mut |what| {
                notes.push(what.to_string())
            })
        };
        let mut notes = Vec::new();
        assert_eq!(divide(&known, 4096, &mut notes).blocks()[0], 5);
        assert_eq!(divide(&known[..1], 4096, &mut notes).blocks()[0], 3);
        assert!(notes.is_empty());
        assert!(divide(&known, 8192, &mut notes).is_none());
        assert_eq!(notes.len(), 2);
        let says = other_memory("own", &known[0].0, &known[0].1, 8192);
        for words in ["16 MiB", "32 MiB", "other.sizes.json", "own"] {
            assert!(says.contains(words), "{says}");
        }
    }
}
