//! Replays the inputs that fuzzing kept, each through its reader, on any compiler.
//!
//! `checks/fuzz/corpus/TARGET.tar.gz` contains the inputs that the fuzzer kept. The folder `checks/fuzz/corpus/TARGET`
//! contains the seeds and the inputs of former failures. `ci/fuzz.sh` packs the archives.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use everybuddy::SystemSpec;
use everybuddy_record::fuzz_checks::{self, readers};
use flate2::read::GzDecoder;

/// The largest input that is kept.
const MOST_BYTES: usize = 64 << 10;

/// Calls `fuzz_checks` with each input of a target.
fn replay(target: &str, mut fuzz_checks: impl FnMut(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checks/fuzz/corpus");
    let mut replay = |name: &Path, bytes: &[u8]| {
        println!("{target}: {}", name.display());
        assert!(
            bytes.len() <= MOST_BYTES,
            "{target}: {} is too large",
            name.display()
        );
        fuzz_checks(bytes);
    };
    let mut loose = 0;
    for entry in fs::read_dir(corpus.join(target)).unwrap() {
        let path = entry.unwrap().path();
        replay(&path, &fs::read(&path).unwrap());
        loose += 1;
    }
    let mut packed = 0;
    let archive = File::open(corpus.join(format!("{target}.tar.gz"))).unwrap();
    for entry in tar::Archive::new(GzDecoder::new(archive))
        .entries()
        .unwrap()
    {
        let mut entry = entry.unwrap();
        let (name, mut bytes) = (entry.path().unwrap().into_owned(), Vec::new());
        entry.read_to_end(&mut bytes).unwrap();
        replay(&name, &bytes);
        packed += 1;
    }
    println!("{target}: {loose} loose inputs, {packed} packed ones");
    assert!(loose > 0 && packed > 0, "{target} lacks inputs");
}

/// Names of systems: none panics, and each that is accepted means the same when it is written and read again.
#[test]
fn system_spec() {
    let (mut accepted, mut refused) = (0, 0);
    replay("system_spec", |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return;
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
    });
    assert!(accepted > 0, "{accepted} accepted, {refused} refused");
    assert!(refused > 0, "{accepted} accepted, {refused} refused");
}

/// Declares a test for each target, which has the name of its function.
macro_rules! replays {
    ($($module:ident: $($target:ident),+;)+) => {
        $($(#[test]
        fn $target() {
            replay(stringify!($target), $module::$target);
        })+)+
    };
}

replays! {
    readers: trace_parquet, perf_data, perf_script, ftrace, trace_cmd, csv;
    fuzz_checks: assemble;
}

#[test]
#[cfg(target_os = "linux")]
fn ring_buffer() {
    replay("ring_buffer", fuzz_checks::ring_buffer);
}
