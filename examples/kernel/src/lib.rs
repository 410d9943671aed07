//! How a kernel uses `everybuddy`: no standard library, no heap, the allocator in a `static`.
//!
//! The kernel provides three things: a token that proves that code runs on a CPU with interrupts disabled
//! ([`InterruptsOff`]) and that other CPUs can borrow between two calls, a pause for CPUs that wait ([`Relax`]), and a
//! static for the allocator and its metadata. It builds one system from the firmware's memory map in [`boot`], and
//! calls it from all CPUs.
//!
//! A real kernel disables interrupts and reads the number of its CPU by machine instructions. Here an atomic flag
//! and a parameter stand for them, so that the same code runs as a test. `ci/kernel.sh` compiles this crate as a
//! kernel would.
#![no_std]

use core::sync::atomic::{AtomicBool, Ordering};

use everybuddy::platform::{Bare, Call, Calls, CpuToken, Spin, Waiting};
use everybuddy::prelude::*;

/// CPUs that may ever exist.
pub const CPUS: u16 = 2;

/// Bytes of a frame.
pub const FRAME_BYTES: u64 = 1 << FRAME_SHIFT;
const FRAME_SHIFT: u32 = 12;

/// Ranges of usable memory that a memory map may have.
const MAX_RANGES: usize = 8;

/// Whether the interrupts of each CPU are disabled. Stands for a flag in a register of that CPU.
static DISABLED: [AtomicBool; CPUS as usize] = [const { AtomicBool::new(false) }; CPUS as usize];

/// Which CPUs are in a call of the allocator.
static CALLS: Calls<{ CPUS as usize }> = Calls::new();

/// Frames of the largest machine, from the first to the last: 256 MiB.
const MAX_FRAMES: u32 = 1 << 16;

/// The frame allocator, from `boot` on, and the memory for its metadata.
static FRAMES: Boot<Frames, { Everybuddy::room_for(MAX_FRAMES, CPUS) }> = Boot::new();

/// The real machine, with this kernel's token and pause.
pub type Machine = Bare<InterruptsOff, Relax>;

/// The frame allocator of this kernel: one type, all calls static.
pub type Frames = <Everybuddy as System>::Built<'static, Machine>;

/// The right to act as a CPU: it is in a call, and interrupts are disabled. The call ends before they are enabled.
pub struct InterruptsOff {
    call: Call,
    _disabled: Option<Disabled>,
}

/// Enables the interrupts of a CPU when it is dropped.
struct Disabled(&'static AtomicBool);

impl Drop for Disabled {
    fn drop(&mut self) {
        // Relaxed: only this CPU reads it.
        self.0.store(false, Ordering::Relaxed);
    }
}

impl InterruptsOff {
    /// Disables the interrupts of this CPU. Returns `None` if they were disabled before: then the caller interrupted
    /// code that has the token.
    pub fn on(cpu: CpuId) -> Option<Self> {
        let disabled = DISABLED.get(cpu.index())?;
        // Not `then_some`: what is made and dropped enables interrupts.
        let was_disabled = disabled.swap(true, Ordering::Relaxed);
        (!was_disabled).then(|| Self {
            call: CALLS.begin(cpu),
            _disabled: Some(Disabled(disabled)),
        })
    }
}

impl CpuToken for InterruptsOff {
    #[inline(always)]
    fn id(&self) -> CpuId {
        self.call.cpu()
    }

    /// Lends the token of a CPU that is in no call, whatever else it executes.
    fn exclude(&self, cpu: CpuId) -> Option<Self> {
        let (call, _disabled) = (CALLS.try_begin(cpu)?, None);
        Some(Self { call, _disabled })
    }
}

/// The pause of a CPU that waits for another one's lock.
pub struct Relax;

impl Waiting for Relax {
    #[inline(always)]
    fn pause(attempt: u32) {
        #[cfg(test)]
        tests::PAUSES.fetch_add(1, Ordering::Relaxed);
        // A hypervisor's guest would yield its virtual CPU after some attempts.
        Spin::pause(attempt);
    }
}

/// A region of the firmware's memory map.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The physical address of the first byte.
    pub start: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// Whether the kernel may use it.
    pub is_usable: bool,
}

/// Why the kernel can't boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootError {
    /// The memory map has more usable regions than this kernel can keep.
    TooManyRegions,
    /// The allocator can't be built: the machine is too large, or `boot` was called before.
    Build(everybuddy::BootError),
}

/// Builds the frame allocator for the usable memory of a map, whose regions ascend.
///
/// # Errors
/// A [`BootError`]; there is no allocator then.
pub fn boot(map: &[Region]) -> Result<&'static Frames, BootError> {
    let mut ranges = [FrameRange::new(Pfn(0), 0); MAX_RANGES];
    let mut free = ranges.iter_mut();
    for region in map.iter().filter(|region| region.is_usable) {
        let range = free.next().ok_or(BootError::TooManyRegions)?;
        // Whole frames only.
        let first = region.start.div_ceil(FRAME_BYTES);
        let end = region.start.saturating_add(region.bytes) / FRAME_BYTES;
        *range = FrameRange::new(Pfn(first), end.saturating_sub(first));
    }
    let setup = Setup::new(&ranges, CPUS);
    let frames = FRAMES.start::<Everybuddy, Machine>(&Options::NONE, &setup);
    frames.map_err(BootError::Build)
}

/// Allocates a block of 2^order frames on this CPU; returns its physical address.
///
/// An interrupt handler, which finds interrupts disabled, allocates past the list of its CPU.
pub fn allocate(cpu: CpuId, order: Order) -> Option<u64> {
    let frames = FRAMES.get()?;
    let request = Request::order(order);
    let block = match InterruptsOff::on(cpu) {
        Some(mut token) => frames.allocate(&mut token, request),
        None => frames.allocate_nested(cpu, request),
    };
    frames.span().physical(block.ok()?).address(FRAME_SHIFT)
}

/// Frees a block of 2^order frames by its physical address, on any CPU.
///
/// # Errors
/// Every [`FreeError`]: a double free, an address that was never allocated, another order. Nothing changes then.
pub fn free(cpu: CpuId, address: u64, order: Order) -> Result<(), FreeError> {
    let frames = FRAMES.get().ok_or(FreeError::Foreign)?;
    let start = frames.span().index(Pfn::containing(address, FRAME_SHIFT));
    let start = start.ok_or(FreeError::Foreign)?;
    let release = Release::block(Block::new(start, order));
    match InterruptsOff::on(cpu) {
        Some(mut token) => frames.free(&mut token, release),
        None => frames.free_nested(cpu, release),
    }
}

/// Called by a CPU before it sleeps: others may take what its list keeps, until it allocates or frees again.
pub fn idle(cpu: CpuId) {
    if let (Some(frames), Some(mut token)) = (FRAMES.get(), InterruptsOff::on(cpu)) {
        frames.park(&mut token);
    }
}

/// The memory map of a small PC: low memory, the hole of the firmware, memory up to 128 MiB.
#[rustfmt::skip]
pub const PC: [Region; 3] = [
    Region { start: 0x1000, bytes: 0x9_e000, is_usable: true },
    Region { start: 0x9_f000, bytes: 0x6_1000, is_usable: false },
    Region { start: 0x10_0000, bytes: 0x7f0_0000, is_usable: true },
];

/// The kernel's entry: boots, allocates and frees on the first CPU. Returns the number of blocks that it had.
// SAFETY: no other function of a kernel has this name.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn kernel_main() -> usize {
    if boot(&PC).is_err() {
        return 0;
    }
    let cpu = CpuId(0);
    let orders = [0, 0, 3, 9].map(|order| Order::new(order).unwrap_or(Order::ZERO));
    let blocks = orders.map(|order| allocate(cpu, order));
    let freed = blocks
        .iter()
        .zip(orders)
        .filter(|(block, order)| block.is_some_and(|address| free(cpu, address, *order).is_ok()));
    freed.count()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use core::sync::atomic::AtomicU32;
    use std::collections::BTreeSet;
    use std::thread;
    use std::vec::Vec;

    /// How often CPUs waited.
    pub(super) static PAUSES: AtomicU32 = AtomicU32::new(0);

    /// Statics belong to the whole program, so this is one test.
    #[test]
    fn a_kernel_boots_once_and_allocates_on_all_cpus() {
        assert_eq!(allocate(CpuId(0), Order::ZERO), None, "before it boots");
        assert_eq!(kernel_main(), 4);
        let again = BootError::Build(everybuddy::BootError::AlreadyBuilt);
        assert_eq!(boot(&PC).err(), Some(again));

        let blocks: Vec<_> = thread::scope(|scope| {
            let cpus = [0, 1].map(|cpu| {
                scope.spawn(move || -> Vec<_> {
                    let allocate = |_| allocate(CpuId(cpu), Order::ZERO);
                    (0..1000).map_while(allocate).collect()
                })
            });
            cpus.into_iter()
                .flat_map(|cpu| cpu.join().expect("it does not panic"))
                .collect()
        });
        let distinct: BTreeSet<_> = blocks.iter().copied().collect();
        assert_eq!(distinct.len(), 2000, "no frame is allocated twice");
        let is_usable = |address: &u64| {
            let mut regions = PC.iter().filter(|region| region.is_usable);
            regions.any(|region| (region.start..region.start + region.bytes).contains(address))
        };
        assert!(distinct.iter().all(is_usable));

        // An interrupt handler has no token, and works nevertheless.
        let token = InterruptsOff::on(CpuId(0)).expect("interrupts are enabled");
        assert!(InterruptsOff::on(CpuId(0)).is_none());
        assert!(InterruptsOff::on(CpuId(0)).is_none(), "still disabled");
        let block = allocate(CpuId(0), Order::ZERO).expect("memory is left");
        assert_eq!(free(CpuId(0), block, Order::ZERO), Ok(()));
        drop(token);

        for address in &blocks {
            assert_eq!(free(CpuId(1), *address, Order::ZERO), Ok(()));
        }
        idle(CpuId(1));
        let twice = free(CpuId(0), blocks[0], Order::ZERO);
        assert_eq!(twice, Err(FreeError::NotAllocated));
        assert_eq!(
            free(CpuId(0), 1 << 40, Order::ZERO),
            Err(FreeError::Foreign)
        );

        let frames = FRAMES.get().expect("it booted");
        let mut token = InterruptsOff::on(CpuId(0)).expect("interrupts are enabled");
        frames.quiesce(&mut token).expect("the other CPU sleeps");
        let census = frames.check(&mut token).expect("no rule is broken");
        assert_eq!(census.free, (0x9_e000 + 0x7f0_0000) / FRAME_BYTES);
        drop(token);

        // A CPU keeps trees, and neither calls nor sleeps. Another one gets them without a wait, until all is used up.
        let block = allocate(CpuId(1), Order::ZERO).expect("all is free");
        assert_eq!(free(CpuId(1), block, Order::ZERO), Ok(()));
        PAUSES.store(0, Ordering::Relaxed);
        let taken = core::iter::from_fn(|| allocate(CpuId(0), Order::ZERO));
        assert_eq!(taken.count() as u64, census.free);
        assert_eq!(PAUSES.load(Ordering::Relaxed), 0);
    }
}
