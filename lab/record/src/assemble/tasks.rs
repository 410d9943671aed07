//! The tree of tasks: which tasks belong to the trace, and what each is doing.
//!
//! An allocation says only which thread called: whether it counts, what for, and
//! in which address space follows from what that thread and its makers did before.
//!
//! # Invariants
//! A task's process, once told, is never changed; entries are never removed, so that
//! the frees of a task that has exited still find it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Scope;
use super::spaces::SpaceId;
use crate::kernel::KernelEvent;
use everybuddy_trace::{Context, Event};

/// The position of a task in the list of all tasks.
pub(super) type TaskId = usize;

/// A thread of the trace.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// Number of the thread.
    pub(super) tid: u32,
    /// The number of the thread that created it; 0 if unknown.
    pub(super) parent: u32,
    /// Process that it belongs to.
    pub(super) tgid: u32,
    /// The time when it was created or first seen, in nanoseconds on the source's clock.
    pub(super) start_ns: u64,
    /// The time of its exit.
    pub(super) exit_ns: Option<u64>,
    /// The file name of its program; empty if unknown.
    pub(super) program: Arc<str>,
    /// Its address space; `None` after its exit.
    pub(super) space: Option<SpaceId>,
    /// Its current activity.
    pub(super) doing: Doing,
}

/// The activity of a task: its last fault, system call or exit.
#[derive(Clone, Debug, Default)]
pub(super) struct Doing {
    /// The kind of activity.
    pub(super) context: Context,
    /// Last system call.
    pub(super) number: Option<u64>,
    /// Its arguments.
    pub(super) arguments: [u64; 6],
    /// Address of the last fault.
    pub(super) address: u64,
    /// Number of the last fault.
    pub(super) fault: u32,
    /// Whether it has started to exit.
    pub(super) is_exiting: bool,
}

impl Doing {
    /// Returns the system call for an event in `context`.
    pub(super) fn sysno(&self, context: Context) -> u16 {
        let number = match context {
            Context::SystemCall | Context::KernelFault => self.number,
            _ => None,
        };
        number
            .and_then(|number| u16::try_from(number).ok())
            .unwrap_or(Event::NO_SYSTEM_CALL)
    }

    /// Records that the page of a fault in the kernel is present: the following events belong to the system call again.
    pub(super) fn fault_served(&mut self) {
        if self.context == Context::KernelFault {
            self.context = match self.number {
                Some(_) => Context::SystemCall,
                None => Context::Unknown,
            };
        }
    }
}

/// All tasks of the trace.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    scope: Scope,
    list: Vec<Task>,
    by_tid: HashMap<u32, TaskId>,
    /// Threads that are never added.
    left_out: HashSet<u32>,
}

impl Tasks {
    /// Creates an empty list.
    pub(super) fn new(scope: Scope) -> Tasks {
        Tasks {
            scope,
            ..Tasks::default()
        }
    }

    /// Finds the task of an event. Returns `None` if it is not in the trace.
    pub(super) fn find(&self, event: &KernelEvent) -> Option<TaskId> {
        self.by_tid.get(&event.tid).copied()
    }

    /// Excludes threads for good.
    pub(super) fn leave_out(&mut self, tids: &[u32]) {
        self.left_out.extend(tids);
    }

    /// Returns `true` if an unknown task belongs to the trace.
    pub(super) fn admits(&self, tid: u32, tgid: Option<u32>) -> bool {
        if self.left_out.contains(&tid) {
            return false;
        }
        match self.scope {
            Scope::Everything => true,
            Scope::Tree { root } => tid == root || tgid == Some(root),
        }
    }

    /// Finds a task by its number.
    pub(super) fn by_tid(&self, tid: u32) -> Option<TaskId> {
        self.by_tid.get(&tid).copied()
    }

    /// Adds a task, and replaces one with the same number whose exit was not observed.
    pub(super) fn add(
        &mut self,
        tid: u32,
        tgid: u32,
        parent: u32,
        start_ns: u64,
        program: Arc<str>,
        space: SpaceId,
    ) -> TaskId {
        let id = self.list.len();
        self.list.push(Task {
            tid,
            parent,
            tgid,
            start_ns,
            exit_ns: None,
            program,
            space: Some(space),
            doing: Doing::default(),
        });
        self.by_tid.insert(tid, id);
        id
    }

    /// Returns a task.
    pub(super) fn get(&self, id: TaskId) -> &Task {
        &self.list[id]
    }

    /// Returns a task for modification.
    pub(super) fn get_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.list[id]
    }

    /// Returns all tasks, in the order in which they became known.
    pub(super) fn list(&self) -> &[Task] {
        &self.list
    }
}
