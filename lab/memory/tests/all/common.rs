//! Helpers of the tests.

use everybuddy_memory::State;
use everybuddy_memory::read::Reader;

/// Returns the path of a text.
pub(crate) fn path(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// Reads a text of the folder `data`.
pub(crate) fn text(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

/// Reads all states of a text.
pub(crate) fn states(text: &[u8]) -> Vec<State> {
    let mut states = Vec::new();
    let mut emit = |state| states.push(state);
    let mut reader = Reader::new(&mut emit);
    reader.read("text", text).unwrap();
    reader.finish();
    states
}
