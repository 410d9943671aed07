//! What must hold for every text. Fuzzing and tests call it.
//!
//! Fuzzing and tests check the same rules, which are stated here only.
//!
//! # Invariants
//! A violated rule is a panic.

use crate::answer;
use crate::need::{self, Need, Outcome};
use crate::read::Reader;
use crate::request::Request;
use crate::show::{json, prometheus, terminal};
use crate::state::{Kind, State};

/// Reads a text, and computes and prints all answers.
pub fn text(bytes: &[u8]) {
    let mut emit = |state: State| check(&state);
    let mut reader = Reader::new(&mut emit);
    // Reading from memory cannot fail.
    let _ = reader.read("text", bytes);
    reader.finish();
}

fn check(state: &State) {
    let _ = (
        terminal::state(state),
        json::state(state).to_string(),
        prometheus::metrics(state, 0),
    );
    for need in [
        (1, 4096, false),
        (200, 32 << 20, true),
        (u64::MAX, 1 << 30, false),
    ] {
        let (count, bytes, is_movable) = need;
        let need = Need {
            count,
            bytes,
            zone: None,
            node: None,
            is_movable,
        };
        let verdict = need::decide(state, &need);
        // Nothing is certain without watermarks.
        let has_watermarks = state.zones.iter().any(|zone| zone.min.is_some());
        assert!(
            has_watermarks || verdict.outcome != Outcome::Now,
            "{verdict:?}"
        );
    }
    for zone in &state.zones {
        let Some(answer) = answer::of_zone(state, zone, Request::default()) else {
            continue;
        };
        // A log's table was accepted because of its sum, and its frame size is that of its first column.
        assert!(!state.has(Kind::Log) || state.frame.is_known, "{state:?}");
        for row in &answer.rows {
            assert!(
                row.free.high.is_none_or(|high| row.free.low <= high),
                "{row:?}"
            );
            assert!(
                row.usable.high.is_none_or(|high| row.usable.low <= high),
                "{row:?}"
            );
            assert!(
                row.usable.low <= row.free.high.unwrap_or(u64::MAX),
                "{row:?}"
            );
        }
        for pair in answer.rows.windows(2) {
            assert!(pair[1].free.low <= pair[0].free.low, "{pair:?}");
        }
    }
}
