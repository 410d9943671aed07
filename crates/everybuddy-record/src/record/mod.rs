//! Records what a command, or the whole machine, asks of the kernel's page allocator.
//!
//! Exists so that anybody's program becomes a trace with one command. The kernel's tracepoints
//! tell of each allocation, free, fault and system call; two private instances of the tracer
//! collect them, one of the whole machine (whoever frees a frame) and one of the command and its
//! descendants.
//!
//! | room | its question |
//! |------|--------------|
//! | `tracefs` | how is the kernel told what to record? |
//! | `page`, `decode`, and `format` of the crate | what does a page of the ring buffer say? |
//! | `drain` | how do pages get out while the command runs? |
//! | `merge` | in which order did it happen on all CPUs? |
//! | `existing` | who was there before? |
//! | `error` | what can keep it from happening? |
//!
//! Invariant: others' tracing is not touched, and nothing of a recording stays behind in the
//! kernel once its [`Recorder`] is gone.

pub(crate) mod decode;
mod drain;
mod error;
mod existing;
mod made;
mod merge;
pub(crate) mod page;
mod tracefs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use serde_json::json;

pub use error::RecordError;

use self::decode::{Decoder, MEMORY, TASKS, Tracepoint};
use self::drain::{Drain, Stream};
use self::merge::Merge;
use self::page::PageLayout;
use self::tracefs::{Instance, Tracefs};
use crate::assemble::{Assembled, Assembly, KnownProcess, Scope};

/// How long frees still come after a process has exited: the kernel puts some off.
const SETTLING: Duration = Duration::from_millis(250);

/// Buffer of each CPU and instance: enough for a third of a second of nothing but page faults.
const LARGEST_DEFAULT: u64 = 32 << 20;
/// The least that is worth trying.
const SMALLEST_DEFAULT: u64 = 1 << 20;

/// Ends of system calls that change address regions: mmap, munmap, brk, mremap.
const MEMORY_CALLS: &str = "id==9||id==11||id==12||id==25";

/// How to record.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Bytes of the kernel's buffer for each CPU, twice (memory and tree); `None` chooses by the
    /// machine's memory, 32 MiB on most.
    pub buffer_bytes: Option<u64>,
    /// Folder for what is recorded until it is a trace: about 40 bytes for each event, in files
    /// without name.
    pub folder: PathBuf,
}

/// A recording that is being made.
///
/// Dropping it ends the recording and removes all of it.
#[derive(Debug)]
pub struct Recorder {
    drain: Option<Drain>,
    memory: Instance,
    tree: Instance,
    decoder: Decoder,
    layout: PageLayout,
    buffer_bytes: u64,
    cpus: usize,
    missing: Vec<Missing>,
    scope: Option<Scope>,
    known: Vec<KnownProcess>,
}

/// A tracepoint that this kernel does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its group and name.
    pub tracepoint: &'static str,
    /// What the trace lacks without it.
    pub lacking: &'static str,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordProgress {
    /// Events that the kernel has recorded.
    pub events: u64,
    /// Bytes that have been moved out of the kernel.
    pub bytes: u64,
}

/// What was recorded, as the kernel's pages.
#[derive(Debug)]
pub struct Recording {
    scope: Scope,
    streams: Vec<Stream>,
    known: Vec<KnownProcess>,
    own_threads: Vec<u32>,
    decoder: Decoder,
    layout: PageLayout,
    cost: RecordCost,
    lost: u64,
    missing: Vec<Missing>,
}

/// What a recording took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCost {
    /// Events that the kernel recorded, of whomever.
    pub events: u64,
    /// Bytes of pages.
    pub bytes: u64,
    /// Bytes of all the kernel's buffers.
    pub buffer_bytes: u64,
    /// Bytes of one of them: of one CPU in one instance.
    pub buffer_bytes_of_cpu: u64,
    /// CPUs that were recorded.
    pub cpus: usize,
}

/// Events that the kernel could not record, or that could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events for which a buffer had no room.
    pub events: u64,
    /// Pages before which events are missing.
    pub lossy_pages: u64,
    /// Events that such pages say are missing, where they say it.
    pub told_by_pages: u64,
    /// Pages that ended within an event.
    pub cut_pages: u64,
}

impl Losses {
    /// Returns whether nothing was lost.
    pub fn is_none(&self) -> bool {
        *self == Losses::default()
    }
}

/// A finished recording.
#[derive(Debug)]
pub struct Recorded {
    /// The trace, and what was left out and inferred.
    pub assembled: Assembled,
    /// What was lost.
    pub losses: Losses,
    /// What it took.
    pub cost: RecordCost,
    /// Tracepoints that the kernel does not have.
    pub missing: Vec<Missing>,
}

impl Recorder {
    /// Gets everything ready, without recording yet. The files of the recording are private: no
    /// other program's tracing changes.
    ///
    /// Takes as long as the kernel needs for the buffers, about 0.1 s for 128 MiB.
    ///
    /// # Errors
    ///
    /// Without privileges, tracefs, the needed tracepoints, or memory for the buffers.
    pub fn new(options: &RecordOptions) -> Result<Recorder, RecordError> {
        let tracefs = Tracefs::find()?;
        tracefs::remove_leftovers(&tracefs);
        let layout = tracefs.page_layout()?;
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let buffer_bytes = options.buffer_bytes.unwrap_or_else(|| default_buffer(cpus));
        let name = |kind| format!("everybuddy-{}-{kind}", std::process::id());
        let memory = Instance::create(&tracefs, &name("memory"), buffer_bytes)?;
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
        };
        recorder.enable(&tracefs, &MEMORY, &TASKS)?;
        let mut files = recorder.memory.open_cpus()?;
        recorder.cpus = files.len();
        files.extend(recorder.tree.open_cpus()?);
        recorder.drain = Some(Drain::begin(files, &options.folder, layout)?);
        Ok(recorder)
    }

    fn enable(
        &mut self,
        tracefs: &Tracefs,
        memory: &[Tracepoint],
        tasks: &[Tracepoint],
    ) -> Result<(), RecordError> {
        // Only x86-64 numbers these so; elsewhere regions are unknown in any case.
        if cfg!(target_arch = "x86_64") {
            // Without the filter there is more to record, and nothing else is wrong.
            let _ = self.tree.filter("raw_syscalls/sys_exit", MEMORY_CALLS);
        }
        for (instance, tracepoints) in [(&self.memory, memory), (&self.tree, tasks)] {
            for tracepoint in tracepoints {
                if tracefs.teach(&mut self.decoder, tracepoint)? {
                    instance.enable(tracepoint)?;
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

    /// Returns the tracepoints that this kernel does not have, and what the trace will lack.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Begins to record, and starts a command: it and all its descendants are recorded.
    ///
    /// # Errors
    ///
    /// When the command can't be started, or the kernel refuses to follow it.
    pub fn start(&mut self, command: &mut Command) -> Result<Child, RecordError> {
        self.tree.write("options/event-fork", "1")?;
        self.begin()?;
        // A thread of its own starts the command, since the kernel follows whom a followed thread
        // makes: when it ends it is followed no longer, and nothing else of this program ever is.
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
        self.scope = Some(Scope::Tree { root: child.id() });
        Ok(child)
    }

    /// Begins to record everything that the machine does but this program.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn start_machine(&mut self) -> Result<(), RecordError> {
        // What this program does while it reads is of no interest, and would never end. Kernels
        // before 5.7 can't leave it out here; its allocations are left out later in any case.
        let own: Vec<String> = existing::own_threads().iter().map(u32::to_string).collect();
        let _ = self.tree.write("set_event_notrace_pid", &own.join(" "));
        self.known = existing::processes();
        self.scope = Some(Scope::Everything);
        self.begin()
    }

    fn begin(&self) -> Result<(), RecordError> {
        self.tree.write("tracing_on", "1")?;
        self.memory.write("tracing_on", "1")
    }

    /// Returns how far the recording is. Reads a small file for each CPU.
    pub fn progress(&self) -> RecordProgress {
        RecordProgress {
            events: self.memory.counts().records + self.tree.counts().records,
            bytes: self.drain.as_ref().map_or(0, Drain::bytes),
        }
    }

    /// Returns whether moving events out of the kernel has failed, for example since the disk is
    /// full: it is time to stop, which then says why.
    pub fn has_failed(&self) -> bool {
        self.drain.as_ref().is_some_and(Drain::has_ended)
    }

    /// Waits for what the kernel frees shortly after a process has exited. 0.25 s.
    pub fn settle(&self) {
        thread::sleep(SETTLING);
    }

    /// Ends the recording, and removes it from the kernel.
    ///
    /// # Errors
    ///
    /// When what was recorded could not be kept, for example since the disk is full.
    pub fn stop(mut self) -> Result<Recording, RecordError> {
        self.memory.write("tracing_on", "0")?;
        self.tree.write("tracing_on", "0")?;
        let own_threads = existing::own_threads();
        let streams = match self.drain.take() {
            Some(drain) => drain.finish()?,
            None => Vec::new(),
        };
        let (memory, tree) = (self.memory.counts(), self.tree.counts());
        let cost = RecordCost {
            events: memory.records + tree.records,
            bytes: streams.iter().map(|stream| stream.bytes).sum(),
            buffer_bytes: self.memory.buffer_bytes() + self.tree.buffer_bytes(),
            buffer_bytes_of_cpu: self.buffer_bytes,
            cpus: self.cpus,
        };
        Ok(Recording {
            scope: self.scope.unwrap_or(Scope::Everything),
            streams,
            known: std::mem::take(&mut self.known),
            own_threads,
            decoder: std::mem::take(&mut self.decoder),
            layout: self.layout,
            cost,
            lost: memory.lost + tree.lost,
            missing: std::mem::take(&mut self.missing),
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The instances go after this, which the kernel refuses while their files are open.
        if let Some(drain) = self.drain.take() {
            let _ = drain.finish();
        }
    }
}

impl Recording {
    /// Returns what the recording took.
    pub fn cost(&self) -> RecordCost {
        self.cost
    }

    /// Makes the trace of it, which gets a name.
    ///
    /// `tell` is called now and then with the number of events done so far, of
    /// [`RecordCost::events`]. Takes about half a microsecond for each event.
    ///
    /// # Errors
    ///
    /// When the recorded pages can't be read back, or the command's number is not the kernel's.
    pub fn assemble(self, name: &str, mut tell: impl FnMut(u64)) -> Result<Recorded, RecordError> {
        let unread = |cause| RecordError::Io {
            path: PathBuf::from("temporary file"),
            cause,
        };
        let mut assembly = Assembly::new(self.scope);
        assembly.leave_out(&self.own_threads);
        for process in &self.known {
            assembly.know(process);
        }
        let mut merge = Merge::new(self.streams, &self.decoder, &self.layout).map_err(unread)?;
        let mut done = 0;
        while let Some(event) = merge.next().map_err(unread)? {
            assembly.push(event);
            done += 1;
            if done % (1 << 16) == 0 {
                tell(done);
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
            "kernel": kernel(),
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
        Ok(Recorded {
            assembled,
            losses,
            cost: self.cost,
            missing: self.missing,
        })
    }
}

/// Asks a process to end, as `kill PID` does. One that has ended is left alone.
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
        .and_then(|text| total_memory(&text));
    let share = memory.unwrap_or(0) / 16 / (2 * cpus as u64);
    share.clamp(SMALLEST_DEFAULT, LARGEST_DEFAULT)
}

/// Finds the machine's memory in bytes in `/proc/meminfo`.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

/// Returns the kernel's version.
fn kernel() -> String {
    let read = |path: &Path| fs::read_to_string(path);
    let version = read(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
    version.trim().to_string()
}

/// Returns whether recording is possible here, and if not why.
///
/// Looks only: makes nothing.
///
/// # Errors
///
/// Without privileges or tracefs.
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
        assert_eq!(
            total_memory("MemTotal:       24000000 kB\nMemFree: 1 kB\n"),
            Some(24_000_000 << 10)
        );
        assert_eq!(total_memory("nothing"), None);
        let buffer = default_buffer(2);
        assert!((SMALLEST_DEFAULT..=LARGEST_DEFAULT).contains(&buffer));
        assert!(default_buffer(100_000) == SMALLEST_DEFAULT);
    }
}
