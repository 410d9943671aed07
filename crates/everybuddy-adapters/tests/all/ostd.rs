//! OSTD's trait, by one of the same shape: a kernel boots, adds memory, and frees in parts.

use std::alloc::Layout;
use std::cell::RefCell;
use std::sync::Mutex;

use everybuddy::platform::NativeCpus;
use everybuddy::{FrameRange, FreeError, Pfn, RegionError, Setup};
use everybuddy_adapters::global_frame_allocator;
use everybuddy_adapters::ostd::{ByteFrames, Refused};
use everybuddy_suite::{Cpu, Machine, System, claim, on};

/// The shape of the trait of OSTD 0.19. There it needs `Sync`, which a test on one thread need not be.
trait GlobalFrameAllocator {
    fn alloc(&self, layout: Layout) -> Option<usize>;
    fn dealloc(&self, addr: usize, size: usize);
    fn add_free_memory(&self, addr: usize, size: usize);
}

const FRAME: usize = 4096;

struct Kernel<'s> {
    system: &'s System<'s>,
    /// Stands for the token of the CPU that runs, which a kernel has while interrupts are disabled.
    cpu: RefCell<Cpu>,
    refused: Mutex<Vec<Refused>>,
}

impl<'s> ByteFrames for Kernel<'s> {
    type Platform = Machine;
    type System = System<'s>;

    fn with_system<T>(&self, then: impl FnOnce(&System<'s>, &mut Cpu) -> T) -> T {
        then(self.system, &mut self.cpu.borrow_mut())
    }

    fn refused(&self, refused: Refused) {
        self.refused.lock().unwrap().push(refused);
    }
}

global_frame_allocator!(GlobalFrameAllocator, Kernel<'_>);

/// Boots without memory, adds some, and goes through the trait.
fn boot(system: &System<'_>) {
    let cpus = NativeCpus::new(1);
    let kernel = Kernel {
        system,
        cpu: RefCell::new(claim(&cpus, 0)),
        refused: Mutex::default(),
    };
    let layout = |bytes, align| Layout::from_size_align(bytes, align).unwrap();
    assert_eq!(kernel.alloc(layout(FRAME, FRAME)), None);
    // Memory arrives in pieces, as a boot loader's map has it.
    kernel.add_free_memory(0x0010_0000, 0x0001_0000);
    kernel.add_free_memory(0x0020_0000, 0x0010_0000);
    kernel.add_free_memory(0x0030_0000, 0x0050_0000);

    let mut taken: Vec<(usize, usize)> = Vec::new();
    for (frames, alignment) in [
        (3, 16),
        (1, 1),
        (5, 1),
        (16, 64),
        (1, 512),
        (512, 1),
        (7, 8),
    ] {
        let layout = layout(frames * FRAME, alignment * FRAME);
        let address = kernel.alloc(layout).unwrap();
        assert_eq!(address % layout.align(), 0);
        let apart = |(other, bytes): &(usize, usize)| {
            address >= other + bytes || address + layout.size() <= *other
        };
        assert!(taken.iter().all(apart), "{taken:x?} and {address:x}");
        taken.push((address, layout.size()));
    }
    assert_eq!(kernel.alloc(layout(0, 16 * FRAME)), None);
    assert_eq!(kernel.alloc(layout(1 << 40, FRAME)), None);
    assert_eq!(kernel.refused.lock().unwrap().len(), 0);
    let frames: usize = taken.iter().map(|(_, bytes)| bytes / FRAME).sum();
    {
        let cpu = &mut *kernel.cpu.borrow_mut();
        system.quiesce(cpu).unwrap();
        assert_eq!(system.check(cpu).unwrap().allocated, frames as u64);
    }
    // Freed in parts, last page first, as OSTD does with segments that were split.
    for (address, bytes) in taken {
        if bytes > FRAME {
            kernel.dealloc(address + bytes - FRAME, FRAME);
            kernel.dealloc(address, bytes - FRAME);
        } else {
            kernel.dealloc(address, bytes);
        }
    }
    assert_eq!(kernel.refused.lock().unwrap().len(), 0);
    // Frames that OSTD allocated before it added memory.
    kernel.dealloc(0x0018_0000, FRAME);
    kernel.dealloc(0x0018_1000, 2 * FRAME);
    assert_eq!(kernel.refused.lock().unwrap().len(), 0);
    // Misuse cannot return an error, but the kernel is told.
    kernel.dealloc(0x0020_0000, FRAME);
    kernel.dealloc(0x4000_0000, FRAME);
    kernel.dealloc(0x0020_0000, 100);
    kernel.add_free_memory(0x0020_0000, FRAME);
    // A frame that is free, and a hole.
    kernel.dealloc(0x0010_f000, 2 * FRAME);
    let refused = kernel.refused.into_inner().unwrap();
    assert_eq!(refused[0], Refused::Free(FreeError::NotAllocated));
    assert_eq!(refused[1], Refused::Free(FreeError::Foreign));
    let (address, bytes) = (0x0020_0000, 100);
    assert_eq!(refused[2], Refused::Unaligned { address, bytes });
    assert!(matches!(
        refused[3],
        Refused::Add(RegionError::AlreadyManaged(_))
    ));
    assert!(refused[3].to_string().starts_with("cannot add memory: "));
    assert!(matches!(refused[4..], [Refused::Free(_)]));

    let mut cpu = kernel.cpu.into_inner();
    let range = |start, frames| FrameRange::new(Pfn(start), frames);
    let ranges = [range(0x100, 16), range(0x180, 3), range(0x200, 0x600)];
    crate::all_is_free(system, &mut cpu, &ranges);
}

/// A frame without an address in bytes is not allocated, and not lost.
#[test]
fn frames_beyond_all_addresses_stay_free() {
    for name in crate::SYSTEMS {
        let ranges = [FrameRange::new(Pfn(1 << 52), 64)];
        on(name, &Setup::new(&ranges, 1), |system| {
            let cpus = NativeCpus::new(1);
            let kernel = Kernel {
                system,
                cpu: RefCell::new(claim(&cpus, 0)),
                refused: Mutex::default(),
            };
            for frames in [1, 5] {
                let layout = Layout::from_size_align(frames * FRAME, 8 * FRAME).unwrap();
                assert_eq!(kernel.alloc(layout), None);
            }
            crate::all_is_free(system, &mut kernel.cpu.into_inner(), &ranges);
        });
    }
}

#[test]
fn a_kernel_of_ostd_boots_and_frees_in_parts() {
    for name in crate::SYSTEMS {
        let setup = Setup::new(&[], 1).with_reach(FrameRange::new(Pfn(0x100), 0x800));
        on(name, &setup, boot);
    }
}
