//! What a kernel tells about its memory: the events that recordings of any kind are made of.
//!
//! Exists so that each source (a ring buffer, perf.data, a text) only translates, and one
//! assembly makes a [`Trace`](everybuddy_trace::Trace) of what all of them say.
//!
//! Invariant: an event holds what the kernel said and nothing that was inferred; what a source
//! does not tell is 0, `None` or -1, never guessed.

/// One event of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelEvent {
    /// Nanoseconds on the source's own clock, whatever its zero.
    pub time_ns: u64,
    /// CPU on which it happened.
    pub cpu: u16,
    /// Thread that ran there.
    pub tid: u32,
    /// Process of that thread, where the source tells it.
    pub tgid: Option<u32>,
    /// Whether an interrupt had stopped the thread.
    pub in_interrupt: bool,
    /// What happened.
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The page allocator gave a block (`kmem:mm_page_alloc`).
    Allocate {
        /// First frame.
        pfn: u64,
        /// Order of the block, as the kernel said it: any number.
        order: u32,
        /// Allocation flags by the kernel's own numbers; 0 when unknown.
        gfp: u32,
        /// Mobility; -1 when unknown.
        migratetype: i8,
    },
    /// The page allocator refused (`kmem:mm_page_alloc` without a page).
    Refuse {
        /// Order asked for.
        order: u32,
    },
    /// A block, or a part of one, went back (`kmem:mm_page_free`).
    Free {
        /// First frame.
        pfn: u64,
        /// Order of what went back: any number.
        order: u32,
    },
    /// The thread touched memory that was not there (`exceptions:page_fault_user` and `_kernel`).
    Fault {
        /// The address.
        address: u64,
        /// Whether it ran in user mode.
        is_user: bool,
    },
    /// The thread entered a system call (`raw_syscalls:sys_enter`, `syscalls:sys_enter_NAME`).
    SystemCall {
        /// Number of the call (x86-64).
        number: u64,
        /// Its arguments; 0 where unknown.
        arguments: [u64; 6],
    },
    /// The thread left a system call (`raw_syscalls:sys_exit`, `syscalls:sys_exit_NAME`).
    SystemCallEnd {
        /// Number of the call (x86-64).
        number: u64,
        /// What it returned.
        result: i64,
    },
    /// The thread made another (`task:task_newtask`).
    NewTask {
        /// The new thread.
        tid: u32,
        /// Flags of the clone call: `CLONE_THREAD` tells threads from processes.
        clone_flags: u64,
        /// Name of the new thread, its maker's; empty when unknown.
        name: String,
    },
    /// The thread began another program (`sched:sched_process_exec`).
    Exec {
        /// Path of the program; empty when unknown.
        program: String,
    },
    /// The thread began to exit (`sched:sched_process_exit`).
    Exit,
}

impl What {
    /// Flag of [`What::NewTask`]: the new thread belongs to its maker's process.
    pub const CLONE_THREAD: u64 = 0x0001_0000;
}
