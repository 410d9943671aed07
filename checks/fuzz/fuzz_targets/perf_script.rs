//! Fuzzes the reader of `perf script`'s text.
//!
//! No input makes it panic, or accept what is not a trace.
//!
//! # Invariants
//! All rules stand in [`everybuddy_record::fuzz_checks::readers`].
#![no_main]

use everybuddy_record::fuzz_checks::readers;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| readers::perf_script(bytes));
