//! Fuzzes the assembly of traces.
//!
//! Whatever a kernel is said to have done, the trace of it replays by itself.
//!
//! # Invariants
//! All rules stand in [`everybuddy_record::fuzz_checks::assemble`].
#![no_main]

use everybuddy_record::fuzz_checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzz_checks::assemble(bytes));
