//! Large memory of the program in huge pages.
//!
//! A kernel reaches the metadata of its allocator through huge pages, those of its direct map. In a program, each
//! miss of a cache could also be a miss of the TLB, and a system with much metadata would look slower than it is in a
//! kernel. The same holds for what a workload keeps, and for the memory of other authors' allocators.
//!
//! # Invariants
//! Only the kernel's choice of pages changes: the memory is that of the standard allocator. Where the kernel has no
//! huge pages, small ones serve.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// Memory of at least this size is asked for in huge pages: 2 MiB, one huge page of x86-64 and of 64-bit ARM.
const LARGE: usize = 2 << 20;

/// The standard allocator, which asks for huge pages for whatever is large.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugePages;

/// Tells the kernel that `bytes` bytes from `start` on should lie in huge pages.
#[cfg(target_os = "linux")]
fn advise(start: *mut u8, bytes: usize) {
    const PAGE: usize = 4096;
    if bytes < LARGE || start.is_null() {
        return;
    }
    // From the start of a page: the address has to be one, and what lies before in that page loses nothing.
    let before = start.addr() % PAGE;
    // SAFETY: advice about pages changes no contents, and the pages are mapped: a part of each is in `start..`.
    let advised = unsafe {
        let first = start.wrapping_sub(before).cast();
        rustix::mm::madvise(first, bytes + before, rustix::mm::Advice::LinuxHugepage)
    };
    // A kernel without huge pages refuses. Then the memory is as it was.
    let _ = advised;
}

#[cfg(not(target_os = "linux"))]
fn advise(_start: *mut u8, _bytes: usize) {}

// SAFETY: all calls are passed to the standard allocator as they are.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let start = unsafe { System.alloc(layout) };
        advise(start, layout.size());
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let start = unsafe { System.alloc_zeroed(layout) };
        advise(start, layout.size());
        start
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let start = unsafe { System.realloc(old, layout, size) };
        advise(start, size);
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `true` if the kernel was asked to put the memory at an address in huge pages.
    #[cfg(target_os = "linux")]
    fn is_advised(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line
                .split(' ')
                .next()
                .and_then(|range| range.split_once('-'));
            let hex = |digits: &str| usize::from_str_radix(digits, 16).ok();
            if let Some((Some(start), Some(end))) = range.map(|(s, e)| (hex(s), hex(e))) {
                inside = (start..end).contains(&address);
            } else if inside && line.starts_with("VmFlags:") {
                return line.split(' ').any(|flag| flag == "hg");
            }
        }
        false
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn large_memory_is_advised() {
        const MIB: usize = 1 << 20;
        let layout = Layout::from_size_align(64 * MIB, 64).unwrap();
        // SAFETY: the layout is not empty.
        let plain = unsafe { System.alloc_zeroed(layout) };
        assert!(!is_advised(plain.addr() + 32 * MIB));
        // SAFETY: it was allocated with this layout.
        unsafe { System.dealloc(plain, layout) };
        // SAFETY: the layout is not empty.
        let start = unsafe { HugePages.alloc_zeroed(layout) };
        assert!(is_advised(start.addr() + 32 * MIB));
        // SAFETY: it was allocated with this layout, and the size is not zero.
        let start = unsafe { HugePages.realloc(start, layout, 128 * MIB) };
        assert!(is_advised(start.addr() + 96 * MIB));
        let layout = Layout::from_size_align(128 * MIB, 64).unwrap();
        // SAFETY: that is the size that it has now.
        unsafe { HugePages.dealloc(start, layout) };
    }
}
