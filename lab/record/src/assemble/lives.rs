//! The other activities of tasks: faults, system calls, forks, execs, exits.
//!
//! All of it explains allocations: what they are for, and for which address region.
//!
//! # Invariants
//! A task that has begun to exit does nothing else any more.

use std::sync::Arc;

use super::tasks::{Task, TaskId};
use super::{Assembly, program_name};
use crate::kernel::{KernelEvent, What};
use everybuddy_trace::Context;

/// Flag of clone: the new task shares its creator's address space.
const CLONE_VM: u64 = 0x100;

/// System calls that affect address regions and exits, by their x86-64 numbers.
mod number {
    pub(super) const MMAP: u64 = 9;
    pub(super) const MUNMAP: u64 = 11;
    pub(super) const BRK: u64 = 12;
    pub(super) const MREMAP: u64 = 25;
    pub(super) const EXIT: u64 = 60;
    pub(super) const EXIT_GROUP: u64 = 231;
}

impl Assembly {
    /// Handles a fault: a task accessed memory that was not mapped.
    pub(super) fn fault(&mut self, task: Option<TaskId>, address: u64, is_user: bool) {
        if is_user {
            self.accounts.user_faults_seen += 1
        } else {
            self.accounts.kernel_faults_seen += 1
        }
        let Some(task) = task else { return };
        let doing = &mut self.tasks.get_mut(task).doing;
        if !doing.is_exiting {
            // 0 means that the number is unknown.
            self.fault = self.fault.checked_add(1).unwrap_or(1);
            (doing.address, doing.fault) = (address, self.fault);
            doing.context = if is_user {
                Context::UserFault
            } else {
                Context::KernelFault
            };
        }
    }

    /// Handles the entry into a system call.
    pub(super) fn enter(&mut self, task: Option<TaskId>, number: u64, arguments: [u64; 6]) {
        self.accounts.system_calls_seen += 1;
        let Some(task) = task else { return };
        let task = self.tasks.get_mut(task);
        if task.doing.is_exiting {
            return;
        }
        (task.doing.number, task.doing.arguments) = (Some(number), arguments);
        task.doing.context = Context::SystemCall;
        // Kernels before 6.16 report the exit of a task after its memory was freed.
        if matches!(number, number::EXIT | number::EXIT_GROUP) {
            begin_exit(task);
        }
    }

    /// Handles the return from a system call, which may have changed the address space.
    pub(super) fn leave(&mut self, task: Option<TaskId>, number: u64, result: i64) {
        self.accounts.system_call_ends_seen += 1;
        let Some(task) = task else { return };
        let task = self.tasks.get_mut(task);
        if task.doing.is_exiting || task.doing.number != Some(number) {
            return;
        }
        task.doing.context = Context::Unknown;
        let (Some(space), Ok(result)) = (task.space, u64::try_from(result)) else {
            return;
        };
        let (arguments, now_ns) = (&task.doing.arguments, self.now_ns);
        match number {
            number::MMAP => self.spaces.map(space, result, arguments, now_ns),
            number::MUNMAP => self.spaces.unmap_call(space, arguments),
            number::BRK => self.spaces.set_break(space, result, now_ns),
            number::MREMAP => self.spaces.remap(space, result, arguments, now_ns),
            _ => {}
        }
    }

    /// Handles the creation of a task.
    pub(super) fn new_task(
        &mut self,
        event: &KernelEvent,
        maker: Option<TaskId>,
        tid: u32,
        flags: u64,
    ) {
        self.accounts.new_tasks_seen += 1;
        let is_thread = flags & What::CLONE_THREAD != 0;
        if maker.is_none() && !self.tasks.admits(tid, None) {
            return;
        }
        self.begin_ns.get_or_insert(self.now_ns);
        let made = maker.map(|maker| self.tasks.get(maker));
        let program = made.map_or_else(|| Arc::from(""), |made| Arc::clone(&made.program));
        let tgid = made.filter(|_| is_thread).map_or(tid, |made| made.tgid);
        let space = match made.and_then(|made| made.space) {
            Some(space) if flags & CLONE_VM != 0 => self.spaces.join(space),
            Some(space) => {
                let (space, is_whole) = self.spaces.fork(space, tgid, self.now_ns);
                self.accounts.forks_without_regions += u64::from(!is_whole);
                space
            }
            None => self.spaces.create(tgid, self.now_ns),
        };
        // The exit of a task with this number was not recorded.
        if let Some(old) = self.tasks.by_tid(tid)
            && let Some(space) = self.tasks.get_mut(old).space.take()
        {
            self.spaces.leave(space);
        }
        self.tasks
            .add(tid, tgid, event.tid, self.now_ns, program, space);
    }

    /// Handles an exec: the task starts another program in an empty address space.
    pub(super) fn exec(&mut self, task: Option<TaskId>, program: &str) {
        self.accounts.execs_seen += 1;
        let Some(task) = task else { return };
        let task = self.tasks.get_mut(task);
        task.program = program_name(program);
        if let Some(space) = task.space.take() {
            self.spaces.leave(space);
        }
        task.space = Some(self.spaces.create(task.tgid, self.now_ns));
    }

    /// Handles an exit: the task's memory is released, and its later frees are caused by the exit.
    pub(super) fn exit(&mut self, task: Option<TaskId>) {
        self.accounts.exits_seen += 1;
        let Some(task) = task else { return };
        let task = self.tasks.get_mut(task);
        task.exit_ns = Some(self.now_ns);
        begin_exit(task);
        if let Some(space) = task.space.take() {
            self.spaces.leave(space);
        }
    }
}

/// Records that a task has started to exit: from now on it has no other activity.
fn begin_exit(task: &mut Task) {
    task.doing.is_exiting = true;
    task.doing.context = Context::Exiting;
}
