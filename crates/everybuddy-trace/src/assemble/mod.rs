//! Makes a trace of the events of a kernel.
//!
//! Exists so that a recording, a perf.data and a text become the same trace by the same rules.
//! Kept is each block that a task of the tree allocates, and its free, whoever calls that. Recordings
//! lose events and are cut, so what comes in may contradict itself; what comes out never does.
//!
//! | room | its question |
//! |------|--------------|
//! | `tasks` | who belongs to the trace, and what is each doing? |
//! | `spaces` | what lies at the address of a fault? |
//! | `owners` | which frames live, and which allocation gave them? |
//! | `window` | do the frames lie close enough together for a trace? |
//! | `metadata` | what does the file say about itself? |
//! | `accounts` | what was left out or inferred? |
//!
//! Invariant: the events so far replay by themselves, whatever was pushed: time never falls, no
//! live frame is allocated, every free lies inside of a live block. Memory depends on the number
//! of events, never on the numbers in them.

mod accounts;
mod metadata;
mod owners;
mod spaces;
mod tasks;
mod window;

use std::path::Path;
use std::sync::Arc;

pub use accounts::Accounts;
pub use spaces::KnownRegion;

use self::owners::{Block, Owners, Taken};
use self::spaces::Spaces;
use self::tasks::{Task, TaskId, Tasks};
use crate::kernel::{KernelEvent, What};
use crate::model::{Context, Event, EventFlags, Fault, LARGEST_ORDER, Op, PAGE_SHIFT, Trace};

/// Most events of a trace: rows are counted with 31 bits.
const MOST_EVENTS: usize = (1 << 31) - 2;

/// Flag of clone: the new task works in its maker's address space.
const CLONE_VM: u64 = 0x100;

/// Mobility of pages that can be moved: those of programs and files.
const MOVABLE: i8 = 1;

/// System calls, by their x86-64 numbers, that matter for address regions and exits.
mod number {
    pub(super) const MMAP: u64 = 9;
    pub(super) const MUNMAP: u64 = 11;
    pub(super) const BRK: u64 = 12;
    pub(super) const MREMAP: u64 = 25;
    pub(super) const EXIT: u64 = 60;
    pub(super) const EXIT_GROUP: u64 = 231;
}

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
/// Takes about a microsecond for each event, 40 bytes for each call that is kept, 16 more for each
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
                self.accounts.new_tasks_seen += 1;
                self.new_task(&event, task, tid, clone_flags);
            }
            What::Exec { program } => self.exec(task, &program),
            What::Exit => {
                self.accounts.exits_seen += 1;
                if let Some(task) = task {
                    let task = self.tasks.get_mut(task);
                    task.exit_ns = Some(self.now_ns);
                    begin_exit(task);
                    if let Some(space) = task.space.take() {
                        self.spaces.leave(space);
                    }
                }
            }
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

    fn allocate(&mut self, event: &KernelEvent, pfn: u64, order: u8, task: Option<TaskId>) {
        // What lives here was freed without anybody seeing it.
        for taken in self.owners.take(pfn, order) {
            let (pfn, order) = (taken.piece.pfn, taken.piece.order);
            let mut free = self.event(event, Op::Free, pfn, order);
            free.flags = EventFlags::SYNTHETIC;
            self.accounts.inferred_frees += 1;
            self.keep_free(free, taken);
        }
        let Some(task) = task else {
            self.accounts.allocations_by_others += 1;
            return;
        };
        if self.events.len() >= MOST_EVENTS {
            self.accounts.too_many += 1;
            return;
        }
        let row = self.events.len() as u32;
        let mut call = self.event(event, Op::Allocate, pfn, order);
        if let What::Allocate {
            gfp, migratetype, ..
        } = event.what
        {
            (call.gfp, call.migratetype) = (gfp, migratetype);
        }
        let task = self.tasks.get_mut(task);
        let context = match event.in_interrupt {
            true => Context::Interrupt,
            false => task.doing.context,
        };
        call.context = context as u8;
        call.sysno = task.doing.sysno(context);
        if matches!(context, Context::UserFault | Context::KernelFault) {
            let (address, space) = (task.doing.address, task.space);
            let place = space.and_then(|space| self.spaces.locate(space, address, self.now_ns));
            call.region = place.map(|place| place.region);
            match place.map(|place| place.is_guessed) {
                Some(false) => self.accounts.faults_in_mapped += 1,
                Some(true) => self.accounts.faults_in_guessed += 1,
                None => self.accounts.faults_in_none += 1,
            }
            self.faults.push(Fault {
                row,
                vpn: address >> PAGE_SHIFT,
                region: call.region,
                sequence: task.doing.fault,
            });
            if call.migratetype == MOVABLE {
                task.doing.fault_served();
            }
        }
        self.accounts.allocations += 1;
        self.accounts.interrupt_allocations += u64::from(event.in_interrupt);
        self.events.push(call);
        self.owners.insert(pfn, Block { row, order });
        self.accounts.peak_frames = self.accounts.peak_frames.max(self.owners.live());
    }

    fn free(&mut self, event: &KernelEvent, pfn: u64, order: u8, task: Option<TaskId>) {
        let all = self.owners.take(pfn, order);
        self.accounts.spread_frees += u64::from(all.len() > 1);
        if all.is_empty() {
            match task {
                Some(_) => self.accounts.unmatched_frees += 1,
                None => self.accounts.unmatched_frees_by_others += 1,
            }
        }
        for taken in all {
            let (pfn, order) = (taken.piece.pfn, taken.piece.order);
            let mut call = self.event(event, Op::Free, pfn, order);
            match task.map(|task| &self.tasks.get(task).doing) {
                Some(doing) => {
                    let context = match event.in_interrupt {
                        true => Context::Interrupt,
                        false => doing.context,
                    };
                    call.context = context as u8;
                    call.sysno = doing.sysno(context);
                    if doing.is_exiting {
                        call.flags = call.flags.with(EventFlags::AT_EXIT);
                    }
                }
                None => self.accounts.frees_by_others += 1,
            }
            self.keep_free(call, taken);
        }
    }

    /// Adds a free of a piece that has been taken from its block.
    fn keep_free(&mut self, mut free: Event, taken: Taken) {
        if self.events.len() >= MOST_EVENTS {
            self.accounts.too_many += 1;
            return;
        }
        let Block { row, order } = taken.piece.block;
        free.region = self.events[row as usize].region;
        if taken.piece.order < order {
            free.flags = free.flags.with(EventFlags::PARTIAL);
            self.accounts.partial_frees += 1;
        }
        if taken.is_last {
            free.flags = free.flags.with(EventFlags::DEAD);
        }
        self.accounts.frees += 1;
        self.events.push(free);
    }

    /// Gives an event of the trace that tells who, where and when.
    fn event(&self, event: &KernelEvent, op: Op, pfn: u64, order: u8) -> Event {
        let time_ns = self.now_ns - self.begin_ns.unwrap_or(self.now_ns);
        let mut call = Event::new(time_ns, event.cpu, event.tid, op, pfn, order);
        if event.in_interrupt {
            call.flags = EventFlags::INTERRUPT;
        }
        call
    }

    fn fault(&mut self, task: Option<TaskId>, address: u64, is_user: bool) {
        match is_user {
            true => self.accounts.user_faults_seen += 1,
            false => self.accounts.kernel_faults_seen += 1,
        }
        let Some(task) = task else { return };
        let doing = &mut self.tasks.get_mut(task).doing;
        if !doing.is_exiting {
            // 0 would mean that the number is unknown.
            self.fault = self.fault.checked_add(1).unwrap_or(1);
            (doing.address, doing.fault) = (address, self.fault);
            doing.context = match is_user {
                true => Context::UserFault,
                false => Context::KernelFault,
            };
        }
    }

    fn enter(&mut self, task: Option<TaskId>, number: u64, arguments: [u64; 6]) {
        self.accounts.system_calls_seen += 1;
        let Some(task) = task else { return };
        let task = self.tasks.get_mut(task);
        if task.doing.is_exiting {
            return;
        }
        (task.doing.number, task.doing.arguments) = (Some(number), arguments);
        task.doing.context = Context::SystemCall;
        // Kernels before 6.16 say that a task exits when its memory is already gone.
        if matches!(number, number::EXIT | number::EXIT_GROUP) {
            begin_exit(task);
        }
    }

    fn leave(&mut self, task: Option<TaskId>, number: u64, result: i64) {
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

    fn new_task(&mut self, event: &KernelEvent, maker: Option<TaskId>, tid: u32, flags: u64) {
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
        // Of a task with this number nobody saw the exit.
        if let Some(old) = self.tasks.by_tid(tid)
            && let Some(space) = self.tasks.get_mut(old).space.take()
        {
            self.spaces.leave(space);
        }
        self.tasks
            .add(tid, tgid, event.tid, self.now_ns, program, space);
    }

    fn exec(&mut self, task: Option<TaskId>, program: &str) {
        self.accounts.execs_seen += 1;
        let Some(task) = task else { return };
        let task = self.tasks.get_mut(task);
        task.program = program_name(program);
        if let Some(space) = task.space.take() {
            self.spaces.leave(space);
        }
        task.space = Some(self.spaces.create(task.tgid, self.now_ns));
    }
}

/// Notes that a task has begun to exit: from now on it does nothing else.
fn begin_exit(task: &mut Task) {
    task.doing.is_exiting = true;
    task.doing.context = Context::Exiting;
}

/// Returns the file name of a program: where it lies is its user's business.
fn program_name(path: &str) -> Arc<str> {
    let name = Path::new(path).file_name();
    Arc::from(name.map_or(path.into(), |name| name.to_string_lossy()))
}
