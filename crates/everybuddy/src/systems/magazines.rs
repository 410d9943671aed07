//! The standard buddy behind magazines.
//!
//! # Source
//! Bonwick and Adams 2001, "Magazines and Vmem: Extending the Slab Allocator to Many CPUs and Arbitrary Resources".

use super::standard::StandardZone;
use super::values::ListKind;
use crate::layered::Layered;
use crate::percpu::access::Token;
use crate::percpu::buffered::Buffered;
use crate::percpu::magazines::MagazineList;

/// The standard buddy behind two magazines for each CPU, and a depot.
pub type MagazineBuddy<'m, P> =
    Layered<P, Buffered<'m, P, MagazineList<'m, P>, Token>, StandardZone<'m, P>>;

systems! {
    /// `magazines`: whole lists change CPUs in a depot.
    Magazines: MagazineBuddy {
        name: "magazines",
        summary: "Two magazines for each CPU, exchanged whole for full or empty ones in a depot.",
        source: "Bonwick and Adams 2001, \"Magazines and Vmem\"",
        faithful: "A loaded and a previous magazine for each CPU, which change places; an exchange of full and empty \
            magazines under the depot's lock, whatever their size; a refill and a drain of a whole magazine if the \
            depot has none.",
        deviates: "Frames instead of objects. The size of a magazine is fixed, Linux's batch for the same memory, so \
            that it moves as many frames as lbs-31 does; the source begins with a few and doubles the size while the \
            depot's lock is contended. The depot has two magazines for each CPU, and does not trim itself with time. \
            The record of a frame names its magazine, not the CPU. Before a request fails, frames are taken from other \
            CPUs' magazines and from the depot by the protocol of percpu/drain.rs.",
        list: ListKind::Magazines,
    }
}
