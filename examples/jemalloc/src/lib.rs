//! Memory and arenas of jemalloc, and hooks that put the extents of an arena into a pool.
//!
//! jemalloc divides extents into objects, and gets them from the operating system. An arena with hooks gets them from a
//! pool instead, and returns parts of them, or adjacent ones together.
//!
//! # Invariants
//! 1. An extent is a run of pages of the pool that has no guard. jemalloc returns each page once.
//! 2. The hooks of an arena live as long as the process.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CString, c_uint, c_void};
use std::mem::size_of_val;
use std::ptr::{self, NonNull};

use everybuddy_pool::Pool;
use tikv_jemalloc_sys as je;

/// The allocator of this program: jemalloc, in the arena of the calling thread.
pub struct Jemalloc;

fn flags(layout: Layout) -> i32 {
    je::MALLOCX_ALIGN(layout.align())
}

// SAFETY: jemalloc returns memory of this size and alignment. Layouts of size zero, which it does not accept, are not
// passed to a global allocator.
unsafe impl GlobalAlloc for Jemalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the contract of this function, the size is not zero.
        unsafe { je::mallocx(layout.size(), flags(layout)) }.cast()
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: by the contract of this function, `start` was allocated with this layout.
        unsafe { je::sdallocx(start.cast(), layout.size(), flags(layout)) };
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `alloc` and `dealloc`.
        unsafe { je::rallocx(start.cast(), size, flags(layout)) }.cast()
    }
}

/// Memory of jemalloc, of which the first bytes of each page can be written.
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a buffer is the only owner of plain bytes, and any thread may free memory of jemalloc.
unsafe impl Send for Buffer {}

impl Buffer {
    /// The bytes of a page.
    pub const PAGE: usize = 4096;

    /// Allocates whole pages. Returns `None` if jemalloc has no memory.
    pub fn new(pages: usize) -> Option<Self> {
        let bytes = pages.max(1) * Self::PAGE;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { je::mallocx(bytes, je::MALLOCX_ALIGN(64)) }.cast())?;
        Some(Self { start, bytes })
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> usize {
        self.bytes / Self::PAGE
    }

    /// Writes a number to each page.
    pub fn write(&mut self, stamp: u64) {
        for page in (0..self.bytes).step_by(Self::PAGE) {
            // SAFETY: the page begins in the buffer, which this value owns.
            let word = unsafe { self.start.add(page) }.cast::<u64>();
            // SAFETY: as above, and the buffer is aligned to 64 bytes.
            unsafe { word.write(stamp) };
        }
    }

    /// Returns the number of the first page, which was written.
    pub fn read(&self) -> u64 {
        // SAFETY: as in `write`, which the caller called before.
        unsafe { self.start.cast::<u64>().read() }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the buffer was allocated with this size and alignment.
        unsafe {
            je::sdallocx(
                self.start.as_ptr().cast(),
                self.bytes,
                je::MALLOCX_ALIGN(64),
            )
        };
    }
}

/// Hooks, as jemalloc knows them, and the pool, as it does not.
#[repr(C)]
struct Hooks {
    table: je::extent_hooks_t,
    pool: Pool,
}

/// An arena, by its number.
#[derive(Clone, Copy)]
pub struct Arena(c_uint);

impl Arena {
    /// Creates an arena: with its extents in a pool, or in mappings of the operating system.
    pub fn new(pool: Option<&Pool>) -> Result<Self, String> {
        let mut number: c_uint = 0;
        let mut length = size_of_val(&number);
        let hooks = pool.map(|pool| {
            let table = je::extent_hooks_t {
                alloc: Some(allocate),
                dalloc: Some(free),
                destroy: Some(destroy),
                // Pages of a pool are always there, and cannot be given up one by one.
                commit: None,
                decommit: None,
                purge_lazy: None,
                purge_forced: None,
                split: Some(split),
                merge: Some(merge),
            };
            let pool = pool.clone();
            // An arena can be called until the process ends.
            Box::into_raw(Box::new(Hooks { table, pool }))
        });
        let mut value: *mut Hooks = hooks.unwrap_or(ptr::null_mut());
        let (new, new_length) = match hooks {
            Some(_) => (ptr::from_mut(&mut value).cast(), size_of_val(&value)),
            None => (ptr::null_mut(), 0),
        };
        // SAFETY: the name is the one of jemalloc's manual, the old value is a number, and the new one is a pointer to
        // hooks that live for ever.
        let status = unsafe {
            let old = ptr::from_mut(&mut number).cast::<c_void>();
            je::mallctl(c"arenas.create".as_ptr(), old, &mut length, new, new_length)
        };
        done("arenas.create", status)?;
        Ok(Self(number))
    }

    /// Lets this thread allocate in the arena.
    pub fn enter(self) -> Result<(), String> {
        write("thread.arena", self.0)
    }

    /// Sets how long free extents are kept, in milliseconds; 0 returns them immediately.
    pub fn keep_free_extents(self, milliseconds: isize) -> Result<(), String> {
        for kind in ["dirty_decay_ms", "muzzy_decay_ms"] {
            write(&format!("arena.{}.{kind}", self.0), milliseconds)?;
        }
        Ok(())
    }

    /// Returns all extents of the arena.
    ///
    /// # Safety
    /// Nothing that was allocated in the arena is in use, and no thread allocates in it any more.
    pub unsafe fn destroy(self) -> Result<(), String> {
        let name = format!("arena.{}.destroy", self.0);
        let text = CString::new(name.as_str()).map_err(|error| error.to_string())?;
        let none = ptr::null_mut();
        // SAFETY: the name is the one of jemalloc's manual, which has no values. The rest is the contract of this
        // function.
        let status = unsafe { je::mallctl(text.as_ptr(), none, ptr::null_mut(), none, 0) };
        done(&name, status)
    }
}

fn write<T: Copy>(name: &str, mut value: T) -> Result<(), String> {
    let text = CString::new(name).map_err(|error| error.to_string())?;
    let (new, length) = (ptr::from_mut(&mut value).cast(), size_of_val(&value));
    // SAFETY: the callers pass names of jemalloc's manual with values of their types.
    let status =
        unsafe { je::mallctl(text.as_ptr(), ptr::null_mut(), ptr::null_mut(), new, length) };
    done(name, status)
}

fn done(name: &str, status: i32) -> Result<(), String> {
    match status {
        0 => Ok(()),
        _ => Err(format!("jemalloc refuses `{name}` with error {status}")),
    }
}

/// Returns the pool of a call.
///
/// # Safety
/// `hooks` is what [`Arena::new`] passed to jemalloc.
unsafe fn pool<'h>(hooks: *mut je::extent_hooks_t) -> &'h Pool {
    // SAFETY: the table is the first field of hooks, which live for ever (invariant 2).
    unsafe { &(*hooks.cast::<Hooks>()).pool }
}

unsafe extern "C" fn allocate(
    hooks: *mut je::extent_hooks_t,
    address: *mut c_void,
    bytes: usize,
    alignment: usize,
    zero: *mut bool,
    commit: *mut bool,
    _arena: c_uint,
) -> *mut c_void {
    // SAFETY: jemalloc passes the hooks of the arena.
    let pool = unsafe { pool(hooks) };
    // A pool does not choose addresses.
    if !address.is_null() {
        return ptr::null_mut();
    }
    let pages = bytes / pool.page_size();
    let Ok(mut run) = pool.allocate_aligned(pages, alignment) else {
        return ptr::null_mut();
    };
    // SAFETY: jemalloc passes valid pointers.
    if unsafe { zero.read() } {
        run.fill(0);
    }
    // SAFETY: as above.
    unsafe { commit.write(true) };
    run.into_raw().as_ptr().cast()
}

/// Returns `false` if the pages were freed: jemalloc's way to say so.
unsafe extern "C" fn free(
    hooks: *mut je::extent_hooks_t,
    start: *mut c_void,
    bytes: usize,
    _committed: bool,
    _arena: c_uint,
) -> bool {
    // SAFETY: jemalloc passes the hooks of the arena.
    let pool = unsafe { pool(hooks) };
    let Some(start) = NonNull::new(start.cast::<u8>()) else {
        return true;
    };
    let memory = NonNull::slice_from_raw_parts(start, bytes);
    // SAFETY: jemalloc returns pages of the pool that it does not use any more (invariant 1).
    let run = unsafe { pool.from_raw(memory) };
    run.and_then(|run| run.free()).is_err()
}

unsafe extern "C" fn destroy(
    hooks: *mut je::extent_hooks_t,
    start: *mut c_void,
    bytes: usize,
    committed: bool,
    arena: c_uint,
) {
    // SAFETY: as in `free`, which jemalloc could have called as well.
    unsafe { free(hooks, start, bytes, committed, arena) };
}

/// Any part of a run can be freed.
unsafe extern "C" fn split(
    _hooks: *mut je::extent_hooks_t,
    _start: *mut c_void,
    _bytes: usize,
    _first: usize,
    _second: usize,
    _committed: bool,
    _arena: c_uint,
) -> bool {
    false
}

/// Adjacent runs of a pool can be freed together.
unsafe extern "C" fn merge(
    _hooks: *mut je::extent_hooks_t,
    _first: *mut c_void,
    _first_bytes: usize,
    _second: *mut c_void,
    _second_bytes: usize,
    _committed: bool,
    _arena: c_uint,
) -> bool {
    false
}
