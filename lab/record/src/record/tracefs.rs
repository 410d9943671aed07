//! The kernel's tracing files: private instances, and their settings.
//!
//! A recording never disturbs what others trace on the machine: everything happens
//! in instances of its own, which are folders that the kernel fills with files.
//!
//! # Invariants
//! An instance is removed when its owner goes, whatever happened before; with it go its
//! buffers and all that was enabled.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::decode::Decoder;
use super::error::RecordError;
use super::page::PageLayout;
use super::tracepoints::Tracepoint;
use crate::format::Format;

/// The usual locations of tracefs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The location of the kernel's tracing files.
#[derive(Clone, Debug)]
pub(super) struct Tracefs {
    root: PathBuf,
}

impl Tracefs {
    /// Finds tracefs.
    pub(super) fn find() -> Result<Tracefs, RecordError> {
        for place in PLACES.map(PathBuf::from) {
            let instances = place.join("instances");
            match fs::metadata(&instances) {
                Ok(_) => return Ok(Tracefs { root: place }),
                Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(RecordError::NotPermitted { path: place });
                }
                Err(_) => {}
            }
        }
        Err(RecordError::NoTracefs)
    }

    /// Reads the layout of pages of the ring buffer.
    pub(super) fn page_layout(&self) -> Result<PageLayout, RecordError> {
        let path = self.root.join("events/header_page");
        let text = read(&path).map_err(|cause| RecordError::at(&path, cause))?;
        let layout = PageLayout::new(&Format::parse(&text));
        layout.ok_or(RecordError::UnknownFormat { path })
    }

    /// Registers a tracepoint with a decoder. Returns `false` if this kernel lacks it, or has an incompatible one.
    pub(super) fn teach(
        &self,
        decoder: &mut Decoder,
        tracepoint: &Tracepoint,
    ) -> Result<bool, RecordError> {
        let path = self
            .root
            .join("events")
            .join(tracepoint.path)
            .join("format");
        let known = match read(&path) {
            Ok(text) => decoder.learn(tracepoint, &Format::parse(&text)),
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                return Err(RecordError::NotPermitted { path });
            }
            Err(_) if tracepoint.lacking.is_none() => {
                let tracepoint = tracepoint.path;
                return Err(RecordError::NoTracepoint { tracepoint });
            }
            Err(_) => false,
        };
        if known || tracepoint.lacking.is_some() {
            Ok(known)
        } else {
            Err(RecordError::UnknownFormat { path })
        }
    }
}

/// Reads one of the kernel's files. Some return their text only to the first read, however small its buffer, so the
/// first read uses a large one.
fn read(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(String::from_utf8_lossy(&text).into_owned()),
            Ok(length) => text.extend(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A private instance of the tracer.
#[derive(Debug)]
pub(super) struct Instance {
    folder: PathBuf,
}

impl Instance {
    /// Creates an instance, not recording, with the clock that all CPUs share, and buffers of `bytes` bytes per CPU.
    /// A full buffer loses new events, not old ones.
    pub(super) fn create(
        tracefs: &Tracefs,
        name: &str,
        bytes: u64,
    ) -> Result<Instance, RecordError> {
        let folder = tracefs.root.join("instances").join(name);
        fs::create_dir(&folder).map_err(|cause| RecordError::at(&folder, cause))?;
        let instance = Instance { folder };
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        instance.write("options/overwrite", "0")?;
        let kilobytes = (bytes >> 10).max(1).to_string();
        match instance.write("buffer_size_kb", &kilobytes) {
            Err(RecordError::Io { .. }) => Err(RecordError::NoBuffer { bytes }),
            other => other,
        }?;
        Ok(instance)
    }

    /// Writes to one of the instance's files.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), RecordError> {
        let path = self.folder.join(file);
        let opened = OpenOptions::new().write(true).truncate(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|cause| RecordError::at(path, cause))
    }

    /// Enables a tracepoint.
    pub(super) fn enable(&self, tracepoint: &Tracepoint) -> Result<(), RecordError> {
        self.write(&format!("events/{}/enable", tracepoint.path), "1")
    }

    /// Lets the first `most` events of a tracepoint record their call chains.
    pub(super) fn record_chains(
        &self,
        tracepoint: &Tracepoint,
        most: u32,
    ) -> Result<(), RecordError> {
        let file = format!("events/{}/trigger", tracepoint.path);
        self.write(&file, &format!("stacktrace:{most}"))
    }

    /// Restricts a tracepoint to events that pass a filter.
    pub(super) fn filter(&self, tracepoint: &str, filter: &str) -> Result<(), RecordError> {
        self.write(&format!("events/{tracepoint}/filter"), filter)
    }

    /// Opens the raw pages of each CPU, with the CPU's number; reading them never blocks.
    pub(super) fn open_cpus(&self) -> Result<Vec<(u16, File, PathBuf)>, RecordError> {
        let mut files = Vec::new();
        for cpu in self.cpus()? {
            let path = self.folder.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let mut options = OpenOptions::new();
            let options = options
                .read(true)
                .custom_flags(OFlags::NONBLOCK.bits() as i32);
            let file = options
                .open(&path)
                .map_err(|cause| RecordError::at(&path, cause))?;
            files.push((cpu, file, path));
        }
        Ok(files)
    }

    /// Returns the sum of the buffers' own counters.
    pub(super) fn counts(&self) -> BufferCounts {
        let mut counts = BufferCounts::default();
        for cpu in self.cpus().unwrap_or_default() {
            let path = self.folder.join(format!("per_cpu/cpu{cpu}/stats"));
            // A CPU that has just gone offline has no counters.
            counts.add(&read(&path).unwrap_or_default());
        }
        counts
    }

    /// Returns the size in bytes of the buffers of all CPUs.
    pub(super) fn buffer_bytes(&self) -> u64 {
        let text = read(&self.folder.join("buffer_total_size_kb"));
        let kilobytes = text
            .unwrap_or_default()
            .split_whitespace()
            .next()
            .map(str::parse::<u64>);
        kilobytes.and_then(Result::ok).unwrap_or(0) << 10
    }

    fn cpus(&self) -> Result<Vec<u16>, RecordError> {
        let path = self.folder.join("per_cpu");
        let entries = fs::read_dir(&path).map_err(|cause| RecordError::at(&path, cause))?;
        let mut cpus: Vec<u16> = entries
            .filter_map(|entry| {
                entry
                    .ok()?
                    .file_name()
                    .to_str()?
                    .strip_prefix("cpu")?
                    .parse()
                    .ok()
            })
            .collect();
        cpus.sort_unstable();
        Ok(cpus)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.write("tracing_on", "0");
        let _ = self.write("events/enable", "0");
        // The kernel refuses while a file of the instance is open; the reader closes it first.
        if fs::remove_dir(&self.folder).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// The counters of an instance's ring buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BufferCounts {
    /// Records that were written and are still there or were read.
    pub(super) records: u64,
    /// Records that did not fit.
    pub(super) lost: u64,
}

impl BufferCounts {
    /// Returns the sums of both.
    pub(super) fn with(self, other: BufferCounts) -> BufferCounts {
        BufferCounts {
            records: self.records + other.records,
            lost: self.lost + other.lost,
        }
    }

    /// Adds the counters of one CPU's file `stats`.
    fn add(&mut self, stats: &str) {
        for (name, value) in stats.lines().filter_map(|line| line.split_once(':')) {
            let value: u64 = value.trim().parse().unwrap_or(0);
            match name.trim() {
                "entries" | "read events" => self.records += value,
                "overrun" | "commit overrun" | "dropped events" => self.lost += value,
                _ => {}
            }
        }
    }
}

/// Removes instances left behind by killed recordings: those without a living process.
pub(super) fn remove_leftovers(tracefs: &Tracefs) {
    let Ok(entries) = fs::read_dir(tracefs.root.join("instances")) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(owner_of);
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            drop(Instance {
                folder: entry.path(),
            });
        }
    }
}

/// Returns the process in an instance's name, or `None` for other instances.
fn owner_of(name: &str) -> Option<u32> {
    let (pid, kind) = name.strip_prefix("everybuddy-")?.split_once('-')?;
    (kind == "memory" || kind == "tree").then(|| pid.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_every_kind_are_added() {
        let mut counts = BufferCounts::default();
        let stats = "entries: 10\noverrun: 1\ncommit overrun: 2\nbytes: 99\n\
            oldest event ts:     1.5\nnow ts: 34666.041033\ndropped events: 4\nread events: 30\n";
        counts.add(stats);
        counts.add(stats);
        assert_eq!(
            counts,
            BufferCounts {
                records: 80,
                lost: 14
            }
        );
    }

    #[test]
    fn only_our_own_instances_have_an_owner() {
        assert_eq!(owner_of("everybuddy-12-memory"), Some(12));
        for other in [
            "pa",
            "everybuddy-12",
            "everybuddy-x-tree",
            "everybuddy-12-other",
        ] {
            assert_eq!(owner_of(other), None);
        }
    }
}
