//! Fuzzes the readers of a machine's state.
//!
//! Logs and copies of files are cut, mixed and damaged. No text may cause a panic.
//!
//! # Invariants
//! All rules are in [`everybuddy_memory::fuzz_checks::text`].
#![no_main]

use everybuddy_memory::fuzz_checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzz_checks::text(bytes));
