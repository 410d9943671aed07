//! The interfaces of several kernels for memory, each on a [`PageRuns`].
//!
//! Each trait was written anew, with the names and types of the kernel that is named, whose source is not here. What a
//! kernel copies is the `impl`. The guide has the one for OSTD.
//!
//! # Invariants
//! All of them call one static, and each test frees what it allocated.

#![allow(
    unsafe_code,
    reason = "traits of kernels are unsafe, since page tables trust them"
)]
#![allow(unreachable_pub, reason = "a kernel has them in modules of their own")]
#![allow(missing_docs, reason = "the names are those of the kernels")]

use everybuddy::platform::{Bare, Call, Calls, CpuToken};
use everybuddy::prelude::*;
use everybuddy_adapters::runs::{PageRuns, RunError};

static CALLS: Calls<4> = Calls::new();

/// The right to act as a CPU. A kernel disables preemption while this exists.
pub struct Guard(Call);

impl Guard {
    fn new() -> Self {
        let this_cpu = CpuId(0);
        Guard(CALLS.begin(this_cpu))
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

type Machine = Bare<Guard>;
type Frames = <Everybuddy as System>::Built<'static, Machine>;

/// The reach of this kernel: memory from address 0 on, 1 GiB.
const REACH: FrameRange = FrameRange::new(Pfn(0), 1 << 18);

static MEMORY: PageRuns<Machine, Frames, { Everybuddy::room_for(1 << 18, 4) }> =
    PageRuns::new(Guard::new);

/// Builds the system without memory, which each kernel adds.
fn boot() {
    let setup = Setup::new(&[], 4).with_reach(REACH);
    // A second call fails, and changes nothing.
    let _ = MEMORY.start::<Everybuddy>(&Options::NONE, &setup);
}

/// Hermit, src/mm/page_range_alloc.rs of its commit b0678ba0: functions of a type, and ranges of bytes.
pub mod hermit {
    use super::*;

    pub struct PageLayout {
        pub size: usize,
        pub align: usize,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PageRange {
        pub start: usize,
        pub end: usize,
    }

    #[derive(Debug)]
    pub struct AllocError;

    pub trait PageRangeAllocator {
        fn allocate(layout: PageLayout) -> Result<PageRange, AllocError>;
        fn allocate_at(range: PageRange) -> Result<(), AllocError>;
        /// # Safety
        /// The range is not in use.
        unsafe fn deallocate(range: PageRange);
    }

    impl PageRange {
        const fn bytes(self) -> u64 {
            (self.end - self.start) as u64
        }
    }

    pub struct FrameAlloc;

    impl FrameAlloc {
        /// Passes memory of the map to the system, once. Hermit's `detect_from_start_info` calls `deallocate` instead.
        pub fn claim(range: PageRange) {
            let added = MEMORY.add(range.start as u64, range.bytes());
            added.expect("the map has each range once");
        }
    }

    impl PageRangeAllocator for FrameAlloc {
        fn allocate(layout: PageLayout) -> Result<PageRange, AllocError> {
            let start = MEMORY.allocate(layout.size as u64, layout.align as u64, None);
            let start = start.map_err(|_| AllocError)? as usize;
            Ok(PageRange {
                start,
                end: start + layout.size,
            })
        }

        fn allocate_at(range: PageRange) -> Result<(), AllocError> {
            let allocated = MEMORY.allocate_at(range.start as u64, range.bytes());
            allocated.map_err(|_| AllocError)
        }

        unsafe fn deallocate(range: PageRange) {
            let freed = MEMORY.free(range.start as u64, range.bytes());
            freed.expect("the kernel frees what it allocated");
        }
    }
}

/// ArceOS and StarryOS, the trait of axalloc in rcore-os/tgoskits: virtual addresses at a constant distance, a limit
/// for devices, and a number for each use.
pub mod arceos {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering};

    /// The distance of the direct map.
    const OFFSET: u64 = 0xffff_8000_0000_0000;
    const PAGE: usize = 4096;

    #[derive(Debug)]
    pub enum AllocError {
        InvalidParam,
        NoMemory,
    }

    #[derive(Clone, Copy)]
    pub enum UsageKind {
        PageTable,
        UserMem,
    }

    type Result<T> = core::result::Result<T, AllocError>;

    pub trait AllocatorOps {
        fn add_memory(&self, start: usize, bytes: usize) -> Result<()>;
        fn alloc_pages(&self, pages: usize, align: usize, kind: UsageKind) -> Result<usize>;
        fn alloc_dma32_pages(&self, pages: usize, align: usize, kind: UsageKind) -> Result<usize>;
        fn alloc_pages_at(&self, start: usize, pages: usize, kind: UsageKind) -> Result<usize>;
        fn dealloc_pages(&self, start: usize, pages: usize, kind: UsageKind);
        fn available_pages(&self) -> usize;
        fn usage(&self, kind: UsageKind) -> usize;
    }

    #[derive(Default)]
    pub struct Pages {
        used: [AtomicUsize; 2],
    }

    impl Pages {
        fn below(&self, bytes: usize, align: usize, limit: Option<u64>) -> Result<usize> {
            let start = MEMORY.allocate(bytes as u64, align as u64, limit);
            let start = start.map_err(|error| match error {
                RunError::Unaligned => AllocError::InvalidParam,
                _ => AllocError::NoMemory,
            });
            Ok((start? + OFFSET) as usize)
        }

        fn count(&self, pages: usize, kind: UsageKind) {
            self.used[kind as usize].fetch_add(pages, Ordering::Relaxed);
        }
    }

    /// Returns the physical address, or one without memory.
    fn physical(start: usize) -> u64 {
        (start as u64).wrapping_sub(OFFSET)
    }

    impl AllocatorOps for Pages {
        fn add_memory(&self, start: usize, bytes: usize) -> Result<()> {
            let added = MEMORY.add(physical(start), bytes as u64);
            added.map_err(|_| AllocError::InvalidParam)
        }

        fn alloc_pages(&self, pages: usize, align: usize, kind: UsageKind) -> Result<usize> {
            let start = self.below(pages * PAGE, align, None)?;
            self.count(pages, kind);
            Ok(start)
        }

        fn alloc_dma32_pages(&self, pages: usize, align: usize, kind: UsageKind) -> Result<usize> {
            let start = self.below(pages * PAGE, align, Some(1 << 32))?;
            self.count(pages, kind);
            Ok(start)
        }

        fn alloc_pages_at(&self, start: usize, pages: usize, kind: UsageKind) -> Result<usize> {
            let allocated = MEMORY.allocate_at(physical(start), (pages * PAGE) as u64);
            allocated.map_err(|_| AllocError::NoMemory)?;
            self.count(pages, kind);
            Ok(start)
        }

        fn dealloc_pages(&self, start: usize, pages: usize, kind: UsageKind) {
            let freed = MEMORY.free(physical(start), (pages * PAGE) as u64);
            freed.expect("the kernel frees what it allocated");
            self.used[kind as usize].fetch_sub(pages, Ordering::Relaxed);
        }

        fn available_pages(&self) -> usize {
            MEMORY.free_bytes() as usize / PAGE
        }

        fn usage(&self, kind: UsageKind) -> usize {
            self.used[kind as usize].load(Ordering::Relaxed)
        }
    }
}

/// Redox, the crate rmm: counts of frames, and the use of memory.
pub mod redox {
    use super::*;

    const PAGE: u64 = 4096;

    #[derive(Clone, Copy)]
    pub struct PhysicalAddress(pub usize);
    #[derive(Clone, Copy)]
    pub struct FrameCount(pub usize);

    pub struct FrameUsage {
        pub used: FrameCount,
        pub total: FrameCount,
    }

    /// # Safety
    /// A frame that was allocated belongs to the caller until it is freed.
    pub unsafe trait FrameAllocator {
        fn allocate(&mut self, count: FrameCount) -> Option<PhysicalAddress>;
        /// # Safety
        /// The frames are not in use.
        unsafe fn free(&mut self, address: PhysicalAddress, count: FrameCount);
        fn usage(&self) -> FrameUsage;
    }

    pub struct Area {
        /// The frames that were added.
        pub total: usize,
    }

    // SAFETY: the system allocates a frame once until it is freed, and all frames that were added are unused.
    unsafe impl FrameAllocator for Area {
        fn allocate(&mut self, count: FrameCount) -> Option<PhysicalAddress> {
            let start = MEMORY.allocate(count.0 as u64 * PAGE, PAGE, None);
            // The trait asks for frames of zeros: a kernel clears them here, through its direct map.
            Some(PhysicalAddress(start.ok()? as usize))
        }

        unsafe fn free(&mut self, address: PhysicalAddress, count: FrameCount) {
            let freed = MEMORY.free(address.0 as u64, count.0 as u64 * PAGE);
            freed.expect("the kernel frees what it allocated");
        }

        fn usage(&self) -> FrameUsage {
            let free = (MEMORY.free_bytes() / PAGE) as usize;
            FrameUsage {
                used: FrameCount(self.total - free),
                total: FrameCount(self.total),
            }
        }
    }
}

/// The crate x86_64 0.15, src/structures/paging/frame_alloc.rs: page frames whose size is a type. With the feature of
/// that name, `PageFrames` implements the crate's own traits for a borrowed system; this is for a static.
pub mod x86_64 {
    use super::*;
    use core::marker::PhantomData;

    pub trait PageSize {
        const SIZE: u64;
    }

    pub enum Size2MiB {}
    impl PageSize for Size2MiB {
        const SIZE: u64 = 2 << 20;
    }

    pub struct PhysFrame<S: PageSize> {
        pub start: u64,
        size: PhantomData<S>,
    }

    /// # Safety
    /// Each frame is allocated once until it is freed.
    pub unsafe trait FrameAllocator<S: PageSize> {
        fn allocate_frame(&mut self) -> Option<PhysFrame<S>>;
    }

    pub trait FrameDeallocator<S: PageSize> {
        /// # Safety
        /// The frame is not in use.
        unsafe fn deallocate_frame(&mut self, frame: PhysFrame<S>);
    }

    pub struct KernelFrames;

    // SAFETY: the system allocates a frame once until it is freed, and all frames that were added are unused.
    unsafe impl<S: PageSize> FrameAllocator<S> for KernelFrames {
        fn allocate_frame(&mut self) -> Option<PhysFrame<S>> {
            let start = MEMORY.allocate(S::SIZE, S::SIZE, None).ok()?;
            let size = PhantomData;
            Some(PhysFrame { start, size })
        }
    }

    impl<S: PageSize> FrameDeallocator<S> for KernelFrames {
        unsafe fn deallocate_frame(&mut self, frame: PhysFrame<S>) {
            let freed = MEMORY.free(frame.start, S::SIZE);
            freed.expect("the kernel frees what it allocated");
        }
    }
}

/// Uses each of them.
pub fn main() {
    boot();
    let all = || MEMORY.free_bytes();
    assert_eq!(all(), 0);
    {
        use hermit::{FrameAlloc, PageLayout, PageRange, PageRangeAllocator};
        let range = |start, end| PageRange { start, end };
        FrameAlloc::claim(range(0x10_0000, 0x110_0000));
        assert_eq!(all(), 16 << 20);
        let (size, align) = (0x11000, 0x1000);
        let stack = FrameAlloc::allocate(PageLayout { size, align }).unwrap();
        let next = range(0x80_0000, 0x80_3000);
        FrameAlloc::allocate_at(next).unwrap();
        FrameAlloc::allocate_at(next).unwrap_err();
        for range in [stack, next] {
            // SAFETY: the memory of this example does not exist.
            unsafe { FrameAlloc::deallocate(range) };
        }
    }
    {
        use arceos::{AllocatorOps, Pages, UsageKind};
        let pages = Pages::default();
        pages.add_memory(0xffff_8000_0200_0000, 0x100_0000).unwrap();
        let table = pages.alloc_pages(1, 4096, UsageKind::PageTable).unwrap();
        let ring = pages
            .alloc_dma32_pages(16, 1 << 16, UsageKind::UserMem)
            .unwrap();
        assert_eq!((ring % (1 << 16), pages.usage(UsageKind::UserMem)), (0, 16));
        assert_eq!(pages.available_pages(), 8192 - 17);
        pages.dealloc_pages(table, 1, UsageKind::PageTable);
        pages.dealloc_pages(ring, 16, UsageKind::UserMem);
        let here = pages
            .alloc_pages_at(0xffff_8000_0280_0000, 2, UsageKind::UserMem)
            .unwrap();
        pages.dealloc_pages(here, 2, UsageKind::UserMem);
        pages.alloc_pages(1, 3, UsageKind::UserMem).unwrap_err();
    }
    {
        use redox::{Area, FrameAllocator, FrameCount};
        let mut area = Area { total: 2 * 4096 };
        let frames = area.allocate(FrameCount(64)).unwrap();
        let usage = area.usage();
        assert_eq!((usage.used.0, usage.total.0), (64, 8192));
        // SAFETY: as above.
        unsafe { area.free(frames, FrameCount(64)) };
    }
    {
        use x86_64::{FrameAllocator, FrameDeallocator, KernelFrames, PhysFrame, Size2MiB};
        let page: PhysFrame<Size2MiB> = KernelFrames.allocate_frame().unwrap();
        assert_eq!((page.start % (2 << 20), all()), (0, 30 << 20));
        // SAFETY: as above.
        unsafe { KernelFrames.deallocate_frame(page) };
    }
    // The image of a kernel, which no recipe added: all of them free by this call.
    let image = MEMORY.free(0x4_0000, 4096);
    assert_eq!(image, Err(RunError::Free(FreeError::Hole)));
    assert_eq!(all(), 32 << 20);
}
