//! The systems: by type, and by name.
//!
//! This is the only place where layers meet. A *composition* is a type alias for layers over layers, in the file of its
//! family; a *row* is an empty type that names a composition and the options that make a system of it. Two lists in
//! this file hold all compositions and all rows; building, dispatch by name, the tests, the laboratory and SYSTEMS.md
//! go over them.
//!
//! | to | call | the system is |
//! |---|---|---|
//! | hold a system of a known type | [`System::build_with`]; on another platform: [`build`] | a reference into the memory, statically dispatched |
//! | hold a system that is chosen at run time | [`build_any`] | a trait object in the memory |
//! | hold it where nothing is timed | [`build_erased`] | the same; each layer is compiled once |
//! | hold it with functions that are compiled for it | [`build_for`] | passed to a visitor with its type |
//! | time a loop on a system chosen at run time | [`with_system`] | compiled into the visitor, for each composition |
//! | count or check on one | [`with_any_system`] | called indirectly |
//!
//! # Invariants
//! 1. The composition of every row's parameters is in the list, and no two compositions of the list are equal.
//! 2. For every composition, its plan and its construction ask for the same memory.

/// Declares systems: what each is built of, and what its row says beyond [`Row::BLANK`].
macro_rules! systems {
    ($($(#[$doc:meta])* $system:ident: $built:ident { $($row:tt)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $system;

            impl $crate::systems::System for $system {
                type Built<'m, P: $crate::platform::Platform> = $built<'m, P>;
                const ROW: &'static $crate::systems::Row = &$crate::systems::Row {
                    built: stringify!($built),
                    policy: <$built<'static, $crate::Native> as $crate::systems::Compose<'static, $crate::Native>>
                        ::COMPOSITION.policy,
                    $($row)*
                    ..$crate::systems::Row::BLANK
                };
            }
        )*
    };
}

mod chosen;
mod compose;
mod delayed;
mod describe;
mod everybuddy;
mod ibuddy;
mod linux6;
mod llfree;
mod magazines;
mod mobility;
mod nbbs;
mod nearest;
mod numbers;
mod options;
mod parameters;
mod pcp_buddy;
mod resolve;
mod row;
mod serewa;
mod setup;
mod spec;
mod spring;
mod standard;
mod values;

pub use compose::Compose;
pub use delayed::*;
pub use everybuddy::*;
pub use ibuddy::*;
pub use linux6::*;
pub use llfree::*;
pub use magazines::*;
pub use mobility::*;
pub use nbbs::*;
pub use nearest::nearest;
pub use numbers::*;
pub use options::*;
pub use parameters::{Composition, Parameters};
pub use pcp_buddy::*;
pub use row::{Obstacle, Row};
pub use serewa::*;
pub use setup::Setup;
pub use spec::{SpecError, SystemSpec};
pub use spring::*;
pub use standard::*;
pub use values::*;

pub use crate::coalesce::PolicyKind;
pub use crate::coalesce::delay::Rule;
pub use crate::coalesce::mobility::Steal;
pub use crate::lock::{Hold, Line, LockKind};
pub use crate::percpu::linux::Watermarks;
pub use crate::percpu::linux_zone::LinuxZone;
pub use crate::percpu::linux6::Tuning;
pub use crate::percpu::predictive::{Bound, Predict};
pub use crate::serewa::{
    Linking, Manager, Presplit, RemnantPolicy, SERVICES, ServiceOptions, StartStatistics,
};
pub use crate::structure::StructureKind;
pub use crate::zone::{Exchange, Select};

use core::alloc::Layout;
use core::mem::MaybeUninit;

use crate::api::FrameAllocator;
use crate::arena::{LINE, Memory};
use crate::error::BuildError;
use crate::platform::{Native, Platform};
use compose::Builder;

/// A system as a type: a row of the list.
pub trait System: Sized {
    /// The system's code, on a platform, in memory that lives for `'m`.
    type Built<'m, P: Platform>: Compose<'m, P>;

    /// What it is, in words and presets.
    const ROW: &'static Row;

    /// Returns how many bytes [`build`](Self::build) takes, wherever they begin. O(1).
    ///
    /// # Errors
    /// Any [`BuildError`] except `MetadataTooSmall`.
    fn room(setup: &Setup<'_>) -> Result<usize, BuildError> {
        Self::room_with(&Options::NONE, setup)
    }

    /// Returns how many bytes [`build_with`](Self::build_with) takes, wherever they begin. O(1).
    ///
    /// # Errors
    /// Any [`BuildError`] except `MetadataTooSmall`.
    fn room_with(options: &Options, setup: &Setup<'_>) -> Result<usize, BuildError> {
        Ok(Memory::room(layout::<Self, Native>(options, setup)?))
    }

    /// Builds the system on [`Native`], without options, in the caller's memory. O(frames).
    ///
    /// It lies in that memory too and lives as long as it. [`systems::build`](build) takes a platform.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use everybuddy::prelude::*;
    ///
    /// let ranges = [FrameRange::new(Pfn(0x10_0000), 0x8000)];
    /// let setup = Setup::new(&ranges, 2);
    /// let mut memory = vec![MaybeUninit::uninit(); Lbs31::room(&setup)?];
    /// let system = Lbs31::build(&setup, &mut memory[..])?;
    ///
    /// let cpus = NativeCpus::new(2);
    /// let mut cpu = cpus.claim(CpuId(0))?;
    /// let frame = system.allocate(&mut cpu, Request::FRAME)?;
    /// system.free(&mut cpu, Release::frame(frame))?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Any [`BuildError`].
    fn build<'m>(
        setup: &Setup<'_>,
        memory: impl Into<Memory<'m>>,
    ) -> Result<&'m Self::Built<'m, Native>, BuildError> {
        Self::build_with(&Options::NONE, setup, memory)
    }

    /// Builds the system like [`build`](Self::build), with options: those of [`SystemSpec`], by the same names.
    /// O(frames).
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use everybuddy::prelude::*;
    /// use everybuddy::systems::Count;
    ///
    /// // Lists of 512 frames: `lbs-31+high=512`.
    /// let options = Options { high: Some(Count::new(512)?), ..Options::NONE };
    /// let ranges = [FrameRange::new(Pfn(0x10_0000), 0x8000)];
    /// let setup = Setup::new(&ranges, 2);
    /// let mut memory = vec![MaybeUninit::uninit(); Lbs31::room_with(&options, &setup)?];
    /// let system = Lbs31::build_with(&options, &setup, &mut memory[..])?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Any [`BuildError`]: [`BuildError::BadOption`] for an option that the system's type does not take.
    fn build_with<'m>(
        options: &Options,
        setup: &Setup<'_>,
        memory: impl Into<Memory<'m>>,
    ) -> Result<&'m Self::Built<'m, Native>, BuildError> {
        build::<Self, Native>(options, setup, memory.into())
    }
}

/// The list of all rows.
macro_rules! rows {
    ($($row:ident),* $(,)?) => {
        /// All systems.
        pub const ROWS: &[Row] = &[$(*<$row as System>::ROW),*];
    };
}
rows! {
    Bs, Lbs1, Lbs31, Is, Lis1, Lis31, Fixlazy186, Fixlazy372, Fixlazy744, Spring, SpringCore,
    SpringFixlazy186, SpringFixlazy372, SpringFixlazy744, Watermark, Delay2, Never, Serewa, Linux6,
    Zones4, PcpBuddy, LlFree, Nbbs, Mobility, Magazines, Everybuddy,
}

/// The list of all compositions.
macro_rules! compositions {
    ($($composition:ident),* $(,)?) => {
        /// Runs `visitor` with the type of a composition.
        fn on_composition<'m, P: Platform, V: OnComposition<'m, P>>(
            composition: &Composition,
            visitor: V,
        ) -> Result<V::Output, BuildError> {
            $({
                // An item of its own: code behind a constant that is known before types are is not compiled.
                const IS_COMPILED: bool = chosen::is_compiled(stringify!($composition));
                if *composition == <$composition<'m, P> as Compose<'m, P>>::COMPOSITION {
                    if IS_COMPILED {
                        return visitor.on::<$composition<'m, P>>();
                    }
                    return Err(BuildError::NotCompiled);
                }
            })*
            // Every single choice exists, so the combination does not.
            Err(BuildError::BadOption("zone"))
        }

        /// All compositions.
        const COMPOSITIONS: &[Composition] = &[
            $(<$composition<'static, Native> as Compose<'static, Native>>::COMPOSITION),*
        ];

        /// Their names.
        const COMPOSITION_NAMES: &[&str] = &[$(stringify!($composition)),*];
    };
}
// Each of these is compiled for every platform and every visitor: a composition that no experiment measures costs all
// users seconds.
compositions! {
    Buddy, Lbs, LbsLocked, Pcp, PcpLocked, PcpInSpaces, OwnedPages, MagazineBuddy,
    BuddyInSpaces, LbsInSpaces,
    RecordBuddy, RecordLbs, RecordBuddyInSpaces, RecordLbsInSpaces,
    Elastic, LinuxElastic, SpringBuddy,
    IBuddy, Lis, IBuddyInOneZone, LisInOneZone,
    Delayed,
    SerewaTrees, SerewaLists, SerewaBits, TreeBuddy, BitBuddy,
    MobilityBuddy,
    LlFreeTrees, StatusWords, EverybuddyTrees,
}

// A system that is built by name is the first one in the list with its composition.
const _: () = {
    let mut index = 1;
    while index < COMPOSITIONS.len() {
        let mut before = 0;
        while before < index {
            assert!(
                !COMPOSITIONS[index].is(&COMPOSITIONS[before]),
                "two compositions are equal: a new policy needs a `PolicyKind` of its own, and a new layer a new kind"
            );
            before += 1;
        }
        index += 1;
    }
};

/// What is done with the type of a composition.
trait OnComposition<'m, P: Platform> {
    type Output;

    fn on<C: Compose<'m, P>>(self) -> Result<Self::Output, BuildError>;
}

/// Builds a system of a known type in the caller's memory, with options, on any platform. O(frames).
///
/// The system itself lies in that memory too and lives as long as it: `'static` memory gives a `'static` system.
/// [`System::build`] is the short way.
///
/// # Errors
/// Any [`BuildError`]; an option that the system does not take, or that changes its composition, is
/// [`BuildError::BadOption`]. To choose such an option, use [`build_any`].
pub fn build<'m, S: System, P: Platform>(
    options: &Options,
    setup: &Setup<'_>,
    memory: Memory<'m>,
) -> Result<&'m S::Built<'m, P>, BuildError> {
    build_as(&SystemSpec::with(S::ROW, options)?, setup, memory)
}

/// Returns the memory that [`build`] takes: this size, at this alignment. O(1).
///
/// [`Memory::room`] is how many bytes suffice if they are not aligned.
///
/// # Errors
/// Any [`BuildError`] except `MetadataTooSmall`.
pub fn layout<S: System, P: Platform>(
    options: &Options,
    setup: &Setup<'_>,
) -> Result<Layout, BuildError> {
    let spec = &SystemSpec::with(S::ROW, options)?;
    let composition = spec.parameters(setup)?.composition;
    let own = <S::Built<'static, P> as Compose<'static, P>>::COMPOSITION;
    if composition != own {
        return Err(BuildError::BadOption(
            composition.differs_by(&own, spec.row()),
        ));
    }
    metadata_layout::<P>(spec, setup)
}

/// Builds a system by name, if it has this composition. O(frames).
///
/// [`build`] is this for a row; this is for code that handles every row of a composition, such as all options of
/// `lbs-31`.
///
/// # Errors
/// Any [`BuildError`]; [`BuildError::BadOption`] names the option by which the composition differs.
pub fn build_as<'m, P: Platform, C: Compose<'m, P>>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: Memory<'m>,
) -> Result<&'m C, BuildError> {
    Builder::new::<P, C>(spec, setup, memory)?.place()
}

/// Code that takes a system of any composition, which lives as long as its memory.
pub trait OnSystem<'m, P: Platform> {
    /// What it returns.
    type Output;

    /// Takes the system. Compiled once for each composition.
    fn on<A: FrameAllocator<P> + 'm>(self, system: &'m A) -> Self::Output;
}

struct Build<'m, 's, V> {
    spec: &'s SystemSpec,
    setup: &'s Setup<'s>,
    memory: Memory<'m>,
    visitor: V,
}

impl<'m, P: Platform, V: OnSystem<'m, P>> OnComposition<'m, P> for Build<'m, '_, V> {
    type Output = V::Output;

    fn on<C: Compose<'m, P>>(self) -> Result<V::Output, BuildError> {
        let system = build_as::<P, C>(self.spec, self.setup, self.memory)?;
        Ok(self.visitor.on(system))
    }
}

/// Builds a system by name in the caller's memory, and passes it to `visitor` with its type. O(frames) to build.
///
/// For callers that keep the system and want functions that are compiled for it: the visitor is compiled for each
/// composition.
///
/// # Errors
/// Any [`BuildError`]; the visitor does not run then.
pub fn build_for<'m, P: Platform, V: OnSystem<'m, P>>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: Memory<'m>,
    visitor: V,
) -> Result<V::Output, BuildError> {
    let composition = spec.parameters(setup)?.composition;
    let build = Build {
        spec,
        setup,
        memory,
        visitor,
    };
    on_composition(&composition, build)
}

/// Forgets the type of a system.
struct AsObject;

impl<'m, P: Platform> OnSystem<'m, P> for AsObject {
    type Output = &'m dyn FrameAllocator<P>;

    fn on<A: FrameAllocator<P> + 'm>(self, system: &'m A) -> Self::Output {
        system
    }
}

/// Builds a system by name in the caller's memory, to be called indirectly. O(frames).
///
/// The system lives as long as the memory. Each operation costs an indirect call; the code of the system is the same as
/// that of [`build`].
///
/// # Errors
/// Any [`BuildError`].
pub fn build_any<'m, P: Platform>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: Memory<'m>,
) -> Result<&'m dyn FrameAllocator<P>, BuildError> {
    build_for(spec, setup, memory, AsObject)
}

struct BuildErased<'m, 's> {
    spec: &'s SystemSpec,
    setup: &'s Setup<'s>,
    memory: Memory<'m>,
}

impl<'m, P: Platform> OnComposition<'m, P> for BuildErased<'m, '_> {
    type Output = &'m dyn FrameAllocator<P>;

    fn on<C: Compose<'m, P>>(self) -> Result<Self::Output, BuildError> {
        let builder = Builder::new::<P, C>(self.spec, self.setup, self.memory)?;
        Ok(builder.place_erased::<P, C>()?)
    }
}

/// Builds a system by name like [`build_any`], for code that is not timed: also its layers call each other indirectly.
/// O(frames).
///
/// Each layer is compiled once for a platform instead of once for each composition. The system reads and writes the
/// same metadata in the same order.
///
/// # Errors
/// Any [`BuildError`].
pub fn build_erased<'m, P: Platform>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: Memory<'m>,
) -> Result<&'m dyn FrameAllocator<P>, BuildError> {
    let composition = spec.parameters(setup)?.composition;
    let build = BuildErased {
        spec,
        setup,
        memory,
    };
    on_composition(&composition, build)
}

struct BytesOf<'s> {
    parameters: &'s Parameters,
    setup: &'s Setup<'s>,
}

impl<'m, P: Platform> OnComposition<'m, P> for BytesOf<'_> {
    type Output = usize;

    fn on<C: Compose<'m, P>>(self) -> Result<usize, BuildError> {
        let span = self.parameters.span(self.setup)?;
        C::plan(self.parameters, span, self.setup.cpus).bytes()
    }
}

/// Returns the memory that a system by name takes: this size, at this alignment. O(1).
///
/// [`Memory::room`] is how many bytes suffice if they are not aligned.
///
/// # Errors
/// Any [`BuildError`] except `MetadataTooSmall`.
pub fn metadata_layout<P: Platform>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
) -> Result<Layout, BuildError> {
    let parameters = &spec.parameters(setup)?;
    let visitor = BytesOf { parameters, setup };
    let bytes = on_composition::<P, _>(&parameters.composition, visitor)?;
    Layout::from_size_align(bytes, LINE).map_err(|_| BuildError::MetadataTooLarge)
}

/// Code that runs on a system of any composition.
pub trait WithSystem<P: Platform> {
    /// What it returns.
    type Output;

    /// Runs. Compiled once for each composition.
    fn call<A: FrameAllocator<P>>(self, name: &'static str, system: &A) -> Self::Output;
}

/// Passes a system on, with its name.
struct Named<V> {
    name: &'static str,
    visitor: V,
}

impl<'m, P: Platform, V: WithSystem<P>> OnSystem<'m, P> for Named<V> {
    type Output = V::Output;

    fn on<A: FrameAllocator<P> + 'm>(self, system: &'m A) -> Self::Output {
        self.visitor.call(self.name, system)
    }
}

/// Builds a system by name in the given memory, and runs `visitor` on it. O(frames) to build.
///
/// For timed loops: the visitor is compiled for each composition, and inside it every call is static.
///
/// # Errors
/// Any [`BuildError`]; the visitor does not run then.
pub fn with_system<P: Platform, V: WithSystem<P>>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: &mut [MaybeUninit<u8>],
    visitor: V,
) -> Result<V::Output, BuildError> {
    let name = spec.name();
    build_for(spec, setup, Memory::new(memory), Named { name, visitor })
}

/// Builds a system by name in the given memory, and calls `visitor` once with it. O(frames) to build.
///
/// For programs that count or check rather than time: as [`build_erased`].
///
/// # Errors
/// Any [`BuildError`]; the visitor is not called then.
pub fn with_any_system<P: Platform>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: &mut [MaybeUninit<u8>],
    visitor: &mut dyn FnMut(&dyn FrameAllocator<P>),
) -> Result<(), BuildError> {
    visitor(build_erased(spec, setup, Memory::new(memory))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Pfn;
    use crate::region::FrameRange;

    #[test]
    fn every_row_has_a_composition() {
        let ranges = [FrameRange::new(Pfn(0), 1 << 16)];
        let setup = Setup::new(&ranges, 2);
        for row in ROWS {
            let parameters = SystemSpec::of(row).parameters(&setup).unwrap();
            assert!(
                COMPOSITIONS.contains(&parameters.composition),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn a_composition_that_a_row_does_not_have_is_refused_by_the_option_that_was_given() {
        let ranges = [FrameRange::new(Pfn(0), 1 << 14)];
        let setup = &Setup::new(&ranges, 1);
        let spaces = Options {
            zone: Some(ZoneKind::Spaces),
            ..Options::NONE
        };
        let refused =
            |options: &Options| layout::<Lbs31, crate::Native>(options, setup).unwrap_err();
        assert_eq!(refused(&spaces), BuildError::BadOption("zone"));
        let mut memory = std::vec![MaybeUninit::uninit(); 1 << 20];
        let built = build::<Lbs31, crate::Native>(&spaces, setup, Memory::new(&mut memory));
        assert_eq!(built.err(), Some(BuildError::BadOption("zone")));
        let separated = Options {
            zone: Some(ZoneKind::Separated),
            ..Options::NONE
        };
        assert_eq!(refused(&separated), BuildError::BadOption("zone"));
    }

    /// Checks that making a composition leaves no line of the planned memory.
    struct IsUsedUp<'m, 's> {
        spec: &'s SystemSpec,
        setup: &'s Setup<'s>,
        memory: Memory<'m>,
    }

    impl<'m> OnComposition<'m, crate::Native> for IsUsedUp<'m, '_> {
        type Output = ();

        fn on<C: Compose<'m, crate::Native>>(self) -> Result<(), BuildError> {
            let builder = Builder::new::<crate::Native, C>(self.spec, self.setup, self.memory)?;
            builder.use_up::<crate::Native, C>()
        }
    }

    #[test]
    fn making_a_system_uses_up_what_is_planned() {
        let ranges = [FrameRange::new(Pfn(1), 3000)];
        let setup = Setup::new(&ranges, 3);
        // Compositions that no row has.
        let records = ["bs", "lbs-31", "bs+zone=spaces", "lbs-31+zone=spaces"];
        let variants = records.map(|name| std::format!("{name}+state=record").parse().unwrap());
        for spec in &ROWS
            .iter()
            .map(SystemSpec::of)
            .chain(variants)
            .collect::<std::vec::Vec<_>>()
        {
            let layout = metadata_layout::<crate::Native>(spec, &setup).unwrap();
            let mut memory = std::vec![MaybeUninit::uninit(); Memory::room(layout)];
            let start = memory.as_ptr().align_offset(layout.align());
            let memory = Memory::new(&mut memory[start..][..layout.size()]);
            let composition = spec.parameters(&setup).unwrap().composition;
            let setup = &setup;
            on_composition(
                &composition,
                IsUsedUp {
                    spec,
                    setup,
                    memory,
                },
            )
            .unwrap();
        }
    }

    #[test]
    fn a_type_takes_no_option_that_changes_its_composition() {
        let ranges = [FrameRange::new(Pfn(0), 1 << 10)];
        let setup = Setup::new(&ranges, 2);
        fn refused<S: System>(option: &'static str, setup: &Setup<'_>) {
            let spec: SystemSpec = std::format!("{}+{option}", S::ROW.name).parse().unwrap();
            let mut memory = std::vec![MaybeUninit::uninit(); 1 << 20];
            let built = build::<S, crate::Native>(&spec.options(), setup, Memory::new(&mut memory));
            let key = option.split_once('=').unwrap().0;
            assert_eq!(built.err(), Some(BuildError::BadOption(key)), "{option}");
        }
        refused::<Bs>("zone=spaces", &setup);
        refused::<Lbs31>("percpu=locked", &setup);
        refused::<Bs>("state=record", &setup);
        refused::<Serewa>("structure=bitmap", &setup);
        refused::<Serewa>("separate=off", &setup);
    }
}
