//! Names of systems that fuzzing kept are read again: none panics, and each that is accepted means
//! the same when it is written and read.
//!
//! The inputs lie in `fuzz/corpus/system_spec`; `ci/fuzz.sh` finds more.

use std::fs;
use std::path::Path;

use everybuddy::SystemSpec;

#[test]
fn system_spec() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/system_spec");
    let (mut accepted, mut refused) = (0, 0);
    for entry in fs::read_dir(&folder).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let Ok(text) = std::str::from_utf8(&bytes) else {
            continue;
        };
        match text.parse::<SystemSpec>() {
            Ok(spec) => {
                assert_eq!(spec.to_string().parse(), Ok(spec), "{text}");
                accepted += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(
        accepted > 0 && refused > 0,
        "{} lacks inputs",
        folder.display()
    );
}
