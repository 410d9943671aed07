//! Damaged files give errors, never panics, endless loops or memory without bounds.

use std::fs;
use std::path::Path;

use crate::common::{acquisition, allocate, bundled, free, trace};
use everybuddy_trace::{AddressRegion, Fault, Leniency, RegionId, read, resolve, write};

/// Reads both ways; whatever is accepted must replay.
fn survives(path: &Path) {
    for leniency in [Leniency::Strict, Leniency::Lenient] {
        match read(path, leniency) {
            Ok((trace, _)) => {
                resolve(&trace).unwrap();
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn small(path: &Path) {
    let mut events = Vec::new();
    for time in 0..300 {
        events.push(allocate(time * 10, 4096 + time * 8, (time % 4) as u8));
        if time % 3 == 2 {
            let back = time - time % 5;
            events.push(free(time * 10 + 1, 4096 + back * 8, 0));
        }
    }
    let mut seen = std::collections::HashSet::new();
    events.retain(|event| seen.insert((event.op as u8, event.pfn)));
    let mut made = trace(&events);
    made.regions = vec![AddressRegion::unknown(1)];
    made.faults = (0..1)
        .map(|row| Fault {
            row,
            vpn: 9,
            region: RegionId::from_index(0),
            sequence: 1,
        })
        .collect();
    made.metadata = vec![("stats".into(), "{}".into())];
    made.acquisitions = (0..40).map(|at| acquisition(at * 70, at * 3)).collect();
    write(&made, path).unwrap();
    read(path, Leniency::Strict).unwrap();
}

#[test]
fn truncation_at_any_byte() {
    let (_scratch, path) = crate::common::made();
    small(&path);
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(read(&path, Leniency::Strict).is_err());
        assert!(read(&path, Leniency::Lenient).is_err());
    }
}

#[test]
fn truncation_of_a_real_trace() {
    let (_scratch, path) = crate::common::made();
    let whole = fs::read(bundled("numpy_thp.parquet")).unwrap();
    for part in 0..64 {
        fs::write(&path, &whole[..whole.len() * part / 64]).unwrap();
        assert!(read(&path, Leniency::Lenient).is_err());
    }
}

#[test]
fn one_bit_anywhere() {
    let (scratch, path) = crate::common::made();
    small(&path);
    for name in [
        "made.parquet",
        "made.faults.parquet",
        "made.vmas.parquet",
        "made.locks.parquet",
    ] {
        let damaged = scratch.path(name);
        let whole = fs::read(&damaged).unwrap();
        for byte in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[byte] ^= 1 << (byte % 8);
            fs::write(&damaged, &bytes).unwrap();
            survives(&path);
        }
        fs::write(&damaged, &whole).unwrap();
    }
}

#[test]
fn bits_of_a_real_trace() {
    let (_scratch, path) = crate::common::made();
    let whole = fs::read(bundled("numpy_thp.parquet")).unwrap();
    let step = whole.len() / 24;
    for byte in (step / 2..whole.len()).step_by(step) {
        let mut bytes = whole.clone();
        bytes[byte] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        survives(&path);
    }
}
