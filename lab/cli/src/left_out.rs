//! The events that are missing in a trace.
//!
//! A trace that is valid may still lack half of the recorded calls. Its metadata `stats` contains the counts.
//!
//! # Invariants
//! A trace without such metadata lacks nothing that is known.

use everybuddy_measure::size::count;
use everybuddy_trace::Trace;
use serde_json::Value;

/// Describes the events of a trace that were left out since a trace has no place for their frames. Returns `None`
/// if there were none.
pub fn of(trace: &Trace) -> Option<String> {
    too_far(account(trace, "too_far"))
}

/// Returns `true` if waits for locks were recorded, and all of them were for other locks than a zone's.
pub fn has_no_waits(trace: &Trace) -> bool {
    trace.acquisitions.is_empty()
        && account(trace, "lock_events_seen") > 0
        && account(trace, "waits_of_unknown_locks") == 0
}

/// Returns a count of a trace's metadata; 0 if it is not there.
fn account(trace: &Trace, name: &str) -> u64 {
    let stats = trace.metadata.iter().find(|(key, _)| key == "stats");
    let stats: Option<Value> = stats.and_then(|(_, text)| serde_json::from_str(text).ok());
    let count = stats.as_ref().map(|stats| &stats["accounts"][name]);
    count.and_then(Value::as_u64).unwrap_or(0)
}

/// Describes a number of such events.
pub fn too_far(events: u64) -> Option<String> {
    let text = format!(
        "{} events were left out: their frame numbers are damaged, or beyond the 16 TiB or 16 parts of a trace \
         (docs/limitations.md)",
        count(events)
    );
    (events > 0).then_some(text)
}
