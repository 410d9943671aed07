//! Records the page-allocator calls of a command or of the whole machine, or only its waits for zones' locks.
//!
//! Any program becomes a trace with one command. The kernel's tracepoints report each allocation, free, fault and
//! system call. Two private instances of the tracer collect them, one for the whole machine (any task may free a
//! frame) and one for the command and its descendants. Waits alone need only the second.
//!
//! | module | contents |
//! |------|--------------|
//! | `tracefs`, `tracepoints` | the interface to the kernel's tracer, and which of its tracepoints are used |
//! | `page`, `decode`, and `format` of the crate | the parser for pages of the ring buffer |
//! | `drain` | draining of pages while the command runs |
//! | `merge` | the order of events on all CPUs |
//! | `existing` | processes that existed before |
//! | `machine` | the machine's memory, zones and settings |
//! | `error` | errors and remedies |
//!
//! # Invariants
//! Other users of the tracer are not affected, and nothing of a recording stays in the kernel after its [`Recorder`]
//! is dropped.

pub(crate) mod decode;
mod drain;
mod error;
mod existing;
mod machine;
mod made;
mod merge;
pub(crate) mod page;
mod tracefs;
pub(crate) mod tracepoints;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use serde_json::json;

pub use error::RecordError;

use self::decode::Decoder;
use self::drain::{Drain, Stream};
use self::merge::Merge;
use self::page::PageLayout;
use self::tracefs::{BufferCounts, Instance, Tracefs};
use self::tracepoints::{CHAIN, LOCKS, LockEvents, MEMORY, TASKS, Tracepoint, WAITS, WAITS_ONLY};
use crate::assemble::{Assembled, Assembly, KnownProcess, Scope};
use crate::functions::Functions;
use everybuddy_trace::Machine;

/// The time during which frees follow the exit of a process: the kernel defers some.
const SETTLING: Duration = Duration::from_millis(250);

/// The default buffer per CPU and instance: sufficient for a third of a second of continuous page faults.
const LARGEST_DEFAULT: u64 = 32 << 20;
/// The smallest default.
const SMALLEST_DEFAULT: u64 = 1 << 20;

/// The functions of the running kernel.
const KALLSYMS: &str = "/proc/kallsyms";

/// Call chains of waits for locks that are recorded. A chain takes some microseconds, in which the lock is held. Chains
/// only show which address is a zone's lock, so the first ones suffice.
const MOST_CHAINS: u32 = 2048;

/// Returns of system calls that change address regions: mmap, munmap, brk, mremap.
const MEMORY_CALLS: &str = "id==9||id==11||id==12||id==25";

/// What a recording contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// Calls of the page allocator, and what explains them.
    Calls,
    /// Also the waits for a zone's lock, if the kernel reports them.
    #[default]
    CallsAndWaits,
    /// Only the waits: no calls, and no processes.
    Waits,
}

/// The parameters of a recording.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The size in bytes of the kernel's buffer per CPU; two are used (memory and tree). `None` chooses by the
    /// machine's memory, 32 MiB on most machines.
    pub buffer_bytes: Option<u64>,
    /// The directory for temporary data: about 40 bytes per event, in unnamed files.
    pub folder: PathBuf,
    /// What is recorded.
    pub contents: Contents,
}

/// A recording in progress.
///
/// Dropping it ends the recording and deletes all of it.
pub struct Recorder {
    drain: Option<Drain>,
    /// The instance for the whole machine; `None` if only waits are recorded.
    memory: Option<Instance>,
    tree: Instance,
    decoder: Decoder,
    layout: PageLayout,
    buffer_bytes: u64,
    cpus: usize,
    missing: Vec<Missing>,
    scope: Option<Scope>,
    known: Vec<KnownProcess>,
    machine: Option<Machine>,
    begin_ns: u64,
}

/// A tracepoint that this kernel lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its group and name.
    pub tracepoint: &'static str,
    /// The information that the trace lacks without it.
    pub lacking: &'static str,
}

/// The progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordProgress {
    /// Events that the kernel has recorded.
    pub events: u64,
    /// Bytes that have been drained from the kernel.
    pub bytes: u64,
}

/// The recorded pages of the kernel.
pub struct Recording {
    scope: Scope,
    streams: Vec<Stream>,
    known: Vec<KnownProcess>,
    machine: Option<Machine>,
    own_threads: Vec<u32>,
    decoder: Decoder,
    layout: PageLayout,
    cost: RecordCost,
    lost: u64,
    missing: Vec<Missing>,
    /// The begin and the end, if only waits were recorded.
    waits_only: Option<[u64; 2]>,
}

/// The cost of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCost {
    /// Events that the kernel recorded, of any task.
    pub events: u64,
    /// Bytes of pages.
    pub bytes: u64,
    /// Bytes of all the kernel's buffers.
    pub buffer_bytes: u64,
    /// Bytes of one buffer: of one CPU in one instance.
    pub buffer_bytes_of_cpu: u64,
    /// CPUs that were recorded.
    pub cpus: usize,
}

/// Events that the kernel could not record, or that could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events that did not fit into a buffer.
    pub events: u64,
    /// Pages that are preceded by lost events.
    pub lossy_pages: u64,
    /// The number of lost events that such pages report, if they do.
    pub told_by_pages: u64,
    /// Pages that ended within an event.
    pub cut_pages: u64,
}

impl Losses {
    /// Returns `true` if nothing was lost.
    pub fn is_none(&self) -> bool {
        *self == Losses::default()
    }
}

/// A finished recording.
#[derive(Debug)]
pub struct Recorded {
    /// The trace, and the counts of omitted and inferred events.
    pub assembled: Assembled,
    /// The losses.
    pub losses: Losses,
    /// The cost.
    pub cost: RecordCost,
    /// Tracepoints that the kernel lacks.
    pub missing: Vec<Missing>,
}

impl Recorder {
    /// Prepares a recording without starting it. The instances of the tracer are private: the tracing of other
    /// programs is not affected.
    ///
    /// Takes as long as the kernel needs to allocate the buffers, about 0.1 s for 128 MiB.
    ///
    /// # Errors
    ///
    /// Returns an error without privileges, tracefs, the required tracepoints, or memory for the buffers.
    pub fn new(options: &RecordOptions) -> Result<Recorder, RecordError> {
        let tracefs = Tracefs::find()?;
        tracefs::remove_leftovers(&tracefs);
        let layout = tracefs.page_layout()?;
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let has_calls = options.contents != Contents::Waits;
        let default = if has_calls {
            default_buffer(cpus)
        } else {
            SMALLEST_DEFAULT
        };
        let buffer_bytes = options.buffer_bytes.unwrap_or(default);
        let name = |kind| format!("everybuddy-{}-{kind}", std::process::id());
        let memory = || Instance::create(&tracefs, &name("memory"), buffer_bytes);
        let memory = has_calls.then(memory).transpose()?;
        let tree = Instance::create(&tracefs, &name("tree"), buffer_bytes)?;
        let mut recorder = Recorder {
            drain: None,
            memory,
            tree,
            decoder: Decoder::default(),
            layout,
            buffer_bytes,
            cpus: 0,
            missing: Vec::new(),
            scope: None,
            known: Vec::new(),
            machine: None,
            begin_ns: 0,
        };
        if has_calls {
            recorder.enable(&tracefs)?;
        }
        match options.contents {
            Contents::Calls => {}
            Contents::CallsAndWaits => recorder.enable_locks(&tracefs, &LOCKS)?,
            Contents::Waits => recorder.enable_locks(&tracefs, &WAITS_ONLY)?,
        }
        if let (false, Some(Missing { tracepoint, .. })) = (has_calls, recorder.missing.first()) {
            return Err(RecordError::NoWaits { tracepoint });
        }
        let memory = recorder.memory.as_ref().map(Instance::open_cpus);
        let mut files = memory.transpose()?.unwrap_or_default();
        let tree = recorder.tree.open_cpus()?;
        recorder.cpus = tree.len();
        files.extend(tree);
        recorder.drain = Some(Drain::begin(files, &options.folder, layout)?);
        // The buffers of this recording are allocated by now, and do not count as free.
        recorder.machine = machine::here();
        Ok(recorder)
    }

    /// Enables the events of calls, and those that explain them.
    fn enable(&mut self, tracefs: &Tracefs) -> Result<(), RecordError> {
        // Only x86-64 has these numbers; on other architectures regions are unknown anyway.
        if cfg!(target_arch = "x86_64") {
            // Without the filter there is more to record, but nothing else is wrong.
            let _ = self.tree.filter("raw_syscalls/sys_exit", MEMORY_CALLS);
        }
        let tree = Some(&self.tree);
        for (instance, tracepoints) in [(self.memory.as_ref(), &MEMORY[..]), (tree, &TASKS[..])] {
            for tracepoint in tracepoints {
                if tracefs.teach(&mut self.decoder, tracepoint)? {
                    instance.map_or(Ok(()), |instance| instance.enable(tracepoint))?;
                } else if let Some(lacking) = tracepoint.lacking {
                    let tracepoint = tracepoint.path;
                    self.missing.push(Missing {
                        tracepoint,
                        lacking,
                    });
                }
            }
        }
        Ok(())
    }

    /// Enables the first of these kinds of events about the zone's lock that the kernel has.
    fn enable_locks(&mut self, tracefs: &Tracefs, kinds: &[LockEvents]) -> Result<(), RecordError> {
        for LockEvents {
            tracepoints,
            needs_callers,
            filter,
        } in kinds
        {
            let mut has_all = true;
            for tracepoint in *tracepoints {
                has_all &= tracefs.teach(&mut self.decoder, tracepoint)?;
            }
            if !has_all {
                continue;
            }
            // Without callers it is unknown which of the kernel's locks it is, so nothing is recorded.
            if *needs_callers && !self.enable_chains(tracefs, tracepoints)? {
                self.missing.push(Missing {
                    tracepoint: "ftrace/kernel_stack, or the addresses in /proc/kallsyms",
                    lacking: WAITS,
                });
                return Ok(());
            }
            if let (Some(filter), Some(first)) = (filter, tracepoints.first()) {
                self.tree.filter(first.path, filter)?;
            }
            return tracepoints
                .iter()
                .try_for_each(|tracepoint| self.tree.enable(tracepoint));
        }
        self.missing.push(Missing {
            tracepoint: "lock/contention_begin",
            lacking: WAITS,
        });
        Ok(())
    }

    /// Lets the ends of waits record their callers. Returns `false` if that is impossible here.
    fn enable_chains(
        &mut self,
        tracefs: &Tracefs,
        tracepoints: &[Tracepoint],
    ) -> Result<bool, RecordError> {
        let functions = Functions::parse(&fs::read_to_string(KALLSYMS).unwrap_or_default());
        if functions.is_empty() || !tracefs.teach(&mut self.decoder, &CHAIN)? {
            return Ok(false);
        }
        self.decoder.name_functions(functions);
        let Some(end) = tracepoints.last() else {
            return Ok(false);
        };
        Ok(self.tree.record_chains(end, MOST_CHAINS).is_ok())
    }

    /// Returns the tracepoints that this kernel lacks, and the missing information.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Starts recording, and starts a command: it and all its descendants are recorded.
    ///
    /// # Errors
    ///
    /// Returns an error if the command cannot be started, or the kernel cannot follow it.
    pub fn start(&mut self, command: &mut Command) -> Result<Child, RecordError> {
        self.tree.write("options/event-fork", "1")?;
        self.begin()?;
        // The command is started by a separate thread, because the kernel follows the children of a followed thread.
        // When that thread ends, it is no longer followed, and no other thread of this program ever is.
        let tree = &self.tree;
        let child = thread::scope(|scope| {
            let spawner = scope.spawn(|| {
                let own = fs::read_link("/proc/thread-self")
                    .map_err(|cause| RecordError::at("/proc/thread-self", cause))?;
                let tid = own
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                tree.write("set_event_pid", &tid)?;
                command.spawn().map_err(|cause| RecordError::NoCommand {
                    program: command.get_program().to_string_lossy().into_owned(),
                    cause,
                })
            });
            match spawner.join() {
                Ok(child) => child,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })?;
        // Without calls the assembly knows no tasks, and the kernel reports only those that it follows.
        self.scope = Some(match self.memory {
            Some(_) => Scope::Tree { root: child.id() },
            None => Scope::Everything,
        });
        Ok(child)
    }

    /// Starts recording the whole machine except this program.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel rejects the operation.
    pub fn start_machine(&mut self) -> Result<(), RecordError> {
        // The activity of this program while it reads is irrelevant, and would never end. Kernels before 5.7 cannot
        // exclude it here; its allocations are omitted later in any case.
        let own: Vec<String> = existing::own_threads().iter().map(u32::to_string).collect();
        let _ = self.tree.write("set_event_notrace_pid", &own.join(" "));
        if self.memory.is_some() {
            self.known = existing::processes();
        }
        self.scope = Some(Scope::Everything);
        self.begin()
    }

    fn begin(&mut self) -> Result<(), RecordError> {
        self.begin_ns = now_ns();
        self.tree.write("tracing_on", "1")?;
        let memory = self.memory.as_ref();
        memory.map_or(Ok(()), |memory| memory.write("tracing_on", "1"))
    }

    /// Returns the sums of the counters of all buffers.
    fn counts(&self) -> BufferCounts {
        let (tree, memory) = (Some(&self.tree), self.memory.as_ref());
        let instances = tree.into_iter().chain(memory);
        instances.fold(BufferCounts::default(), |sum, own| sum.with(own.counts()))
    }

    /// Returns the progress of the recording. Reads a small file per CPU.
    pub fn progress(&self) -> RecordProgress {
        RecordProgress {
            events: self.counts().records,
            bytes: self.drain.as_ref().map_or(0, Drain::bytes),
        }
    }

    /// Returns `true` if draining the kernel's buffers has failed, for example because the disk is full: the caller
    /// should stop, which then reports the reason.
    pub fn has_failed(&self) -> bool {
        self.drain.as_ref().is_some_and(Drain::has_ended)
    }

    /// Waits for the frees that the kernel defers after a process has exited, if calls are recorded. 0.25 s.
    pub fn settle(&self) {
        if self.memory.is_some() {
            thread::sleep(SETTLING);
        }
    }

    /// Ends the recording, and removes it from the kernel.
    ///
    /// # Errors
    ///
    /// Returns an error if the recorded data could not be stored, for example because the disk is full.
    pub fn stop(mut self) -> Result<Recording, RecordError> {
        if let Some(memory) = &self.memory {
            memory.write("tracing_on", "0")?;
        }
        self.tree.write("tracing_on", "0")?;
        let waits_only = [self.begin_ns, now_ns()];
        let own_threads = existing::own_threads();
        let streams = match self.drain.take() {
            Some(drain) => drain.finish()?,
            None => Vec::new(),
        };
        let counts = self.counts();
        let of_memory = self.memory.as_ref().map_or(0, Instance::buffer_bytes);
        let cost = RecordCost {
            events: counts.records,
            bytes: streams.iter().map(|stream| stream.bytes).sum(),
            buffer_bytes: of_memory + self.tree.buffer_bytes(),
            buffer_bytes_of_cpu: self.buffer_bytes,
            cpus: self.cpus,
        };
        Ok(Recording {
            scope: self.scope.unwrap_or(Scope::Everything),
            streams,
            known: std::mem::take(&mut self.known),
            machine: self.machine.take(),
            own_threads,
            decoder: std::mem::take(&mut self.decoder),
            layout: self.layout,
            cost,
            lost: counts.lost,
            missing: std::mem::take(&mut self.missing),
            waits_only: self.memory.is_none().then_some(waits_only),
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The instances are removed afterwards, because the kernel rejects that while their files are open.
        if let Some(drain) = self.drain.take() {
            let _ = drain.finish();
        }
    }
}

impl Recording {
    /// Returns the cost of the recording.
    pub fn cost(&self) -> RecordCost {
        self.cost
    }

    /// Assembles the trace and names it.
    ///
    /// `report` is called now and then with the number of events done so far, of
    /// [`RecordCost::events`]. Takes about half a microsecond per event.
    ///
    /// # Errors
    ///
    /// Returns an error if the recorded pages cannot be read back, or if the command's number is not the kernel's.
    pub fn assemble(
        self,
        name: &str,
        mut report: impl FnMut(u64),
    ) -> Result<Recorded, RecordError> {
        let unread = |cause| RecordError::Io {
            path: PathBuf::from("temporary file"),
            cause,
        };
        let mut assembly = Assembly::new(self.scope);
        assembly.leave_out(&self.own_threads);
        if let Some([from_ns, to_ns]) = self.waits_only {
            assembly.keep_waits_only(from_ns, to_ns);
        }
        for process in &self.known {
            assembly.register_known(process);
        }
        let mut merge = Merge::new(self.streams, &self.decoder, &self.layout).map_err(unread)?;
        let mut done = 0;
        while let Some(event) = merge.next().map_err(unread)? {
            assembly.push(event);
            done += 1;
            if done % (1 << 16) == 0 {
                report(done);
            }
        }
        let faults = merge.faults();
        let losses = Losses {
            events: self.lost,
            lossy_pages: faults.lossy,
            told_by_pages: faults.lost,
            cut_pages: faults.cut,
        };
        let mut assembled = assembly.finish(name);
        if let Scope::Tree { root } = self.scope
            && assembled.accounts.tasks == 0
            && losses.is_none()
        {
            return Err(RecordError::OtherNumbers { pid: root });
        }
        let missing: Vec<_> = self
            .missing
            .iter()
            .map(|missing| missing.tracepoint)
            .collect();
        let about = json!({
            "clock": "mono",
            "cpus": self.cost.cpus,
            "events": self.cost.events,
            "buffer_bytes_of_cpu": self.cost.buffer_bytes_of_cpu,
            "lost_events": losses.events,
            "lossy_pages": losses.lossy_pages,
            "lost_events_told_by_pages": losses.told_by_pages,
            "cut_pages": losses.cut_pages,
            "unknown_records": faults.unknown,
            "missing_tracepoints": missing,
        });
        let entry = ("recording".to_string(), about.to_string());
        assembled.trace.metadata.push(entry);
        assembled
            .trace
            .metadata
            .extend(self.machine.as_ref().map(Machine::entry));
        Ok(Recorded {
            assembled,
            losses,
            cost: self.cost,
            missing: self.missing,
        })
    }
}

/// Returns the time on the clock of the recorded events.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec as u64, now.tv_nsec as u64);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Asks a process to terminate, like `kill PID`. A process that has ended is left alone.
pub fn terminate(pid: u32) {
    let pid = i32::try_from(pid).ok();
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Chooses buffers that take at most a sixteenth of the machine's memory.
fn default_buffer(cpus: usize) -> u64 {
    let memory = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| machine::kib(&text, "MemTotal:"));
    let share = (memory.unwrap_or(0) << 10) / 16 / (2 * cpus as u64);
    share.clamp(SMALLEST_DEFAULT, LARGEST_DEFAULT)
}

/// Checks that recording is possible here.
///
/// Only queries the machine; creates nothing.
///
/// # Errors
///
/// Returns an error without privileges or tracefs.
pub fn can_record() -> Result<(), RecordError> {
    let tracefs = Tracefs::find()?;
    let layout = tracefs.page_layout();
    layout.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_follow_the_memory() {
        let text = "MemTotal:       24000000 kB\nMemFree: 1 kB\n";
        assert_eq!(machine::kib(text, "MemTotal:"), Some(24_000_000));
        assert_eq!(machine::kib("nothing", "MemTotal:"), None);
        let buffer = default_buffer(2);
        assert!((SMALLEST_DEFAULT..=LARGEST_DEFAULT).contains(&buffer));
        assert!(default_buffer(100_000) == SMALLEST_DEFAULT);
    }
}
