//! Everybuddy for C: the interface of `everybuddy`, as functions of a C library.
//!
//! A program in C, or in any language that calls C, uses every system by name. This crate translates: it checks what
//! Rust's types guarantee and C's do not, converts arguments, and turns each typed error into a code. It contains no
//! part of an allocator. README.md describes the library for its users, and `include/everybuddy.h` is generated from
//! this crate by `header.sh`.
//!
//! # Invariants
//! 1. Names are those of C, so that a search for one finds header and source.
//! 2. A value that C passes is never of a type that some bits are invalid for: integers instead of `bool` and `enum`.
//! 3. After an error the same frames are allocated, reserved and managed as before, and no result is written. Three
//!    cases differ: `eb_free_bulk`, `eb_visit_free`, and arrays for results; README.md describes them.
//!
//! | module | contents |
//! |---|---|
//! | [`build`] | building a system from a setup |
//! | [`handle`] | the handle and the tokens: claiming, and the checks that each call makes |
//! | [`operations`], [`places`] | the operations of a CPU, and those on frames that the caller chooses |
//! | [`inspection`] | the calls without a token: nested requests, and what is known of a system |
//! | [`reporting`] | giving free blocks back to the monitor of a virtual machine |
//! | [`types`] | the structures of the interface, and their conversion |
//! | [`status`], [`errors`] | the code and the message of each outcome; errors as codes |
//! | [`platform`] | the CPU token, and the pause of a waiting CPU |
#![no_std]
#![allow(unsafe_code, non_camel_case_types)]

pub mod build;
pub mod errors;
pub mod handle;
pub mod inspection;
pub mod operations;
pub mod places;
pub mod platform;
pub mod reporting;
#[cfg(feature = "runtime")]
mod runtime;
pub mod status;
pub mod types;

/// The version of this interface: of the structures, and of the memory behind a handle. It is compiled into the
/// program, which passes it in `eb_setup`, and compared with that of the library.
pub const EB_ABI_VERSION: u32 = 1;

/// The alignment in bytes of the memory that `eb_build` takes: a cache line.
pub const EB_ALIGNMENT: usize = 64;

/// The largest order that any system has: a block of 2^18 frames.
pub const EB_ORDER_LIMIT: u32 = 18;

/// A number that is unknown, or that does not exist.
pub const EB_UNKNOWN: u32 = u32::MAX;

const _: () = assert!(EB_ALIGNMENT == everybuddy::LINE);
const _: () = assert!(EB_ORDER_LIMIT as usize == everybuddy::Order::LIMIT.index());
const _: () = assert!(EB_UNKNOWN == everybuddy::Hint::UNKNOWN);
