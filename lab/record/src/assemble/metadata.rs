//! The metadata of a trace file: its counts and its processes, as JSON.
//!
//! A trace explains itself years later, without its author.
//!
//! # Invariants
//! Times are relative to the trace's begin, as in its rows; -1 stands for no exit.

use serde_json::{Map, Value, json};

use super::accounts::Accounts;
use super::tasks::Task;
use everybuddy_trace::{Op, Trace};

/// Creates the entries `stats` and `processes`.
pub(super) fn of(
    trace: &Trace,
    accounts: &Accounts,
    tasks: &[Task],
    begin_ns: u64,
) -> Vec<(String, String)> {
    let entry = |key: &str, value: Value| (key.to_string(), value.to_string());
    vec![
        entry("stats", stats(trace, accounts)),
        entry("processes", processes(tasks, begin_ns)),
    ]
}

fn stats(trace: &Trace, accounts: &Accounts) -> Value {
    let allocations = trace
        .events
        .iter()
        .filter(|event| event.op == Op::Allocate)
        .count();
    let counts: Map<String, Value> = accounts
        .iter()
        .map(|(field, _, count)| (field.to_string(), count.into()))
        .collect();
    json!({
        "name": trace.name,
        "events": trace.events.len(),
        "allocs": allocations,
        "frees": trace.events.len() - allocations,
        "duration_s": trace.events.last().map_or(0, |event| event.time_ns) as f64 / 1e9,
        "peak_live_frames": accounts.peak_frames,
        "accounts": counts,
    })
}

/// Creates a table with one row per task; threads have their process as `tgid`.
fn processes(tasks: &[Task], begin_ns: u64) -> Value {
    let since = |time_ns: u64| time_ns.saturating_sub(begin_ns);
    let row = |task: &Task| {
        let exit = task.exit_ns.map_or(json!(-1), |exit| json!(since(exit)));
        json!([
            task.tid,
            task.parent,
            task.tgid,
            since(task.start_ns),
            exit,
            *task.program
        ])
    };
    json!({
        "cols": ["pid", "ppid", "tgid", "start_ns", "exit_ns", "exe"],
        "rows": tasks.iter().map(row).collect::<Vec<_>>(),
    })
}
