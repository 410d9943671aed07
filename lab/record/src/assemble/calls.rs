//! The system calls that change an address space.
//!
//! This module follows the kernel's own rules as far as they are visible: a mapping replaces the mappings that it
//! overlaps, adjacent anonymous mappings of the same kind are merged, and the heap extends from the first break to
//! the last.
//!
//! # Invariants
//! Arguments are taken as they come; a call that could not have succeeded changes nothing.

use super::spaces::{Region, SpaceId, Spaces};
use everybuddy_trace::{AddressRegion, RegionKind};

/// Relevant flags of mmap.
const MAP_SHARED: u32 = 0x1;
const MAP_ANONYMOUS: u32 = 0x20;
const MAP_STACK: u32 = 0x2_0000;
/// Flags that affect how, and not what, is mapped: fixed, populate, nonblock, fixed without replacing.
const MAP_MANNER: u32 = 0x10 | 0x8000 | 0x1_0000 | 0x10_0000;

/// Page size, as a mask for rounding.
const PAGE_MASK: u64 = 0xfff;

/// Rounds a length or an address up to pages.
fn page_up(bytes: u64) -> Option<u64> {
    Some(bytes.checked_add(PAGE_MASK)? & !PAGE_MASK)
}

/// Returns the pages of a range of bytes from `start`; `None` if it is empty or beyond all addresses.
fn pages(start: u64, bytes: u64) -> Option<(u64, u64)> {
    let start = start & !PAGE_MASK;
    let end = start.checked_add(page_up(bytes)?)?;
    (end > start).then_some((start, end))
}

impl Spaces {
    /// Applies an mmap that returned `start`.
    pub(super) fn map(&mut self, id: SpaceId, start: u64, arguments: &[u64; 6], now_ns: u64) {
        let [_, bytes, prot, flags, fd, _] = *arguments;
        let Some((mut start, mut end)) = pages(start, bytes) else {
            return;
        };
        let (prot, flags) = (prot as u32, flags as u32);
        self.unmap(id, start, end);
        let is_anonymous = flags & MAP_ANONYMOUS != 0;
        let mut merged = None;
        if is_anonymous && prot != 0 && flags & (MAP_SHARED | MAP_STACK) == 0 {
            let same = |region: &Region| {
                let about = &region.about;
                about.kind == RegionKind::Anonymous
                    && about.prot == prot
                    && (about.flags ^ flags) & !MAP_MANNER == 0
            };
            if let Some(next) = self.adjacent_after(id, end, same) {
                merged = Some(self.own(id, end));
                end = next.end;
            }
            if let Some(first) = self.adjacent_before(id, start, same) {
                merged = Some(self.own(id, first));
                start = first;
            }
        }
        let region = match merged {
            Some(region) => region,
            None => {
                let (kind, fd) = if is_anonymous {
                    (RegionKind::Anonymous, -1)
                } else {
                    (RegionKind::File, fd as i32)
                };
                let about = AddressRegion {
                    prot,
                    flags,
                    fd,
                    ..self.about(id, start, end, kind, now_ns)
                };
                self.add(about, false)
            }
        };
        self.place(id, start, end, region);
    }

    /// Applies a successful munmap.
    pub(super) fn unmap_call(&mut self, id: SpaceId, arguments: &[u64; 6]) {
        if let Some((start, end)) = pages(arguments[0], arguments[1]) {
            self.unmap(id, start, end);
        }
    }

    /// Applies a brk that returned `new`.
    pub(super) fn set_break(&mut self, id: SpaceId, new: u64, now_ns: u64) {
        let old = self.replace_break(id, new);
        let (Some(old), Some(new)) = (old.and_then(page_up), page_up(new)) else {
            return;
        };
        if new < old {
            self.unmap(id, new, old);
        } else if new > old {
            self.unmap(id, old, new);
            let is_heap = |region: &Region| region.about.kind == RegionKind::Heap;
            let (start, region) = match self.adjacent_before(id, old, is_heap) {
                Some(first) => (first, self.own(id, first)),
                None => {
                    let about = AddressRegion {
                        prot: 3,
                        flags: 0x22,
                        ..self.about(id, old, new, RegionKind::Heap, now_ns)
                    };
                    (old, self.add(about, false))
                }
            };
            self.place(id, start, new, region);
        }
    }

    /// Applies an mremap that returned `start`.
    pub(super) fn remap(&mut self, id: SpaceId, start: u64, arguments: &[u64; 6], now_ns: u64) {
        let [old, old_bytes, new_bytes, ..] = *arguments;
        let Some((start, end)) = pages(start, new_bytes) else {
            return;
        };
        let moved = self.stretch_at(id, old).map(|first| self.own(id, first));
        if let Some((old, old_end)) = pages(old, old_bytes) {
            self.unmap(id, old, old_end);
        }
        let region = match moved {
            Some(region) => {
                self.move_region(region, start, end);
                region
            }
            None => {
                let about = self.about(id, start, end, RegionKind::Anonymous, now_ns);
                self.add(about, false)
            }
        };
        self.place(id, start, end, region);
    }
}
