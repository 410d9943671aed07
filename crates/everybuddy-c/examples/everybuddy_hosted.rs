//! The library for C as a shared object with Rust's standard library.
//!
//! The tests of this crate link it. `install.sh` builds the library that C programs link, without the standard library.

pub use everybuddy_c::*;
