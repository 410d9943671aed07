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

/// What was read.
#[derive(Default)]
pub struct Pasted {
    states: Vec<State>,
    /// Parts that were skipped, or the reason why nothing was read.
    notes: Vec<String>,
}

impl Pasted {
    /// Reads files: names and contents.
    #[must_use]
    pub fn read(files: Vec<(String, Vec<u8>)>) -> Pasted {
        let mut pasted = Pasted::default();
        let (names, contents): (Vec<PathBuf>, Vec<Vec<u8>>) = files
            .into_iter()
            .map(|(name, bytes)| (PathBuf::from(name), bytes))
            .unzip();
        if names.is_empty() {
            return pasted;
        }
        let inputs = Inputs {
            files: &names,
            depth: Depth::Holders,
            frame_size: None,
        };
        // Each file is opened once, in this order.
        let mut contents = contents.into_iter();
        let read = files::read_from(
            &inputs,
            &mut |path| Input::of_bytes(contents.next().unwrap_or_default(), path),
            &mut |state, _| pasted.states.push(state),
        );
        pasted.notes = match read {
            Ok(notes) => notes.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        };
        pasted
    }

    /// Answers with the verdicts for these needs, separated by spaces, and the tables of a state: the last one that has
    /// zones if the number does not exist.
    #[must_use]
    pub fn answer(&self, needs: &str, which: usize) -> Value {
        let needs: Vec<Need> = match needs.split_whitespace().map(str::parse).collect() {
            Ok(needs) => needs,
            Err(error) => return json!({ "notes": [error.to_string()], "reports": [] }),
        };
        let last = self
            .states
            .iter()
            .rposition(|state| !state.zones.is_empty())
            .or(self.states.len().checked_sub(1));
        let shown = Some(which)
            .filter(|which| *which < self.states.len())
            .or(last);
        let state = shown.and_then(|shown| self.states.get(shown));
        let lines = state.map(|state| {
            let verdicts = needs.iter().map(|need| need::decide(state, need).line);
            verdicts.collect::<Vec<_>>()
        });
        json!({
            "notes": self.notes,
            "reports": self.states.iter().map(explain::title).collect::<Vec<_>>(),
            "shown": shown,
            "verdicts": lines,
            "html": state.map(|state| html::answer(state, &needs)),
        })
    }
}
