//! Zones by node and by address: many systems as one.
//!
//! A machine with several nodes wants each request to be served near its CPU, and a machine whose devices reach only
//! low addresses wants to keep these for the devices. [`Nodes`] divides memory into zones, each of which is a system of
//! its own, and is a system itself: the layer above does not know the difference.
//!
//! # Mechanism
//! A request tries the zones that its [`Place`] allows. It starts with the nearest node. Within a node it starts with
//! the highest addresses, so that low memory is used last. A zone may have a reserve: frames that are available only to
//! requests whose limit excludes all higher zones. The request first tries all zones without waiting. Only if all of
//! them refuse does it drain the lists of other CPUs.
//!
//! # Invariants
//! 1. The spans of the zones ascend and do not overlap. The index of a frame here and that in its zone belong to the
//!    same physical frame.
//! 2. The count of free frames of a zone with a reserve is exact when no operation is in progress. An allocation lowers
//!    it before it takes frames, and a free raises it afterwards. A withdrawal lowers it afterwards too, so the count
//!    can briefly be negative. It is a signed number that is stored in an unsigned word.
//!
//! # Design decisions
//! A request never chooses a zone by a hint about its free frames, because a failed attempt costs only one lookup. A
//! request fails only after every zone that it may use has refused it. It can miss frames that are freed into a zone
//! after that zone has refused. A release must lie in one zone. The reserve is kept from
//! requests, and not from [`allocate_at`](FrameAllocator::allocate_at) or what visits free blocks.

mod build;
mod calls;
mod zeroed;
mod zone;

pub use build::ZoneSetup;
pub use zone::Zone;

use core::fmt;

use crate::api::{FrameAllocator, describe};
use crate::error::{AllocateError, BuildError, FreeError, RegionError};
use crate::frame::{Frames, Index, Order};
use crate::place::{Node, Place};
use crate::platform::{CpuId, CpuToken, Platform};
use crate::region::{FrameRange, Span};
use crate::request::{Flags, Release, Request, Size};
use crate::snapshot::Snapshot;

/// What a zone has at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneState {
    /// The node.
    pub node: u8,
    /// The frames, holes included.
    pub span: Span,
    /// What is free.
    pub free: Snapshot,
}

/// Zones by node and by address, as one system.
///
/// # Examples
/// ```
/// use core::mem::MaybeUninit;
/// use everybuddy::prelude::*;
/// use everybuddy::{Node, Nodes, Place, Zone};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Two nodes of 32 MiB; CPU 0 is on node 0, CPU 1 on node 1.
/// let mut memories = [const { [MaybeUninit::uninit(); 1 << 18] }; 2];
/// let [first, second] = &mut memories;
/// let build = |start, memory| {
///     let ranges = [FrameRange::new(Pfn(start), 8192)];
///     build::<Lbs31, Native>(&Options::NONE, &Setup::new(&ranges, 2), Memory::new(memory))
/// };
/// let zones = [
///     Zone::new(0, build(0, first)?),
///     Zone::new(1, build(8192, second)?),
/// ];
/// let nodes = Nodes::new(&zones, &[0, 1], &[])?;
///
/// let cpus = NativeCpus::new(2);
/// let mut cpu = cpus.claim(CpuId(1)).unwrap();
/// let near = nodes.allocate(&mut cpu, Request::FRAME)?;
/// assert!(near.0 >= 8192);
/// let far = nodes.allocate_in(&mut cpu, Request::FRAME, &Place::ANYWHERE.on(Node::Only(0)))?;
/// assert!(far.0 < 8192);
/// nodes.free(&mut cpu, Release::frame(near))?;
/// nodes.free(&mut cpu, Release::frame(far))?;
/// # Ok(())
/// # }
/// ```
pub struct Nodes<'z, P: Platform, S: ?Sized> {
    zones: &'z [Zone<'z, P, S>],
    homes: &'z [u8],
    distances: &'z [&'z [u8]],
    span: Span,
    max_order: Order,
    cpus: u16,
}

impl<P: Platform, S: FrameAllocator<P> + ?Sized> fmt::Debug for Nodes<'_, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self, "Nodes", f)
    }
}

/// Where a zone stands in the order in which a request tries the zones: by distance, then by address, highest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    distance: u8,
    below_top: usize,
}

impl<'z, P: Platform, S: FrameAllocator<P> + ?Sized> Nodes<'z, P, S> {
    /// Joins zones, which ascend by address. `homes` is the node of each CPU; a CPU beyond its end is on node 0.
    /// `distances[a][b]` is the distance from node `a` to node `b`; where it ends, it is 10 to the node itself and 20
    /// to another one.
    ///
    /// All zones should be the same kind of system: a host runs a [service](FrameAllocator::services) by its number on
    /// all of them.
    ///
    /// # Errors
    /// [`NoMemory`](BuildError::NoMemory) without zones; [`UnorderedRanges`](BuildError::UnorderedRanges) if two zones
    /// overlap or do not ascend, which includes a border that is not a multiple of the largest block;
    /// [`SpanTooLarge`](BuildError::SpanTooLarge).
    pub fn new(
        zones: &'z [Zone<'z, P, S>],
        homes: &'z [u8],
        distances: &'z [&'z [u8]],
    ) -> Result<Self, BuildError> {
        let last = |zone: &Zone<'_, P, S>| {
            let span = zone.system.span();
            span.physical(Index(span.frames().saturating_sub(1)))
        };
        for (index, pair) in zones.windows(2).enumerate() {
            if let [lower, upper] = pair
                && upper.system.span().base() <= last(lower)
            {
                return Err(BuildError::UnorderedRanges { index: index + 1 });
            }
        }
        let orders = zones.iter().map(|zone| zone.system.max_order());
        let max_order = orders.min().ok_or(BuildError::NoMemory)?;
        let parts = zones.iter().flat_map(|zone| zone.system.span().parts());
        let span = Span::joining(parts, max_order)?;
        let cpus = zones.iter().map(|zone| zone.system.cpus());
        Ok(Self {
            zones,
            homes,
            distances,
            span,
            max_order,
            cpus: cpus.min().ok_or(BuildError::NoMemory)?,
        })
    }

    /// Returns the zones, lowest addresses first.
    pub fn parts(&self) -> &'z [Zone<'z, P, S>] {
        self.zones
    }

    /// Returns the number of free frames of a node, as [`FrameAllocator::free_frames`] does. O(zones), and that of each
    /// zone of the node without a reserve.
    pub fn free_frames_of(&self, node: u8) -> u64 {
        let zones = self.zones.iter().filter(|zone| zone.node == node);
        zones.map(Zone::free_frames).sum()
    }

    /// Returns the state of each zone, lowest addresses first. As costly as a snapshot of each.
    pub fn zones<'s>(&'s self, cpu: &'s mut P::Cpu) -> impl Iterator<Item = ZoneState> + 's {
        self.zones.iter().map(|zone| ZoneState {
            node: zone.node,
            span: *zone.system.span(),
            free: zone.system.snapshot(cpu),
        })
    }

    /// Returns the node of a CPU.
    pub fn home(&self, cpu: CpuId) -> u8 {
        self.homes.get(cpu.index()).copied().unwrap_or(0)
    }

    /// Returns how far a node is from another one.
    pub fn distance(&self, from: u8, to: u8) -> u8 {
        let row = self.distances.get(usize::from(from));
        let known = row.and_then(|row| row.get(usize::from(to)));
        known.copied().unwrap_or(if from == to { 10 } else { 20 })
    }

    /// Returns the index here of a frame of a zone.
    fn here(&self, zone: &Zone<'_, P, S>, inner: Index) -> Index {
        let here = self.span.index(zone.system.span().physical(inner));
        // The span covers all zones.
        here.unwrap_or(inner)
    }

    /// Returns the zone that holds a frame, and the frame's number there. Returns `None` between zones and outside.
    fn zone_of(&self, index: Index) -> Option<(&'z Zone<'z, P, S>, Index)> {
        let physical = self.span.physical(index);
        let mut zones = self.zones.iter();
        zones.find_map(|zone| Some((zone, zone.system.span().index(physical)?)))
    }

    /// Returns the zone that holds a whole range.
    fn zone_of_range(&self, range: FrameRange) -> Result<&'z Zone<'z, P, S>, RegionError> {
        let (start, _) = self.span.relative(range)?;
        let (zone, _) = self.zone_of(start).ok_or(RegionError::OutsideSpan)?;
        zone.system.span().relative(range).map(|_| zone)
    }

    /// Runs an operation on the zone of a range.
    fn in_zone<T>(
        &self,
        cpu: CpuId,
        range: FrameRange,
        work: impl FnOnce(&Zone<'_, P, S>) -> Result<T, RegionError>,
    ) -> Result<T, RegionError> {
        if cpu.0 >= self.cpus {
            return Err(RegionError::NoSuchCpu);
        }
        let zone = self.zone_of_range(range)?;
        work(zone)
    }

    /// Returns the zone that a request tries after the one of rank `tried`.
    fn next_zone(
        &self,
        (node, place): (u8, &Place),
        tried: Option<Rank>,
    ) -> Option<(Rank, &'z Zone<'z, P, S>)> {
        let ranked = self.zones.iter().enumerate().map(|(index, zone)| {
            let rank = Rank {
                distance: self.distance(node, zone.node),
                below_top: self.zones.len() - index,
            };
            (rank, zone)
        });
        ranked
            .filter(|(rank, zone)| {
                tried.is_none_or(|tried| *rank > tried)
                    && zone.system.span().base() < place.limit
                    && !matches!(place.node, Node::Only(only) if only != zone.node)
            })
            .min_by_key(|(rank, _)| *rank)
    }

    /// Tries the zones of a place in order: calls `ask` on each until one serves the request.
    fn try_zones(
        &self,
        cpu: CpuId,
        frames: u32,
        place: &Place,
        ask: &mut dyn FnMut(&S) -> Result<Index, AllocateError>,
    ) -> Result<Index, AllocateError> {
        let node = match place.node {
            Node::Home => self.home(cpu),
            Node::Preferred(node) | Node::Only(node) => node,
        };
        let mut failure = AllocateError::Exhausted;
        let mut tried = None;
        while let Some((rank, zone)) = self.next_zone((node, place), tried) {
            tried = Some(rank);
            // No zone above this one could serve the request.
            let mut above = self.zones.iter().rev().take(rank.below_top - 1);
            let is_limited = !above.any(|zone| zone.system.span().base() < place.limit);
            if !zone.charge(frames, is_limited) {
                continue;
            }
            let error = match ask(zone.system) {
                Ok(index) => return Ok(self.here(zone, index)),
                Err(error) => error,
            };
            zone.refund(u64::from(frames));
            match error {
                AllocateError::Exhausted => {}
                AllocateError::Busy => failure = error,
                error => return Err(error),
            }
        }
        Err(failure)
    }

    /// Refuses requests that no zone serves.
    fn check_size(&self, request: Request) -> Result<u32, AllocateError> {
        let (frames, _) = request.size.checked(self.max_order)?;
        Ok(frames)
    }

    /// Asks the zones, first without waiting.
    fn allocate_from(
        &self,
        cpu: &mut P::Cpu,
        request: Request,
        place: &Place,
    ) -> Result<Index, AllocateError> {
        let id = cpu.id();
        if id.0 >= self.cpus {
            return Err(AllocateError::NoSuchCpu);
        }
        let frames = self.check_size(request)?;
        let rest = Place {
            node: Node::Home,
            ..*place
        };
        let may_wait = !request.flags.contains(Flags::NO_WAIT);
        let mut last = Err(AllocateError::Exhausted);
        for waits in [false, true] {
            if waits && (!may_wait || last != Err(AllocateError::Busy)) {
                break;
            }
            let asked = if waits {
                request
            } else {
                request.with_flags(Flags::NO_WAIT)
            };
            last = self.try_zones(id, frames, place, &mut |system| {
                if rest == Place::ANYWHERE {
                    system.allocate(cpu, asked)
                } else {
                    system.allocate_in(cpu, asked, &rest)
                }
            });
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Returns the zone of a release, and the release there.
    fn release_in(
        &self,
        cpu: CpuId,
        release: Release,
    ) -> Result<(&'z Zone<'z, P, S>, Release), FreeError> {
        if cpu.0 >= self.cpus {
            return Err(FreeError::NoSuchCpu);
        }
        match self.zone_of(release.start) {
            Some((zone, start)) => Ok((zone, Release { start, ..release })),
            None if release.size == Size::Frames(Frames(0)) => Err(FreeError::ZeroFrames),
            None if release.start.0 >= self.span.frames() => Err(FreeError::Foreign),
            None => Err(FreeError::Hole),
        }
    }
}
