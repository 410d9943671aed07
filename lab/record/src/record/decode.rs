//! Decodes records of the ring buffer to events.
//!
//! Offsets are looked up once for each tracepoint, and never by name for each of millions of records.
//!
//! # Invariants
//! A record of an unknown kind, or one too short for its fields, does not yield an event.

use std::collections::HashMap;

use crate::format::{Field, Format};
use crate::functions::Functions;
use crate::kernel::KernelEvent;

use super::tracepoints::{Decode, Tracepoint};

/// Bits of `common_flags`: in a hardware interrupt, in a soft one, in a non-maskable one.
const INTERRUPTS: u64 = 0x08 | 0x10 | 0x40;

/// Fields at the start of every record.
#[derive(Clone, Copy, Debug)]
struct Common {
    id: Field,
    flags: Field,
    tid: Field,
}

/// Decodes records to events.
#[derive(Default)]
pub(crate) struct Decoder {
    common: Option<Common>,
    kinds: HashMap<u16, Decode>,
    functions: Functions,
}

impl Decoder {
    /// Registers a tracepoint with its description. Returns `false` if a required field is missing.
    pub(crate) fn learn(&mut self, tracepoint: &Tracepoint, format: &Format) -> bool {
        let common = || {
            Some(Common {
                id: format.field("common_type")?,
                flags: format.field("common_flags")?,
                tid: format.field("common_pid")?,
            })
        };
        let (Some(common), Some(decode)) = (common(), (tracepoint.parse)(format)) else {
            return false;
        };
        self.common = Some(common);
        self.kinds.insert(format.id, decode);
        true
    }

    /// Tells the decoder the functions of the kernel, without which call chains say nothing.
    pub(crate) fn name_functions(&mut self, functions: Functions) {
        self.functions = functions;
    }

    /// Returns the event of a record; `None` for what was not learned or is damaged.
    pub(crate) fn decode(&self, time_ns: u64, cpu: u16, record: &[u8]) -> Option<KernelEvent> {
        let common = self.common.as_ref()?;
        let id = u16::try_from(common.id.value(record)?).ok()?;
        let what = self.kinds.get(&id)?(record, &self.functions)?;
        Some(KernelEvent {
            time_ns,
            cpu,
            tid: common.tid.value(record)? as u32,
            tgid: None,
            in_interrupt: common.flags.value(record)? & INTERRUPTS != 0,
            what,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{allocation, description};
    use super::super::tracepoints::{CHAIN, LOCKS, MEMORY, TASKS};
    use super::*;
    use crate::kernel::What;

    fn record(id: u16, flags: u8, tid: u32, rest: &[u8]) -> Vec<u8> {
        let mut record = id.to_ne_bytes().to_vec();
        record.extend([flags, 0]);
        record.extend(tid.to_ne_bytes());
        record.extend(rest);
        record
    }

    #[test]
    fn an_allocation_is_understood() {
        let mut decoder = Decoder::default();
        assert!(decoder.learn(&MEMORY[0], &allocation()));
        let mut rest = [0; 32];
        rest[..8].copy_from_slice(&0x1234_5678u64.to_ne_bytes());
        rest[8..12].copy_from_slice(&9u32.to_ne_bytes());
        rest[16..24].copy_from_slice(&0xc0au64.to_ne_bytes());
        rest[24..28].copy_from_slice(&1i32.to_ne_bytes());
        let whole = record(653, 0x10, 77, &rest);
        let event = decoder.decode(5, 3, &whole).unwrap();
        assert_eq!(
            (event.time_ns, event.cpu, event.tid, event.in_interrupt),
            (5, 3, 77, true)
        );
        let (pfn, order, gfp, migratetype) = (0x1234_5678, 9, 0xc0a, 1);
        assert_eq!(
            event.what,
            What::Allocate {
                pfn,
                order,
                gfp,
                migratetype
            }
        );

        for length in 0..20 {
            assert_eq!(
                decoder.decode(5, 3, &whole[..length]),
                None,
                "cut to {length} bytes"
            );
        }
        assert_eq!(
            decoder.decode(5, 3, &record(654, 0, 77, &rest)),
            None,
            "another event"
        );
        rest[..8].fill(0xff);
        let refused = decoder.decode(5, 3, &record(653, 0, 77, &rest)).unwrap();
        assert_eq!(refused.what, What::Refuse { order: 9 });
    }

    #[test]
    fn old_descriptions_without_a_frame_number_are_not_taken() {
        let format = description(653, &[("page", 8, 8, 0), ("order", 16, 4, 0)]);
        assert!(!Decoder::default().learn(&MEMORY[0], &format));
    }

    #[test]
    fn arguments_and_results_keep_their_width_and_sign() {
        let mut decoder = Decoder::default();
        let enter = description(443, &[("id", 8, 8, 1), ("args", 16, 48, 0)]);
        let exit = description(442, &[("id", 8, 8, 1), ("ret", 16, 8, 1)]);
        assert!(decoder.learn(&TASKS[5], &enter) && decoder.learn(&TASKS[6], &exit));
        let words = |words: &[u64]| {
            words
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect::<Vec<_>>()
        };
        let called = record(443, 0, 1, &words(&[9, 1, 2, 3, 4, u64::MAX, 6]));
        let what = decoder.decode(0, 0, &called).map(|event| event.what);
        let arguments = [1, 2, 3, 4, u64::MAX, 6];
        assert_eq!(
            what,
            Some(What::SystemCall {
                number: 9,
                arguments
            })
        );
        let left = record(442, 0, 1, &words(&[9, -12i64 as u64]));
        let what = decoder.decode(0, 0, &left).map(|event| event.what);
        assert_eq!(
            what,
            Some(What::SystemCallEnd {
                number: 9,
                result: -12
            })
        );
    }

    /// The bytes of numbers, each as wide as its type.
    macro_rules! bytes {
        ($($number:expr),* $(,)?) => { [$(&$number.to_ne_bytes()[..]),*].concat() };
    }

    #[test]
    fn waits_for_locks_are_understood() {
        let [zone_locked, zone_lock, contention] = LOCKS.map(|own| own.tracepoints);
        let mut decoder = Decoder::default();
        let lock = ("lock_addr", 8, 8, 0);
        let begin = description(1, &[lock, ("flags", 16, 4, 0)]);
        let end = description(2, &[lock, ("ret", 16, 4, 1)]);
        assert!(decoder.learn(&contention[0], &begin) && decoder.learn(&contention[1], &end));
        let address = 0xffff_8881_3fff_a5c0u64;
        let what = |decoder: &Decoder, id, rest: &[u8]| {
            let event = decoder.decode(5, 3, &record(id, 0, 7, rest));
            event.map(|event| event.what)
        };
        for (flags, is_spin) in [(1u32, true), (3, false), (32, false), (33, false)] {
            let lock = address;
            let expected = What::ContentionBegin { lock, is_spin };
            assert_eq!(what(&decoder, 1, &bytes![address, flags]), Some(expected));
        }
        for (result, is_acquired) in [(0i32, true), (-4, false)] {
            let lock = address;
            let expected = What::ContentionEnd { lock, is_acquired };
            assert_eq!(what(&decoder, 2, &bytes![address, result]), Some(expected));
        }
        assert_eq!(what(&decoder, 1, &bytes![address]), None);

        let locked = [
            ("wait_ns", 8, 8, 0),
            ("count", 16, 4, 1),
            ("contended", 20, 1, 0),
        ];
        assert!(decoder.learn(&zone_locked[0], &description(3, &locked)));
        assert!(decoder.learn(&zone_locked[1], &description(4, &[])));
        for (wait_ns, contended, expected) in [(812u64, 1u8, 812), (0, 1, 1), (9, 0, 0)] {
            let rest = bytes![wait_ns, 63u32, contended];
            let expected = What::ZoneLockAcquired {
                zone: 0,
                wait_ns: Some(expected),
                batch: 63,
            };
            assert_eq!(what(&decoder, 3, &rest), Some(expected));
        }
        assert_eq!(
            what(&decoder, 4, &[]),
            Some(What::ZoneLockReleased { zone: 0 })
        );

        let zone = ("zone", 8, 8, 0);
        let returned = description(6, &[zone, ("success", 16, 1, 0)]);
        assert!(decoder.learn(&zone_lock[0], &description(5, &[zone])));
        assert!(decoder.learn(&zone_lock[1], &returned));
        assert!(decoder.learn(&zone_lock[2], &description(7, &[zone])));
        let acquired = What::ZoneLockAcquired {
            zone: 9,
            wait_ns: None,
            batch: 0,
        };
        for (id, rest, expected) in [
            (5, bytes![9u64], What::ZoneLockWanted { zone: 9 }),
            (6, bytes![9u64, 1u8], acquired),
            (6, bytes![9u64, 0u8], What::ZoneLockGivenUp { zone: 9 }),
            (7, bytes![9u64], What::ZoneLockReleased { zone: 9 }),
        ] {
            assert_eq!(what(&decoder, id, &rest), Some(expected));
        }
    }

    #[test]
    fn call_chains_of_any_length_name_the_allocator() {
        let mut decoder = Decoder::default();
        let chain = description(4, &[("size", 8, 4, 1), ("caller", 16, 64, 0)]);
        assert!(decoder.learn(&CHAIN, &chain));
        decoder.name_functions(Functions::parse(
            "0000000000000100 t _raw_spin_lock\n0000000000000200 T rmqueue_bulk\n\
             0000000000000300 T other\n",
        ));
        let is_allocator = |callers: &[u64]| {
            let mut rest = bytes![callers.len() as u32, 0u32];
            rest.extend(callers.iter().flat_map(|caller| caller.to_ne_bytes()));
            let event = decoder.decode(5, 3, &record(4, 0, 7, &rest));
            match event.map(|event| event.what) {
                Some(What::LockCaller { allocator }) => allocator == Some("rmqueue_bulk"),
                other => panic!("{other:?}"),
            }
        };
        assert!(is_allocator(&[0x150, 0x250, 0x350]));
        assert!(!is_allocator(&[0x150, 0x350, 0x250]));
        assert!(!is_allocator(&[0x150]) && !is_allocator(&[]));
        // Longer than the description states.
        assert!(is_allocator(&[[0x150; 11].as_slice(), &[0x250]].concat()));
    }
}
