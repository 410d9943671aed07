//! The tracepoints that a recording uses.
//!
//! # Purpose
//!
//! One place says which tracepoints there are, what a trace lacks without each, and which of its fields are needed.
//!
//! # Invariants
//!
//! A tracepoint is usable only if its description has every field that is not optional.

use crate::format::{Field, Format};

/// A supported tracepoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracepoint {
    /// Its group and name, as in `events/GROUP/NAME`.
    pub(crate) path: &'static str,
    /// The information that is missing without it; `None` if it is required.
    pub(crate) lacking: Option<&'static str>,
    /// Looks the fields up in its description. Returns `None` if a required one is missing.
    pub(super) parse: fn(&Format) -> Option<Shape>,
}

/// Tracepoints of the whole machine: the page allocator's.
pub(crate) const MEMORY: [Tracepoint; 2] = [
    Tracepoint {
        path: "kmem/mm_page_alloc",
        lacking: None,
        parse: |format| {
            Some(Shape::Allocate {
                pfn: format.field("pfn")?,
                order: format.field("order")?,
                gfp: format.field("gfp_flags"),
                migratetype: format.field("migratetype"),
            })
        },
    },
    Tracepoint {
        path: "kmem/mm_page_free",
        lacking: None,
        parse: |format| {
            Some(Shape::Free {
                pfn: format.field("pfn")?,
                order: format.field("order")?,
            })
        },
    },
];

/// Tracepoints of the tree of tasks.
pub(crate) const TASKS: [Tracepoint; 7] = [
    Tracepoint {
        path: "task/task_newtask",
        lacking: None,
        parse: |format| {
            Some(Shape::NewTask {
                tid: format.field("pid")?,
                flags: format.field("clone_flags")?,
                name: format.field("comm"),
            })
        },
    },
    Tracepoint {
        path: "sched/sched_process_exec",
        lacking: Some("names of programs, and what exec unmaps"),
        parse: |format| {
            Some(Shape::Exec {
                program: format.field("filename")?,
            })
        },
    },
    Tracepoint {
        path: "sched/sched_process_exit",
        lacking: Some("exits of processes, and what was freed at exit"),
        parse: |_| Some(Shape::Exit),
    },
    Tracepoint {
        path: "exceptions/page_fault_user",
        lacking: Some("faults, and the address regions that allocations were for"),
        parse: |format| {
            Some(Shape::Fault {
                address: format.field("address")?,
                is_user: true,
            })
        },
    },
    Tracepoint {
        path: "exceptions/page_fault_kernel",
        lacking: Some("faults in the kernel"),
        parse: |format| {
            Some(Shape::Fault {
                address: format.field("address")?,
                is_user: false,
            })
        },
    },
    Tracepoint {
        path: "raw_syscalls/sys_enter",
        lacking: Some("system calls, and address regions"),
        parse: |format| {
            Some(Shape::SystemCall {
                number: format.field("id")?,
                arguments: format.field("args")?,
            })
        },
    },
    Tracepoint {
        path: "raw_syscalls/sys_exit",
        lacking: Some("address regions"),
        parse: |format| {
            Some(Shape::SystemCallEnd {
                number: format.field("id")?,
                result: format.field("ret")?,
            })
        },
    },
];

/// A way in which kernels report waits for the zone's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockEvents {
    /// The tracepoints; a kernel has all or none of them.
    pub(crate) tracepoints: &'static [Tracepoint],
    /// Whether the callers must show which lock it is.
    pub(crate) needs_callers: bool,
    /// The filter of the kernel that the events of the first tracepoint must pass.
    pub(crate) filter: Option<&'static str>,
}

/// Tracepoints about the zone's lock, for the tree of tasks: the most informative ones that a kernel has are used.
pub(crate) const LOCKS: [LockEvents; 3] = [
    LockEvents {
        tracepoints: &[
            ZONE_LOCKED,
            Tracepoint {
                path: "kmem/mm_zone_lock_unlock",
                lacking: Some(WAITS),
                parse: |_| Some(Shape::ZoneUnlocked),
            },
        ],
        needs_callers: false,
        filter: None,
    },
    LockEvents {
        tracepoints: &[
            Tracepoint {
                path: "zone_lock/zone_lock_start_locking",
                lacking: Some(WAITS),
                parse: |format| {
                    let zone = format.field("zone")?;
                    Some(Shape::ZoneLockWanted { zone })
                },
            },
            Tracepoint {
                path: "zone_lock/zone_lock_acquire_returned",
                lacking: Some(WAITS),
                parse: |format| {
                    Some(Shape::ZoneLockReturned {
                        zone: format.field("zone")?,
                        success: format.field("success")?,
                    })
                },
            },
            Tracepoint {
                path: "zone_lock/zone_lock_released",
                lacking: Some(WAITS),
                parse: |format| {
                    let zone = format.field("zone")?;
                    Some(Shape::ZoneLockReleased { zone })
                },
            },
        ],
        needs_callers: false,
        filter: None,
    },
    CONTENTION,
];

/// Of these, the first that reports nothing but waits is used where only waits are recorded: an event for each
/// acquisition would cost a busy machine too much. `kmem:mm_zone_lock_contended` does not say how long a wait was, but
/// the acquisition that follows does, and the kernel drops those without a wait.
pub(crate) const WAITS_ONLY: [LockEvents; 2] = [
    LockEvents {
        tracepoints: &[ZONE_LOCKED],
        needs_callers: false,
        filter: Some("wait_ns > 0"),
    },
    CONTENTION,
];

/// An acquisition of a zone's lock, with the wait before it.
const ZONE_LOCKED: Tracepoint = Tracepoint {
    path: "kmem/mm_zone_locked",
    lacking: Some(WAITS),
    parse: |format| {
        Some(Shape::ZoneLocked {
            wait_ns: format.field("wait_ns")?,
            contended: format.field("contended"),
            batch: format.field("count").or(format.field("batch")),
        })
    },
};

/// Waits for locks of any kind.
const CONTENTION: LockEvents = LockEvents {
    tracepoints: &[
        Tracepoint {
            path: "lock/contention_begin",
            lacking: Some(WAITS),
            parse: |format| {
                Some(Shape::ContentionBegin {
                    lock: format.field("lock_addr")?,
                    flags: format.field("flags")?,
                })
            },
        },
        Tracepoint {
            path: "lock/contention_end",
            lacking: Some(WAITS),
            parse: |format| {
                Some(Shape::ContentionEnd {
                    lock: format.field("lock_addr")?,
                    result: format.field("ret")?,
                })
            },
        },
    ],
    needs_callers: true,
    filter: None,
};

/// What a trace lacks without any of [`LOCKS`].
pub(crate) const WAITS: &str = "waits for the zone's lock";

/// The event of a call chain. It needs no enabling: a trigger of another event causes it.
pub(crate) const CHAIN: Tracepoint = Tracepoint {
    path: "ftrace/kernel_stack",
    lacking: Some(WAITS),
    parse: |format| {
        Some(Shape::Chain {
            callers: format.field("caller")?,
        })
    },
};

/// The layout of the fields of a kind of event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Allocate {
        pfn: Field,
        order: Field,
        gfp: Option<Field>,
        migratetype: Option<Field>,
    },
    Free {
        pfn: Field,
        order: Field,
    },
    NewTask {
        tid: Field,
        flags: Field,
        name: Option<Field>,
    },
    Exec {
        program: Field,
    },
    Exit,
    Fault {
        address: Field,
        is_user: bool,
    },
    SystemCall {
        number: Field,
        arguments: Field,
    },
    SystemCallEnd {
        number: Field,
        result: Field,
    },
    ContentionBegin {
        lock: Field,
        flags: Field,
    },
    ContentionEnd {
        lock: Field,
        result: Field,
    },
    Chain {
        callers: Field,
    },
    ZoneLocked {
        wait_ns: Field,
        contended: Option<Field>,
        batch: Option<Field>,
    },
    ZoneUnlocked,
    ZoneLockWanted {
        zone: Field,
    },
    ZoneLockReturned {
        zone: Field,
        success: Field,
    },
    ZoneLockReleased {
        zone: Field,
    },
}
