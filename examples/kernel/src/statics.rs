//! What a kernel needs before it has a heap: memory and a pointer, both in statics.
//!
//! # Invariants
//! `BootMemory` hands out its bytes once; `Once` holds a reference that is valid for ever, or nothing.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use everybuddy::Memory;

/// Zeroed memory of the kernel image (`.bss`).
pub(crate) struct BootMemory<const BYTES: usize> {
    bytes: UnsafeCell<[MaybeUninit<u8>; BYTES]>,
    is_taken: AtomicBool,
}

// SAFETY: the bytes are reached by `take` only, which succeeds once: there is at most one reference to them.
unsafe impl<const BYTES: usize> Sync for BootMemory<BYTES> {}

impl<const BYTES: usize> BootMemory<BYTES> {
    /// Creates memory that can be taken once.
    pub(crate) const fn new() -> Self {
        Self {
            bytes: UnsafeCell::new([MaybeUninit::zeroed(); BYTES]),
            is_taken: AtomicBool::new(false),
        }
    }

    /// Returns the memory, the first time; `None` afterwards.
    pub(crate) fn take(&'static self) -> Option<Memory<'static>> {
        if self.is_taken.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: the exchange above lets only one caller pass, so this is the only reference, for ever.
        let bytes = unsafe { &mut *self.bytes.get() };
        // SAFETY: `new` zeroed the bytes, and only `take` reaches them.
        Some(unsafe { Memory::zeroed(bytes) })
    }
}

/// A reference that is set once and read by all CPUs.
pub(crate) struct Once<T: 'static> {
    pointer: AtomicPtr<T>,
    shared: PhantomData<&'static T>,
}

impl<T: Sync> Once<T> {
    /// Creates a cell without a reference.
    pub(crate) const fn new() -> Self {
        Self {
            pointer: AtomicPtr::new(ptr::null_mut()),
            shared: PhantomData,
        }
    }

    /// Stores a reference; the first one stays. Returns the one that is stored.
    pub(crate) fn set(&self, value: &'static T) -> &'static T {
        let new = ptr::from_ref(value).cast_mut();
        let null = ptr::null_mut();
        // Release: pairs with the acquire in `get`: another CPU sees what was built before. Acquire: as there.
        let stored = self
            .pointer
            .compare_exchange(null, new, Ordering::Release, Ordering::Acquire);
        match stored {
            Ok(_) => value,
            // SAFETY: a pointer that is not null came from a `&'static T`, in this function.
            Err(first) => unsafe { &*first },
        }
    }

    /// Returns the reference; `None` before the first `set`.
    pub(crate) fn get(&self) -> Option<&'static T> {
        // Acquire: pairs with the release in `set`.
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or it came from a `&'static T` in `set`.
        unsafe { pointer.as_ref() }
    }
}
