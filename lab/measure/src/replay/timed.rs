//! A system of any composition on the timed platform, behind a narrow interface.
//!
//! Only what is behind this interface is compiled for each composition: building, the calls of a timed loop, and the
//! loops themselves, each of which is entered by one indirect call.

use everybuddy::platform::NativeCpus;
use everybuddy::{FrameAllocator, NoProbe, SystemSpec, WithSystem};

use crate::Error;
use crate::replay::adapter::Adapter;
use crate::replay::calls::Calls;
use crate::replay::host::{Arena, SystemAdapter};
use crate::replay::memory::Memory;
use crate::replay::platform::ReplayPlatform;
use crate::replay::script::Lane;

/// A system whose replay is timed.
pub trait TimedSystem: Calls<NoProbe> {
    /// Returns a thread's access to the system. Returns `None` if a token is taken.
    fn adapter<'s>(&'s self, cpus: &'s NativeCpus, lane: &Lane) -> Option<Box<dyn Adapter + 's>>;
}

impl<A: FrameAllocator<ReplayPlatform<NoProbe>>> TimedSystem for A {
    fn adapter<'s>(&'s self, cpus: &'s NativeCpus, lane: &Lane) -> Option<Box<dyn Adapter + 's>> {
        let adapter = SystemAdapter::claim(self, cpus, lane, &NoProbe::default)?;
        Some(Box::new(adapter))
    }
}

struct Visit<'v>(&'v mut dyn FnMut(&dyn TimedSystem));

impl WithSystem<ReplayPlatform<NoProbe>> for Visit<'_> {
    type Output = ();

    fn call<A: FrameAllocator<ReplayPlatform<NoProbe>>>(self, _: &'static str, system: &A) {
        (self.0)(system);
    }
}

/// Builds a system for timed calls, and passes it on.
///
/// # Errors
/// Returns a usage error if the system cannot be built.
pub fn with(
    arena: &mut Arena,
    spec: &SystemSpec,
    memory: &Memory,
    cpus: u16,
    visit: &mut dyn FnMut(&dyn TimedSystem),
) -> Result<(), Error> {
    arena.build::<NoProbe, _>(spec, memory, cpus, Visit(visit))
}
