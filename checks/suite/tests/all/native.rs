//! The conformance suite on the real machine.

use everybuddy_suite::{Machine, Threads, conformance, properties};

conformance!(Machine, Threads);

/// In these systems, and in `magazines`, such requests were refused as exhausted while a frame was on its way between a
/// list and the zone.
#[test]
fn frames_on_their_way_are_not_missing() {
    for name in [
        "linux-6+order=0",
        "linux-6+hold=iteration+line=own+order=12",
        "fixlazy-744+drain=merged+line=own",
        "magazines+batch=1",
    ] {
        let spec = name.parse().expect("a system");
        properties::one_frame_is_exhausted_only_if_all_are_asked_for(&Threads, &spec);
    }
}
