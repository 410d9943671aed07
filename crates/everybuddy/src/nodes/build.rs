//! Zones and what joins them, in one piece of memory: for a kernel whose nodes are a static.
//!
//! # Invariants
//! The parts of the memory are in the order of the zones; what joins the zones follows them.

use super::zeroed::Zeroed;
use super::{Nodes, Zone};
use crate::arena::{Arena, ArenaPlan, LINE, Memory};
use crate::error::BuildError;
use crate::frame::Order;
use crate::platform::{AtomicWord, Platform};
use crate::systems::{Compose, Options, Setup, System, build, layout};

/// A zone that is not built yet.
#[derive(Clone, Copy, Debug)]
pub struct ZoneSetup<'r> {
    /// The node.
    pub node: u8,
    /// Its memory, and the CPUs of the machine.
    pub setup: Setup<'r>,
    /// The frames that only requests may have that no higher zone can serve; 0 for none.
    pub reserve: u64,
    /// The order of the blocks of which is stored that they contain only zeros, if they are: [`Zone::with_zeroed`].
    pub zeroed: Option<Order>,
}

impl<'r> ZoneSetup<'r> {
    /// Describes a zone without a reserve.
    pub const fn new(node: u8, setup: Setup<'r>) -> Self {
        Self {
            node,
            setup,
            reserve: 0,
            zeroed: None,
        }
    }

    /// Returns the number of words of bits; `frames` is the number of frames of the span.
    fn words<P: Platform>(&self, frames: u32) -> usize {
        let words = |order| Zeroed::<P>::words(order, frames);
        self.zeroed.map_or(0, words)
    }
}

impl<'m, P: Platform, S: Compose<'m, P>> Nodes<'m, P, S> {
    /// Returns how many bytes [`build`](Self::build) takes, wherever they begin. O(zones).
    ///
    /// # Errors
    /// Any [`BuildError`] except `MetadataTooSmall`.
    pub fn room<T>(
        options: &Options,
        zones: &[ZoneSetup<'_>],
        homes: &[u8],
    ) -> Result<usize, BuildError>
    where
        T: System<Built<'m, P> = S>,
    {
        let mut bytes = LINE - 1;
        let mut plan = ArenaPlan::EMPTY;
        for zone in zones {
            bytes += Memory::room(layout::<T, P>(options, &zone.setup)?);
            // The span can be smaller than the largest block more than the memory.
            let order = options.order.unwrap_or(Order::TEN);
            let frames = zone.setup.span(order)?.frames();
            plan = plan.slice::<P::AtomicU64>(zone.words::<P>(frames));
        }
        plan = plan
            .slice::<Zone<'m, P, S>>(zones.len())
            .slice::<u8>(homes.len())
            .slice::<Self>(1);
        Ok(bytes.saturating_add(plan.bytes()?))
    }

    /// Builds a system for each zone, and joins them, as [`new`](Self::new) does. All of it lies in the memory: with a
    /// [`Boot`](crate::Boot), the nodes are a static. `T` is the kind of the systems. O(frames).
    ///
    /// # Errors
    /// Any [`BuildError`]; those of [`new`](Self::new).
    pub fn build<T, const ZONES: usize>(
        options: &Options,
        zones: &[ZoneSetup<'_>; ZONES],
        homes: &[u8],
        distances: &'m [&'m [u8]],
        mut memory: Memory<'m>,
    ) -> Result<&'m Self, BuildError>
    where
        T: System<Built<'m, P> = S>,
    {
        let mut one = |zone: &ZoneSetup<'_>| {
            let room = Memory::room(layout::<T, P>(options, &zone.setup)?);
            build::<T, P>(options, &zone.setup, memory.split(room))
        };
        let Some((first, others)) = zones.split_first() else {
            return Err(BuildError::NoMemory);
        };
        let mut systems = [one(first)?; ZONES];
        for (place, zone) in systems.iter_mut().skip(1).zip(others) {
            *place = one(zone)?;
        }
        let arena = &mut Arena::new(memory);
        let mut bits: [&[P::AtomicU64]; ZONES] = [&[]; ZONES];
        for ((bits, zone), system) in bits.iter_mut().zip(zones).zip(systems) {
            let words = zone.words::<P>(system.span().frames());
            *bits = arena.slice("bits of zeroed blocks", words, |_| P::AtomicU64::new(0))?;
        }
        let mut parts = zones.iter().zip(systems).zip(bits);
        // There is one for each.
        let spare = || Zone::new(first.node, systems[0]);
        let zones = arena.slice("zone", ZONES, |_| {
            parts.next().map_or_else(spare, |((zone, system), bits)| {
                Zone::new(zone.node, system)
                    .with_reserve(zone.reserve, system.free_frames())
                    .with_zeroed(zone.zeroed.unwrap_or(Order::ZERO), bits)
            })
        })?;
        let homes = arena.slice("node of a CPU", homes.len(), |cpu| homes[cpu])?;
        arena.one("nodes", Self::new(zones, homes, distances)?)
    }
}
