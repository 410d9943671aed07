//! The functions of the WebAssembly module.
//!
//! The page writes a request of [`memory_room`] bytes at the address that this returns, and reads an answer of
//! [`memory_length`] bytes at the address that [`memory_answer`] returns.
//!
//! # Invariants
//! One thread calls. The address of an answer is valid until the next call.
#![allow(unsafe_code)]

use std::cell::RefCell;

use crate::paste::Pasted;

#[derive(Default)]
struct Page {
    request: Vec<u8>,
    answer: String,
    files: Vec<(String, Vec<u8>)>,
    pasted: Pasted,
}

thread_local! {
    static PAGE: RefCell<Page> = RefCell::new(Page::default());
}

/// Makes room for a request of `bytes` bytes, and returns its address.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn memory_room(bytes: usize) -> *mut u8 {
    PAGE.with_borrow_mut(|page| {
        page.request = vec![0; bytes];
        page.request.as_mut_ptr()
    })
}

/// Returns the length of the last answer in bytes.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn memory_length() -> usize {
    PAGE.with_borrow(|page| page.answer.len())
}

/// Takes a file from the request: a name of so many bytes, and its contents.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn memory_file(name: usize) {
    PAGE.with_borrow_mut(|page| {
        let mut bytes = std::mem::take(&mut page.request);
        let contents = bytes.split_off(name.min(bytes.len()));
        let name = String::from_utf8_lossy(&bytes).into_owned();
        page.files.push((name, contents));
    });
}

/// Reads the files, instead of those before.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn memory_read() {
    PAGE.with_borrow_mut(|page| page.pasted = Pasted::read(std::mem::take(&mut page.files)));
}

/// Answers the needs in the request for a state, as [`Pasted::answer`] does, with JSON.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn memory_answer(which: usize) -> *const u8 {
    PAGE.with_borrow_mut(|page| {
        let needs = String::from_utf8_lossy(&page.request);
        page.answer = page.pasted.answer(&needs, which).to_string();
        page.answer.as_ptr()
    })
}
