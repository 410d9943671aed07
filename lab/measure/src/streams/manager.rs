//! The systems that serve the calls: a buddy system, fast fits, or none.
//!
//! The same loops perform calls on all of them.
//!
//! # Invariants
//! Compiled for each manager: no call is dispatched dynamically while anything is measured.

use std::mem::MaybeUninit;

use everybuddy::platform::{NativeCpu, NativeCpus, Spin};
use everybuddy::systems::{self, build_as};
use everybuddy::{
    Block, BuildError, CpuId, FrameAllocator, FrameRange, Index, Memory, Native, Order, Pfn,
    Release, Request, Setup, SystemSpec, metadata_layout,
};

use super::tally::{Listener, Work};

/// Serves requests for blocks.
pub trait Manager {
    /// Allocates a block. Returns its first unit, or `None` if the request fails.
    fn allocate(&mut self, order: Order) -> Option<u32>;

    /// Frees a block. Returns `true` if it was allocated.
    fn free(&mut self, start: u32, order: Order) -> bool;

    /// Adds units after the last one. Returns `true` if there is room.
    fn grow(&mut self, units: u32) -> bool;

    /// Returns the work since the last call; zeros if it is not counted.
    fn work(&mut self) -> Work {
        Work::default()
    }

    /// Adds the free blocks of each order to sums, if there are orders.
    fn add_free_blocks(&mut self, sums: &mut [u64]) {
        let _ = sums;
    }

    /// Checks the invariants, and returns the number of free units. O(units).
    ///
    /// # Errors
    /// Returns a description of the violation.
    fn check(&mut self) -> Result<u32, String>;
}

/// A visitor for a manager.
pub trait WithManager {
    /// The result of the visitor.
    type Output;

    /// Runs the visitor.
    fn call<M: Manager>(self, manager: &mut M) -> Self::Output;
}

/// The size of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The initial number of units.
    pub units: u32,
    /// The maximum number of units.
    pub reach: u32,
}

impl Extent {
    /// Memory that never grows.
    pub fn fixed(units: u32) -> Self {
        let reach = units;
        Self { units, reach }
    }
}

/// A buddy system.
struct Buddy<'a, A, B: Listener> {
    system: &'a A,
    cpu: NativeCpu<B>,
    extent: Extent,
}

impl<B: Listener, A: FrameAllocator<Native<Spin, B>>> Manager for Buddy<'_, A, B> {
    #[inline]
    fn allocate(&mut self, order: Order) -> Option<u32> {
        let block = self.system.allocate(&mut self.cpu, Request::order(order));
        block.ok().map(|start| start.0)
    }

    #[inline]
    fn free(&mut self, start: u32, order: Order) -> bool {
        let start = Index(start);
        let release = Release::block(Block { start, order });
        self.system.free(&mut self.cpu, release).is_ok()
    }

    fn grow(&mut self, units: u32) -> bool {
        if self.extent.reach - self.extent.units < units {
            return false;
        }
        let range = FrameRange::new(Pfn(u64::from(self.extent.units)), u64::from(units));
        self.extent.units += units;
        self.system.add(&mut self.cpu, range).is_ok()
    }

    fn work(&mut self) -> Work {
        self.cpu.probe().take()
    }

    fn add_free_blocks(&mut self, sums: &mut [u64]) {
        let free = self.system.snapshot(&mut self.cpu).free_blocks;
        for (sum, blocks) in sums.iter_mut().zip(free) {
            *sum += u64::from(blocks);
        }
    }

    fn check(&mut self) -> Result<u32, String> {
        let wrong = |error: everybuddy::Violation| error.to_string();
        self.system.check(&mut self.cpu).map_err(wrong)?;
        Ok(self.system.snapshot(&mut self.cpu).free_frames() as u32)
    }
}

/// Calls `visitor` with a system. Compiled for each composition.
fn call_on<B: Listener, V: WithManager>(
    system: &impl FrameAllocator<Native<Spin, B>>,
    extent: Extent,
    visitor: V,
) -> Result<V::Output, BuildError> {
    let cpus = NativeCpus::new(1);
    let mut manager = Buddy {
        system,
        // The set of CPUs is new, so no other thread can have the token.
        cpu: cpus
            .claim_probed(CpuId(0))
            .map_err(|_| BuildError::BadCpuCount { most: 1 })?,
        extent,
    };
    Ok(visitor.call(&mut manager))
}

/// Calls `visitor` with a buddy system of one zone without lists, whose events `B` records. O(units) to build.
///
/// # Errors
/// Any [`BuildError`]; [`BuildError::BadOption`] for a system of another composition.
pub fn with_buddy<B: Listener, V: WithManager>(
    spec: &SystemSpec,
    extent: Extent,
    visitor: V,
) -> Result<V::Output, BuildError> {
    let ranges = [FrameRange::new(Pfn(0), u64::from(extent.units))];
    let reach = FrameRange::new(Pfn(0), u64::from(extent.reach));
    let setup = Setup::new(&ranges, 1).with_reach(reach);
    let layout = metadata_layout::<Native<Spin, B>>(spec, &setup)?;
    let mut memory = vec![MaybeUninit::uninit(); Memory::room(layout)];
    let memory = Memory::new(&mut memory);
    // The visitor is compiled for these two compositions, and not for all of them.
    match spec.name() {
        "bs" => {
            let system = build_as::<_, systems::Buddy<'_, Native<Spin, B>>>(spec, &setup, memory)?;
            call_on(system, extent, visitor)
        }
        _ => {
            let system =
                build_as::<_, systems::Delayed<'_, Native<Spin, B>>>(spec, &setup, memory)?;
            call_on(system, extent, visitor)
        }
    }
}

/// Returns the same block for every slot: the cost of performing the calls without an allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Manager for Nothing {
    #[inline]
    fn allocate(&mut self, order: Order) -> Option<u32> {
        Some(std::hint::black_box(order.frames()))
    }

    #[inline]
    fn free(&mut self, start: u32, _: Order) -> bool {
        std::hint::black_box(start) != u32::MAX
    }

    fn grow(&mut self, _: u32) -> bool {
        true
    }

    fn check(&mut self) -> Result<u32, String> {
        Ok(0)
    }
}
