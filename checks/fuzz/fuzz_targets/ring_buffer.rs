//! Fuzzes pages of the kernel's ring buffer, and what their records say.
//!
//! No page makes the reader panic or take a record that does not lie inside of it.
//!
//! # Invariants
//! All rules stand in [`everybuddy_record::fuzz_checks::ring_buffer`].
#![no_main]

use everybuddy_record::fuzz_checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzz_checks::ring_buffer(bytes));
