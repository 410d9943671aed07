//! The tracepoints that a recording uses.
//!
//! One place says which tracepoints there are, what a trace lacks without each, and what its fields mean.
//!
//! # Invariants
//! A tracepoint is usable only if its description has every field that is not optional. A record that is too short for
//! its fields does not yield an event.

use crate::format::{Field, Format};
use crate::functions::{Function, Functions, waiting};
use crate::kernel::What;

/// A supported tracepoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracepoint {
    /// Its group and name, as in `events/GROUP/NAME`.
    pub(crate) path: &'static str,
    /// The information that is missing without it; `None` if it is required.
    pub(crate) lacking: Option<&'static str>,
    /// Looks the fields up in its description. Returns `None` if a required one is missing.
    pub(super) parse: fn(&Format) -> Option<Decode>,
}

const fn tracepoint(
    path: &'static str,
    lacking: Option<&'static str>,
    parse: fn(&Format) -> Option<Decode>,
) -> Tracepoint {
    Tracepoint {
        path,
        lacking,
        parse,
    }
}

/// Reads the fields of a record. Returns `None` if it is too short for them.
pub(super) type Decode = Box<dyn Fn(&[u8], &Functions) -> Option<What> + Send + Sync>;

/// The flags of a wait for a plain spin lock.
const SPIN: u64 = 1;

/// Reads an optional field.
fn optional(field: Option<Field>, record: &[u8]) -> Option<u64> {
    field.and_then(|field| field.value(record))
}

/// Decodes an event of which one number matters.
fn of_number(format: &Format, name: &str, what: fn(u64) -> What) -> Option<Decode> {
    let field = format.field(name)?;
    Some(Box::new(move |record, _| field.value(record).map(what)))
}

/// Decodes an event of which two numbers matter.
fn of_numbers(format: &Format, names: [&str; 2], what: fn(u64, u64) -> What) -> Option<Decode> {
    let [one, other] = [format.field(names[0])?, format.field(names[1])?];
    Some(Box::new(move |record, _| {
        Some(what(one.value(record)?, other.value(record)?))
    }))
}

/// Decodes an event without fields.
fn bare(what: fn() -> What) -> Option<Decode> {
    Some(Box::new(move |_, _| Some(what())))
}

/// Tracepoints of the whole machine: the page allocator's.
pub(crate) const MEMORY: [Tracepoint; 2] = [
    tracepoint("kmem/mm_page_alloc", None, |format| {
        let (pfn, order) = (format.field("pfn")?, format.field("order")?);
        let (gfp, migratetype) = (format.field("gfp_flags"), format.field("migratetype"));
        // No page has the number -1: it means that the allocation failed.
        let none = u64::MAX >> (64 - 8 * pfn.size.clamp(1, 8));
        Some(Box::new(move |record, _| {
            let order = order.value(record)? as u32;
            Some(match pfn.value(record)? {
                value if value == none => What::Refuse { order },
                pfn => What::Allocate {
                    pfn,
                    order,
                    gfp: optional(gfp, record).unwrap_or(0) as u32,
                    migratetype: optional(migratetype, record).map_or(-1, |value| value as i8),
                },
            })
        }))
    }),
    tracepoint("kmem/mm_page_free", None, |format| {
        let what = |pfn, order| What::Free {
            pfn,
            order: order as u32,
        };
        of_numbers(format, ["pfn", "order"], what)
    }),
];

/// Tracepoints of the tree of tasks.
pub(crate) const TASKS: [Tracepoint; 7] = [
    tracepoint("task/task_newtask", None, |format| {
        let (tid, flags) = (format.field("pid")?, format.field("clone_flags")?);
        let name = format.field("comm");
        Some(Box::new(move |record, _| {
            Some(What::NewTask {
                tid: tid.value(record)? as u32,
                clone_flags: flags.value(record)?,
                name: name.and_then(|name| name.text(record)).unwrap_or_default(),
            })
        }))
    }),
    tracepoint(
        "sched/sched_process_exec",
        Some("names of programs, and what exec unmaps"),
        |format| {
            let program = format.field("filename")?;
            Some(Box::new(move |record, _| {
                let program = program.text(record).unwrap_or_default();
                Some(What::Exec { program })
            }))
        },
    ),
    tracepoint(
        "sched/sched_process_exit",
        Some("exits of processes, and what was freed at exit"),
        |_| bare(|| What::Exit),
    ),
    tracepoint(
        "exceptions/page_fault_user",
        Some("faults, and the address regions that allocations were for"),
        |format| {
            of_number(format, "address", |address| What::Fault {
                address,
                is_user: true,
            })
        },
    ),
    tracepoint(
        "exceptions/page_fault_kernel",
        Some("faults in the kernel"),
        |format| {
            of_number(format, "address", |address| What::Fault {
                address,
                is_user: false,
            })
        },
    ),
    tracepoint(
        "raw_syscalls/sys_enter",
        Some("system calls, and address regions"),
        |format| {
            let (number, list) = (format.field("id")?, format.field("args")?);
            Some(Box::new(move |record, _| {
                let mut arguments = [0; 6];
                for (index, value) in arguments.iter_mut().enumerate() {
                    *value = list.entry(index, 6).value(record)?;
                }
                let number = number.value(record)?;
                Some(What::SystemCall { number, arguments })
            }))
        },
    ),
    tracepoint("raw_syscalls/sys_exit", Some("address regions"), |format| {
        let what = |number, result| What::SystemCallEnd {
            number,
            result: result as i64,
        };
        of_numbers(format, ["id", "ret"], what)
    }),
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
            tracepoint("kmem/mm_zone_lock_unlock", Some(WAITS), |_| {
                bare(|| What::ZoneLockReleased { zone: 0 })
            }),
        ],
        needs_callers: false,
        filter: None,
    },
    LockEvents {
        tracepoints: &[
            tracepoint("zone_lock/zone_lock_start_locking", Some(WAITS), |format| {
                of_number(format, "zone", |zone| What::ZoneLockWanted { zone })
            }),
            tracepoint(
                "zone_lock/zone_lock_acquire_returned",
                Some(WAITS),
                |format| {
                    let what = |zone, success| match success {
                        0 => What::ZoneLockGivenUp { zone },
                        _ => What::ZoneLockAcquired {
                            zone,
                            wait_ns: None,
                            batch: 0,
                        },
                    };
                    of_numbers(format, ["zone", "success"], what)
                },
            ),
            tracepoint("zone_lock/zone_lock_released", Some(WAITS), |format| {
                of_number(format, "zone", |zone| What::ZoneLockReleased { zone })
            }),
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
const ZONE_LOCKED: Tracepoint = tracepoint("kmem/mm_zone_locked", Some(WAITS), |format| {
    let (wait_ns, contended) = (format.field("wait_ns")?, format.field("contended"));
    let batch = format.field("count").or(format.field("batch"));
    Some(Box::new(move |record, _| {
        let waited_ns = wait_ns.value(record)?;
        let contended = optional(contended, record);
        let has_waited = contended.map_or(waited_ns > 0, |contended| contended != 0);
        Some(What::ZoneLockAcquired {
            zone: 0,
            wait_ns: Some(if has_waited { waited_ns.max(1) } else { 0 }),
            batch: optional(batch, record).unwrap_or(0) as u32,
        })
    }))
});

/// Waits for locks of any kind.
const CONTENTION: LockEvents = LockEvents {
    tracepoints: &[
        tracepoint("lock/contention_begin", Some(WAITS), |format| {
            let what = |lock, flags| What::ContentionBegin {
                lock,
                is_spin: flags == SPIN,
            };
            of_numbers(format, ["lock_addr", "flags"], what)
        }),
        tracepoint("lock/contention_end", Some(WAITS), |format| {
            let what = |lock, result| What::ContentionEnd {
                lock,
                is_acquired: result == 0,
            };
            of_numbers(format, ["lock_addr", "ret"], what)
        }),
    ],
    needs_callers: true,
    filter: None,
};

/// What a trace lacks without any of [`LOCKS`].
pub(crate) const WAITS: &str = "waits for the zone's lock";

/// The event of a call chain. It needs no enabling: a trigger of another event causes it.
pub(crate) const CHAIN: Tracepoint = tracepoint("ftrace/kernel_stack", Some(WAITS), |format| {
    let callers = format.field("caller")?;
    // The chain ends with the record, whatever length the description states.
    Some(Box::new(move |record, functions| {
        let addresses = record.get(callers.offset..)?.chunks_exact(size_of::<u64>());
        let addresses = addresses.filter_map(|bytes| bytes.try_into().ok());
        let chain = addresses.map(|bytes| functions.at(u64::from_le_bytes(bytes)));
        let allocator = waiting(chain).and_then(Function::allocator);
        Some(What::LockCaller { allocator })
    }))
});
