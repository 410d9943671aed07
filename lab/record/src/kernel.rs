//! Memory events of a kernel: the common form of recordings of any kind.
//!
//! Each source (a ring buffer, perf.data, a text) only translates to these events, and a single assembly builds a
//! [`Trace`](everybuddy_trace::Trace) from them.
//!
//! # Invariants
//! An event contains what the kernel reported and nothing inferred. Unreported values are 0, `None` or -1, never
//! guessed.

/// One kernel event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelEvent {
    /// Nanoseconds on the source's own clock, with an arbitrary zero.
    pub time_ns: u64,
    /// The CPU on which it happened.
    pub cpu: u16,
    /// The thread that was running there.
    pub tid: u32,
    /// The process of that thread, if the source reports it.
    pub tgid: Option<u32>,
    /// Whether an interrupt had suspended the thread.
    pub in_interrupt: bool,
    /// The event.
    pub what: What,
}

/// The kinds of kernel events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The page allocator allocated a block (`kmem:mm_page_alloc`).
    Allocate {
        /// First frame.
        pfn: u64,
        /// The order of the block as the kernel reported it: any number.
        order: u32,
        /// Allocation flags in the kernel's own encoding; 0 if unknown.
        gfp: u32,
        /// Mobility; -1 if unknown.
        migratetype: i8,
    },
    /// An allocation failed (`kmem:mm_page_alloc` without a page).
    Refuse {
        /// The requested order.
        order: u32,
    },
    /// A block, or a part of one, was freed (`kmem:mm_page_free`).
    Free {
        /// First frame.
        pfn: u64,
        /// The freed order: any number.
        order: u32,
    },
    /// A block was freed, and another event may report the same free (`kmem:mm_page_free_batched`; of old kernels
    /// `kmem:mm_page_free_direct` and `kmem:mm_pagevec_free`).
    FreeReport {
        /// First frame.
        pfn: u64,
        /// The freed order: any number.
        order: u32,
    },
    /// The thread accessed memory that was not mapped (`exceptions:page_fault_user` and `_kernel`).
    Fault {
        /// The address.
        address: u64,
        /// Whether it ran in user mode.
        is_user: bool,
    },
    /// The thread entered a system call (`raw_syscalls:sys_enter`, `syscalls:sys_enter_NAME`).
    SystemCall {
        /// The number of the call (x86-64).
        number: u64,
        /// Its arguments; 0 if unknown.
        arguments: [u64; 6],
    },
    /// The thread left a system call (`raw_syscalls:sys_exit`, `syscalls:sys_exit_NAME`).
    SystemCallEnd {
        /// The number of the call (x86-64).
        number: u64,
        /// Its return value.
        result: i64,
    },
    /// The thread created another thread (`task:task_newtask`).
    NewTask {
        /// The new thread.
        tid: u32,
        /// The flags of the clone call: `CLONE_THREAD` distinguishes threads from processes.
        clone_flags: u64,
        /// The name of the new thread, copied from its creator; empty if unknown.
        name: String,
    },
    /// The thread started another program (`sched:sched_process_exec`).
    Exec {
        /// The path of the program; empty if unknown.
        program: String,
    },
    /// The thread began to exit (`sched:sched_process_exit`).
    Exit,
    /// The thread queues for a lock of any kind (`lock:contention_begin`).
    ContentionBegin {
        /// The lock's address, or a number that stands for it.
        lock: u64,
        /// Whether it is a plain spin lock, as the lock of a zone is.
        is_spin: bool,
    },
    /// The thread no longer queues for it (`lock:contention_end`).
    ContentionEnd {
        /// The same number.
        lock: u64,
        /// Whether it has the lock now.
        is_acquired: bool,
    },
    /// The call chain of the thread's last [`What::ContentionBegin`] or [`What::ContentionEnd`].
    LockCaller {
        /// The function of the page allocator that waited; `None` if another one did.
        allocator: Option<&'static str>,
    },
    /// The CPU moves a block while it holds a zone's lock (`kmem:mm_page_alloc_zone_locked`,
    /// `kmem:mm_page_pcpu_drain`).
    ZoneLockHeld,
    /// The thread wants a zone's lock, free or not (`zone_lock:zone_lock_start_locking`).
    ZoneLockWanted {
        /// The zone's address, or a number that stands for it.
        zone: u64,
    },
    /// The thread only tried, and does not have the lock (`zone_lock:zone_lock_acquire_returned`).
    ZoneLockGivenUp {
        /// The zone.
        zone: u64,
    },
    /// The thread has acquired a zone's lock (`kmem:mm_zone_locked`, `zone_lock:zone_lock_acquire_returned`).
    ZoneLockAcquired {
        /// The zone; 0 if the source does not name it by an address.
        zone: u64,
        /// The wait as the kernel measured it, 0 if there was none; `None` if it counts from [`What::ZoneLockWanted`].
        wait_ns: Option<u64>,
        /// Blocks that the thread is about to move; 0 if unknown.
        batch: u32,
    },
    /// The thread has released a zone's lock (`kmem:mm_zone_lock_unlock`, `zone_lock:zone_lock_released`).
    ZoneLockReleased {
        /// The zone.
        zone: u64,
    },
    /// The source has lost events before this one.
    Lost {
        /// The CPU whose events were lost; `None` if unknown.
        cpu: Option<u16>,
    },
}

impl What {
    /// Flag of [`What::NewTask`]: the new thread belongs to its creator's process.
    pub const CLONE_THREAD: u64 = 0x0001_0000;

    /// Returns `true` for an event of the source: neither a gap, nor the call chain of another event.
    pub fn is_event(&self) -> bool {
        !matches!(self, What::Lost { .. } | What::LockCaller { .. })
    }

    /// Returns `true` if the event is about a lock.
    pub fn is_of_lock(&self) -> bool {
        matches!(
            self,
            What::ContentionBegin { .. }
                | What::ContentionEnd { .. }
                | What::LockCaller { .. }
                | What::ZoneLockHeld
                | What::ZoneLockWanted { .. }
                | What::ZoneLockGivenUp { .. }
                | What::ZoneLockAcquired { .. }
                | What::ZoneLockReleased { .. }
        )
    }
}
