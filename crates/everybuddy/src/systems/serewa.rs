//! Serewa's system, and the ordered structures without its services.
//!
//! # Source
//! \[Serewa\] section 2.2.

use super::options::Options;
use super::values::{Switch, ZoneKind};
use crate::coalesce::Eager;
use crate::layered::Layered;
use crate::percpu::NoList;
use crate::serewa::Serewa as SerewaZone;
use crate::structure::{BitScan, FreeLists, StructureKind, Trees};
use crate::zone::OneZone;

/// Serewa's system on balanced trees.
pub type SerewaTrees<'m, P> = Layered<P, NoList, SerewaZone<'m, P, Trees<'m, P>>>;
/// Serewa's system on free lists.
pub type SerewaLists<'m, P> = Layered<P, NoList, SerewaZone<'m, P, FreeLists<'m, P>>>;
/// Serewa's system on bits.
pub type SerewaBits<'m, P> = Layered<P, NoList, SerewaZone<'m, P, BitScan<'m, P>>>;
/// One zone of balanced trees, coalesced at each free.
pub type TreeBuddy<'m, P> = Layered<P, NoList, OneZone<'m, P, Trees<'m, P>, Eager>>;
/// One zone of bits, coalesced at each free.
pub type BitBuddy<'m, P> = Layered<P, NoList, OneZone<'m, P, BitScan<'m, P>, Eager>>;

systems! {
    /// `serewa`: Serewa's buddy.
    Serewa: SerewaTrees {
        name: "serewa",
        summary: "Serewa's buddy: calls leave work behind; services divide and link the rest.",
        source: "[Serewa] 2.2, figure 1",
        faithful: "Exact requests, any part freed by itself (2.2.1); resource management, dividing and linking apart, \
            joined by two queues (2.2.2); memory divided initially by statistics (2.2.3); balanced trees \
            (2.2.4). Each can be switched: separate=, division=, structure=. A caller that requests blocks rounds \
            sizes \
            up.",
        deviates: "The paper's system is serewa+manager=thread+linking=idle. This row has neither, since a host may \
            have no thread for a manager, and where no CPU is ever idle nothing is linked until a request would be \
            refused: the manager runs in the caller, and linking starts as soon as something waits. Queues are \
            bounded rings without locks; with sync=lock each operation takes a spin lock, where the paper mentions \
            binary semaphores, which block. With linking=idle, linking waits until a CPU is idle or a request would \
            be refused. A caller that finds a queue full does the work itself; a request that finds no block does what \
            waits before it fails; a piece whose buddy came back is merged when it is filed. Without statistics \
            memory starts in largest blocks. Trees allocate the lowest address. Requests that come faster than \
            remnants are divided break one large block after another; with remnants=first they divide what waits. \
            With manager=thread, a manager that stops for ever owes its callers blocks, so a request that would be \
            refused is busy. Of all this, the paper specifies the manager's thread and idle linking only.",
        preset: Options {
            zone: Some(ZoneKind::Separated),
            structure: Some(StructureKind::Trees),
            division: Some(Switch::On),
            ..Options::NONE
        },
    }
}
