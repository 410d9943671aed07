//! The interface carries thin adapters for the frame-allocator traits of Rust kernels.
//!
//! The traits here have the shapes of those of OSTD (`GlobalFrameAllocator`: layouts in bytes, frees of any
//! size, memory that is added) and of the `x86_64` crate (`FrameAllocator`: one frame at a time); what these
//! adapters can do over our interface, real ones can.

use std::alloc::Layout;
use std::cell::RefCell;

use everybuddy::platform::NativeCpus;
use everybuddy::{FrameAllocator, FrameRange, Pfn, Release, Request, Setup};
use everybuddy_suite::{Cpu, Machine, System, claim, on};

const FRAME_BYTES: usize = 4096;

/// The shape of OSTD's trait: called with interrupts disabled, on any CPU.
trait LayoutFrames {
    fn alloc(&self, layout: Layout) -> Option<usize>;
    fn dealloc(&self, address: usize, bytes: usize);
    fn add_free_memory(&self, address: usize, bytes: usize);
}

/// The shape of the x86_64 crate's trait.
trait SingleFrames {
    fn allocate_frame(&mut self) -> Option<u64>;
}

struct Kernel<'s, A: ?Sized> {
    system: &'s A,
    /// Stands for the token of the CPU that runs, which a kernel has while it can't be preempted.
    cpu: RefCell<Cpu>,
}

impl<A: FrameAllocator<Machine> + ?Sized> LayoutFrames for Kernel<'_, A> {
    fn alloc(&self, layout: Layout) -> Option<usize> {
        let cpu = &mut *self.cpu.borrow_mut();
        let frames = layout.size().div_ceil(FRAME_BYTES) as u32;
        let aligned = (layout.align() / FRAME_BYTES).max(1) as u32;
        // A run starts at a multiple of its covering block: more is asked for only if the alignment is more.
        let asked = if aligned > frames.next_power_of_two() {
            aligned
        } else {
            frames
        };
        let start = self.system.allocate(cpu, Request::frames(asked)).ok()?;
        if asked > frames {
            let rest = Release::frames(Pfn(start.0 + frames), asked - frames);
            self.system.free(cpu, rest).ok()?;
        }
        Some(self.system.span().physical(start) as usize * FRAME_BYTES)
    }

    fn dealloc(&self, address: usize, bytes: usize) {
        let cpu = &mut *self.cpu.borrow_mut();
        let start = self
            .system
            .span()
            .pfn((address / FRAME_BYTES) as u64)
            .unwrap();
        let release = Release::frames(start, (bytes / FRAME_BYTES) as u32);
        self.system.free(cpu, release).unwrap();
    }

    fn add_free_memory(&self, address: usize, bytes: usize) {
        let cpu = &mut *self.cpu.borrow_mut();
        let range = FrameRange::new((address / FRAME_BYTES) as u64, (bytes / FRAME_BYTES) as u64);
        self.system.add(cpu, range).unwrap();
    }
}

impl<A: FrameAllocator<Machine> + ?Sized> SingleFrames for Kernel<'_, A> {
    fn allocate_frame(&mut self) -> Option<u64> {
        let frame = self
            .system
            .allocate(self.cpu.get_mut(), Request::FRAME)
            .ok()?;
        Some(self.system.span().physical(frame) * FRAME_BYTES as u64)
    }
}

/// Boots with one frame, adds memory, and goes through both traits.
fn boot(system: &System<'_>) {
    let cpus = NativeCpus::new(1);
    let mut kernel = Kernel {
        system,
        cpu: RefCell::new(claim(&cpus, 0)),
    };
    // Memory arrives in pieces, as a boot loader's map has it.
    kernel.add_free_memory(0x0020_0000, 0x0010_0000);
    kernel.add_free_memory(0x0030_0000, 0x0050_0000);

    let layout = Layout::from_size_align(3 * FRAME_BYTES, 16 * FRAME_BYTES).unwrap();
    let address = kernel.alloc(layout).unwrap();
    assert_eq!(address % (16 * FRAME_BYTES), 0);
    let single = kernel.allocate_frame().unwrap() as usize;
    assert!(single < address || single >= address + 3 * FRAME_BYTES);
    // Freed in parts, as OSTD does with segments that were split.
    kernel.dealloc(address + FRAME_BYTES, 2 * FRAME_BYTES);
    kernel.dealloc(address, FRAME_BYTES);
    kernel.dealloc(single, FRAME_BYTES);

    let cpu = kernel.cpu.get_mut();
    system.quiesce(cpu).unwrap();
    let census = system.check(cpu).unwrap();
    assert_eq!(
        (census.allocated, census.free),
        (0, 0x0061_0000 / FRAME_BYTES as u64)
    );
}

#[test]
fn kernels_traits_can_be_served() {
    for name in ["bs", "lbs-31", "linux-6"] {
        // One frame is there from the start; the rest is added.
        let ranges = [FrameRange::new(0x100, 16)];
        let setup = Setup::new(&ranges, 1).with_reach(FrameRange::new(0x100, 0x800));
        on(name, &setup, boot);
    }
}
