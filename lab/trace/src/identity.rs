//! The identity that the files of one trace have in common.
//!
//! A trace is up to four files, which appear one after another. If the program is killed in between, files of an
//! older trace lie next to those of a newer one, and faults would be attributed to the wrong calls.
//!
//! # Invariants
//! Every file that this crate writes contains the identity of its trace, and files are read together only if their
//! identities agree. Files of other programs have none, which agrees with having none. The same trace always has the
//! same identity.

use std::hash::{Hash, Hasher};

use crate::model::Trace;

/// The key of the identity in the metadata of a file.
pub(crate) const KEY: &str = "everybuddy.identity";

/// Returns the identity of a trace: a number that depends on its whole contents.
pub(crate) fn of(trace: &Trace) -> String {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    trace.events.hash(&mut hasher);
    trace.faults.hash(&mut hasher);
    trace.regions.hash(&mut hasher);
    trace.metadata.hash(&mut hasher);
    // Traces without acquisitions keep the identity that they had before there were any.
    if !trace.acquisitions.is_empty() {
        trace.acquisitions.hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// The hash function FNV-1a, on words of up to 8 bytes: the hash function of the standard library may change.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
            // The rotation brings the upper bits, which a product does not carry down, back into play.
            self.0 = self.0.wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Acquisition, Event, Op};

    #[test]
    fn every_change_is_another_identity() {
        let mut trace = Trace::default();
        let mut known = vec![of(&trace)];
        let mut is_new = |trace: &Trace| {
            let own = of(trace);
            assert_eq!(own, of(&trace.clone()));
            assert!(!known.contains(&own), "{own}");
            known.push(own);
        };
        trace.events.push(Event::new(1, 0, 7, Op::Allocate, 64, 0));
        is_new(&trace);
        trace.events[0].pfn = 65;
        is_new(&trace);
        trace.events.push(Event::new(2, 0, 7, Op::Free, 65, 0));
        is_new(&trace);
        trace.metadata.push(("stats".to_string(), "{}".to_string()));
        is_new(&trace);
        trace.acquisitions.push(Acquisition::default());
        is_new(&trace);
    }
}
