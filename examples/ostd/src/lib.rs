//! The guide of everybuddy-adapters for OSTD, with OSTD itself: a kernel whose frames come from `Everybuddy`.
//!
//! # Invariants
//! The code is that of the page. Nothing of OSTD is replaced.
#![no_std]

include!(concat!(env!("OUT_DIR"), "/guide.rs"));

/// OSTD calls this after it has added all memory.
#[ostd::main]
fn kernel_main() {
    ostd::prelude::println!("{} bytes are free", MEMORY.free_bytes());
}
