//! The trace of any sequence of kernel events replays by itself.

use everybuddy_record::fuzz_checks;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_make_a_trace(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        fuzz_checks::assemble(&bytes);
    }

    /// Small numbers repeat more often: frames are allocated twice, tasks die and are created again.
    #[test]
    fn dense_events_make_a_trace(bytes in proptest::collection::vec(0u8..40, 0..1500)) {
        fuzz_checks::assemble(&bytes);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn any_page_of_a_ring_buffer_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        fuzz_checks::ring_buffer(&bytes);
    }

    /// Records of known tracepoints with valid lengths, with any fields.
    #[test]
    #[cfg(target_os = "linux")]
    fn any_records_of_a_page_are_read(
        records in proptest::collection::vec((1u8..17, 0u16..11, proptest::array::uniform32(0u8..10)), 0..40)
    ) {
        let mut bytes = Vec::new();
        for (words, id, rest) in records {
            bytes.extend((u32::from(words) | 64).to_ne_bytes());
            let mut record = id.to_ne_bytes().to_vec();
            record.extend(rest.iter().cycle().take(64));
            record.truncate(4 * usize::from(words));
            bytes.extend(record);
        }
        fuzz_checks::ring_buffer(&bytes);
    }
}
