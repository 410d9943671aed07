//! A rule that does not hold, for the fuzzer to find.
//!
//! A fuzzer that sees nothing of the program finds nothing either, and says that all is
//! well: `ci/fuzz.sh` runs this first, and stops when it passes.
//!
//! # Invariants
//! It fails for some input, which takes a few thousand guided tries to find and is not found blindly.
#![no_main]

use everybuddy_record::{ImportOptions, Source, import_stream};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let source = Some(Source::Csv);
    let options = ImportOptions {
        source,
        ..ImportOptions::default()
    };
    if let Err(error) = import_stream(bytes, "canary", options) {
        // Begins with the first four columns: far too much to be guessed.
        assert!(
            !error.to_string().contains("column pfn is missing"),
            "the canary sings"
        );
    }
});
