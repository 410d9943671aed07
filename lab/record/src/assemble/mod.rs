//! Assembles a trace from the events of a kernel.
//!
//! A recording, a perf.data file and a text become the same trace by the same rules. The trace keeps every block that
//! a task of the tree allocates, and its free, whichever task makes it. Recordings lose events and are truncated, so
//! the input may be inconsistent; the output never is.
//!
//! | module | contents |
//! |------|--------------|
//! | `blocks` | the allocations and frees of the trace |
//! | `lives` | the effects of faults, system calls, forks and exits |
//! | `tasks` | the tasks of the trace, and their activity |
//! | `spaces` | the region of an address |
//! | `calls` | the effects of mmap, munmap, brk and mremap on regions |
//! | `owners` | the live frames, and their allocations |
//! | `locks` | the acquisitions of the zone's lock |
//! | `window` | the limit on the distance of frames |
//! | `metadata` | the metadata of the file |
//! | `accounts` | counts of omitted and inferred events |
//!
//! # Invariants
//! The events so far replay by themselves, whatever was pushed: time never decreases, no live frame is allocated, every
//! free is inside a live block. Memory consumption depends on the number of events, never on the numbers in them.

mod accounts;
mod blocks;
mod calls;
mod lives;
mod locks;
mod metadata;
mod owners;
mod spaces;
mod tasks;
mod window;

use std::path::Path;
use std::sync::Arc;

pub use accounts::Accounts;
pub use spaces::KnownRegion;

use self::locks::{Locks, Moment};
use self::owners::Owners;
use self::spaces::Spaces;
use self::tasks::{Task, TaskId, Tasks};
use crate::kernel::{KernelEvent, What};
use everybuddy_trace::{Event, Fault, LARGEST_ORDER, Trace, WaitsOnly};

/// The tasks whose allocations a trace keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// One process and all its descendants.
    Tree {
        /// The process.
        root: u32,
    },
    /// All tasks.
    #[default]
    Everything,
}

/// A process that existed before the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownProcess {
    /// The process.
    pub tgid: u32,
    /// Its parent; 0 if unknown.
    pub parent: u32,
    /// Its program; empty if unknown.
    pub program: String,
    /// Its threads, with or without the one that has the process's number.
    pub threads: Vec<u32>,
    /// Its address regions, sorted by address.
    pub regions: Vec<KnownRegion>,
}

/// A trace under construction.
///
/// # Complexity
///
/// Less than a microsecond per event; 40 bytes per kept call, 16 more per call caused by a fault, and about 100 bytes
/// per region and task.
#[derive(Debug, Default)]
pub struct Assembly {
    tasks: Tasks,
    spaces: Spaces,
    owners: Owners,
    events: Vec<Event>,
    faults: Vec<Fault>,
    locks: Locks,
    accounts: Accounts,
    /// The zero of the trace's time: the first event of a task of the tree.
    begin_ns: Option<u64>,
    now_ns: u64,
    /// The number of the last fault.
    fault: u32,
    /// The begin and the end of a recording of waits alone, on the source's clock.
    waits_only: Option<[u64; 2]>,
}

/// A trace, and how it was made.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The trace, which replays by itself. It has no events if none were kept; such a trace cannot be read again,
    /// unless it contains only waits for zones' locks ([`WaitsOnly`]).
    pub trace: Trace,
    /// Counts of events seen, omitted and inferred.
    pub accounts: Accounts,
}

impl Assembly {
    /// Starts a trace.
    pub fn new(scope: Scope) -> Assembly {
        Assembly {
            tasks: Tasks::new(scope),
            ..Assembly::default()
        }
    }

    /// Excludes threads from the trace, whatever its scope: those that make the recording.
    ///
    /// Call this before the first [`push`](Assembly::push).
    pub fn leave_out(&mut self, threads: &[u32]) {
        self.tasks.leave_out(threads);
    }

    /// Names the addresses of zones' locks as the source prints them, if its call chains do not show them.
    ///
    /// Call this before the first [`push`](Assembly::push).
    pub fn name_zone_locks(&mut self, addresses: &[u64]) {
        self.locks.name(addresses);
    }

    /// Restricts the trace to waits for zones' locks, recorded from one time to another on the source's clock.
    /// Without this, a source that has events of locks and none of the page allocator gives such a trace, too.
    ///
    /// Call this before the first [`push`](Assembly::push).
    pub fn keep_waits_only(&mut self, from_ns: u64, to_ns: u64) {
        self.begin_ns = Some(from_ns);
        self.waits_only = Some([from_ns, to_ns]);
    }

    /// Registers a process that existed before the first event, with its threads and address regions.
    ///
    /// Call this for all processes that a source knows, before the first [`push`](Assembly::push). A process outside
    /// the scope is ignored.
    pub fn register_known(&mut self, process: &KnownProcess) {
        if !self.tasks.admits(process.tgid, Some(process.tgid)) {
            return;
        }
        let space = self.spaces.create(process.tgid, 0);
        for region in &process.regions {
            self.spaces.register_known(space, region);
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

    /// Adds the next event. Events must be sorted by time, and events with equal times in the order in which they
    /// happened.
    ///
    /// An event with an earlier time than a previous one receives the time of that event, and is counted in
    /// [`Accounts::early`].
    pub fn push(&mut self, event: KernelEvent) {
        if event.time_ns < self.now_ns {
            self.accounts.early += 1;
        }
        self.now_ns = self.now_ns.max(event.time_ns);
        let is_known = self.tasks.find(&event).is_some();
        let at = Moment {
            time_ns: self.now_ns,
            cpu: event.cpu,
            tid: event.tid,
            is_own: is_known || self.tasks.admits(event.tid, event.tgid),
        };
        self.locks.push(at, &event.what, &mut self.accounts);
        if event.what.is_of_lock() || matches!(event.what, What::Lost { .. }) {
            // A thread that only waits makes no calls, and is not yet a task of the trace.
            return;
        }
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
            What::Free { pfn, order } | What::FreeReport { pfn, order } => {
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
            // All others are about locks.
            _ => {}
        }
    }

    /// Finishes the trace and names it.
    ///
    /// If the machine's memory lies farther apart than a trace spans, its parts are moved together here; the metadata
    /// `parts` say where they were. Frames that no span has are omitted and counted in [`Accounts::too_far`].
    pub fn finish(mut self, name: &str) -> Assembled {
        let begin_ns = self.begin_ns.or(self.locks.begin_ns()).unwrap_or(0);
        let narrowed = window::narrow(&mut self.events, &mut self.faults);
        self.accounts.too_far = narrowed.too_far;
        self.accounts.moved = narrowed.moved;
        let is_process = |task: &&Task| task.tid == task.tgid;
        self.accounts.tasks = self.tasks.list().len() as u64;
        self.accounts.processes = self.tasks.list().iter().filter(is_process).count() as u64;
        let regions = self.spaces.into_regions(begin_ns);
        self.accounts.regions = regions.len() as u64;
        let (acquisitions, callers) = self.locks.finish(begin_ns, &mut self.accounts);
        let mut trace = Trace {
            name: name.to_string(),
            events: self.events,
            regions,
            faults: self.faults,
            acquisitions,
            metadata: Vec::new(),
        };
        trace.metadata = metadata::of(&trace, &self.accounts, self.tasks.list(), begin_ns);
        trace.metadata.extend(narrowed.entry());
        if let Some([from_ns, to_ns]) = self
            .waits_only
            .or(has_only_waits(&self.accounts).then_some([begin_ns, self.now_ns]))
        {
            let waits_only = WaitsOnly {
                duration_ns: to_ns.saturating_sub(from_ns),
                of_others: self.accounts.waits_for_others,
                of_unknown: self.accounts.waits_of_unknown_locks,
                callers,
            };
            trace.metadata.push(waits_only.entry());
        }
        Assembled {
            trace,
            accounts: self.accounts,
        }
    }

    /// Finds the task of an event. An unknown task that belongs to the trace is added.
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

    /// Checks that a block is valid.
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

/// Returns `true` if a source reported locks and no calls of the page allocator.
fn has_only_waits(accounts: &Accounts) -> bool {
    let calls = accounts.allocations_seen + accounts.frees_seen + accounts.refusals_seen;
    calls == 0 && accounts.lock_events_seen > 0
}

/// Returns the file name of a program; its directory is private to the user.
fn program_name(path: &str) -> Arc<str> {
    let name = Path::new(path).file_name();
    Arc::from(name.map_or(path.into(), |name| name.to_string_lossy()))
}
