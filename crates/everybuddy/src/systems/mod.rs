//! The systems by name: the only place where layers meet.
//!
//! Why it exists: the difference between two systems is one row here. A row says what a system is made of,
//! where it is described, and where it deviates; [`with_system`] builds it. Everything else (tests, the
//! laboratory, SYSTEMS.md) goes over the rows.
//!
//! Dispatch by name happens once per run, not once per operation: the visitor is compiled for each
//! composition, and inside it every call is static. Who times nothing takes [`with_any_system`], which is
//! compiled once.
//!
//! Invariant: for every row, [`metadata_layout`] and the construction ask for the same memory.

mod options;
mod parameters;
mod rows;
mod spec;

pub use options::{ListKind, Options, ZoneKind};
pub use parameters::{Area, Front, Parameters, SpaceSize, Zone};
pub use rows::{ROWS, Row};
pub use spec::{SpecError, SystemSpec};

use core::alloc::Layout;
use core::mem::MaybeUninit;

use crate::api::FrameAllocator;
use crate::arena::{Arena, ArenaPlan, LINE};
pub use crate::coalesce::delay::Rule;
use crate::coalesce::{Ascend, Coalesce, Delay, Eager};
use crate::error::BuildError;
use crate::frame::{Order, Pfn};
use crate::frame_table::{FrameTable, Record, Tag};
use crate::layered::Layered;
pub use crate::lock::{Hold, Line, LockKind};
use crate::percpu::access::{Access, Locked, Token};
use crate::percpu::buffered::{Buffered, CpuList};
use crate::percpu::linux::LinuxList;
pub use crate::percpu::linux::Watermarks;
use crate::percpu::linux6::Linux6List;
pub use crate::percpu::linux6::Tuning;
pub use crate::percpu::predictive::Bound;
use crate::percpu::predictive::PredictiveList;
use crate::percpu::{NoList, PerCpu};
use crate::platform::Platform;
use crate::region::{FrameRange, Span};
use crate::serewa::Serewa;
pub use crate::serewa::{Division, Manager, Remnants, Separation};
pub use crate::structure::Kept;
use crate::structure::{BitScan, Bits, FreeLists, Inverse, LocalLists, Placed, Trees};
use crate::zone::memory::Shape;
use crate::zone::pool::Pool;
pub use crate::zone::{Bulk, Select};
use crate::zone::{Domains, Extent, OneZone, Spaces, ZoneLayer};

/// The machine that a system is built for.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'r> {
    ranges: &'r [FrameRange],
    reach: Option<FrameRange>,
    cpus: u16,
    division: Option<&'r Division>,
}

impl<'r> Setup<'r> {
    /// Describes a machine: its memory, as ascending ranges of physical frames, and its CPUs.
    pub const fn new(ranges: &'r [FrameRange], cpus: u16) -> Self {
        Self {
            ranges,
            reach: None,
            cpus,
            division: None,
        }
    }

    /// Makes room for memory that is added later: everything within `reach`. Metadata grows with it.
    pub const fn with_reach(self, reach: FrameRange) -> Self {
        Self {
            reach: Some(reach),
            ..self
        }
    }

    /// Says into which blocks memory is to be divided in the beginning, for systems that do so.
    pub const fn with_division(self, division: &'r Division) -> Self {
        Self {
            division: Some(division),
            ..self
        }
    }

    /// Returns the frames of all ranges.
    fn frames(&self) -> u64 {
        self.ranges
            .iter()
            .fold(0, |sum, range| sum.saturating_add(range.frames))
    }

    fn span(&self, max_order: Order) -> Result<Span, BuildError> {
        let memory = Span::covering(self.ranges, max_order)?;
        let Some(reach) = self.reach else {
            return Ok(memory);
        };
        let span = Span::covering(&[reach], max_order)?;
        let inside = |range: &FrameRange| {
            range.frames == 0 || range.start >= reach.start && range.end() <= reach.end()
        };
        if let Some(index) = self.ranges.iter().position(|range| !inside(range)) {
            return Err(BuildError::OutsideReach { index });
        }
        Ok(span)
    }
}

/// What runs on a system of any composition.
pub trait WithSystem<P: Platform> {
    /// What it returns.
    type Output;

    /// Runs. Compiled once for each composition.
    fn call<A: FrameAllocator<P>>(self, name: &'static str, system: &A) -> Self::Output;
}

/// Returns the metadata that a system needs, to be provided by the caller. O(1).
///
/// Memory that is not aligned so must be larger by the alignment.
///
/// # Errors
/// Any [`BuildError`] but `MetadataTooSmall`.
pub fn metadata_layout<P: Platform>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
) -> Result<Layout, BuildError> {
    let parameters = spec.parameters(setup)?;
    let span = setup.span(parameters.max_order)?;
    let bytes = plan::<P>(&parameters, span, setup.cpus).bytes();
    Layout::from_size_align(bytes, LINE).map_err(|_| BuildError::SpanTooLarge)
}

/// Builds a system by name in the memory given, and runs `visitor` on it. O(frames) to build.
///
/// # Errors
/// Any [`BuildError`]; the visitor is not run then.
pub fn with_system<P: Platform, V: WithSystem<P>>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: &mut [MaybeUninit<u8>],
    visitor: V,
) -> Result<V::Output, BuildError> {
    let mut builder = Builder::new::<P>(spec, setup, memory)?;
    let parameters = builder.parameters;
    match (parameters.area, parameters.zone) {
        (Area::Blocks, Zone::One) => match parameters.structure {
            Kept::List => builder.one_of_blocks(visitor),
            Kept::Tree => {
                let zone = builder.one_zone::<P, Trees<'_, P>, Eager>(Eager)?;
                builder.bare(zone, visitor)
            }
            Kept::Bitmap => {
                let zone = builder.one_zone::<P, BitScan<'_, P>, Eager>(Eager)?;
                builder.bare(zone, visitor)
            }
        },
        (Area::Blocks, Zone::Separated(separation)) => match parameters.structure {
            Kept::List => {
                let zone = builder.separated::<P, FreeLists<'_, P>>(separation)?;
                builder.bare(zone, visitor)
            }
            Kept::Tree => {
                let zone = builder.separated::<P, Trees<'_, P>>(separation)?;
                builder.bare(zone, visitor)
            }
            Kept::Bitmap => {
                let zone = builder.separated::<P, BitScan<'_, P>>(separation)?;
                builder.bare(zone, visitor)
            }
        },
        (Area::Blocks, Zone::Spaces(size)) => {
            let zone = builder.spaces::<P, FreeLists<'_, P>, Eager>(Eager, size)?;
            builder.of_blocks(zone, visitor)
        }
        (Area::Blocks, Zone::Domains { idle }) => {
            let zone = builder.domains::<P>(idle)?;
            builder.of_blocks(zone, visitor)
        }
        (Area::Frames, Zone::One) => {
            let zone = builder.one_zone::<P, Inverse<'_, P>, Ascend>(Ascend)?;
            builder.listed(zone, visitor)
        }
        (Area::Frames, Zone::Spaces(size)) => {
            let zone = builder.spaces::<P, Inverse<'_, P>, Ascend>(Ascend, size)?;
            builder.listed(zone, visitor)
        }
        (Area::Delayed(rule), zone) => {
            let reclaim = parameters.reclaim;
            let policy = Delay { rule, reclaim };
            match zone {
                Zone::One => {
                    let zone = builder.one_zone::<P, LocalLists<'_, P>, Delay>(policy)?;
                    match parameters.front {
                        Front::Linux6(tuning) => {
                            builder.linux6::<P, V, Token, true>(zone, tuning, visitor)
                        }
                        _ => builder.of_blocks(zone, visitor),
                    }
                }
                Zone::Spaces(size) => {
                    let zone = builder.spaces::<P, LocalLists<'_, P>, Delay>(policy, size)?;
                    builder.of_blocks(zone, visitor)
                }
                Zone::Domains { .. } | Zone::Separated(_) => Err(BuildError::BadOption("zone")),
            }
        }
        (Area::Frames, Zone::Domains { .. } | Zone::Separated(_)) => {
            Err(BuildError::BadOption("zone"))
        }
    }
}

/// What [`with_any_system`] runs, as a visitor.
struct Indirect<'v, P: Platform>(&'v mut dyn FnMut(&dyn FrameAllocator<P>));

impl<P: Platform> WithSystem<P> for Indirect<'_, P> {
    type Output = ();

    fn call<A: FrameAllocator<P>>(self, _: &'static str, system: &A) {
        (self.0)(system);
    }
}

/// Builds a system by name in the memory given, and calls `visitor` once with it. O(frames) to build.
///
/// For programs that count or check rather than time: the visitor is compiled once instead of once for each
/// composition, and each operation of the system costs an indirect call.
///
/// # Errors
/// Any [`BuildError`]; the visitor is not called then.
pub fn with_any_system<P: Platform>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: &mut [MaybeUninit<u8>],
    visitor: &mut dyn FnMut(&dyn FrameAllocator<P>),
) -> Result<(), BuildError> {
    with_system(spec, setup, memory, Indirect(visitor))
}

/// Builds a system of free blocks in one zone without a list before it, and runs `visitor` on it. O(frames) to build.
///
/// For programs that compare coalescing policies and nothing else: the visitor is compiled for two compositions
/// instead of for all of them.
///
/// # Errors
/// Any [`BuildError`], and [`BuildError::BadOption`] for a system of another composition; the visitor is not run then.
pub fn with_policy<P: Platform, V: WithSystem<P>>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: &mut [MaybeUninit<u8>],
    visitor: V,
) -> Result<V::Output, BuildError> {
    let mut builder = Builder::new::<P>(spec, setup, memory)?;
    let parameters = builder.parameters;
    match (parameters.area, parameters.zone) {
        (Area::Blocks, Zone::One) => {
            let zone = builder.one_zone::<P, FreeLists<'_, P>, Eager>(Eager)?;
            builder.bare(zone, visitor)
        }
        (Area::Delayed(rule), Zone::One) => {
            let reclaim = parameters.reclaim;
            let policy = Delay { rule, reclaim };
            let zone = builder.one_zone::<P, LocalLists<'_, P>, Delay>(policy)?;
            builder.bare(zone, visitor)
        }
        _ => Err(BuildError::BadOption("zone")),
    }
}

/// Plans the metadata of a system; in the same order as [`Builder`] asks for it.
fn plan<P: Platform>(parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan {
    let plan = ArenaPlan::default().slice::<Record<P>>(span.frames() as usize);
    let shape = parameters.shape(span);
    let plan = match parameters.zone {
        Zone::One => shape.plan::<P>(plan),
        Zone::Separated(separation) => {
            let plan = shape.plan::<P>(plan);
            Serewa::<P, FreeLists<'_, P>>::plan(plan, separation, cpus)
        }
        Zone::Domains { .. } => Domains::<P>::plan(plan, parameters.extent(span, cpus)),
        Zone::Spaces(_) => {
            let plan = Pool::<P>::plan(shape.plan::<P>(plan), shape.parts(), cpus);
            match parameters.area {
                Area::Blocks => Spaces::<P, FreeLists<'_, P>, Eager>::plan(plan, shape.parts()),
                Area::Frames => Spaces::<P, Inverse<'_, P>, Ascend>::plan(plan, shape.parts()),
                Area::Delayed(_) => {
                    Spaces::<P, LocalLists<'_, P>, Delay>::plan(plan, shape.parts())
                }
            }
        }
    };
    match parameters.front {
        Front::None => plan,
        Front::Linux(marks) => {
            let plan = LinuxList::<P, true>::plan(plan, marks, cpus);
            Buffered::<P, LinuxList<'_, P, true>, Token>::plan(plan, cpus)
        }
        Front::Linux6(tuning) => {
            let plan = Linux6List::<P, true>::plan(plan, tuning, cpus);
            Buffered::<P, Linux6List<'_, P, true>, Token>::plan(plan, cpus)
        }
        Front::Predictive(bound) => {
            let plan = PredictiveList::<P, true>::plan(plan, bound, cpus);
            Buffered::<P, PredictiveList<'_, P, true>, Token>::plan(plan, cpus)
        }
    }
}

/// What building takes.
struct Builder<'a, 's> {
    arena: Arena<'a>,
    name: &'static str,
    setup: &'s Setup<'s>,
    span: Span,
    parameters: Parameters,
    bytes: usize,
}

impl Parameters {
    /// Returns the locks, lists and bits that the zone layer has.
    fn shape(&self, span: Span) -> Shape {
        Shape {
            frames: span.frames(),
            part: match self.zone {
                Zone::Spaces(size) => size.frames,
                _ => span.frames(),
            },
            max_order: self.max_order,
            lock: self.lock,
            line: self.line,
            bits: match self.structure {
                Kept::List | Kept::Tree => Bits::Plain,
                Kept::Bitmap => Bits::Summed,
            },
            classes: matches!(self.area, Area::Delayed(_)),
        }
    }

    /// Returns what domains are made for.
    fn extent(&self, span: Span, cpus: u16) -> Extent {
        Extent {
            frames: span.frames(),
            cpus,
            max_order: self.max_order,
        }
    }
}

impl<'a, 's> Builder<'a, 's> {
    /// Prepares to build a system.
    fn new<P: Platform>(
        spec: &SystemSpec,
        setup: &'s Setup<'s>,
        memory: &'a mut [MaybeUninit<u8>],
    ) -> Result<Self, BuildError> {
        let parameters = spec.parameters(setup)?;
        let span = setup.span(parameters.max_order)?;
        Ok(Self {
            arena: Arena::new(memory),
            name: spec.name(),
            setup,
            span,
            parameters,
            bytes: plan::<P>(&parameters, span, setup.cpus).bytes(),
        })
    }

    /// Makes the records: all frames of the ranges interior, the others holes.
    fn table<P: Platform>(&mut self) -> Result<FrameTable<'a, P>, BuildError> {
        let mut ranges = self
            .setup
            .ranges
            .iter()
            .filter(|range| range.frames > 0)
            .peekable();
        let base = self.span.base();
        // One pass: the ranges ascend, so the one that may hold the next frame is at the front.
        let records = self.arena.slice(self.span.frames() as usize, |index| {
            let physical = base + index as u64;
            while ranges
                .next_if(|range| range.end().is_some_and(|end| end <= physical))
                .is_some()
            {}
            let managed = ranges.peek().is_some_and(|range| range.start <= physical);
            Record::new(if managed { Tag::INTERIOR } else { Tag::HOLE })
        })?;
        Ok(FrameTable::new(records))
    }

    /// Refuses a span of more frames than the structure can keep.
    fn limit(&self, frames: u64) -> Result<(), BuildError> {
        if u64::from(self.span.frames()) > frames {
            return Err(BuildError::SpanTooLarge);
        }
        Ok(())
    }

    /// Gives every range to `seed`.
    fn seed(&self, mut seed: impl FnMut(Pfn, u32)) -> Result<(), BuildError> {
        for range in self.setup.ranges.iter().filter(|range| range.frames > 0) {
            let relative = self.span.relative(*range);
            let (start, frames) = relative.map_err(|_| BuildError::SpanTooLarge)?;
            seed(start, frames);
        }
        Ok(())
    }

    /// Makes one zone, with all ranges free.
    fn one_zone<P: Platform, S: Placed<'a, P>, C: Coalesce<P, S>>(
        &mut self,
        policy: C,
    ) -> Result<OneZone<'a, P, S, C>, BuildError> {
        self.limit(S::MOST_FRAMES)?;
        let table = self.table()?;
        let part = self
            .parameters
            .shape(self.span)
            .make(&mut self.arena, table)?;
        let zone = OneZone::new(part(0), policy, self.parameters.bulk);
        self.seed(|start, frames| zone.seed(start, frames))?;
        Ok(zone)
    }

    /// Makes buddy spaces, with all ranges free.
    fn spaces<P: Platform, S: Placed<'a, P>, C: Coalesce<P, S>>(
        &mut self,
        policy: C,
        size: SpaceSize,
    ) -> Result<Spaces<'a, P, S, C>, BuildError> {
        self.limit(S::MOST_FRAMES)?;
        let table = self.table()?;
        let Parameters {
            max_order,
            lock,
            bulk,
            ..
        } = self.parameters;
        let shape = self.parameters.shape(self.span);
        let part = shape.make(&mut self.arena, table)?;
        let cpus = self.setup.cpus;
        let pool = Pool::new(&mut self.arena, shape.parts(), cpus, lock, size.select)?;
        let geometry = (table, size.frames.trailing_zeros(), max_order);
        let spaces = Spaces::new(&mut self.arena, geometry, part, pool, policy, bulk)?;
        self.seed(|start, frames| spaces.seed(start, frames))?;
        Ok(spaces)
    }

    /// Makes Serewa's system, with all ranges free, divided as the setup says.
    fn separated<P: Platform, S: Placed<'a, P>>(
        &mut self,
        separation: Separation,
    ) -> Result<Serewa<'a, P, S>, BuildError> {
        self.limit(S::MOST_FRAMES)?;
        let table = self.table()?;
        let shape = self.parameters.shape(self.span);
        let part = shape.make(&mut self.arena, table)?;
        let division = self.setup.division.filter(|_| self.parameters.division);
        let mut wanted = division.copied().unwrap_or_default();
        let (cpus, divided) = (self.setup.cpus, !wanted.is_none());
        let serewa = Serewa::new(&mut self.arena, part(0), separation, cpus, divided)?;
        self.seed(|start, frames| serewa.seed(start, frames, &mut wanted))?;
        Ok(serewa)
    }

    /// Makes one domain, with all ranges free.
    fn domains<P: Platform>(&mut self, idle: u32) -> Result<Domains<'a, P>, BuildError> {
        let table = self.table()?;
        let Parameters { lock, bulk, .. } = self.parameters;
        let extent = self.parameters.extent(self.span, self.setup.cpus);
        let domains = Domains::new(&mut self.arena, table, extent, (lock, idle), bulk)?;
        self.seed(|start, frames| domains.seed(start, frames))?;
        Ok(domains)
    }

    fn run<P: Platform, V: WithSystem<P>>(
        self,
        front: impl PerCpu<P>,
        zone: impl ZoneLayer<P>,
        visitor: V,
    ) -> V::Output {
        visitor.call(self.name, &Layered::new(front, zone, self.span, self.bytes))
    }

    /// Runs on the standard buddy in one zone, behind any per-CPU layer.
    fn one_of_blocks<P: Platform, V: WithSystem<P>>(
        mut self,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        let zone = self.one_zone::<P, FreeLists<'a, P>, Eager>(Eager)?;
        let Parameters {
            front,
            locked,
            check,
            ..
        } = self.parameters;
        match (front, locked, check) {
            (Front::Linux(marks), false, false) => {
                self.linux::<P, V, Token, false>(zone, marks, visitor)
            }
            (Front::Linux(marks), true, true) => {
                self.linux::<P, V, Locked, true>(zone, marks, visitor)
            }
            (Front::Linux(marks), true, false) => {
                self.linux::<P, V, Locked, false>(zone, marks, visitor)
            }
            (Front::Linux6(tuning), false, true) => {
                self.linux6::<P, V, Token, true>(zone, tuning, visitor)
            }
            (Front::Linux6(tuning), false, false) => {
                self.linux6::<P, V, Token, false>(zone, tuning, visitor)
            }
            (Front::Linux6(tuning), true, true) => {
                self.linux6::<P, V, Locked, true>(zone, tuning, visitor)
            }
            (Front::Linux6(tuning), true, false) => {
                self.linux6::<P, V, Locked, false>(zone, tuning, visitor)
            }
            _ => self.of_blocks(zone, visitor),
        }
    }

    // Each of these is compiled for every zone layer that it is called with, and every visitor: a composition that no
    // row has costs everybody seconds.

    /// Runs on a zone layer without any list.
    fn bare<P: Platform, V: WithSystem<P>, Z: ZoneLayer<P>>(
        self,
        zone: Z,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        let cpus = self.setup.cpus;
        match self.parameters.front {
            Front::None => Ok(self.run(NoList { cpus }, zone, visitor)),
            _ => Err(BuildError::BadOption("zone")),
        }
    }

    /// Runs on a zone layer behind Linux 2.6.32's list or none.
    fn listed<P: Platform, V: WithSystem<P>, Z: ZoneLayer<P>>(
        self,
        zone: Z,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        match self.parameters.front {
            Front::Linux(marks) => self.linux::<P, V, Token, true>(zone, marks, visitor),
            _ => self.bare(zone, visitor),
        }
    }

    /// Runs on a zone layer of free blocks, behind Linux 2.6.32's list, Spring Buddy's or none.
    fn of_blocks<P: Platform, V: WithSystem<P>, Z: ZoneLayer<P>>(
        self,
        zone: Z,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        match self.parameters.front {
            Front::Predictive(bound) => self.predictive::<P, V, Token, true>(zone, bound, visitor),
            _ => self.listed(zone, visitor),
        }
    }

    fn linux<P: Platform, V: WithSystem<P>, A: Access<P>, const CHECK: bool>(
        mut self,
        zone: impl ZoneLayer<P>,
        watermarks: Watermarks,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        let lists = LinuxList::<P, CHECK>::maker(&mut self.arena, watermarks, self.setup.cpus)?;
        self.buffered::<P, V, _, A>(zone, lists, visitor)
    }

    fn linux6<P: Platform, V: WithSystem<P>, A: Access<P>, const CHECK: bool>(
        mut self,
        zone: impl ZoneLayer<P>,
        tuning: Tuning,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        let lists = Linux6List::<P, CHECK>::maker(&mut self.arena, tuning, self.setup.cpus)?;
        self.buffered::<P, V, _, A>(zone, lists, visitor)
    }

    fn predictive<P: Platform, V: WithSystem<P>, A: Access<P>, const CHECK: bool>(
        mut self,
        zone: impl ZoneLayer<P>,
        bound: Bound,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        let lists = PredictiveList::<P, CHECK>::maker(&mut self.arena, bound, self.setup.cpus)?;
        self.buffered::<P, V, _, A>(zone, lists, visitor)
    }

    fn buffered<P: Platform, V: WithSystem<P>, L: CpuList<P> + 'a, A: Access<P>>(
        mut self,
        zone: impl ZoneLayer<P>,
        lists: impl FnMut(usize) -> L,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        let cpus = self.setup.cpus;
        let front = Buffered::<P, L, A>::new(&mut self.arena, cpus, lists)?;
        Ok(self.run(front, zone, visitor))
    }
}
