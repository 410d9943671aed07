//! Fuzzes the names of systems.
//!
//! No name makes the parser panic, and that each name that it accepts means the same when it is written and read again.
//!
//! # Invariants
//! A refusal has words.
#![no_main]

use everybuddy::prelude::SystemSpec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match text.parse::<SystemSpec>() {
    Ok(spec) => {
        let again = spec.to_string().parse::<SystemSpec>();
        assert_eq!(again.ok(), Some(spec));
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
