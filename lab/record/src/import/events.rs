//! The meaning of an event by its name, independent of the encoding of its fields.
//!
//! Texts and perf.data, which hold the same events, are understood by the same rules.
//!
//! # Invariants
//! An event whose fields can't be read is said to be so, and gives nothing.

use std::collections::{HashMap, HashSet};

use super::descriptors::Descriptors;
use super::error::Fault;
use super::import_log::ImportLog;
use crate::kernel::{KernelEvent, What};

/// The page of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// There was no page.
    Absent,
    /// The number of its frame.
    Number(u64),
    /// The address of its descriptor.
    Descriptor(u64),
}

/// The fields of an event, in any encoding.
pub(crate) trait Fields {
    /// The page of an allocation or a free.
    fn frame(&self) -> Option<Frame>;
    /// The address of the page's descriptor, if it is printed next to the frame.
    fn descriptor(&self) -> Option<u64> {
        None
    }
    /// A number that texts write in decimal.
    fn unsigned(&self, name: &str) -> Option<u64>;
    /// A number that may be negative.
    fn signed(&self, name: &str) -> Option<i64>;
    /// A number that texts write in hexadecimal.
    fn address(&self, name: &str) -> Option<u64> {
        self.unsigned(name)
    }
    /// Like [`Fields::address`], for a field after a thread name, which may contain anything. Tools that print by type
    /// write it in decimal.
    fn mask(&self, name: &str) -> Option<u64> {
        self.unsigned(name)
    }
    /// Like [`Fields::unsigned`], for a field after a thread name, which may contain anything.
    fn late(&self, name: &str) -> Option<u64> {
        self.unsigned(name)
    }
    /// A truth value.
    fn flag(&self, name: &str) -> Option<bool>;
    /// The fields of `lock:contention_begin` and `contention_end`.
    fn contention(&self) -> Option<ContentionFields>;
    /// A text that is followed by the field `next`.
    fn text(&self, name: &str, next: &str) -> Option<String>;
    /// A call or its end, from `raw_syscalls:sys_enter` and `sys_exit`.
    fn system_call(&self) -> Option<SystemCallFields>;
    /// A call or its end, from `syscalls:sys_enter_NAME` and `sys_exit_NAME`.
    fn named_call(&self, name: &str) -> Option<SystemCallFields>;
}

/// The fields of the begin or the end of a wait for a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContentionFields {
    pub(crate) lock: u64,
    /// At the begin: whether it is a plain spin lock.
    pub(crate) is_spin: Option<bool>,
    /// At the end: 0 if the lock was acquired.
    pub(crate) result: Option<i64>,
}

/// The fields of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SystemCallFields {
    number: i64,
    arguments: [u64; 6],
    result: Option<i64>,
}

impl SystemCallFields {
    pub(crate) fn begin(number: i64, arguments: [u64; 6]) -> SystemCallFields {
        SystemCallFields {
            number,
            arguments,
            result: None,
        }
    }

    pub(crate) fn end(number: i64, result: i64) -> SystemCallFields {
        SystemCallFields {
            number,
            arguments: [0; 6],
            result: Some(result),
        }
    }

    /// Returns `true` if `next` is the same call, or the same end, in the words of another event.
    fn is_said_again_by(&self, next: &SystemCallFields) -> bool {
        let mut arguments = self.arguments.iter().zip(next.arguments);
        self.number == next.number
            && self.result == next.result
            // An argument that an event does not report is 0.
            && arguments.all(|(one, other)| *one == other || *one == 0 || other == 0)
    }

    fn what(self) -> Meaning {
        // A tracer may replace the number by -1: the call has no effect.
        let Ok(number) = u64::try_from(self.number) else {
            return Meaning::Other;
        };
        Meaning::Event(match self.result {
            None => What::SystemCall {
                number,
                arguments: self.arguments,
            },
            Some(result) => What::SystemCallEnd { number, result },
        })
    }
}

/// The result of interpreting an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It was recognized.
    Event(What),
    /// It is irrelevant for a trace.
    Other,
    /// It repeats another event.
    Repeated,
    /// Its fields are unreadable.
    Unclear,
}

/// Returns the number of events, without gaps and call chains.
pub(crate) fn understood(events: &[KernelEvent]) -> u64 {
    let is_event = |event: &&KernelEvent| event.what.is_event();
    events.iter().filter(is_event).count() as u64
}

/// Interprets events, and keeps the necessary state.
#[derive(Default)]
pub(crate) struct Interpreter {
    /// Threads of `task_newtask` whose `sched_process_fork` may follow.
    announced: HashSet<u64>,
    /// The last call of each thread: recordings may contain both `raw_syscalls` and `syscalls`.
    calls: HashMap<u32, SystemCallFields>,
    descriptors: Descriptors,
}

impl Interpreter {
    /// Returns the meaning of a thread's event.
    pub(crate) fn meaning(&mut self, event: &str, tid: u32, fields: &impl Fields) -> Meaning {
        let understood = match event {
            "mm_page_alloc" => self.allocation(fields),
            "mm_page_free" => self.free(fields, None),
            // Most of these frees also have an event of their own. In the oldest kernels, `mm_page_free_direct` has
            // two, and `mm_pagevec_free` none.
            "mm_page_free_direct" | "mm_page_free_batched" | "mm_pagevec_free" => {
                // The batched ones have no field for the order: the kernel prints that of a single frame.
                match self.free(fields, Some(0)) {
                    Some(What::Free { pfn, order }) => Some(What::FreeReport { pfn, order }),
                    _ => None,
                }
            }
            "page_fault_user" | "page_fault_kernel" => {
                // An address with a symbol belongs to the kernel.
                let is_user = event == "page_fault_user";
                match fields.address("address") {
                    None if fields.address("ip").is_some() || !is_user => return Meaning::Other,
                    address => address.map(|address| What::Fault { address, is_user }),
                }
            }
            "sys_enter" | "sys_exit" => {
                return self.call(fields.system_call(), tid, event == "sys_exit");
            }
            "task_newtask" => self.new_task(fields),
            "sched_process_fork" => return self.fork(fields),
            "sched_process_exec" => Some(What::Exec {
                program: fields.text("filename", "pid").unwrap_or_default(),
            }),
            "sched_process_exit" => Some(What::Exit),
            "contention_begin" | "contention_end" => contention(fields),
            "mm_page_alloc_zone_locked" | "mm_page_pcpu_drain" => Some(What::ZoneLockHeld),
            "mm_zone_locked" => zone_locked(fields),
            // The acquisition that follows contains the wait.
            "mm_zone_lock_contended" => return Meaning::Repeated,
            "mm_zone_lock_unlock" => Some(What::ZoneLockReleased { zone: 0 }),
            "zone_lock_start_locking" => {
                let zone = fields.address("zone");
                zone.map(|zone| What::ZoneLockWanted { zone })
            }
            "zone_lock_acquire_returned" => zone_lock_returned(fields),
            "zone_lock_released" => {
                let zone = fields.address("zone");
                zone.map(|zone| What::ZoneLockReleased { zone })
            }
            other => return self.named_call(other, tid, fields),
        };
        understood.map_or(Meaning::Unclear, Meaning::Event)
    }

    /// Converts frames that a recording names in another way, after its last event.
    pub(crate) fn finish(
        &self,
        events: &mut [KernelEvent],
        log: &mut ImportLog,
    ) -> Result<(), Fault> {
        self.descriptors.finish(events, log)
    }

    fn allocation(&mut self, fields: &impl Fields) -> Option<What> {
        let order = u32::try_from(fields.unsigned("order")?).ok()?;
        Some(match self.frame(fields, order)? {
            None => What::Refuse { order },
            Some(pfn) => What::Allocate {
                pfn,
                order,
                // Symbolic flags do not reveal the numbers of that kernel: unknown.
                gfp: fields
                    .late("gfp_flags")
                    .and_then(|flags| u32::try_from(flags).ok())
                    .unwrap_or(0),
                migratetype: fields
                    .signed("migratetype")
                    .and_then(|value| i8::try_from(value).ok())
                    .unwrap_or(-1),
            },
        })
    }

    /// Reads a free. `missing` is the order of one without such a field.
    fn free(&mut self, fields: &impl Fields, missing: Option<u64>) -> Option<What> {
        let order = u32::try_from(fields.unsigned("order").or(missing)?).ok()?;
        let pfn = self.frame(fields, order)??;
        Some(What::Free { pfn, order })
    }

    /// Returns the frame of an event, or for now its distance; `Some(None)` if there was no page.
    fn frame(&mut self, fields: &impl Fields, order: u32) -> Option<Option<u64>> {
        Some(match fields.frame()? {
            Frame::Absent => None,
            Frame::Number(pfn) => {
                self.descriptors.number(pfn, fields.descriptor(), order);
                Some(pfn)
            }
            Frame::Descriptor(address) => Some(self.descriptors.address(address, order)?),
        })
    }

    fn new_task(&mut self, fields: &impl Fields) -> Option<What> {
        let tid = fields.unsigned("pid")?;
        self.announced.insert(tid);
        Some(What::NewTask {
            tid: u32::try_from(tid).ok()?,
            clone_flags: fields.mask("clone_flags")?,
            name: fields.text("comm", "clone_flags").unwrap_or_default(),
        })
    }

    fn fork(&mut self, fields: &impl Fields) -> Meaning {
        let Some(tid) = fields.late("child_pid") else {
            return Meaning::Unclear;
        };
        if self.announced.remove(&tid) {
            return Meaning::Repeated;
        }
        let Ok(tid) = u32::try_from(tid) else {
            return Meaning::Unclear;
        };
        Meaning::Event(What::NewTask {
            tid,
            clone_flags: 0,
            name: fields.text("child_comm", "child_pid").unwrap_or_default(),
        })
    }

    fn call(&mut self, fields: Option<SystemCallFields>, tid: u32, is_end: bool) -> Meaning {
        let Some(fields) = fields.filter(|fields| fields.result.is_some() == is_end) else {
            return Meaning::Unclear;
        };
        match self.calls.insert(tid, fields) {
            Some(before) if before.is_said_again_by(&fields) => Meaning::Repeated,
            _ => fields.what(),
        }
    }

    /// Interprets `sys_enter_NAME`, `sys_exit_NAME`, and the kernel's own `sys_NAME(` and `->`.
    fn named_call(&mut self, event: &str, tid: u32, fields: &impl Fields) -> Meaning {
        let (name, is_end) = if let Some(name) = event.strip_prefix("sys_enter_") {
            (name, Some(false))
        } else if let Some(name) = event.strip_prefix("sys_exit_") {
            (name, Some(true))
        } else if let Some(name) = event.strip_prefix("sys_") {
            (name, None)
        } else {
            return Meaning::Other;
        };
        match fields.named_call(name) {
            Some(fields) => self.call(Some(fields), tid, is_end.unwrap_or(fields.result.is_some())),
            None => Meaning::Other,
        }
    }
}

fn contention(fields: &impl Fields) -> Option<What> {
    let ContentionFields {
        lock,
        is_spin,
        result,
    } = fields.contention()?;
    match (is_spin, result) {
        (Some(is_spin), None) => Some(What::ContentionBegin { lock, is_spin }),
        (None, Some(result)) => {
            let is_acquired = result == 0;
            Some(What::ContentionEnd { lock, is_acquired })
        }
        _ => None,
    }
}

/// Interprets `kmem:mm_zone_locked`, as proposed in May 2026: the number of blocks is its field `count`.
fn zone_locked(fields: &impl Fields) -> Option<What> {
    let waited_ns = fields.unsigned("wait_ns")?;
    let has_waited = fields.flag("contended").unwrap_or(waited_ns > 0);
    let batch = fields.unsigned("count").or(fields.unsigned("batch"));
    Some(What::ZoneLockAcquired {
        zone: 0,
        // A wait shorter than the clock's step is still one.
        wait_ns: Some(if has_waited { waited_ns.max(1) } else { 0 }),
        batch: batch
            .and_then(|batch| u32::try_from(batch).ok())
            .unwrap_or(0),
    })
}

/// Interprets `zone_lock:zone_lock_acquire_returned`, as proposed in February 2026.
fn zone_lock_returned(fields: &impl Fields) -> Option<What> {
    let zone = fields.address("zone")?;
    Some(if fields.flag("success")? {
        What::ZoneLockAcquired {
            zone,
            wait_ns: None,
            batch: 0,
        }
    } else {
        What::ZoneLockGivenUp { zone }
    })
}
