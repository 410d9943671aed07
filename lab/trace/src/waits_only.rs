//! Traces that contain waits for zones' locks and no calls.
//!
//! To record every call costs a busy machine time, and to record only the waits costs next to nothing. Such a trace
//! says whether CPUs wait for a zone's lock. It cannot be replayed.
//!
//! # Invariants
//! A trace without calls is read only if its metadata contain this under the key `waits_only`, as JSON. A recording
//! without a single wait is an answer, too, so the entry states how long the recording took.

use serde_json::{Value, json};

use crate::model::Trace;

/// The key in the metadata of a file.
const KEY: &str = "waits_only";

/// A recording of waits alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitsOnly {
    /// Nanoseconds from the begin of the recording to its end.
    pub duration_ns: u64,
    /// Waits for other locks than a zone's, which the trace does not contain.
    pub of_others: u64,
    /// Waits for locks of which nothing shows whose they are, which the trace does not contain.
    pub of_unknown: u64,
    /// The functions that waited for a zone's lock, the longest sum of waits first; empty if unknown.
    pub callers: Vec<WaitingCaller>,
}

/// A function of the kernel that waited for a zone's lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingCaller {
    /// Its name.
    pub name: String,
    /// Its waits, as far as they were recorded together with their callers.
    pub waits: u64,
    /// The sum of these waits in nanoseconds.
    pub wait_ns: u64,
}

impl WaitsOnly {
    /// Returns what a trace without calls says about its recording; `None` for every other trace.
    pub fn of(trace: &Trace) -> Option<WaitsOnly> {
        WaitsOnly::among(&trace.metadata)
    }

    /// Returns `true` if the metadata of a file say so.
    pub(crate) fn is_in(metadata: &[(String, String)]) -> bool {
        WaitsOnly::among(metadata).is_some()
    }

    fn among(metadata: &[(String, String)]) -> Option<WaitsOnly> {
        let (_, text) = metadata.iter().find(|(key, _)| key == KEY)?;
        let value: Value = serde_json::from_str(text).ok()?;
        let number = |key: &str| value[key].as_u64().unwrap_or(0);
        let caller = |value: &Value| {
            Some(WaitingCaller {
                name: value["name"].as_str()?.to_string(),
                waits: value["waits"].as_u64()?,
                wait_ns: value["wait_ns"].as_u64()?,
            })
        };
        let callers = value["callers"].as_array().into_iter().flatten();
        Some(WaitsOnly {
            duration_ns: value["duration_ns"].as_u64()?,
            of_others: number("of_others"),
            of_unknown: number("of_unknown"),
            callers: callers.filter_map(caller).collect(),
        })
    }

    /// Returns it as an entry of a trace's metadata.
    pub fn entry(&self) -> (String, String) {
        let caller = |own: &WaitingCaller| json!({ "name": own.name, "waits": own.waits, "wait_ns": own.wait_ns });
        let value = json!({
            "duration_ns": self.duration_ns,
            "of_others": self.of_others,
            "of_unknown": self.of_unknown,
            "callers": self.callers.iter().map(caller).collect::<Vec<_>>(),
        });
        (KEY.to_string(), value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written() {
        let own = WaitsOnly {
            duration_ns: 10_000_000_000,
            of_others: 7,
            of_unknown: 2,
            callers: vec![WaitingCaller {
                name: "rmqueue_bulk".to_string(),
                waits: 3,
                wait_ns: 5_000,
            }],
        };
        let of = |text: &str| {
            WaitsOnly::of(&Trace {
                metadata: vec![(KEY.to_string(), text.to_string())],
                ..Trace::default()
            })
        };
        assert_eq!(of(&own.entry().1), Some(own));
        assert_eq!(WaitsOnly::of(&Trace::default()), None);
        for text in ["", "[]", "{}", "{\"duration_ns\": -1}"] {
            assert_eq!(of(text), None, "{text}");
        }
        let least = of("{\"duration_ns\": 5, \"callers\": [3, {\"name\": \"x\"}]}").unwrap();
        assert_eq!((least.duration_ns, least.callers.len()), (5, 0));
    }
}
