//! How layers become a system: planning its memory and making it there.
//!
//! A layer says once what memory it needs and how it is made; every composition of layers can then be planned and made.
//! A type alias is all that a new composition takes.
//!
//! # Invariants
//! `plan` and `make` of a layer ask for the same memory in the same order.

mod alone;

use super::parameters::{Composition, Parameters};
use super::values::{ListAccess, ListKind, ZoneKind};
use super::{Setup, SystemSpec};
use crate::api::FrameAllocator;
use crate::arena::{Arena, ArenaPlan, Memory};
use crate::coalesce::{Ascend, ByMobility, Coalesce, Delay, Eager, PolicyKind};
use crate::error::{BuildError, RangeError};
use crate::frame::Index;
use crate::frame_table::{FrameTable, Record, Tag};
use crate::layered::Layered;
use crate::layered::erased::{BelowAny, Erased};
use crate::lock::Locks;
use crate::percpu::access::{Access, Locked, Token};
use crate::percpu::buffered::Buffered;
use crate::percpu::linux::LinuxList;
use crate::percpu::linux6::Linux6List;
use crate::percpu::magazines::MagazineList;
use crate::percpu::page_blocks::PageBlockTable;
use crate::percpu::pcp_buddy::PcpBuddyList;
use crate::percpu::predictive::PredictiveList;
use crate::percpu::{NoList, PerCpu};
use crate::platform::Platform;
use crate::region::Span;
use crate::serewa::Serewa;
use crate::structure::{Bits, Placed, StructureKind};
use crate::zone::memory::ZoneGeometry;
use crate::zone::pool::PoolOptions;
use crate::zone::{DomainGeometry, Domains, OneZone, Spaces, Uninterrupted, ZoneLayer};

/// What building a system works with.
pub struct Builder<'m, 's> {
    arena: Arena<'m>,
    setup: &'s Setup<'s>,
    span: Span,
    parameters: Parameters,
    bytes: usize,
}

/// A system as a composition of layers, which can be made in the caller's memory.
///
/// Implemented for every composition of [`systems`](super); not meant to be implemented elsewhere.
pub trait Compose<'m, P: Platform>: FrameAllocator<P> + Sized + 'm {
    /// What it is made of.
    const COMPOSITION: Composition;

    /// The same system, whose layers call each other indirectly.
    #[doc(hidden)]
    type Erased: FrameAllocator<P> + 'm;

    /// Plans the memory that [`make`](Self::make) takes.
    #[doc(hidden)]
    fn plan(parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan;

    /// Builds the system, with all ranges of the setup free. O(frames).
    #[doc(hidden)]
    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError>;

    /// Allocates a run before the system is in use. O(frames).
    #[doc(hidden)]
    fn take_before_use(&self, start: Index, frames: u32) -> Result<(), RangeError>;

    /// Forgets the types of the layers.
    #[doc(hidden)]
    fn erase(self) -> Self::Erased;
}

impl<'m, P: Platform, F, Z> Compose<'m, P> for Layered<P, F, Z>
where
    F: MakeFront<'m, P> + PerCpu<P, Uninterrupted<Z>> + 'm,
    F: for<'z> PerCpu<P, BelowAny<'z, P>>,
    Z: MakeZone<'m, P> + 'm,
{
    type Erased = Erased<P, F, Z>;

    const COMPOSITION: Composition = Composition {
        list: F::LIST,
        access: F::ACCESS,
        zone: Z::ZONE,
        structure: Z::STRUCTURE,
        policy: Z::POLICY,
    };

    fn plan(parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan {
        let plan = ArenaPlan::default().slice::<Record<P>>(span.frames() as usize);
        let plan = Z::plan(plan, parameters, span, cpus);
        F::plan(plan, parameters, span, cpus).slice::<Self>(1)
    }

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
        let zone = Z::make(builder)?;
        let front = F::make(builder)?;
        Ok(Layered::new(front, zone, builder.span, builder.bytes))
    }

    fn take_before_use(&self, start: Index, frames: u32) -> Result<(), RangeError> {
        self.take_run(start, frames)
    }

    fn erase(self) -> Erased<P, F, Z> {
        Erased(self)
    }
}

impl<'m, 's> Builder<'m, 's> {
    /// Prepares to build a composition.
    pub(super) fn new<P: Platform, C: Compose<'m, P>>(
        spec: &SystemSpec,
        setup: &'s Setup<'s>,
        memory: Memory<'m>,
    ) -> Result<Self, BuildError> {
        Self::planned(spec, setup, memory, &C::COMPOSITION, C::plan)
    }

    /// The same by the plan of a composition: compiled once.
    fn planned(
        spec: &SystemSpec,
        setup: &'s Setup<'s>,
        memory: Memory<'m>,
        composition: &Composition,
        plan: fn(&Parameters, Span, u16) -> ArenaPlan,
    ) -> Result<Self, BuildError> {
        let parameters = spec.parameters(setup)?;
        if parameters.composition != *composition {
            let key = parameters.composition.differs_by(composition, spec.row());
            return Err(BuildError::BadOption(key));
        }
        let span = parameters.span(setup)?;
        let arena = Arena::new(memory);
        let bytes = plan(&parameters, span, setup.cpus).bytes()?;
        if bytes > arena.length() {
            return Err(BuildError::MetadataTooSmall {
                needed: bytes,
                given: arena.length(),
            });
        }
        Ok(Self {
            arena,
            setup,
            span,
            parameters,
            bytes,
        })
    }

    /// Builds a composition, and allocates what is taken at the start.
    fn make<P: Platform, C: Compose<'m, P>>(&mut self) -> Result<C, BuildError> {
        let system = C::make(self)?;
        for (index, range) in self.setup.taken.iter().enumerate() {
            // They lie in the memory, and none was used yet: see `Setup::span`.
            let taken = |start, frames| system.take_before_use(start, frames);
            if range.frames > 0 && self.span.on(*range, taken).is_err() {
                return Err(BuildError::TakenRange { index });
            }
        }
        Ok(system)
    }

    /// Builds a composition, and places it in the memory.
    pub(super) fn place<P: Platform, C: Compose<'m, P>>(mut self) -> Result<&'m C, BuildError> {
        let system = self.make()?;
        self.arena.one("system", system)
    }

    /// Builds a composition like [`place`](Self::place), without the types of its layers.
    pub(super) fn place_erased<P: Platform, C: Compose<'m, P>>(
        mut self,
    ) -> Result<&'m C::Erased, BuildError> {
        let system = self.make::<P, C>()?.erase();
        self.arena.one("system", system)
    }

    /// Builds a composition like [`place`](Self::place), and checks that no planned memory is left.
    #[cfg(test)]
    pub(super) fn use_up<P: Platform, C: Compose<'m, P>>(mut self) -> Result<(), BuildError> {
        let system = C::make(&mut self)?;
        self.arena.one("system", system)?;
        assert!(
            self.arena.one("byte", 0u8).is_err(),
            "more is planned than used"
        );
        Ok(())
    }

    /// Creates the records: all frames of the ranges interior, the others holes.
    fn table<P: Platform>(&mut self) -> Result<FrameTable<'m, P>, BuildError> {
        let mut ranges = self
            .setup
            .ranges
            .iter()
            .filter(|range| range.frames > 0)
            .peekable();
        let span = self.span;
        // One pass: the ranges ascend, so the one that may hold the next frame is at the front.
        let records = self
            .arena
            .slice("frame record", self.span.frames() as usize, |index| {
                let physical = span.physical(Index(index as u32));
                while ranges
                    .next_if(|range| range.end().is_some_and(|end| end <= physical))
                    .is_some()
                {}
                let managed = ranges.peek().is_some_and(|range| range.start <= physical);
                Record::new(if managed { Tag::INTERIOR } else { Tag::HOLE })
            })?;
        Ok(FrameTable::new(records))
    }

    /// Creates what the locks of a layer have in common.
    fn locks<P: Platform>(&mut self) -> Result<Locks<'m, P>, BuildError> {
        Locks::make(&mut self.arena, self.parameters.lock, self.setup.cpus)
    }

    /// Passes every range to `seed`.
    fn seed(&self, mut seed: impl FnMut(Index, u32)) -> Result<(), BuildError> {
        for range in self.setup.ranges.iter().filter(|range| range.frames > 0) {
            // The span covers all ranges.
            if let Ok((start, frames)) = self.span.relative(*range) {
                seed(start, frames);
            }
        }
        Ok(())
    }
}

impl Parameters {
    /// Returns the span of a machine. Refuses one of more frames than the structure can keep.
    pub(super) fn span(&self, setup: &Setup<'_>) -> Result<Span, BuildError> {
        let span = setup.span(self.max_order)?;
        let most = self.composition.structure.max_frames();
        if span.frames() <= most {
            Ok(span)
        } else {
            Err(BuildError::SpanTooLarge {
                first: span.base(),
                last: span.physical(Index(span.frames() - 1)),
                most,
            })
        }
    }

    /// Returns the locks, lists and bits of the zone layer.
    fn shape(&self, span: Span) -> ZoneGeometry {
        ZoneGeometry {
            frames: span.frames(),
            part: match self.composition.zone {
                ZoneKind::Spaces => self.space,
                _ => span.frames(),
            },
            max_order: self.max_order,
            line: self.line,
            has_lists: self.composition.structure == StructureKind::Frames,
            bits: Bits::of(self.composition.structure),
            classes: self.composition.structure == StructureKind::LocalLists,
            more_lists: match self.composition.structure {
                StructureKind::MobilityLists => 3,
                _ => 0,
            },
        }
    }

    /// Returns what domains are made for.
    fn extent(&self, span: Span, cpus: u16) -> DomainGeometry {
        DomainGeometry {
            frames: span.frames(),
            cpus,
            max_order: self.max_order,
            spring: self.spring,
        }
    }
}

/// A coalescing policy that the parameters determine.
pub(crate) trait Policy {
    /// Which one it is. Each policy has a kind of its own, by which a system that is built by name finds it.
    const KIND: PolicyKind;

    /// Creates the policy.
    fn of(parameters: &Parameters) -> Self;
}

impl Policy for Eager {
    const KIND: PolicyKind = PolicyKind::Eager;

    fn of(_: &Parameters) -> Self {
        Eager
    }
}

impl Policy for Ascend {
    const KIND: PolicyKind = PolicyKind::Ascend;

    fn of(_: &Parameters) -> Self {
        Ascend
    }
}

impl Policy for ByMobility {
    const KIND: PolicyKind = PolicyKind::ByMobility;

    fn of(parameters: &Parameters) -> Self {
        ByMobility {
            steal: parameters.steal,
        }
    }
}

impl Policy for Delay {
    const KIND: PolicyKind = PolicyKind::Delay;

    fn of(parameters: &Parameters) -> Self {
        Delay {
            rule: parameters.rule,
            reclaim: parameters.reclaim,
        }
    }
}

/// A zone layer that can be made in the caller's memory.
pub(crate) trait MakeZone<'m, P: Platform>: ZoneLayer<P> + Sized {
    const ZONE: ZoneKind;
    const STRUCTURE: StructureKind;
    const POLICY: PolicyKind;

    fn plan(plan: ArenaPlan, parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan;

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError>;
}

impl<'m, P, S, C> MakeZone<'m, P> for OneZone<'m, P, S, C>
where
    P: Platform,
    S: Placed<'m, P>,
    C: Coalesce<P, S> + Policy,
{
    const ZONE: ZoneKind = ZoneKind::One;
    const STRUCTURE: StructureKind = S::KIND;
    const POLICY: PolicyKind = C::KIND;

    fn plan(plan: ArenaPlan, parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan {
        let plan = Locks::<P>::plan(plan, parameters.lock, cpus);
        parameters.shape(span).plan_zone::<P>(plan)
    }

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
        let table = builder.table()?;
        let locks = builder.locks()?;
        let shape = builder.parameters.shape(builder.span);
        let part = shape.make_zone(&mut builder.arena, table, locks)?;
        let policy = C::of(&builder.parameters);
        let zone = OneZone::new(part, policy, builder.parameters.hold);
        builder.seed(|start, frames| zone.seed(start, frames))?;
        Ok(zone)
    }
}

impl<'m, P, S, C> MakeZone<'m, P> for Spaces<'m, P, S, C>
where
    P: Platform,
    S: Placed<'m, P>,
    C: Coalesce<P, S> + Policy,
{
    const ZONE: ZoneKind = ZoneKind::Spaces;
    const STRUCTURE: StructureKind = S::KIND;
    const POLICY: PolicyKind = C::KIND;

    fn plan(plan: ArenaPlan, parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan {
        let shape = parameters.shape(span);
        let plan = Locks::<P>::plan(plan, parameters.lock, cpus);
        let plan = shape.plan_parts::<P>(plan);
        Spaces::<P, S, C>::plan(plan, shape.parts(), cpus, parameters.shards)
    }

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
        let table = builder.table()?;
        let locks = builder.locks()?;
        let Parameters {
            max_order,
            space,
            select,
            exchange,
            shards,
            hold,
            ..
        } = builder.parameters;
        let shape = builder.parameters.shape(builder.span);
        let cpus = builder.setup.cpus;
        let arena = &mut builder.arena;
        let part = shape.make_parts(arena, table)?;
        let options = PoolOptions {
            select,
            exchange,
            shards,
        };
        let geometry = (table, space.trailing_zeros(), max_order);
        let policy = C::of(&builder.parameters);
        let pool = (cpus, options);
        let spaces = Spaces::new(arena, geometry, locks, part, pool, policy, hold)?;
        builder.seed(|start, frames| spaces.seed(start, frames))?;
        Ok(spaces)
    }
}

impl<'m, P: Platform, S: Placed<'m, P>> MakeZone<'m, P> for Serewa<'m, P, S>
where
    Serewa<'m, P, S>: ZoneLayer<P>,
{
    const ZONE: ZoneKind = ZoneKind::Separated;
    const STRUCTURE: StructureKind = S::KIND;
    const POLICY: PolicyKind = PolicyKind::Eager;

    fn plan(plan: ArenaPlan, parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan {
        let plan = Locks::<P>::plan(plan, parameters.lock, cpus);
        let plan = parameters.shape(span).plan_zone::<P>(plan);
        Serewa::<P, S>::plan(plan, parameters.services, cpus)
    }

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
        let table = builder.table()?;
        let locks = builder.locks()?;
        let parameters = builder.parameters;
        let arena = &mut builder.arena;
        let shape = parameters.shape(builder.span);
        let part = shape.make_zone(arena, table, locks)?;
        let division = builder.setup.presplit.filter(|_| parameters.division);
        let mut wanted = division.copied().unwrap_or_default();
        let (cpus, presplit) = (builder.setup.cpus, !wanted.is_none());
        let serewa = Serewa::new(arena, part, parameters.services, cpus, presplit)?;
        builder.seed(|start, frames| serewa.seed(start, frames, &mut wanted))?;
        Ok(serewa)
    }
}

impl<'m, P: Platform> MakeZone<'m, P> for Domains<'m, P> {
    const ZONE: ZoneKind = ZoneKind::Domains;
    const STRUCTURE: StructureKind = StructureKind::Lists;
    const POLICY: PolicyKind = PolicyKind::Eager;

    fn plan(plan: ArenaPlan, parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan {
        let plan = Locks::<P>::plan(plan, parameters.lock, cpus);
        Domains::<P>::plan(plan, parameters.extent(span, cpus))
    }

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
        let table = builder.table()?;
        let locks = builder.locks()?;
        let idle = builder.parameters.idle;
        let extent = builder.parameters.extent(builder.span, builder.setup.cpus);
        let domains = Domains::new(&mut builder.arena, table, extent, (locks, idle))?;
        builder.seed(|start, frames| domains.seed(start, frames))?;
        Ok(domains)
    }
}

/// A per-CPU layer that can be made in the caller's memory.
pub(crate) trait MakeFront<'m, P: Platform>: Sized {
    const LIST: ListKind;
    const ACCESS: ListAccess;

    fn plan(plan: ArenaPlan, parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan;

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError>;
}

impl<'m, P: Platform> MakeFront<'m, P> for NoList {
    const LIST: ListKind = ListKind::None;
    const ACCESS: ListAccess = ListAccess::Token;

    fn plan(plan: ArenaPlan, _: &Parameters, _: Span, _: u16) -> ArenaPlan {
        plan
    }

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
        Ok(NoList {
            cpus: builder.setup.cpus,
        })
    }
}

/// Per-CPU lists, each kind by its numbers.
macro_rules! lists {
    ($($list:ident = $kind:ident by $numbers:ident;)*) => {$(
        impl<'m, P, A> MakeFront<'m, P> for Buffered<'m, P, $list<'m, P>, A>
        where
            P: Platform,
            A: Access<P>,
        {
            const LIST: ListKind = ListKind::$kind;
            const ACCESS: ListAccess = if A::LOCKS {
                ListAccess::Locked
            } else {
                ListAccess::Token
            };

            fn plan(
                plan: ArenaPlan,
                parameters: &Parameters,
                _: Span,
                cpus: u16,
            ) -> ArenaPlan {
                let plan = $list::<P>::plan(plan, parameters.$numbers, cpus);
                Self::plan(plan, cpus)
            }

            fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
                let (arena, cpus) = (&mut builder.arena, builder.setup.cpus);
                let lists = $list::<P>::maker(arena, builder.parameters.$numbers, cpus)?;
                Self::new(arena, cpus, lists)
            }
        }
    )*};
}
lists! {
    LinuxList = Linux by watermarks;
    Linux6List = Linux6 by tuning;
    PredictiveList = Predictive by bound;
}

impl<'m, P: Platform> MakeFront<'m, P> for Buffered<'m, P, MagazineList<'m, P>, Token> {
    const LIST: ListKind = ListKind::Magazines;
    const ACCESS: ListAccess = ListAccess::Token;

    fn plan(plan: ArenaPlan, parameters: &Parameters, _: Span, cpus: u16) -> ArenaPlan {
        let plan = Locks::<P>::plan(plan, parameters.lock, cpus);
        let plan = MagazineList::<P>::plan(plan, parameters.watermarks.batch, cpus);
        Self::plan(plan, cpus)
    }

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
        let (size, locks) = (builder.parameters.watermarks.batch, builder.locks()?);
        let (arena, cpus) = (&mut builder.arena, builder.setup.cpus);
        let lists = MagazineList::maker(arena, (size, locks), cpus)?;
        Self::new(arena, cpus, lists)
    }
}

impl<'m, P: Platform> MakeFront<'m, P> for Buffered<'m, P, PcpBuddyList<'m, P>, Locked> {
    const LIST: ListKind = ListKind::PcpBuddy;
    const ACCESS: ListAccess = ListAccess::Locked;

    fn plan(plan: ArenaPlan, parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan {
        let plan = PageBlockTable::<P>::plan(plan, span.frames(), parameters.max_order);
        Self::plan(plan, cpus)
    }

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
        let (arena, cpus) = (&mut builder.arena, builder.setup.cpus);
        let Parameters {
            max_order,
            watermarks,
            ..
        } = builder.parameters;
        let pages = PageBlockTable::new(arena, builder.span.frames(), max_order)?;
        Self::new(arena, cpus, |cpu| PcpBuddyList::new(cpu, watermarks, pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Pfn;
    use crate::platform::Native;
    use crate::region::FrameRange;

    #[test]
    fn lists_of_many_cpus_do_not_wrap_around_on_a_small_target() {
        let ranges = [FrameRange::new(Pfn(0), 1 << 16)];
        let bytes = |text: &str, cpus| {
            let setup = &Setup::new(&ranges, cpus);
            let spec: SystemSpec = text.parse().unwrap();
            let parameters = &spec.parameters(setup).unwrap();
            let plan = ArenaPlan::default();
            let plan = match parameters.composition.list {
                ListKind::Linux => LinuxList::<Native>::plan(plan, parameters.watermarks, cpus),
                _ => PredictiveList::<Native>::plan(plan, parameters.bound, cpus),
            };
            plan.bytes_up_to(i32::MAX as u64)
        };
        for text in ["lbs-31+high=1048576", "spring+high=1048576"] {
            assert!(bytes(text, 128).is_ok(), "{text}");
            // 2^21 entries for each of 2^11 CPUs: 0 modulo 2^32.
            for cpus in [512, 1 << 11, 65_534] {
                let too_large = Err(BuildError::MetadataTooLarge);
                assert_eq!(bytes(text, cpus), too_large, "{text}: {cpus} CPUs");
            }
        }
    }
}
