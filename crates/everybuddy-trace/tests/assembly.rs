//! Whatever a kernel is said to have done, the trace of it replays by itself.

use everybuddy_trace::trial;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_make_a_trace(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        trial::assemble(&bytes);
    }

    /// Small numbers meet more often: frames are allocated twice, tasks die and are made again.
    #[test]
    fn dense_events_make_a_trace(bytes in proptest::collection::vec(0u8..40, 0..1500)) {
        trial::assemble(&bytes);
    }
}
