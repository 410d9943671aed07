//! The answers for files that a browser has: the page that ci/paste.sh writes calls it, compiled to WebAssembly.
//!
//! Administrators paste a log where they may install nothing.
//!
//! # Invariants
//! The answers are those of the command for the same files: its page has the same HTML. No file is opened.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::explain;
use crate::files::{self, Inputs};
use crate::inputs::Input;
use crate::live::Depth;
use crate::need::{self, Need};
use crate::show::html;
use crate::state::State;

/// Answers a request: a line of JSON with `needs`, separated by spaces, the names and lengths of `files`, and the
/// number of the report to show, if it is not the last one; then the contents of all files.
#[must_use]
pub fn answer(request: &[u8]) -> Value {
    let mut parts = request.splitn(2, |byte| *byte == b'\n');
    let head: Value = serde_json::from_slice(parts.next().unwrap_or_default()).unwrap_or_default();
    let needs = head["needs"].as_str().unwrap_or_default();
    let needs: Vec<Need> = match needs.split_whitespace().map(str::parse).collect() {
        Ok(needs) => needs,
        Err(error) => return json!({ "notes": [error.to_string()], "reports": [] }),
    };
    let (mut names, mut contents) = (Vec::new(), parts.next().unwrap_or_default());
    let mut lengths = Vec::new();
    for file in head["files"].as_array().into_iter().flatten() {
        names.push(PathBuf::from(file[0].as_str().unwrap_or_default()));
        lengths.push(file[1].as_u64().unwrap_or(0) as usize);
    }
    let inputs = Inputs {
        files: &names,
        depth: Depth::Holders,
        frame_size: None,
    };
    // Each file is opened once, in this order.
    let mut lengths = lengths.into_iter();
    let mut open = |path: &_| {
        let length = lengths.next().unwrap_or(0).min(contents.len());
        let (bytes, rest) = contents.split_at(length);
        contents = rest;
        Input::of_bytes(bytes.to_vec(), path)
    };
    let mut states: Vec<State> = Vec::new();
    let read = files::read_from(&inputs, &mut open, &mut |state, _| states.push(state));
    let notes = match read {
        Ok(notes) => notes.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    };
    // As the command does.
    let last = states.iter().rposition(|state| !state.zones.is_empty());
    let shown = head["report"].as_u64().map(|report| report as usize);
    let shown = shown.or(last).or(states.len().checked_sub(1));
    let state = shown.and_then(|shown| states.get(shown));
    let decided = state.map(|state| needs.iter().map(|need| need::decide(state, need).line));
    json!({
        "notes": notes,
        "reports": states.iter().map(explain::title).collect::<Vec<_>>(),
        "shown": shown,
        "verdicts": decided.map(Iterator::collect::<Vec<_>>),
        "html": state.map(|state| html::answer(state, &needs)),
    })
}
