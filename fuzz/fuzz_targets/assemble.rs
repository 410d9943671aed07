//! Fuzzes the assembly of traces.
//!
//! Exists so that whatever a kernel is said to have done, the trace of it replays by itself.
//!
//! Invariant: all rules stand in [`everybuddy_trace::trial::assemble`].
#![no_main]

use everybuddy_trace::trial;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| trial::assemble(bytes));
