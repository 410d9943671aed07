//! Pages and page tables with frames of the system, by the traits of the crate `x86_64`.
//!
//! # Invariants
//! Only the first CPU uses the addresses that are mapped here, so no other one keeps a translation of them. At the end,
//! all frames are free again, also those of page tables.

use everybuddy_adapters::x86_64::PageFrames;
use x86_64::VirtAddr;
use x86_64::registers::control::Cr3;
use x86_64::structures::paging::mapper::CleanUp;
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageSize, PageTable,
    PageTableFlags, PhysFrame, Size2MiB, Size4KiB,
};

use crate::console::println;
use crate::cpus::{Machine, with_token};
use crate::frames::{Frames, frames};

/// Pages of each size.
const PAGES: u64 = 40;
/// Where pages of 4 KiB are mapped, far beyond memory: 2 MiB hold them, and three new tables.
const SMALL: u64 = 1 << 40;
/// Where pages of 2 MiB are mapped.
const LARGE: u64 = 2 << 40;

type Pages<'a> = PageFrames<'a, Machine, Frames>;

/// Maps pages of both sizes, uses and unmaps them, and prints their number.
pub(crate) fn run() {
    let top = Cr3::read().0.start_address().as_u64() as *mut PageTable;
    // SAFETY: the table is mapped to itself, and only this function changes it.
    let top = unsafe { &mut *top };
    // SAFETY: all memory is mapped to itself.
    let mut tables = unsafe { OffsetPageTable::new(top, VirtAddr::zero()) };
    let small = map_and_unmap::<Size4KiB>(&mut tables, SMALL);
    let large = map_and_unmap::<Size2MiB>(&mut tables, LARGE);
    println!(
        "  {:<12} {small} pages of 4 KiB and {large} of 2 MiB were mapped",
        "paging"
    );
    assert!(small == PAGES, "a page of 4 KiB has no frame");
    assert!(
        large > 0 || frames().max_order().get() < 9,
        "no page of 2 MiB has a frame"
    );
}

/// Maps pages until no frame is left, or `PAGES`; returns their number.
fn map_and_unmap<S: PageSize>(tables: &mut OffsetPageTable<'_>, base: u64) -> u64
where
    for<'a> Pages<'a>: FrameAllocator<S> + FrameDeallocator<S>,
    for<'a> OffsetPageTable<'a>: Mapper<S>,
    PhysFrame<S>: PartialEq,
{
    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
    let page = |index: u64| Page::<S>::containing_address(VirtAddr::new(base + index * S::SIZE));
    let value = |index: u64| base ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    with_token(|cpu| {
        // SAFETY: the system manages memory that only its callers use.
        let mut pages = unsafe { Pages::new(frames(), cpu) };
        let mut mapped = 0;
        while mapped < PAGES {
            let Some(frame): Option<PhysFrame<S>> = pages.allocate_frame() else {
                break;
            };
            // SAFETY: the page is mapped nowhere, and the frame was allocated for it.
            let done = unsafe { tables.map_to(page(mapped), frame, flags, &mut pages) };
            match done {
                Ok(flush) => flush.flush(),
                // A page table has no frame.
                Err(_) => {
                    // SAFETY: the frame was allocated just now.
                    unsafe { pages.deallocate_frame(frame) };
                    break;
                }
            }
            let place = page(mapped).start_address().as_mut_ptr::<u64>();
            // SAFETY: the page was mapped just now.
            unsafe { place.write_volatile(value(mapped)) };
            mapped += 1;
        }
        for index in 0..mapped {
            let (frame, flush) = tables
                .unmap(page(index))
                .unwrap_or_else(|error| panic!("{error:?}"));
            flush.flush();
            // SAFETY: memory is mapped to itself.
            let found = unsafe { (frame.start_address().as_u64() as *const u64).read_volatile() };
            assert_eq!(found, value(index), "the page is not mapped to its frame");
            // SAFETY: the page is not mapped any more.
            unsafe { pages.deallocate_frame(frame) };
        }
        let first = Page::containing_address(VirtAddr::new(base));
        let last = Page::containing_address(VirtAddr::new(base + PAGES * S::SIZE));
        // SAFETY: `map_to` made the tables of these addresses, for this page table alone.
        unsafe { tables.clean_up_addr_range(Page::range_inclusive(first, last), &mut pages) };
        assert_eq!(pages.take_refused(), None, "a free by the crate x86_64");
        mapped
    })
}
