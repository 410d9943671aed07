//! The processes of a trace, and the owners of its blocks.
//!
//! Calls contain only their thread. The metadata `processes` contains the process of each thread and its program.
//!
//! # Invariants
//! Unreadable entries are skipped; a trace without such metadata has no processes. Every block has one owner.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::model::{Event, Op, Trace};
use crate::named;

named! {
    /// What the owner of a block is: the finest that the trace records of whose memory it is.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum OwnerKind {
        /// The process of the thread that allocated it.
        #[default]
        Process => "process",
        /// That thread: its process is not recorded.
        Thread => "thread",
        /// The CPU that allocated it, and the second: no thread is recorded.
        CpuAndSecond => "CPU and second",
    }
}

/// The owners of a trace's blocks. The page cache belongs to the process that read the file, and a page table to the
/// one whose addresses it maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// What an owner is.
    pub kind: OwnerKind,
    /// The owner of each block, by the number of the block: from 0 on, without gaps.
    pub of_block: Vec<u32>,
}

impl Owners {
    /// Determines the owners of all blocks. O(events).
    pub fn of(trace: &Trace) -> Owners {
        let threads = threads(trace).into_iter().flatten();
        let known = threads.filter_map(|(tid, tgid, _)| Some((tid, tgid?)));
        let processes: HashMap<u32, u32> = known.collect();
        let kind = match trace.events.iter().any(|event| event.pid != 0) {
            _ if !processes.is_empty() => OwnerKind::Process,
            true => OwnerKind::Thread,
            false => OwnerKind::CpuAndSecond,
        };
        let key = |event: &Event| match kind {
            // A thread that is not listed is a process of its own.
            OwnerKind::Process => match processes.get(&event.pid) {
                Some(tgid) => (0, u64::from(*tgid)),
                None => (1, u64::from(event.pid)),
            },
            OwnerKind::Thread => (0, u64::from(event.pid)),
            OwnerKind::CpuAndSecond => (event.cpu, event.time_ns / 1_000_000_000),
        };
        let mut numbers: HashMap<(u16, u64), u32> = HashMap::new();
        let allocations = trace.events.iter().filter(|event| event.op == Op::Allocate);
        let of_block = allocations.map(|event| {
            let next = numbers.len() as u32;
            *numbers.entry(key(event)).or_insert(next)
        });
        Owners {
            of_block: of_block.collect(),
            kind,
        }
    }
}

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
    fn a_block_belongs_to_the_finest_owner_that_is_recorded() {
        let second = 1_000_000_000;
        let events = [(0, 0, 7), (1, 0, 8), (2, 1, 9), (second, 1, 5)];
        let events = (0..)
            .zip(events)
            .map(|(at, (time_ns, cpu, pid))| Event::new(time_ns, cpu, pid, Op::Allocate, at, 0));
        let mut trace = Trace {
            events: events.collect(),
            ..Trace::default()
        };
        trace.events.push(Event::new(second, 1, 7, Op::Free, 0, 0));
        let mut owners = |processes: &str, pids: u32| {
            trace.metadata = vec![("processes".into(), processes.into())];
            trace.events.iter_mut().for_each(|event| event.pid *= pids);
            let owners = Owners::of(&trace);
            (owners.kind, owners.of_block)
        };
        // The thread 5 is not listed, and is not the process 5.
        let listed = r#"{"cols":["pid","tgid","exe"],"rows":[[7,7,"a"],[8,7,"a"],[9,5,"b"]]}"#;
        assert_eq!(owners(listed, 1), (OwnerKind::Process, vec![0, 0, 1, 2]));
        let programs = r#"{"cols":["pid","exe"],"rows":[[7,"a"]]}"#;
        assert_eq!(owners(programs, 1), (OwnerKind::Thread, vec![0, 1, 2, 3]));
        let none = (OwnerKind::CpuAndSecond, vec![0, 0, 1, 2]);
        assert_eq!(owners("{", 0), none);
    }

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
