//! Coalescing policies: when buddies are merged.
//!
//! Why it exists: the standard buddy merges at once; the policies of Barkley and Lee merge later. The
//! structure underneath is the same.
//!
//! Invariant: called under the zone's lock. Whatever a policy delays, when all blocks were freed the zone's
//! memory is coalesced as it was in the beginning.
//!
//! | policy | file | source |
//! |---|---|---|
//! | at once | [`eager`] | iBuddy (000) 3.1, Barkley & Lee (003) 3 |

pub mod eager;

pub(crate) use eager::Eager;

use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::Platform;
use crate::structure::Structure;

/// A policy of splitting and coalescing over a structure.
pub(crate) trait Coalesce<P: Platform>: Send + Sync {
    /// Takes a block of `order` out, splitting a larger one if need be. The caller tags its head. O(orders).
    fn allocate<S: Structure<P>>(
        &self,
        structure: &S,
        order: Order,
        probe: &mut P::Probe,
    ) -> Option<Frame>;

    /// Puts a block in, coalescing as the policy says. O(orders).
    fn free<S: Structure<P>>(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe);

    /// Tells whether two free buddies may both be in the structure at rest.
    fn delays(&self) -> bool;
}
