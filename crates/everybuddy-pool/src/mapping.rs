//! Address space of the operating system.
//!
//! This is the only file that calls the memory management of the kernel.
//!
//! # Invariants
//! 1. A [`Mapping`] owns its addresses until it is dropped: no other code unmaps them.
//! 2. All of its bytes can be read and written, and were initialised: fresh pages of the kernel are zero.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::mem;
use std::ptr::{self, NonNull};

use crate::error::{NoHugePages, PoolError};

/// The bytes of a huge page, and of a block that is returned to the operating system if nothing else is chosen.
pub(crate) const HUGE: usize = 2 << 20;

/// What is done with the bytes of a pool.
const ACCESS: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// How a pool uses huge pages.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// As the system's administrator decided.
    #[default]
    Default,
    /// Transparent huge pages, where the kernel finds them (`MADV_HUGEPAGE`). A pool of this kind is not built if they
    /// are switched off.
    Advised,
    /// Huge pages of 2 MiB that the administrator reserved (`MAP_HUGETLB`). All of them are taken when the pool is
    /// built, and none is returned before it is dropped.
    Reserved,
}

/// Anonymous memory.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is a range of addresses, which has no thread. Access to its bytes goes through raw pointers, whose
// users argue for themselves.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes`, a multiple of the page size, from a multiple of `alignment`, a power of two.
    pub(crate) fn new(bytes: usize, alignment: usize, huge: HugePages) -> Result<Self, PoolError> {
        if huge == HugePages::Advised {
            check_transparent()?;
        }
        let failed = |errno| PoolError::Map { bytes, errno };
        // Address space alone costs nothing. What is not aligned is returned.
        let longer = bytes.checked_add(alignment);
        let longer = longer.ok_or_else(|| failed(libc::ENOMEM))?;
        // Pages are allocated when they are written first, so a pool can be larger than memory.
        let reserved = map(None, longer, libc::PROT_NONE, libc::MAP_NORESERVE).map_err(failed)?;
        let skip = reserved.as_ptr().align_offset(alignment);
        // SAFETY: `skip` is less than the alignment, so the result lies within the reserved addresses.
        let start = unsafe { reserved.add(skip) };
        // SAFETY: the end of the mapping lies within the reserved addresses as well.
        let end = unsafe { start.add(bytes) };
        unmap(reserved, skip);
        unmap(end, alignment - skip);
        let mapping = Self { start, bytes };
        if huge == HugePages::Reserved {
            let flags = libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
            if let Err(errno) = map(Some(start), bytes, ACCESS, flags) {
                // The kernel may have unmapped the addresses before it failed, and another thread may have mapped some
                // of them since. So they are not unmapped: at most, addresses are lost.
                mem::forget(mapping);
                let needed = bytes / HUGE;
                let reason = NoHugePages::Reserved { needed, errno };
                return Err(PoolError::NoHugePages { reason });
            }
            return Ok(mapping);
        }
        mapping.permit().map_err(failed)?;
        if huge == HugePages::Advised {
            mapping
                .advise(0, bytes, libc::MADV_HUGEPAGE)
                .map_err(|_| PoolError::NoHugePages {
                    reason: NoHugePages::Unsupported,
                })?;
        }
        Ok(mapping)
    }

    /// Permits access to all bytes. The addresses stay mapped if the kernel refuses.
    fn permit(&self) -> Result<(), i32> {
        let start = self.start.as_ptr().cast::<c_void>();
        // SAFETY: the mapping owns these addresses, and nothing refers to them yet.
        match unsafe { libc::mprotect(start, self.bytes, ACCESS) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }

    /// Returns the first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the pointer to a byte, or to the end. No caller has a larger offset; it would become the end.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.bytes, "a frame outside the mapping");
        // SAFETY: the result lies within the mapping, or at its end.
        unsafe { self.start.add(offset.min(self.bytes)) }
    }

    /// Returns the offset of a run of bytes. Returns `None` if it is not part of the mapping.
    pub(crate) fn offset(&self, address: usize, bytes: usize) -> Option<usize> {
        let offset = address.checked_sub(self.start.as_ptr().addr())?;
        (offset.checked_add(bytes)? <= self.bytes).then_some(offset)
    }

    /// Returns the memory of some pages to the operating system. They are zero afterwards.
    ///
    /// # Safety
    /// No reference to these pages exists.
    pub(crate) unsafe fn discard(&self, offset: usize, bytes: usize) -> Result<(), i32> {
        // Not MADV_FREE: its pages keep their content until the kernel takes them, so two reads could differ.
        self.advise(offset, bytes, libc::MADV_DONTNEED)
    }

    /// Keeps the kernel from providing more than the page that is accessed.
    pub(crate) fn avoid_huge_pages(&self) {
        // A kernel without huge pages does not know the advice.
        let _ = self.advise(0, self.bytes, libc::MADV_NOHUGEPAGE);
    }

    fn advise(&self, offset: usize, bytes: usize, advice: i32) -> Result<(), i32> {
        let bytes = bytes.min(self.bytes - offset.min(self.bytes));
        let start = self.at(offset).as_ptr().cast::<c_void>();
        // SAFETY: the range lies within the mapping. The advices of this file change the content of pages at most as
        // the contract of `discard` allows.
        match unsafe { libc::madvise(start, bytes, advice) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }

    /// Returns the bytes that are in memory, of pages of `page` bytes. Returns `None` if the kernel does not say.
    pub(crate) fn resident(&self, offset: usize, bytes: usize, page: usize) -> Option<usize> {
        let bytes = bytes.min(self.bytes - offset.min(self.bytes));
        let mut resident = 0;
        let mut states = [0u8; HUGE / 4096];
        for from in (0..bytes).step_by(states.len() * page) {
            let part = (bytes - from).min(states.len() * page);
            let start = self.at(offset + from).as_ptr().cast::<c_void>();
            // SAFETY: the range lies within the mapping, and the kernel writes one byte per page, of which there are
            // at most as many as `states` has.
            if unsafe { libc::mincore(start, part, states.as_mut_ptr().cast()) } != 0 {
                return None;
            }
            let pages = states.iter().take(part.div_ceil(page));
            resident += pages.filter(|state| **state & 1 == 1).count() * page;
        }
        Some(resident)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.start, self.bytes);
    }
}

/// Returns the bytes of a page of the operating system.
pub(crate) fn page_size() -> usize {
    // SAFETY: `sysconf` has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Maps anonymous memory: anywhere, or at addresses that the caller has reserved.
fn map(at: Option<NonNull<u8>>, bytes: usize, access: i32, flags: i32) -> Result<NonNull<u8>, i32> {
    let fixed = at.map_or(0, |_| libc::MAP_FIXED);
    let start = at.map_or(ptr::null_mut(), NonNull::as_ptr);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed | flags;
    // SAFETY: without an address the kernel chooses unused ones. With one, the caller has reserved all `bytes` there,
    // and nothing refers to them.
    let mapped = unsafe { libc::mmap(start.cast(), bytes, access, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(errno());
    }
    NonNull::new(mapped.cast()).ok_or(libc::ENOMEM)
}

/// Unmaps addresses that the caller owns.
fn unmap(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller owns these addresses, and nothing refers to them any more. The kernel refuses only ranges
        // that are not of pages.
        unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    }
}

/// Checks that transparent huge pages are not switched off: the kernel accepts the advice in any case.
fn check_transparent() -> Result<(), PoolError> {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let reason = match std::fs::read_to_string(path) {
        Ok(text) if text.contains("[never]") => NoHugePages::Never,
        Ok(_) => return Ok(()),
        Err(_) => NoHugePages::Unsupported,
    };
    Err(PoolError::NoHugePages { reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_aligned_zero_and_its_own() {
        let page = page_size();
        for alignment in [page, HUGE, 16 * HUGE] {
            let mapping = Mapping::new(3 * page, alignment, HugePages::Default).unwrap();
            let start = mapping.start().as_ptr();
            assert_eq!(start.addr() % alignment, 0);
            for offset in [0, 3 * page - 1] {
                let byte = mapping.at(offset).as_ptr();
                // SAFETY: the byte lies in the mapping.
                assert_eq!(unsafe { byte.read() }, 0);
                // SAFETY: as above.
                unsafe { byte.write(7) };
            }
            assert_eq!(mapping.resident(0, 3 * page, page), Some(2 * page));
            // SAFETY: no reference to the pages exists.
            unsafe { mapping.discard(0, page) }.unwrap();
            assert_eq!(mapping.resident(0, 3 * page, page), Some(page));
            // SAFETY: the byte lies in the mapping.
            assert_eq!(unsafe { mapping.at(0).as_ptr().read() }, 0);
        }
    }

    #[test]
    fn offsets_are_those_of_the_mapping_alone() {
        let page = page_size();
        let mapping = Mapping::new(2 * page, page, HugePages::Default).unwrap();
        let start = mapping.start().as_ptr().addr();
        assert_eq!(mapping.offset(start + page, page), Some(page));
        assert_eq!(mapping.offset(start + page, page + 1), None);
        assert_eq!(mapping.offset(start - 1, 1), None);
        assert_eq!(mapping.offset(start, usize::MAX), None);
    }

    #[test]
    fn more_than_the_address_space_is_an_error() {
        let bytes = usize::MAX & !(HUGE - 1);
        let error = Mapping::new(bytes, HUGE, HugePages::Default).err();
        assert!(matches!(error, Some(PoolError::Map { .. })), "{error:?}");
    }
}
