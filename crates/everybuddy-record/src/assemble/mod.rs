//! Makes a trace of the events of a kernel.
//!
//! Exists so that a recording, a perf.data and a text become the same trace by the same rules.
//! Kept is each block that a task of the tree allocates, and its free, whoever calls that. Recordings
//! lose events and are cut, so what comes in may contradict itself; what comes out never does.
//!
//! | room | its question |
//! |------|--------------|
//! | `blocks` | what is kept of an allocation or a free? |
//! | `lives` | what do faults, system calls, forks and exits mean? |
//! | `tasks` | who belongs to the trace, and what is each doing? |
//! | `spaces` | what lies at the address of a fault? |
//! | `calls` | what do mmap, munmap, brk and mremap change there? |
//! | `owners` | which frames live, and which allocation gave them? |
//! | `window` | do the frames lie close enough together for a trace? |
//! | `metadata` | what does the file say about itself? |
//! | `accounts` | what was left out or inferred? |
//!
//! Invariant: the events so far replay by themselves, whatever was pushed: time never falls, no
//! live frame is allocated, every free lies inside of a live block. Memory depends on the number
//! of events, never on the numbers in them.

mod accounts;
mod blocks;
mod calls;
mod lives;
mod metadata;
mod owners;
mod spaces;
mod tasks;
mod window;

use std::path::Path;
use std::sync::Arc;

pub use accounts::Accounts;
pub use spaces::KnownRegion;

use self::owners::Owners;
use self::spaces::Spaces;
use self::tasks::{Task, TaskId, Tasks};
use crate::kernel::{KernelEvent, What};
use everybuddy_trace::{Event, Fault, LARGEST_ORDER, Trace};

/// Whose allocations a trace keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of one process and all its descendants.
    Tree {
        /// The process.
        root: u32,
    },
    /// Everybody's.
    Everything,
}

/// A process that was there before the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownProcess {
    /// The process.
    pub tgid: u32,
    /// Who made it; 0 when unknown.
    pub parent: u32,
    /// Its program; empty when unknown.
    pub program: String,
    /// Its threads, with or without the one of the process's own number.
    pub threads: Vec<u32>,
    /// Its address regions, by rising address.
    pub regions: Vec<KnownRegion>,
}

/// A trace in the making.
///
/// Takes less than a microsecond for each event, 40 bytes for each call that is kept, 16 more for each
/// that a fault led to, and about 100 bytes for each region and task.
#[derive(Debug)]
pub struct Assembly {
    tasks: Tasks,
    spaces: Spaces,
    owners: Owners,
    events: Vec<Event>,
    faults: Vec<Fault>,
    accounts: Accounts,
    /// Zero of the trace's time: the first event of a task of the tree.
    begin_ns: Option<u64>,
    now_ns: u64,
    /// Number of the last fault.
    fault: u32,
}

/// A trace, and how it came about.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The trace: it replays by itself. Without events where nothing was kept; such a trace can't
    /// be read again, since reading refuses a file without rows.
    pub trace: Trace,
    /// What was seen, left out and inferred.
    pub accounts: Accounts,
}

impl Assembly {
    /// Begins a trace.
    pub fn new(scope: Scope) -> Assembly {
        Assembly {
            tasks: Tasks::new(scope),
            spaces: Spaces::default(),
            owners: Owners::default(),
            events: Vec::new(),
            faults: Vec::new(),
            accounts: Accounts::default(),
            begin_ns: None,
            now_ns: 0,
            fault: 0,
        }
    }

    /// Has threads not belong to the trace, whatever its scope: those that record.
    ///
    /// For before the first [`push`](Assembly::push).
    pub fn leave_out(&mut self, threads: &[u32]) {
        self.tasks.leave_out(threads);
    }

    /// Tells of a process that was there before the first event: its threads and address regions.
    ///
    /// For all that a source knows of, before the first [`push`](Assembly::push); one that does
    /// not belong to the scope is passed over.
    pub fn know(&mut self, process: &KnownProcess) {
        if !self.tasks.admits(process.tgid, Some(process.tgid)) {
            return;
        }
        let space = self.spaces.create(process.tgid, 0);
        for region in &process.regions {
            self.spaces.know(space, region);
        }
        let program = program_name(&process.program);
        let others = process.threads.iter().filter(|tid| **tid != process.tgid);
        for tid in std::iter::once(&process.tgid).chain(others) {
            let space = self.spaces.join(space);
            let (tgid, parent) = (process.tgid, process.parent);
            self.tasks
                .add(*tid, tgid, parent, 0, Arc::clone(&program), space);
        }
        self.spaces.leave(space);
    }

    /// Takes the next event. Events come in order of time, those of the same time in the order in
    /// which they happened.
    ///
    /// One that comes with an earlier time than one before gets that one's time, and is counted
    /// in [`Accounts::early`].
    pub fn push(&mut self, event: KernelEvent) {
        if event.time_ns < self.now_ns {
            self.accounts.early += 1;
        }
        self.now_ns = self.now_ns.max(event.time_ns);
        let task = self.find(&event);
        if task.is_some() && self.begin_ns.is_none() {
            self.begin_ns = Some(self.now_ns);
        }
        match event.what {
            What::Allocate { pfn, order, .. } => {
                self.accounts.allocations_seen += 1;
                if let Some(order) = self.check_shape(pfn, order) {
                    self.allocate(&event, pfn, order, task);
                }
            }
            What::Free { pfn, order } => {
                self.accounts.frees_seen += 1;
                if let Some(order) = self.check_shape(pfn, order) {
                    self.free(&event, pfn, order, task);
                }
            }
            What::Refuse { .. } => {
                self.accounts.refusals_seen += 1;
                self.accounts.refusals += u64::from(task.is_some());
            }
            What::Fault { address, is_user } => self.fault(task, address, is_user),
            What::SystemCall { number, arguments } => self.enter(task, number, arguments),
            What::SystemCallEnd { number, result } => self.leave(task, number, result),
            What::NewTask {
                tid, clone_flags, ..
            } => {
                self.new_task(&event, task, tid, clone_flags);
            }
            What::Exec { program } => self.exec(task, &program),
            What::Exit => self.exit(task),
        }
    }

    /// Ends the trace, which gets a name.
    ///
    /// Frames that lie too far from the others for a trace, which can only be damage, are left out
    /// here and counted in [`Accounts::too_far`].
    pub fn finish(mut self, name: &str) -> Assembled {
        let begin_ns = self.begin_ns.unwrap_or(0);
        self.accounts.too_far = window::narrow(&mut self.events, &mut self.faults);
        let is_process = |task: &&Task| task.tid == task.tgid;
        self.accounts.tasks = self.tasks.list().len() as u64;
        self.accounts.processes = self.tasks.list().iter().filter(is_process).count() as u64;
        let regions = self.spaces.into_regions(begin_ns);
        self.accounts.regions = regions.len() as u64;
        let mut trace = Trace {
            name: name.to_string(),
            events: self.events,
            regions,
            faults: self.faults,
            metadata: Vec::new(),
        };
        trace.metadata = metadata::of(&trace, &self.accounts, self.tasks.list(), begin_ns);
        Assembled {
            trace,
            accounts: self.accounts,
        }
    }

    /// Finds the task of an event; one that belongs to the trace and was not known is, from now.
    fn find(&mut self, event: &KernelEvent) -> Option<TaskId> {
        if let Some(task) = self.tasks.find(event) {
            return Some(task);
        }
        if !self.tasks.admits(event.tid, event.tgid) {
            return None;
        }
        let (tid, tgid) = (event.tid, event.tgid.unwrap_or(event.tid));
        let leader = self.tasks.by_tid(tgid).map(|leader| self.tasks.get(leader));
        let (space, program) = match leader.map(|leader| (leader.space, &leader.program)) {
            Some((Some(space), program)) => (self.spaces.join(space), Arc::clone(program)),
            _ => (self.spaces.create(tgid, self.now_ns), Arc::from("")),
        };
        Some(self.tasks.add(tid, tgid, 0, self.now_ns, program, space))
    }

    /// Checks that a block can be one.
    fn check_shape(&mut self, pfn: u64, order: u32) -> Option<u8> {
        let known = u8::try_from(order)
            .ok()
            .filter(|order| *order <= LARGEST_ORDER);
        let Some(order) = known else {
            self.accounts.odd_orders += 1;
            return None;
        };
        if pfn & ((1 << order) - 1) != 0 {
            self.accounts.misaligned += 1;
            return None;
        }
        Some(order)
    }
}

/// Returns the file name of a program: where it lies is its user's business.
fn program_name(path: &str) -> Arc<str> {
    let name = Path::new(path).file_name();
    Arc::from(name.map_or(path.into(), |name| name.to_string_lossy()))
}
