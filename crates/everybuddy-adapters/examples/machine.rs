//! The memory manager of a small kernel: two nodes, devices that reach 16 MiB, memory that comes and goes, interrupts,
//! zeroing, and the numbers that a kernel prints. It has no `unsafe`.
//!
//! A kernel would disable preemption in [`Guard`], read the number of its CPU, and clear frames through its direct map.
//! Here a table of one byte for each frame stands for the content of memory.
//!
//! # Invariants
//! 1. A frame that was allocated contains zeros, and one that is free contains poison or zeros.
//! 2. All memory but that of devices is served near the calling CPU first.

use core::cell::Cell;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use everybuddy::platform::{Bare, Call, Calls};
use everybuddy::prelude::*;
use everybuddy::{FrameState, Snapshot};
use everybuddy_adapters::map::{MapError, Region, clip, usable};

/// CPUs that may ever exist. The even ones are on node 0.
const CPUS: u16 = 4;
const HOMES: [u8; CPUS as usize] = [0, 1, 0, 1];
const DISTANCES: &[&[u8]] = &[&[10, 21], &[21, 10]];
/// The frames of the largest machine: 256 MiB.
const MAX_FRAMES: u32 = 1 << 16;
/// Devices reach the first 16 MiB.
const DMA_LIMIT: Pfn = Pfn(0x1000);
/// The memory of node 1 begins here, and ends with the largest machine.
const NODE_1: Pfn = Pfn(0x4000);
/// The frames of the devices' zone that only requests of devices may have.
const DMA_RESERVE: u64 = 256;

/// Which CPUs are in a call: the others lend what they keep.
static CALLS: Calls<{ CPUS as usize }> = Calls::new();

std::thread_local! {
    /// The number of the CPU that a thread stands for.
    static THIS_CPU: Cell<u16> = const { Cell::new(0) };
}

/// The right to act as this CPU: preemption is disabled, and the CPU is in a call.
struct Guard(Call);

impl Guard {
    /// Returns `None` in a handler that interrupted a call of its CPU.
    fn try_new() -> Option<Self> {
        CALLS.try_begin(this_cpu()).map(Self)
    }
}

impl CpuToken for Guard {
    fn id(&self) -> CpuId {
        self.0.cpu()
    }

    fn exclude(&self, cpu: CpuId) -> Option<Self> {
        CALLS.try_begin(cpu).map(Self)
    }
}

fn this_cpu() -> CpuId {
    CpuId(THIS_CPU.get())
}

type Machine = Bare<Guard>;
type Zones = Nodes<'static, Machine, <Everybuddy as System>::Built<'static, Machine>>;

/// The size of the metadata: three zones, and what joins them.
const ROOM: usize = 3 * Everybuddy::room_for(MAX_FRAMES, CPUS) + 4096;
static MEMORY: Boot<Zones, ROOM> = Boot::new();

/// Frames for handlers that find nothing else.
static EMERGENCY: [AtomicU64; 4] = [const { AtomicU64::new(NO_FRAME) }; 4];
const NO_FRAME: u64 = u64::MAX;

/// Stands for the content of memory.
static CONTENT: [AtomicU8; MAX_FRAMES as usize] =
    [const { AtomicU8::new(0x55) }; MAX_FRAMES as usize];
const POISON: u8 = 0xaa;

/// Why the kernel has no memory.
#[derive(Debug, PartialEq)]
enum NoMemory {
    /// The map of the firmware cannot be used.
    Map(MapError),
    /// The zones cannot be built.
    Build(BootError),
}

/// Builds the zones: the devices' memory and the rest of node 0, and node 1 with room for memory that arrives later.
fn boot(map: &[Region]) -> Result<&'static Zones, NoMemory> {
    let empty = FrameRange::new(Pfn(0), 0);
    let (mut room, mut parts) = ([empty; 16], [[empty; 16]; 3]);
    let all = usable(map.iter().copied(), &mut room).map_err(NoMemory::Map)?;
    let borders = [Pfn(0), DMA_LIMIT, NODE_1, Pfn(MAX_FRAMES.into())];
    let [low, high, far] = &mut parts;
    let cut = |from: usize, out| {
        let part = FrameRange::new(borders[from], borders[from + 1].0 - borders[from].0);
        clip(all, part, out).map_err(NoMemory::Map)
    };
    let reach = FrameRange::new(NODE_1, u64::from(MAX_FRAMES) - NODE_1.0);
    let zones = [
        ZoneSetup {
            reserve: DMA_RESERVE,
            ..ZoneSetup::new(0, Setup::new(cut(0, low)?, CPUS))
        },
        ZoneSetup::new(0, Setup::new(cut(1, high)?, CPUS)),
        ZoneSetup::new(1, Setup::new(cut(2, far)?, CPUS).with_reach(reach)),
    ];
    let build =
        |memory| Zones::build::<Everybuddy, 3>(&Options::NONE, &zones, &HOMES, DISTANCES, memory);
    MEMORY.build(build).map_err(NoMemory::Build)
}

/// Allocates in a place, by the token of this CPU, or without one in a handler.
fn take(request: Request, place: Option<&Place>) -> Option<Pfn> {
    let zones = MEMORY.get()?;
    let start = match (Guard::try_new(), place) {
        (Some(mut guard), None) => zones.allocate(&mut guard, request),
        (Some(mut guard), Some(place)) => zones.allocate_in(&mut guard, request, place),
        (None, _) => zones.allocate_nested(this_cpu(), request),
    };
    Some(zones.span().physical(start.ok()?))
}

/// Frees, by the token of this CPU, or without one in a handler.
fn give(start: Pfn, frames: u32) -> Result<(), FreeError> {
    let zones = MEMORY.get().ok_or(FreeError::Foreign)?;
    let index = zones.span().index(start).ok_or(FreeError::Foreign)?;
    let release = Release::frames(index, frames);
    match Guard::try_new() {
        Some(mut guard) => zones.free(&mut guard, release),
        None => zones.free_nested(this_cpu(), release),
    }
}

/// Frames leave the allocator here.
fn clear(start: Pfn, frames: u32) -> Pfn {
    let content = CONTENT.iter().skip(start.0 as usize).take(frames as usize);
    content.for_each(|frame| frame.store(0, Ordering::Relaxed));
    start
}

/// Frames enter the allocator here. Only those that are allocated are poisoned: others may have a new holder.
fn poison(start: Pfn, frames: u32) {
    let state = MEMORY
        .get()
        .and_then(|zones| zones.frame_state(zones.span().index(start)?));
    if matches!(state, Some(FrameState::Allocated { .. })) {
        let content = CONTENT.iter().skip(start.0 as usize).take(frames as usize);
        content.for_each(|frame| frame.store(POISON, Ordering::Relaxed));
    }
}

/// Allocates frames that can be moved, for processes, or that stay, for the kernel. A handler gets single frames of the
/// emergency store if no tree without an owner has any.
fn allocate(frames: u32, class: Class) -> Option<Pfn> {
    let request = Request::frames(frames).with_class(class);
    let is_handler = || Guard::try_new().is_none();
    let start = match take(request, None) {
        None if frames == 1 && is_handler() => emergency(),
        start => start,
    };
    Some(clear(start?, frames))
}

/// Allocates memory for a device that reaches addresses below a limit, on a node if that has any there.
fn allocate_dma(frames: u32, below: Pfn, node: u8) -> Option<Pfn> {
    let place = Place::ANYWHERE.below(below).on(Node::Preferred(node));
    Some(clear(take(Request::frames(frames), Some(&place))?, frames))
}

/// Frees frames.
fn free(start: Pfn, frames: u32) -> Result<(), FreeError> {
    poison(start, frames);
    give(start, frames)
}

/// Takes a frame of the emergency store.
fn emergency() -> Option<Pfn> {
    let frames = EMERGENCY
        .iter()
        .map(|place| place.swap(NO_FRAME, Ordering::Relaxed));
    frames.into_iter().find(|frame| *frame != NO_FRAME).map(Pfn)
}

/// Fills the emergency store; not in a handler.
fn refill_emergency() {
    for place in &EMERGENCY {
        if place.load(Ordering::Relaxed) == NO_FRAME
            && let Some(frame) = take(Request::FRAME, None)
        {
            place.store(frame.0, Ordering::Relaxed);
        }
    }
}

/// Runs a change of the memory map.
fn change<T>(
    work: impl FnOnce(&Zones, &mut Guard) -> Result<T, RegionError>,
) -> Result<T, RegionError> {
    let zones = MEMORY.get().ok_or(RegionError::OutsideSpan)?;
    let mut guard = Guard::try_new().ok_or(RegionError::Busy)?;
    work(zones, &mut guard)
}

/// Memory was plugged in.
fn online(range: FrameRange) -> Result<(), RegionError> {
    change(|zones, guard| zones.add(guard, range))
}

/// Empties a range that will be unplugged: isolates what is free, and moves each frame that is not by `moved`, which
/// returns `false` if it cannot. Returns `true` if nothing of the range is in use.
fn offline(range: FrameRange, moved: impl Fn(Pfn) -> bool) -> Result<bool, RegionError> {
    for _ in 0..4 {
        if change(|zones, guard| zones.isolate(guard, range))? == 0 {
            return Ok(true);
        }
        let zones = MEMORY.get().ok_or(RegionError::OutsideSpan)?;
        for frame in (range.start.0..range.start.0 + range.frames).map(Pfn) {
            let state = zones
                .span()
                .index(frame)
                .and_then(|index| zones.frame_state(index));
            if matches!(state, Some(FrameState::Allocated { .. })) && !moved(frame) {
                return Ok(false);
            }
        }
    }
    Ok(false)
}

/// The range is used after all.
fn keep(range: FrameRange) -> Result<(), RegionError> {
    change(|zones, guard| zones.unreserve(guard, range))
}

/// Returns the free frames of each node, for each call of a process that asks. No CPU is disturbed.
fn free_frames() -> [u64; 2] {
    MEMORY.get().map_or([0; 2], |zones| {
        [0, 1].map(|node| zones.free_frames_of(node))
    })
}

/// Returns the free blocks by order, for a file that an administrator reads.
fn histogram() -> Option<Snapshot> {
    Some(MEMORY.get()?.snapshot(&mut Guard::try_new()?))
}

/// Boots a machine of 128 MiB, and uses it as a kernel does.
pub(crate) fn main() {
    assert_eq!((allocate(1, Class::Movable), free_frames()), (None, [0; 2]));
    let map = [
        Region::of_bytes(0x1000, 0x9_e000, true),
        Region::of_bytes(0x10_0000, 0x7f0_0000, true),
        Region::of_bytes(0x40_0000, 0x20_0000, false),
    ];
    boot(&map).unwrap();
    assert_eq!(boot(&[]).err(), Some(NoMemory::Map(MapError::NoMemory)));
    let again = NoMemory::Build(BootError::AlreadyBuilt);
    assert_eq!(boot(&map).err(), Some(again));
    refill_emergency();
    let [near, far] = [0x9e + 0x4000 - 0x100 - 0x200 - 4, 0x4000];
    assert_eq!(free_frames(), [near, far]);

    // Near the CPU, and zeroed.
    let local = allocate(3, Class::Unmovable).unwrap();
    assert!((DMA_LIMIT..NODE_1).contains(&local));
    assert_eq!(CONTENT[local.0 as usize].load(Ordering::Relaxed), 0);
    THIS_CPU.set(1);
    let remote = allocate(512, Class::Movable).unwrap();
    assert!(remote >= NODE_1);
    THIS_CPU.set(0);
    assert_eq!(free_frames(), [near - 3, far - 512]);
    // Devices have memory below their limit, even if processes took all that they can.
    let ring = allocate_dma(16, DMA_LIMIT, 1).unwrap();
    assert!(ring.0 + 16 <= DMA_LIMIT.0);
    let mut all = std::vec::Vec::new();
    while let Some(frame) = allocate(1, Class::Movable) {
        all.push(frame);
    }
    assert_eq!(free_frames(), [DMA_RESERVE, 0]);
    free(allocate_dma(64, DMA_LIMIT, 0).unwrap(), 64).unwrap();
    // A handler interrupts a call. It frees, and its store has what no other CPU could lend it.
    let call = Guard::try_new().unwrap();
    free(all.pop().unwrap(), 1).unwrap();
    let in_handler = [(); 4].map(|()| allocate(1, Class::Unmovable).unwrap());
    drop(call);
    in_handler
        .into_iter()
        .chain(all)
        .for_each(|frame| free(frame, 1).unwrap());
    refill_emergency();
    // Misuse is refused, and changes nothing.
    free(local, 3).unwrap();
    assert_eq!(free(local, 3), Err(FreeError::NotAllocated));
    assert_eq!(CONTENT[local.0 as usize].load(Ordering::Relaxed), POISON);
    free(ring, 16).unwrap();

    // 64 MiB are plugged in, and another 2 MiB are unplugged although a process has them.
    online(FrameRange::new(Pfn(0x8000), 0x4000)).unwrap();
    assert_eq!(free_frames()[1], far - 512 + 0x4000);
    let range = FrameRange::new(remote, 512);
    assert!(!offline(range, |_| false).unwrap());
    assert!(offline(range, |frame| free(frame, 1).is_ok()).unwrap());
    assert_eq!(free_frames()[1], far - 512 + 0x4000);
    keep(range).unwrap();
    assert_eq!(free_frames()[1], far + 0x4000);
    let histogram = histogram().unwrap();
    assert_eq!(
        histogram.free_frames(),
        free_frames().iter().sum::<u64>() - histogram.buffered_frames
    );
}
