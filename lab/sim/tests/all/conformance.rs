//! The conformance suite on the virtual machine: the same properties of the same systems as on the native platform,
//! in interleavings that repeat exactly.

use everybuddy::{FrameAllocator, Setup, SystemSpec};
use everybuddy_sim::{Flat, Machine, Region, Sim, SimCpu};
use everybuddy_suite::platform::memory_for;
use everybuddy_suite::{Host, conformance};

use crate::common::build;

/// Virtual CPUs; each seed selects an interleaving, the same every time.
///
/// Always with jitter. In lockstep, a test-and-set lock can pass between two CPUs for ever while a third, which
/// always checks one cycle too late, starves.
struct Virtual {
    seed: u64,
}

impl Host<Sim> for Virtual {
    fn build(
        &self,
        spec: &SystemSpec,
        setup: &Setup<'_>,
        visitor: &mut dyn FnMut(&dyn FrameAllocator<Sim>),
    ) {
        build(spec, setup, &mut memory_for::<Sim>(spec, setup), visitor);
    }

    fn run<F: Fn(&mut SimCpu) + Sync>(&self, cpus: u16, body: F) {
        let mut machine = Machine::new(cpus)
            .cost(Flat::new(10))
            .jitter(150)
            .seed(self.seed);
        machine
            .run(Region::NONE, |cpu: &mut SimCpu| body(cpu))
            .unwrap();
    }
}

conformance!(Sim, Virtual { seed: 1 });

/// Other interleavings of the tests with several CPUs. These are the longest tests, so they are not in the gate.
mod another_seed {
    use super::*;
    use everybuddy_suite::{for_each_spec, properties};

    macro_rules! properties {
        ($($property:ident),* $(,)?) => {
            $(
                #[test]
                #[ignore = "`ci/stress.sh schedules` runs it"]
                fn $property() {
                    for_each_spec(|spec| {
                        properties::$property::<Sim, _>(&Virtual { seed: 2 }, spec);
                    });
                }
            )*
        };
    }

    properties!(
        frames_in_other_lists_are_found,
        a_request_fails_only_when_all_is_held,
        many_cpus_never_share_a_frame,
        cpus_return_while_they_are_drained,
    );
}
