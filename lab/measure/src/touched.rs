//! Real memory behind the frames, and what is done with a frame.
//!
//! An allocator hands out numbers. Which number it hands out decides whether the memory behind is in a cache and in a
//! translation buffer. This memory is one mapping as large as what is managed, behind huge pages as the direct map of a
//! kernel, so that both effects are those of a kernel.
//!
//! # Invariants
//! All of the memory exists before the first use: no use causes a page fault. A place outside of the memory is not
//! accessed. While it is used, nothing else is called.

#![allow(unsafe_code)]

use std::alloc::{self, Layout};
use std::fs;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;

use everybuddy_workload::Use;

use crate::Error;
use crate::size;

/// Bytes of a frame, of a cache line, and of a huge page.
const FRAME: usize = 4096;
const LINE: usize = 64;
pub(crate) const HUGE: usize = 2 << 20;

/// Bytes that are read between two calls if caches are to be cold.
pub const SWEPT: usize = 64 << 20;

/// How the memory behind the frames differs from a kernel's, to show which effect a difference has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ablation {
    /// Pages of 4 KiB are behind it instead of huge ones.
    pub small_pages: bool,
    /// 64 MiB are read between two calls.
    pub cold_caches: bool,
    /// Frames that follow each other by number do not follow each other in memory.
    pub random_order: bool,
}

/// A field of an ablation.
type Change = fn(&mut Ablation) -> &mut bool;

impl Ablation {
    /// The names, and what each changes.
    const NAMES: [(&str, Change); 3] = [
        ("small-pages", |own| &mut own.small_pages),
        ("cold-caches", |own| &mut own.cold_caches),
        ("random-order", |own| &mut own.random_order),
    ];

    /// Creates what these names select.
    ///
    /// # Errors
    /// Returns a usage error for an unknown name.
    pub fn of(names: &[String]) -> Result<Ablation, Error> {
        let mut own = Ablation::default();
        for name in names {
            let Some((_, set)) = Self::NAMES.iter().find(|known| known.0 == name) else {
                let known = Self::NAMES.map(|known| known.0).join(", ");
                return Err(Error::usage(format!(
                    "--ablate {name}: not found\nhelp: choose from {known}"
                )));
            };
            *set(&mut own) = true;
        }
        Ok(own)
    }
}

/// The memory behind the frames.
#[derive(Debug)]
pub struct Touched {
    start: NonNull<u8>,
    layout: Layout,
    frames: u32,
    ablation: Ablation,
    /// What is read between two calls.
    swept: Vec<u64>,
    /// The part of the memory that lies in huge pages; `None` if the kernel does not say.
    huge: Option<f64>,
}

// SAFETY: the memory belongs to this value alone, and has no type. Threads access it only by frames that an allocator
// has handed out to one of them. That it does so is what the checks of allocators are about; no byte is interpreted.
unsafe impl Send for Touched {}
// SAFETY: as above.
unsafe impl Sync for Touched {}

impl Touched {
    /// Creates memory for this number of frames, all of which exist. O(frames).
    ///
    /// # Errors
    /// Returns a usage error if the machine does not have as much.
    pub fn new(frames: u64, ablation: Ablation) -> Result<Touched, Error> {
        let refuse = || {
            Error::usage(format!(
                "frames that are touched need {} of real memory, and the machine has less\nhelp: use a smaller \
                 --memory",
                size::frames(frames)
            ))
        };
        let bytes = usize::try_from(frames).ok();
        let bytes = bytes
            .and_then(|frames| frames.checked_mul(FRAME))
            .filter(|bytes| *bytes > 0);
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, HUGE).ok());
        let layout = layout.ok_or_else(refuse)?;
        // A kernel promises more than it has, and ends the program when the memory is used.
        if available().is_some_and(|known| known < layout.size() as u64) {
            return Err(refuse());
        }
        let before = in_huge_pages();
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc::alloc(layout) }).ok_or_else(refuse)?;
        advise(start, layout.size(), ablation.small_pages);
        for at in (0..layout.size()).step_by(FRAME) {
            // SAFETY: inside of the allocation.
            let own = unsafe { start.add(at) };
            // SAFETY: a frame of the allocation is valid for as many bytes, and this thread alone knows it.
            unsafe { own.write_bytes(0, FRAME) };
        }
        let share = |(before, after): (u64, u64)| after.saturating_sub(before) as f64;
        let huge = before.zip(in_huge_pages()).map(share);
        let words = if ablation.cold_caches { SWEPT / 8 } else { 0 };
        Ok(Touched {
            start,
            layout,
            // A system manages fewer frames than that.
            frames: u32::try_from(frames).unwrap_or(u32::MAX),
            ablation,
            swept: vec![1; words],
            huge: huge.map(|bytes| bytes / layout.size() as f64),
        })
    }

    /// Returns the part of the memory that lies in huge pages; `None` if the kernel does not say.
    pub fn huge(&self) -> Option<f64> {
        self.huge
    }

    /// Returns whether caches are to be cold.
    pub fn is_cold(&self) -> bool {
        self.ablation.cold_caches
    }

    /// Returns the memory of some frames, if all of it exists.
    fn frame(&self, place: u32) -> Option<NonNull<u8>> {
        /// A prime number: with it, each frame has one place.
        const STEP: u64 = 2_654_435_761;
        if place >= self.frames {
            return None;
        }
        let place = if self.ablation.random_order {
            u64::from(place) * STEP % u64::from(self.frames)
        } else {
            u64::from(place)
        };
        // SAFETY: the place is below the number of frames of the allocation.
        Some(unsafe { self.start.add(place as usize * FRAME) })
    }

    /// Writes the first line of a frame.
    pub fn write_line(&self, place: u32) {
        if let Some(own) = self.frame(place) {
            // SAFETY: valid for writes and aligned; see the promise of `Sync`.
            unsafe { own.cast::<u64>().write_volatile(u64::from(place)) };
        }
    }

    /// Writes all of a frame.
    pub fn zero(&self, place: u32) {
        if let Some(own) = self.frame(place) {
            // SAFETY: a frame of the allocation is valid for as many bytes; see the promise of `Sync`.
            unsafe { own.write_bytes(0, FRAME) };
            black_box(own);
        }
    }

    /// Reads each line of a frame.
    pub fn read(&self, place: u32) -> u64 {
        (0..FRAME / LINE).fold(0, |sum, line| sum ^ self.read_line(place, line as u32))
    }

    /// Reads a line of a frame, modulo the lines that it has. Returns 0 for a place outside of the memory.
    pub fn read_line(&self, place: u32, line: u32) -> u64 {
        let Some(own) = self.frame(place) else {
            return 0;
        };
        // SAFETY: inside of the frame.
        let word = unsafe { own.add(line as usize % (FRAME / LINE) * LINE) };
        // SAFETY: valid for reads, aligned and initialized; see the promise of `Sync`.
        unsafe { word.cast::<u64>().read_volatile() }
    }

    /// Does with each frame of a block what a user does. A place beyond the memory, which the replay without an
    /// allocator has, is taken modulo.
    pub fn used(&self, place: u32, frames: u32, used: Use) {
        let place = place % self.frames.max(1);
        for own in place..place.saturating_add(frames) {
            match used {
                Use::Nothing => {}
                Use::Line => self.write_line(own),
                Use::Zeroed => self.zero(own),
                Use::Read => {
                    self.zero(own);
                    black_box(self.read(own));
                }
            }
        }
    }

    /// Replaces the contents of caches by something else, if they are to be cold.
    pub fn sweep(&self) {
        let lines = self.swept.iter().step_by(LINE / 8);
        black_box(lines.fold(0u64, |sum, word| sum.wrapping_add(*word)));
    }
}

impl Drop for Touched {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Loads the lines of a value into caches.
#[inline(always)]
pub(crate) fn load<T>(value: &mut T) {
    let start = ptr::from_mut(value).cast::<MaybeUninit<u8>>();
    // SAFETY: the bytes of a value that no other thread uses meanwhile; those of its padding are not interpreted.
    load_bytes(unsafe { slice::from_raw_parts(start, size_of::<T>()) });
}

fn load_bytes(bytes: &[MaybeUninit<u8>]) {
    // Lines begin anywhere, and the last byte may lie in one more.
    for byte in bytes.iter().step_by(LINE).chain(bytes.last()) {
        black_box(*byte);
    }
}

/// Returns the part of the existing pages around an address that are huge; `None` if the kernel does not say.
pub(crate) fn huge_share(address: usize) -> Option<f64> {
    share_around(&fs::read_to_string("/proc/self/smaps").ok()?, address)
}

/// Returns the same from a list of mappings, each with its range of addresses before its entries.
fn share_around(mappings: &str, address: usize) -> Option<f64> {
    let range = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let [start, end] = [start, end].map(|own| usize::from_str_radix(own, 16).ok());
        Some(start?..end?)
    };
    let mut lines = mappings.lines();
    lines.find(|line| range(line).is_some_and(|own| own.contains(&address)))?;
    let own: Vec<&str> = lines.take_while(|line| range(line).is_none()).collect();
    let bytes = |name| bytes(own.iter().copied(), name);
    let (huge, all) = (bytes("AnonHugePages:")?, bytes("Rss:")?);
    (all > 0).then(|| huge as f64 / all as f64)
}

/// Asks the kernel for huge pages behind the whole frames of some memory, as far as it was not used yet.
pub(crate) fn advise_huge<T>(memory: &[T]) {
    let start = memory.as_ptr().cast::<u8>();
    let skip = start.align_offset(FRAME);
    let bytes = size_of_val(memory).saturating_sub(skip) / FRAME * FRAME;
    if bytes > 0 {
        advise(
            NonNull::from_ref(memory)
                .cast::<u8>()
                .map_addr(|own| own.saturating_add(skip)),
            bytes,
            false,
        );
    }
}

/// Tells the kernel which pages should be behind memory that was not used yet.
fn advise(start: NonNull<u8>, bytes: usize, small_pages: bool) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::Advice::{LinuxHugepage, LinuxNoHugepage};
        let advice = if small_pages {
            LinuxNoHugepage
        } else {
            LinuxHugepage
        };
        // SAFETY: advice about pages changes no contents, and the allocation is mapped. It starts with a page.
        let advised = unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, advice) };
        // A kernel without huge pages refuses. What came of it is measured.
        let _ = advised;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes, small_pages);
}

/// Returns the bytes of an entry of a file of `/proc`.
fn entry(file: &str, name: &str) -> Option<u64> {
    bytes(fs::read_to_string(file).ok()?.lines(), name)
}

/// Returns the bytes of the first of these lines that has this name.
fn bytes<'l>(mut lines: impl Iterator<Item = &'l str>, name: &str) -> Option<u64> {
    let value = lines.find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn available() -> Option<u64> {
    entry("/proc/meminfo", "MemAvailable:")
}

/// Returns the bytes of this process that lie in huge pages, if the kernel says so.
pub(crate) fn in_huge_pages() -> Option<u64> {
    entry("/proc/self/smaps_rollup", "AnonHugePages:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_has_a_memory_of_its_own() {
        for random_order in [false, true] {
            let ablation = Ablation {
                random_order,
                ..Ablation::default()
            };
            let memory = Touched::new(1000, ablation).unwrap();
            (0..1000).for_each(|place| memory.write_line(place));
            assert!((0..1000).all(|place| memory.read_line(place, 64) == u64::from(place)));
            memory.zero(500);
            assert_eq!(memory.read(500), 0);
            assert_eq!(memory.read(501), 501);
            let distance = |place: u32| {
                let [one, next] = [place, place + 1].map(|own| memory.frame(own).unwrap().addr());
                one.get().abs_diff(next.get())
            };
            let neighbours = (0..999).filter(|place| distance(*place) == FRAME).count();
            assert_eq!(neighbours > 0, !random_order);
            memory.used(1500, 2, Use::Line);
            assert_eq!((memory.read(500), memory.read(502)), (500, 502));
            memory.used(501, 1, Use::Read);
            assert_eq!((memory.read(501), memory.read(502)), (0, 502));
            // Nothing outside is accessed.
            memory.zero(1000);
            assert_eq!(memory.read(u32::MAX), 0);
        }
    }

    #[test]
    fn loading_a_value_changes_nothing() {
        let mut value = [7u64; 33];
        load(&mut value);
        load(&mut ());
        assert_eq!(value, [7; 33]);
    }

    #[test]
    fn the_pages_of_a_mapping_are_not_those_of_its_neighbours() {
        let text = "1000-3000 rw-p 0\nRss: 8 kB\nAnonHugePages: 0 kB\nVmFlags: rd\n\
                    3000-8000 rw-p 0 [heap]\nRss: 16 kB\nAnonHugePages: 4 kB\n\
                    9000-a000 r--p 0\nRss: 8 kB\nAnonHugePages: 8 kB\n\
                    b000-c000 r--p 0\nRss: 0 kB\nAnonHugePages: 0 kB\n";
        let shares = [0x1000, 0x2fff, 0x3000, 0x7fff, 0x8000, 0x9000, 0xb000];
        let expected =
            [0, 0, 25, 25, -1, 100, -1].map(|own| (own >= 0).then_some(f64::from(own) / 100.0));
        assert_eq!(shares.map(|own| share_around(text, own)), expected);
        let bytes = vec![1u8; 1 << 20];
        let own = huge_share(bytes.as_ptr().addr());
        assert!(own.is_none_or(|own| (0.0..=1.0).contains(&own)), "{own:?}");
        assert!(own.is_some() || !cfg!(target_os = "linux"));
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        for frames in [0, 1 << 40, u64::MAX] {
            let error = Touched::new(frames, Ablation::default()).unwrap_err();
            assert!(error.to_string().contains("of real memory"), "{error}");
        }
        let error = Ablation::of(&["warm".to_string()]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("small-pages, cold-caches, random-order")
        );
        let own = Ablation::of(&["cold-caches".to_string()]).unwrap();
        assert!(own.cold_caches && !own.small_pages && !own.random_order);
    }
}
