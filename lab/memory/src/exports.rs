//! The functions of the WebAssembly module.
//!
//! The page writes a request of [`memory_room`] bytes at the address that this returns, and reads an answer of
//! [`memory_length`] bytes at the address that [`memory_answer`] returns.
//!
//! # Invariants
//! One thread calls. The address of an answer is valid until the next call.
#![allow(unsafe_code)]

use std::cell::RefCell;

thread_local! {
    /// The request, then its answer.
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for a request of `bytes` bytes, and returns its address.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn memory_room(bytes: usize) -> *mut u8 {
    TEXT.with_borrow_mut(|text| {
        *text = vec![0; bytes];
        text.as_mut_ptr()
    })
}

/// Returns the length of the last answer in bytes.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn memory_length() -> usize {
    TEXT.with_borrow(Vec::len)
}

/// Answers the request with JSON, as [`crate::paste::answer`] does.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn memory_answer() -> *const u8 {
    TEXT.with_borrow_mut(|text| {
        *text = crate::paste::answer(text).to_string().into_bytes();
        text.as_ptr()
    })
}
