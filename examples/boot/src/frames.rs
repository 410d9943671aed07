//! The frame allocator of the kernel: the system that the command line names, in the kernel's image.
//!
//! # Invariants
//! The system manages all frames of the map except those of the kernel and [`arch::UNMANAGED`]. All memory that
//! it manages is mapped to itself.

use everybuddy::{
    AllocateError, Block, Boot, FrameAllocator, FrameRange, FreeError, Index, Order, Pfn, Release,
    Request, Setup, Snapshot, build_any,
};
use everybuddy_adapters::FRAME_BYTES;
use everybuddy_adapters::map::{Region, usable};
use spin::Once;

use crate::arch;
use crate::boot_info::{BootInfo, Words};
use crate::console::println;
use crate::cpus::{Machine, with_token};

const MAX_RANGES: usize = 64;

/// The frame allocator, of any system.
pub(crate) type Frames = dyn FrameAllocator<Machine>;

/// The frame allocator, and 2 MiB for its metadata: any system has enough for 64 MiB of memory.
static FRAMES: Boot<Frames, { 2 << 20 }> = Boot::new();

/// What is free while no test runs.
static AT_FIRST: Once<Snapshot> = Once::new();

// The linker script defines these.
unsafe extern "C" {
    static kernel_start: u8;
    static kernel_end: u8;
}

/// The memory of the frame allocator.
pub(crate) struct Built {
    /// Frames that it manages.
    pub(crate) frames: u64,
    /// Ranges of such frames.
    pub(crate) ranges: usize,
    /// Bytes of metadata.
    pub(crate) metadata_bytes: usize,
}

/// Returns the frame allocator.
pub(crate) fn frames() -> &'static Frames {
    FRAMES.get().expect("the first CPU builds the allocator")
}

/// Builds the frame allocator.
pub(crate) fn build(info: &BootInfo, words: &Words) -> Built {
    let taken = |start, end| Region {
        start,
        end,
        is_usable: false,
    };
    let kernel = taken(
        (&raw const kernel_start).addr() as u64,
        (&raw const kernel_end).addr() as u64,
    );
    let unmanaged = arch::UNMANAGED
        .into_iter()
        .map(|(start, end)| taken(start, end));
    let regions = info
        .regions()
        .iter()
        .copied()
        .chain([kernel])
        .chain(unmanaged);

    let mut room = [FrameRange::new(Pfn(0), 0); MAX_RANGES];
    let ranges = usable(regions, &mut room).unwrap_or_else(|error| panic!("{error}"));
    let setup = Setup::new(ranges, words.cpus);
    let system = FRAMES
        .build(|memory| build_any::<Machine>(&words.spec, &setup, memory))
        .unwrap_or_else(|error| panic!("{}: {error}", words.spec));
    Built {
        frames: ranges.iter().map(|range| range.frames).sum(),
        ranges: ranges.len(),
        metadata_bytes: system.metadata_bytes(),
    }
}

/// Returns the address of a frame.
pub(crate) fn address(frame: Index) -> u64 {
    frames().span().physical(frame).0 * FRAME_BYTES
}

/// Allocates on this CPU, and tries again while another CPU is busy.
pub(crate) fn allocate(request: Request) -> Result<Index, AllocateError> {
    let mut attempt = 0;
    loop {
        match with_token(|cpu| frames().allocate(cpu, request)) {
            Err(AllocateError::Busy) if attempt < 1000 => crate::cpus::pause(attempt),
            result => return result,
        }
        attempt += 1;
    }
}

/// Allocates adjacent frames, also more than the largest block has.
///
/// They are those at the highest multiple of their number that are free.
pub(crate) fn allocate_adjacent(count: u32) -> Index {
    let count = u64::from(count);
    let found = frames().span().parts().rev().find_map(|part| {
        let end = (part.start.0 + part.frames) / count * count;
        let starts = (1..).map_while(|step| end.checked_sub(step * count));
        let mut starts = starts.take_while(|start| *start >= part.start.0);
        starts.find_map(|start| {
            let range = FrameRange::new(Pfn(start), count);
            with_token(|cpu| frames().allocate_at(cpu, range)).ok()
        })
    });
    found.unwrap_or_else(|| panic!("no {count} adjacent frames are free"))
}

/// Frees on this CPU.
pub(crate) fn free(release: Release) {
    with_token(|cpu| frames().free(cpu, release))
        .unwrap_or_else(|error| panic!("{release:?}: {error}"));
}

/// Checks all metadata: this number of frames is free, in the blocks that were free at first.
pub(crate) fn check(free: u64, after: &str) {
    let (census, snapshot) = with_token(|cpu| {
        let system = frames();
        system
            .quiesce(cpu)
            .unwrap_or_else(|error| panic!("{after}: {error}"));
        let census = system.check(cpu);
        let census = census.unwrap_or_else(|violation| panic!("after {after}: {violation:?}"));
        (census, system.snapshot(cpu))
    });
    assert_eq!(census.free, free, "free frames after {after}");
    assert_eq!(census.buffered, 0, "buffered frames after {after}");
    let at_first = AT_FIRST.call_once(|| snapshot);
    assert_eq!(
        snapshot.free_blocks, at_first.free_blocks,
        "free blocks by order after {after}"
    );
}

/// Misuse is refused, with the error that it earns.
pub(crate) fn misuse() {
    let system = frames();
    let block = Block::new(
        allocate(Request::order(Order::ZERO)).expect("memory is free"),
        Order::ZERO,
    );
    free(Release::block(block));
    let span = system.span();
    let kernel = Pfn((&raw const kernel_start).addr() as u64 / FRAME_BYTES);
    let kernel = span.index(kernel);
    let kernel = kernel.expect("the kernel lies between frames that are managed");
    #[rustfmt::skip]
    let cases = [
        ("a frame twice", Release::block(block), FreeError::NotAllocated),
        ("a frame twice, as a run", Release::frames(block.start, 1), FreeError::NotAllocated),
        ("a frame of the kernel", Release::frame(kernel), FreeError::Hole),
        ("a frame beyond memory", Release::frame(Index(span.frames())), FreeError::Foreign),
        ("no frame", Release::frames(block.start, 0), FreeError::ZeroFrames),
    ];
    for (what, release, error) in cases {
        let refused = with_token(|cpu| system.free(cpu, release));
        assert_eq!(refused, Err(error), "free of {what}");
    }
    let none = allocate(Request::frames(0));
    assert_eq!(none, Err(AllocateError::ZeroFrames));
    println!(
        "  {:<12} {} frees and a request were refused",
        "misuse",
        cases.len()
    );
}
