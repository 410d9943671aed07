//! The processes of a trace.
//!
//! Calls contain only their thread. The metadata `processes` contains the process of each thread and its program.
//!
//! # Invariants
//! Unreadable entries are skipped; a trace without such metadata has no processes.

use std::collections::{BTreeSet, HashMap};

use everybuddy_trace::Trace;
use serde_json::Value;

/// A thread of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thread {
    tid: u32,
    tgid: u32,
    program: String,
}

/// The threads of a trace, each with its process and program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes {
    threads: Vec<Thread>,
}

impl Processes {
    /// Reads the metadata of a trace. Returns `None` if it contains no processes.
    pub fn of(trace: &Trace) -> Option<Processes> {
        let thread = |(tid, tgid, program): (u32, Option<u32>, String)| {
            let tgid = tgid?;
            Some(Thread { tid, tgid, program })
        };
        let threads: Vec<Thread> = threads(trace)?.into_iter().filter_map(thread).collect();
        (!threads.is_empty()).then_some(Processes { threads })
    }

    /// Returns the threads of a process.
    pub fn threads(&self, tgid: u32) -> BTreeSet<u32> {
        self.select(|thread| thread.tgid == tgid)
    }

    /// Returns the threads of all processes of a program.
    pub fn of_program(&self, program: &str) -> BTreeSet<u32> {
        let runs_it = |thread: &Thread| thread.program == program;
        let tgids: BTreeSet<u32> = self
            .threads
            .iter()
            .filter(|t| runs_it(t))
            .map(|t| t.tgid)
            .collect();
        self.select(|thread| runs_it(thread) || tgids.contains(&thread.tgid))
    }

    /// Returns the names of all programs.
    pub fn programs(&self) -> BTreeSet<&str> {
        self.threads
            .iter()
            .map(|thread| thread.program.as_str())
            .collect()
    }

    fn select(&self, wanted: impl Fn(&Thread) -> bool) -> BTreeSet<u32> {
        self.threads
            .iter()
            .filter(|thread| wanted(thread))
            .map(|thread| thread.tid)
            .collect()
    }
}

/// Returns the program of each thread of a trace, without its folder; empty if the trace contains none.
pub fn programs(trace: &Trace) -> HashMap<u32, String> {
    let threads = threads(trace).into_iter().flatten();
    let named = threads.map(|(tid, _, path)| {
        let name = path.rsplit('/').next().unwrap_or(&path);
        (tid, name.to_string())
    });
    named.collect()
}

/// Reads the threads of a trace, each with its process, if it is known, and its program.
fn threads(trace: &Trace) -> Option<Vec<(u32, Option<u32>, String)>> {
    let (_, text) = trace.metadata.iter().find(|(key, _)| key == "processes")?;
    let value: Value = serde_json::from_str(text).ok()?;
    let columns = value["cols"].as_array()?;
    let column = |name: &str| columns.iter().position(|column| column == name);
    let (tid, tgid) = (column("pid")?, column("tgid"));
    let program = column("exe").or(column("program"))?;
    let read = |row: &Value| {
        let tgid = tgid.and_then(|tgid| number(row.get(tgid)?));
        let program = row.get(program)?.as_str()?.to_string();
        Some((number(row.get(tid)?)?, tgid, program))
    };
    Some(value["rows"].as_array()?.iter().filter_map(read).collect())
}

/// Parses a number, which may be stored as text.
fn number(value: &Value) -> Option<u32> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => u32::try_from(value.as_u64()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_belong_to_processes_and_programs() {
        let text = r#"{"cols":["pid","ppid","tgid","exe"],
            "rows":[["7","1","7","cc1"],["8","1","7",""],[9,1,9,"as"]]}"#;
        let trace = Trace {
            metadata: vec![("processes".into(), text.into())],
            ..Trace::default()
        };
        let processes = Processes::of(&trace).unwrap();
        assert_eq!(processes.threads(7), BTreeSet::from([7, 8]));
        assert_eq!(processes.of_program("cc1"), BTreeSet::from([7, 8]));
        assert_eq!(processes.programs(), BTreeSet::from(["", "as", "cc1"]));
        assert_eq!(Processes::of(&Trace::default()), None);
    }
}
