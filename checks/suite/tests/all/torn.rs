//! What a header remembers about its words is two fields, which another CPU can read while the owner changes them.
//!
//! A platform of its own runs another CPU's request between the two reads.

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;

use everybuddy::platform::{
    CellValue, NativeAtomicU32, NativeAtomicU64, NativeCell, NativeCpu, NativeCpus, Platform,
    SharedCell,
};
use everybuddy::systems::{Everybuddy, Options, layout};
use everybuddy::{
    AllocateError, Class, CpuId, Flags, FrameAllocator, FrameRange, Index, Memory, NoProbe, Order,
    Pfn, Release, Request, Setup, build,
};

thread_local! {
    /// What happens after a cell of two bytes was read that is not zero: the order that the header remembers.
    static MEANWHILE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    /// How many such reads are left before it happens.
    static READS: Cell<u32> = const { Cell::new(0) };
}

struct Read<T: CellValue>(NativeCell<T>);

impl<T: CellValue> SharedCell<T> for Read<T> {
    fn new(value: T) -> Self {
        Self(NativeCell::new(value))
    }

    fn get(&self) -> T {
        self.0.get()
    }

    fn set(&self, value: T) {
        self.0.set(value);
    }

    fn exchange(&self, current: T, new: T) -> bool {
        self.0.exchange(current, new)
    }

    fn peek(&self) -> T {
        let value = self.0.get();
        if size_of::<T>() == 2 && value != T::default() {
            match READS.get() {
                0 => {
                    if let Some(meanwhile) = MEANWHILE.take() {
                        meanwhile();
                    }
                }
                reads => READS.set(reads - 1),
            }
        }
        value
    }
}

struct Hooked;

// SAFETY: atomics, cells and tokens are those of `Native`. All CPUs are of one thread, and nothing waits.
#[allow(unsafe_code)]
unsafe impl Platform for Hooked {
    type AtomicU32 = NativeAtomicU32;
    type AtomicU64 = NativeAtomicU64;
    type Cell<T: CellValue> = Read<T>;
    type Cpu = NativeCpu<NoProbe>;
    type Probe = NoProbe;

    fn probe(cpu: &mut NativeCpu) -> &mut NoProbe {
        cpu.probe()
    }

    fn wait(_: &NativeAtomicU32, _: u32, _: u32) {}
    fn wake(_: &NativeAtomicU32) {}
}

fn block(order: u8) -> Request {
    Request::order(Order::new(order).unwrap()).with_flags(Flags::NO_WAIT)
}

#[test]
fn a_request_that_must_not_wait_is_not_refused_by_what_is_read_in_two_pieces() {
    const FRAMES: u32 = 32768;
    let mut met = 0;
    for reads in 0..8 {
        let ranges = [FrameRange::new(Pfn(0), FRAMES.into())];
        let setup = Setup::new(&ranges, 2);
        let layout = layout::<Everybuddy, Hooked>(&Options::NONE, &setup).unwrap();
        let memory = vec![MaybeUninit::uninit(); Memory::room(layout)].leak();
        let system = build::<Everybuddy, Hooked>(&Options::NONE, &setup, Memory::new(memory));
        let system: &'static _ = Box::leak(Box::new(system.unwrap()));
        let cpus = Box::leak(Box::new(NativeCpus::new(2)));
        let mut zero = cpus.claim(CpuId(0)).unwrap();
        let mut one = cpus.claim(CpuId(1)).unwrap();
        for _ in 0..FRAMES {
            system.allocate(&mut zero, Request::FRAME).unwrap();
        }
        // Single frames in two words, which a search for a pair remembers; then pairs in three others.
        for frame in [0, 64] {
            let single = Release::frames(Index(frame), 1);
            system.free(&mut zero, single).unwrap();
        }
        system.park(&mut zero);
        assert!(system.allocate(&mut zero, block(1)).is_err());
        for frame in [128, 192, 256] {
            let pair = Release::frames(Index(frame), 2);
            system.free(&mut zero, pair).unwrap();
        }
        system.park(&mut zero);
        READS.set(reads);
        MEANWHILE.set(Some(Box::new(move || {
            assert!(system.allocate(&mut zero, block(3)).is_err());
        })));
        let request = block(1).with_class(Class::Movable);
        let result = system.allocate(&mut one, request);
        met += u32::from(MEANWHILE.take().is_none());
        assert_ne!(result, Err(AllocateError::Exhausted), "after {reads} reads");
    }
    assert!(met > 0, "nothing happened in between");
}
