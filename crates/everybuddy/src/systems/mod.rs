//! The systems by name: the only place where layers meet.
//!
//! Why it exists: the difference between two systems is one row here. A row says what a system is made of,
//! where it is described, and where it deviates; [`with_system`] builds it. Everything else (tests, the
//! laboratory, SYSTEMS.md) goes over the rows.
//!
//! Dispatch by name happens once per run, not once per operation: the visitor is compiled for each
//! composition, and inside it every call is static.
//!
//! Invariant: for every row, [`metadata_layout`] and the construction ask for the same memory.

mod options;
mod rows;

pub use options::{Options, SpecError, SystemSpec};
pub use rows::{ROWS, Row};

use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;

use crate::api::FrameAllocator;
use crate::arena::{Arena, ArenaPlan, LINE};
use crate::coalesce::Eager;
use crate::error::BuildError;
use crate::frame::Order;
use crate::frame_table::{FrameTable, Record, Tag};
use crate::layered::Layered;
use crate::lock::SpinLock;
use crate::percpu::access::{Access, Locked, Token};
use crate::percpu::buffered::{Buffered, CpuList};
use crate::percpu::linux::LinuxList;
pub use crate::percpu::linux::Watermarks;
use crate::percpu::linux6::Linux6List;
pub use crate::percpu::linux6::Tuning;
use crate::percpu::{NoList, PerCpu};
use crate::platform::Platform;
use crate::region::{FrameRange, Span};
use crate::structure::FreeLists;
use crate::zone::OneZone;

/// The machine that a system is built for.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'r> {
    ranges: &'r [FrameRange],
    reach: Option<FrameRange>,
    cpus: u16,
}

impl<'r> Setup<'r> {
    /// Describes a machine: its memory, as ascending ranges of physical frames, and its CPUs.
    pub const fn new(ranges: &'r [FrameRange], cpus: u16) -> Self {
        Self {
            ranges,
            reach: None,
            cpus,
        }
    }

    /// Makes room for memory that is added later: everything within `reach`. Metadata grows with it.
    pub const fn with_reach(self, reach: FrameRange) -> Self {
        Self {
            reach: Some(reach),
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

/// The per-CPU layer of a system, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// None.
    None,
    /// Linux 2.6.32's list.
    Linux(Watermarks),
    /// Linux 6.12's lists.
    Linux6(Tuning),
}

/// A system's parameters on a machine: what its options and the machine's memory decide together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The largest order.
    pub max_order: Order,
    /// The per-CPU layer.
    pub front: Front,
    /// Whether per-CPU lists have locks (`percpu=locked`) rather than ask their owners.
    pub locked: bool,
    /// Whether hits notice misuse (`check=on`, the default).
    pub check: bool,
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.front {
            Front::None => write!(f, "no per-CPU list")?,
            Front::Linux(Watermarks {
                batch,
                high,
                bypass: false,
            }) => {
                write!(f, "batch {batch}, high mark {high}")?;
            }
            Front::Linux(Watermarks { high, .. }) => write!(f, "bypass, high mark {high}")?,
            Front::Linux6(Tuning {
                batch,
                high_min,
                high_max,
            }) => {
                write!(f, "batch {batch}, high mark {high_min} to {high_max}")?;
            }
        }
        if self.max_order != Order::TEN {
            write!(f, ", orders to {}", self.max_order)?;
        }
        if self.locked {
            write!(f, ", locked lists")?;
        }
        if !self.check {
            write!(f, ", hits unchecked")?;
        }
        Ok(())
    }
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
    let parameters = spec.parameters(setup)?;
    let span = setup.span(parameters.max_order)?;
    let builder = Builder {
        arena: Arena::new(memory),
        name: spec.name(),
        setup,
        span,
        parameters,
        bytes: plan::<P>(&parameters, span, setup.cpus).bytes(),
    };
    match (parameters.front, parameters.locked, parameters.check) {
        (Front::None, ..) => builder.bare(visitor),
        (Front::Linux(marks), false, true) => builder.linux::<P, V, Token, true>(marks, visitor),
        (Front::Linux(marks), false, false) => builder.linux::<P, V, Token, false>(marks, visitor),
        (Front::Linux(marks), true, true) => builder.linux::<P, V, Locked, true>(marks, visitor),
        (Front::Linux(marks), true, false) => builder.linux::<P, V, Locked, false>(marks, visitor),
        (Front::Linux6(tuning), false, true) => {
            builder.linux6::<P, V, Token, true>(tuning, visitor)
        }
        (Front::Linux6(tuning), false, false) => {
            builder.linux6::<P, V, Token, false>(tuning, visitor)
        }
        (Front::Linux6(tuning), true, true) => {
            builder.linux6::<P, V, Locked, true>(tuning, visitor)
        }
        (Front::Linux6(tuning), true, false) => {
            builder.linux6::<P, V, Locked, false>(tuning, visitor)
        }
    }
}

/// The standard buddy in one zone.
type StandardZone<'a, P> = OneZone<'a, P, FreeLists<'a, P>, Eager, SpinLock<P>>;

/// Plans the metadata of a system; in the same order as [`Builder`] asks for it.
fn plan<P: Platform>(parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan {
    let plan = ArenaPlan::default().slice::<Record<P>>(span.frames() as usize);
    let plan = FreeLists::<P>::plan(plan, span.frames(), parameters.max_order);
    let plan = StandardZone::<P>::plan(plan);
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

impl<'a> Builder<'a, '_> {
    /// Makes the zone, with all ranges free.
    fn zone<P: Platform>(&mut self) -> Result<StandardZone<'a, P>, BuildError> {
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
        let table = FrameTable::new(records);
        let structure = FreeLists::new(&mut self.arena, table, self.parameters.max_order)?;
        let zone = OneZone::new(&mut self.arena, table, structure, Eager)?;
        for range in self.setup.ranges.iter().filter(|range| range.frames > 0) {
            let (start, frames) = self
                .span
                .relative(*range)
                .map_err(|_| BuildError::SpanTooLarge)?;
            zone.seed(start, frames);
        }
        Ok(zone)
    }

    fn run<P: Platform, V: WithSystem<P>>(
        self,
        front: impl PerCpu<P>,
        zone: StandardZone<'a, P>,
        visitor: V,
    ) -> V::Output {
        visitor.call(self.name, &Layered::new(front, zone, self.span, self.bytes))
    }

    fn bare<P: Platform, V: WithSystem<P>>(mut self, visitor: V) -> Result<V::Output, BuildError> {
        let zone = self.zone()?;
        let cpus = self.setup.cpus;
        Ok(self.run(NoList { cpus }, zone, visitor))
    }

    fn linux<P: Platform, V: WithSystem<P>, A: Access<P>, const CHECK: bool>(
        mut self,
        watermarks: Watermarks,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        let zone = self.zone()?;
        let lists = LinuxList::<P, CHECK>::maker(&mut self.arena, watermarks, self.setup.cpus)?;
        self.buffered::<P, V, _, A>(zone, lists, visitor)
    }

    fn linux6<P: Platform, V: WithSystem<P>, A: Access<P>, const CHECK: bool>(
        mut self,
        tuning: Tuning,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        let zone = self.zone()?;
        let lists = Linux6List::<P, CHECK>::maker(&mut self.arena, tuning, self.setup.cpus)?;
        self.buffered::<P, V, _, A>(zone, lists, visitor)
    }

    fn buffered<P: Platform, V: WithSystem<P>, L: CpuList<P> + 'a, A: Access<P>>(
        mut self,
        zone: StandardZone<'a, P>,
        lists: impl FnMut(usize) -> L,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        let cpus = self.setup.cpus;
        let front = Buffered::<P, L, A>::new(&mut self.arena, cpus, lists)?;
        Ok(self.run(front, zone, visitor))
    }
}
