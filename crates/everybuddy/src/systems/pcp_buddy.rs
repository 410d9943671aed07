//! A proposal for Linux: a buddy allocator of owned page blocks for each CPU, before the standard buddy.
//!
//! # Source
//! linux-mm, 2026-04-03, RFC "mm: page_alloc: pcp buddy allocator".

use super::options::Options;
use super::standard::StandardZone;
use super::values::{ListAccess, ListKind};
use crate::layered::Layered;
use crate::percpu::access::Locked;
use crate::percpu::buffered::Buffered;
use crate::percpu::pcp_buddy::PcpBuddyList;

/// The standard buddy behind lists of owned page blocks, each under a lock.
pub type OwnedPages<'m, P> =
    Layered<P, Buffered<'m, P, PcpBuddyList<'m, P>, Locked>, StandardZone<'m, P>>;

systems! {
    /// `pcp-buddy`: page blocks owned by CPUs.
    PcpBuddy: OwnedPages {
        name: "pcp-buddy",
        summary: "Each CPU owns page blocks: a free goes to the owner's lists, which merge buddies before a drain.",
        source: "RFC \"mm: page_alloc: pcp buddy allocator\", linux-mm, 2026-04-03",
        faithful: "A refill first recovers the parts of owned page blocks that drains put into the zone, then claims \
            whole page blocks of 2 MiB, then takes smaller chunks without ownership, then single blocks. A freed frame \
            goes to the lists of its page block's owner, whichever CPU frees it. A drain merges owned buddies \
            bottom-up under the lists' lock, and returns larger blocks under the zone's lock. A page block that \
            returns whole loses its owner. The orders are those of Linux's lists: 0 to 3, and the page block.",
        deviates: "No migrate types, so the last two phases differ only in the order of the blocks. Where the \
            description is silent: the freeing CPU tries the lock of the owner's lists, and frees into the zone if the \
            lock is held; the batch and the high watermark are those of linux-6 before self-tuning, but the high \
            watermark is at least two page blocks; a drain returns as many frames as the current run of frees has \
            freed, the largest blocks first; a CPU remembers at most 32 page blocks with parts in the zone; a page \
            block that becomes whole in the zone keeps its owner until it is claimed or recovered. A free claims its \
            block by an atomic exchange, so that of two CPUs that free a block by its order one \
            is refused. Nested frees do not claim.",
        list: ListKind::PcpBuddy,
        preset: Options { percpu: Some(ListAccess::Locked), ..Options::NONE },
    }
}
