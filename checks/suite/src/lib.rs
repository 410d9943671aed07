//! What every system must do, and what tests of systems share. For development only: nothing depends on it but tests.
//!
//! A property is written once, and holds for every system on every platform that has a [`Host`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`properties`] | the conformance suite; [`conformance!`] makes a test of each property |
//! | [`specs`](specs()) | the systems and variants that it runs over |
//! | [`misuse`] | which misuse each system refuses, for SYSTEMS.md |
//! | [`model`] | the plain model: which requests can be served |
//! | [`shadow`] | the owner of each frame; random numbers |
//! | [`platform`] | the platform of all native tests, for which systems are compiled once |
//! | [`plain`] | another platform's cells as plain memory, so that ThreadSanitizer sees races |
//!
//! # Invariants
//! Nothing here is timed, so systems are called indirectly, and no function that tests call compiles them.
//!
//! The feature `std`, which is on by default, adds [`platform`] and [`for_each_spec`]. The rest needs only a heap:
//! `examples/boot` runs the properties in a kernel. With the feature `plain`, native tests run on cells of plain
//! memory: `ci/tsan.sh` runs them under ThreadSanitizer.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "std")]
pub mod misuse;
pub mod model;
pub mod plain;
#[cfg(feature = "std")]
pub mod platform;
pub mod properties;
pub mod shadow;
mod specs;

#[cfg(feature = "std")]
pub use platform::{Cpu, Machine, System, Threads, all_at_once, any, claim, on, on_cpus};
pub use properties::rounds;
pub use shadow::{Random, Shadow};
pub use specs::specs;

use alloc::vec::Vec;
use core::borrow::Borrow;

pub use everybuddy::SystemSpec;
use everybuddy::{
    Block, FrameAllocator, FrameRange, Index, Order, Pfn, Platform, Release, Request, Setup,
};

/// Builds systems on a platform, and runs code on its CPUs.
pub trait Host<P: Platform>: Sync {
    /// Builds a system and calls `visitor` once with it.
    ///
    /// # Panics
    /// If it can't be built.
    fn build(
        &self,
        spec: &SystemSpec,
        setup: &Setup<'_>,
        visitor: &mut dyn FnMut(&dyn FrameAllocator<P>),
    );

    /// Runs `body` once on each of the CPUs 0 to `cpus - 1`, at the same time.
    fn run<F: Fn(&mut P::Cpu) + Sync>(&self, cpus: u16, body: F);
}

/// Memory of every shape: the start, the holes, sizes other than powers of two.
pub const MEMORIES: &[&[FrameRange]] = &[
    &[FrameRange::new(Pfn(0), 64)],
    &[FrameRange::new(Pfn(0), 1)],
    &[FrameRange::new(Pfn(3), 1000)],
    &[
        FrameRange::new(Pfn(0x12345), 777),
        FrameRange::new(Pfn(0x12700), 1),
        FrameRange::new(Pfn(0x13000), 2048),
    ],
    // Three parts of a span: 2 GiB, 8 TiB, 64 TiB.
    &[
        FrameRange::new(Pfn(0x8_0003), 500),
        FrameRange::new(Pfn((8 << 28) + 77), 700),
        FrameRange::new(Pfn(64 << 28), 1300),
    ],
    &[
        FrameRange::new(Pfn(0x7ffff), 2),
        FrameRange::new(Pfn(0x80001), 4095),
    ],
];

/// Returns the number of frames in all ranges.
pub fn frames_of(ranges: &[FrameRange]) -> u64 {
    ranges.iter().map(|range| range.frames).sum()
}

/// Returns the order of this number.
///
/// # Panics
/// If there is none.
pub fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

/// Returns the block that starts there.
pub fn block(start: u32, order: u8) -> Block {
    Block::new(Index(start), self::order(order))
}

/// Allocates single frames.
///
/// # Panics
/// If a request fails.
pub fn allocate_frames<P: Platform>(
    system: &(impl FrameAllocator<P> + ?Sized),
    cpu: &mut P::Cpu,
    frames: usize,
) -> Vec<Index> {
    let frame = |_| system.allocate(cpu, Request::FRAME).expect("a free frame");
    (0..frames).map(frame).collect()
}

/// Frees single frames.
///
/// # Panics
/// If a free fails.
pub fn free_frames<P: Platform>(
    system: &(impl FrameAllocator<P> + ?Sized),
    cpu: &mut P::Cpu,
    frames: impl IntoIterator<Item = impl Borrow<Index>>,
) {
    for frame in frames {
        let release = Release::frame(*frame.borrow());
        system.free(cpu, release).expect("an allocated frame");
    }
}

/// Goes over all specs: `property(spec)` runs for each, and a failure names the spec.
#[cfg(feature = "std")]
pub fn for_each_spec(property: impl Fn(&SystemSpec)) {
    for spec in specs() {
        struct Name<'a>(&'a SystemSpec);
        impl Drop for Name<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    std::eprintln!("the system was {}", self.0);
                }
            }
        }
        let _name = Name(&spec);
        property(&spec);
    }
}

/// Defines a test of each property, over all systems, for a platform and its host.
///
/// With the word `table`, it is an array of the properties instead: their names, and functions of a host's type.
#[macro_export]
macro_rules! conformance {
    (@each $what:ident $($arguments:tt)*) => {
        $crate::conformance! { @$what [
            all_memory_can_be_had_and_comes_back,
            blocks_are_aligned_and_disjoint,
            random_requests_agree_with_the_model,
            frames_in_other_lists_are_found,
            a_request_fails_only_when_all_is_held,
            one_frame_is_exhausted_only_if_all_are_asked_for,
            many_cpus_never_share_a_frame,
            misuse_is_an_error_and_changes_nothing,
            ranges_come_and_go,
            memory_can_arrive_later,
            taken_frames_are_allocated,
            nested_and_bulk,
            given_frames_are_allocated,
            places_are_kept,
            hasty_requests_are_exhausted_only_without_free_frames,
            many_frames_come_in_few_runs,
            free_blocks_are_visited,
            free_blocks_are_reported_once,
            unknown_cpus_are_refused,
            offline_cpus_are_drained,
            cpus_return_while_they_are_drained,
        ] $($arguments)* }
    };
    (@tests [$($property:ident),* $(,)?] $platform:ty, $host:expr) => {
        $(
            #[test]
            fn $property() {
                $crate::for_each_spec(|spec| {
                    $crate::properties::$property::<$platform, _>(&$host, spec)
                });
            }
        )*
    };
    (@table [$($property:ident),* $(,)?] $platform:ty, $host:ty) => {
        [$((
            stringify!($property),
            $crate::properties::$property::<$platform, $host>
                as fn(&$host, &$crate::SystemSpec),
        )),*]
    };
    (table $platform:ty, $host:ty) => {
        $crate::conformance! { @each table $platform, $host }
    };
    ($platform:ty, $host:expr, [$($property:ident),* $(,)?]) => {
        $crate::conformance! { @tests [$($property),*] $platform, $host }
    };
    ($platform:ty, $host:expr) => {
        $crate::conformance! { @each tests $platform, $host }
    };
}

/// The code of the guides of the crate is compiled and run. They lie outside of its package.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/crate.md")]
#[doc = include_str!("../../../docs/kernel.md")]
struct Guides;
