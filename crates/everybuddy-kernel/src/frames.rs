//! A system in the memory that the kernel provides, and the operations on it.
//!
//! Allocations and frees are called often, so they are compiled for each composition of systems: a call from C leads
//! to code in which gate, check of the CPU and system are one function. That is one indirect call, no request in
//! memory, and no second dispatch. All other operations go through the trait object.
//!
//! # Invariants
//! The [`Operations`] of a [`Frames`] are those of the type of its system: `Frames::build`, which knows the type, is
//! the only place that pairs them.
//!
//! Gates, system and metadata lie in the memory that was given to `build`, and nowhere else. Frame numbers are physical
//! here; the system counts from the start of its span.

use core::mem::MaybeUninit;
use core::slice;

use everybuddy::systems::{OnSystem, build_for};
use everybuddy::{
    AllocateError, Block, BuildError, Census, CpuId, Flags, FrameAllocator, FreeError, Hint, Index,
    LINE, Memory, Order, Pfn, Progress, Release, Request, Setup, Snapshot, Span, SystemSpec,
    Violation, metadata_layout,
};

use crate::codes;
use crate::gate::{Gate, Machine, PreemptionDisabled, count};

/// The frame allocator of a kernel.
#[repr(C)]
pub struct Frames {
    /// The header declares this part of the structure.
    pub(crate) operations: Operations,
    system: &'static dyn FrameAllocator<Machine>,
    gates: &'static [Gate],
    /// The system's own: the conversion of a number must not call it.
    span: Span,
}

/// Forgets the type of a system, and remembers the operations of that type.
struct WithOperations;

impl OnSystem<'static, Machine> for WithOperations {
    type Output = (Operations, &'static dyn FrameAllocator<Machine>);

    fn on<A: FrameAllocator<Machine> + 'static>(self, system: &'static A) -> Self::Output {
        (Operations::of::<A>(), system)
    }
}

impl Frames {
    /// Returns the bytes that [`build`](Self::build) takes, wherever they start.
    ///
    /// # Errors
    /// Any [`BuildError`] except `MetadataTooSmall`.
    pub fn bytes(spec: &SystemSpec, setup: &Setup<'_>) -> Result<usize, BuildError> {
        let system = metadata_layout::<Machine>(spec, setup)?;
        let own = size_of::<Self>() + size_of::<Gate>() * usize::from(setup.cpus());
        let bytes = system.size().checked_add(own + 4 * LINE);
        bytes.ok_or(BuildError::MetadataTooLarge)
    }

    /// Builds a system by name. O(frames).
    ///
    /// # Errors
    /// Any [`BuildError`].
    pub fn build(
        spec: &SystemSpec,
        setup: &Setup<'_>,
        memory: &'static mut [MaybeUninit<u8>],
    ) -> Result<&'static Frames, BuildError> {
        let (needed, given) = (Self::bytes(spec, setup)?, memory.len());
        let small = BuildError::MetadataTooSmall { needed, given };
        let cpus = usize::from(setup.cpus());
        let (gates, memory) = place::<Gate>(memory, cpus).ok_or(small)?;
        let (frames, memory) = place::<Frames>(memory, 1).ok_or(small)?;
        let (operations, system) = build_for(spec, setup, Memory::new(memory), WithOperations)?;
        let frames = frames.first_mut().ok_or(small)?;
        for gate in gates.iter_mut() {
            gate.write(Gate::default());
        }
        // SAFETY: the loop above wrote all elements, which are borrowed for ever.
        let gates = unsafe { slice::from_raw_parts(gates.as_ptr().cast::<Gate>(), cpus) };
        let span = *system.span();
        Ok(frames.write(Frames {
            operations,
            system,
            gates,
            span,
        }))
    }

    /// Returns the gate of a CPU, if the system was built for it.
    #[inline(always)]
    pub(crate) fn gate(&self, cpu: CpuId) -> Option<&'static Gate> {
        self.gates.get(cpu.index())
    }

    /// Returns the physical frame of a frame of the system, as a number that is not negative.
    #[inline(always)]
    pub(crate) fn physical(&self, index: Index) -> i64 {
        // Frame numbers have far fewer than 63 bits.
        self.span.physical(index).0 as i64
    }

    /// Returns the number by which the system knows a physical frame, if it has one.
    #[inline(always)]
    pub(crate) fn index(&self, frame: u64) -> Option<Index> {
        self.span.index(Pfn(frame))
    }

    /// Runs `call` as a CPU. Returns `None` without calling it if the system was not set up for that CPU, or if the
    /// caller interrupted an operation of it.
    pub(crate) fn with<R>(
        &self,
        cpu: CpuId,
        call: impl FnOnce(&mut PreemptionDisabled) -> R,
    ) -> Option<R> {
        self.gate(cpu)?.pass(cpu, call)
    }

    /// Announces that this CPU will not call for a while: others may then take the frames of its list. Returns `false`
    /// if an operation runs on this CPU.
    pub fn park(&self, cpu: CpuId) -> bool {
        self.with(cpu, |token| self.system.park(token)).is_some()
    }

    /// Returns all frames of this CPU's list to the zone layer. Returns `false` if an operation runs on this CPU.
    pub fn drain(&self, cpu: CpuId) -> bool {
        self.with(cpu, |token| self.system.drain(token)).is_some()
    }

    /// Returns the frames of all lists to the zone layer. All other CPUs must be parked.
    ///
    /// # Errors
    /// [`Busy`](AllocateError::Busy) if a CPU is not parked, or if an operation runs on this CPU.
    pub fn quiesce(&self, cpu: CpuId) -> Result<(), AllocateError> {
        let done = self.with(cpu, |token| self.system.quiesce(token));
        done.unwrap_or(Err(AllocateError::Busy))
    }

    /// Checks every invariant of all metadata, while no other CPU works. O(frames). Returns `None` if an operation runs
    /// on this CPU.
    pub fn check(&self, cpu: CpuId) -> Option<Result<Census, Violation>> {
        self.with(cpu, |token| self.system.check(token))
    }

    /// Returns what is free. Returns `None` if an operation runs on this CPU.
    pub fn snapshot(&self, cpu: CpuId) -> Option<Snapshot> {
        self.with(cpu, |token| self.system.snapshot(token))
    }

    /// Returns the number of frames in the list of a CPU: a hint while it works. O(1), no lock.
    pub fn buffered(&self, cpu: CpuId) -> u64 {
        self.system.buffered_frames(cpu)
    }

    /// Runs a step of every service. Returns `true` if there is more work.
    pub fn serve(&self, cpu: CpuId, budget: u32) -> bool {
        let step = |token: &mut PreemptionDisabled| {
            let mut more = false;
            for service in 0..self.system.services().len() {
                more |= self.system.serve(token, service, budget) == Progress::More;
            }
            more
        };
        self.with(cpu, step).unwrap_or(false)
    }

    /// Returns the system.
    pub fn system(&self) -> &'static dyn FrameAllocator<Machine> {
        self.system
    }

    /// Returns the gates of all CPUs.
    pub(crate) fn gates(&self) -> &'static [Gate] {
        self.gates
    }
}

/// The place of some elements, and the memory after it.
pub(crate) type Placed<T> = (
    &'static mut [MaybeUninit<T>],
    &'static mut [MaybeUninit<u8>],
);

/// Splits the place of `count` elements off a piece of memory. Returns `None` if it is too small.
pub(crate) fn place<T>(memory: &'static mut [MaybeUninit<u8>], count: usize) -> Option<Placed<T>> {
    let skip = memory.as_ptr().align_offset(align_of::<T>());
    let (_, memory) = memory.split_at_mut_checked(skip)?;
    let (own, rest) = memory.split_at_mut_checked(size_of::<T>().checked_mul(count)?)?;
    // SAFETY: elements that may be uninitialised have no invalid bytes.
    let (_, own, _) = unsafe { own.align_to_mut::<MaybeUninit<T>>() };
    (own.len() == count).then_some((own, rest))
}

/// Functions with the conventions of C; `struct everybuddy` of the header starts with them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Operations {
    /// Allocates a block of 2^order frames. Returns the first frame, or an error as a negative number.
    pub allocate: extern "C" fn(&Frames, u16, u8, u8) -> i64,
    /// The same, for a system that reads hints.
    pub allocate_for: extern "C" fn(&Frames, u16, u8, u8, &Hint) -> i64,
    /// Frees a block of 2^order frames. Returns 0, or an error as a negative number; nothing changes then.
    pub free: extern "C" fn(&Frames, u16, u64, u8) -> i32,
    /// Frees 2^order frames that are a block, a part of one, or several. Returns 0, or an error as a negative number;
    /// nothing changes then.
    pub free_part: extern "C" fn(&Frames, u16, u64, u8) -> i32,
}

impl Operations {
    /// Returns the operations of systems of a type.
    pub(crate) fn of<A: FrameAllocator<Machine>>() -> Self {
        Self {
            allocate: allocate::<A>,
            allocate_for: allocate_for::<A>,
            free: free::<A, false>,
            free_part: free::<A, true>,
        }
    }
}

/// Returns the system with its type.
#[inline(always)]
fn system_of<A: FrameAllocator<Machine>>(frames: &Frames) -> &A {
    // SAFETY: these functions are only in the operations of a `Frames` whose system is an `A`.
    unsafe { &*core::ptr::from_ref(frames.system()).cast::<A>() }
}

/// Blocks of several frames have a function of their own: one function for all would save more registers for each hit
/// of a single frame.
extern "C" fn allocate<A: FrameAllocator<Machine>>(
    frames: &Frames,
    cpu: u16,
    order: u8,
    flags: u8,
) -> i64 {
    match order {
        0 => allocate_with::<A>(frames, cpu, 0, flags, Hint::NONE),
        _ => allocate_block::<A>(frames, cpu, order, flags),
    }
}

#[inline(never)]
extern "C" fn allocate_block<A: FrameAllocator<Machine>>(
    frames: &Frames,
    cpu: u16,
    order: u8,
    flags: u8,
) -> i64 {
    allocate_with::<A>(frames, cpu, order, flags, Hint::NONE)
}

extern "C" fn allocate_for<A: FrameAllocator<Machine>>(
    frames: &Frames,
    cpu: u16,
    order: u8,
    flags: u8,
    hint: &Hint,
) -> i64 {
    allocate_with::<A>(frames, cpu, order, flags, *hint)
}

#[inline(always)]
fn allocate_with<A: FrameAllocator<Machine>>(
    frames: &Frames,
    cpu: u16,
    order: u8,
    flags: u8,
    hint: Hint,
) -> i64 {
    let (Some(gate), Some(order)) = (frames.gate(CpuId(cpu)), Order::new(order)) else {
        return impossible(order).into();
    };
    let flags = Flags::from_bits(flags);
    // No closure: the compiler would not inline it, and would pass what it needs in memory.
    let Some(mut token) = gate.enter(CpuId(cpu)) else {
        return allocate_nested(frames, gate, CpuId(cpu), order, flags);
    };
    let request = Request::order(order).with_flags(flags).with_hint(hint);
    let allocated = system_of::<A>(frames).allocate(&mut token, request);
    gate.leave(token);
    match allocated {
        Ok(index) => frames.physical(index),
        Err(error) => refused(error),
    }
}

/// `PART`: what is not a block is freed frame by frame. As with [`allocate`], blocks have a function of their own.
extern "C" fn free<A: FrameAllocator<Machine>, const PART: bool>(
    frames: &Frames,
    cpu: u16,
    frame: u64,
    order: u8,
) -> i32 {
    match order {
        0 => free_with::<A, PART>(frames, cpu, frame, 0),
        _ => free_block::<A, PART>(frames, cpu, frame, order),
    }
}

#[inline(never)]
extern "C" fn free_block<A: FrameAllocator<Machine>, const PART: bool>(
    frames: &Frames,
    cpu: u16,
    frame: u64,
    order: u8,
) -> i32 {
    free_with::<A, PART>(frames, cpu, frame, order)
}

#[inline(always)]
fn free_with<A: FrameAllocator<Machine>, const PART: bool>(
    frames: &Frames,
    cpu: u16,
    frame: u64,
    order: u8,
) -> i32 {
    let (Some(gate), Some(order)) = (frames.gate(CpuId(cpu)), Order::new(order)) else {
        return impossible(order);
    };
    let Some(start) = frames.index(frame) else {
        return misused(gate, FreeError::Foreign);
    };
    let freed = match gate.enter(CpuId(cpu)) {
        Some(mut token) => {
            let block = Release::block(Block::new(start, order));
            let freed = system_of::<A>(frames).free(&mut token, block);
            gate.leave(token);
            freed
        }
        None => free_nested(frames, gate, CpuId(cpu), start, order),
    };
    match freed {
        Ok(()) => 0,
        Err(FreeError::WrongOrder { .. } | FreeError::InsideBlock { .. }) if PART => {
            free_parts(frames, gate, CpuId(cpu), start, order)
        }
        Err(error) => misused(gate, error),
    }
}

/// Returns the error of a call whose order, or else whose CPU, does not exist.
#[cold]
#[inline(never)]
fn impossible(order: u8) -> i32 {
    match Order::new(order) {
        Some(_) => -codes::NO_SUCH_CPU,
        None => -codes::BAD_ORDER,
    }
}

#[cold]
#[inline(never)]
fn refused(error: AllocateError) -> i64 {
    -i64::from(codes::of_allocate(error))
}

/// Allocates in an interrupt of an operation.
#[cold]
#[inline(never)]
fn allocate_nested(frames: &Frames, gate: &Gate, cpu: CpuId, order: Order, flags: Flags) -> i64 {
    count(&gate.nested);
    let request = Request::order(order).with_flags(flags);
    match frames.system().allocate_nested(cpu, request) {
        Ok(index) => frames.physical(index),
        Err(error) => refused(error),
    }
}

/// Frees a block in an interrupt of an operation.
#[cold]
#[inline(never)]
fn free_nested(
    frames: &Frames,
    gate: &Gate,
    cpu: CpuId,
    start: Index,
    order: Order,
) -> Result<(), FreeError> {
    count(&gate.nested);
    let block = Release::block(Block::new(start, order));
    frames.system().free_nested(cpu, block)
}

/// Frees frames that are not a block. Returns 0 or an error, as the operations do.
#[cold]
#[inline(never)]
fn free_parts(frames: &Frames, gate: &'static Gate, cpu: CpuId, start: Index, order: Order) -> i32 {
    let parts = Release::frames(start, order.frames());
    let freed = gate.pass(cpu, |token| frames.system().free(token, parts));
    let freed = freed.unwrap_or_else(|| {
        count(&gate.nested);
        frames.system().free_nested(cpu, parts)
    });
    freed.map_or_else(|error| misused(gate, error), |()| 0)
}

/// Counts a misuse, and returns the error as a negative number.
#[cold]
#[inline(never)]
fn misused(gate: &Gate, error: FreeError) -> i32 {
    if error != FreeError::Busy {
        count(&gate.misuses);
    }
    -codes::of_free(error)
}
