//! The operations that a kernel calls often, compiled for each composition of systems.
//!
//! # Purpose
//! A call from C leads to code in which gate, check of the CPU and system are one function: one indirect call, no
//! request in memory, and no second dispatch.
//!
//! # Invariants
//! The operations of a [`Frames`] are those of the type of its system. `Frames::build`, which knows the type, is the
//! only place that pairs them.

use everybuddy::{
    AllocateError, Block, CpuId, Flags, FrameAllocator, FreeError, Hint, Order, Pfn, Release,
    Request,
};

use crate::codes;
use crate::frames::Frames;
use crate::gate::{Gate, Machine, PreemptionDisabled, count};

/// What a kernel knows about a request: a [`Hint`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Origin {
    /// The task.
    pub task: u32,
    /// The mapping that the frame is for.
    pub region: u32,
    /// The frames of that mapping from this one on.
    pub left: u32,
}

/// Functions with the conventions of C; `struct everybuddy` of the header starts with them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Operations {
    /// Allocates a block of 2^order frames. Returns the first frame, or an error as a negative number.
    pub allocate: extern "C" fn(&Frames, u16, u8, u8) -> i64,
    /// The same, for a system that reads hints.
    pub allocate_for: extern "C" fn(&Frames, u16, u8, u8, &Origin) -> i64,
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

extern "C" fn allocate<A: FrameAllocator<Machine>>(
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
    origin: &Origin,
) -> i64 {
    let Origin { task, region, left } = *origin;
    let hint = Hint { task, region, left };
    allocate_with::<A>(frames, cpu, order, flags, hint)
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
    let allocate = |token: &mut PreemptionDisabled| {
        let request = Request::order(order).with_flags(flags);
        system_of::<A>(frames).allocate(token, request.with_hint(hint))
    };
    match gate.pass(CpuId(cpu), allocate) {
        Some(Ok(pfn)) => frames.physical(pfn),
        Some(Err(error)) => refused(error),
        None => allocate_nested(frames, gate, CpuId(cpu), order, flags),
    }
}

/// `PART`: what is not a block is freed frame by frame.
extern "C" fn free<A: FrameAllocator<Machine>, const PART: bool>(
    frames: &Frames,
    cpu: u16,
    frame: u64,
    order: u8,
) -> i32 {
    let (Some(gate), Some(order)) = (frames.gate(CpuId(cpu)), Order::new(order)) else {
        return impossible(order);
    };
    let Some(start) = frames.pfn(frame) else {
        return misused(gate, FreeError::Foreign);
    };
    let free = |token: &mut PreemptionDisabled| {
        let block = Release::block(Block::new(start, order));
        system_of::<A>(frames).free(token, block)
    };
    let freed = match gate.pass(CpuId(cpu), free) {
        Some(freed) => freed,
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

/// Returns the error of a call with an order, or else a CPU, that no system has.
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
        Ok(pfn) => frames.physical(pfn),
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
    start: Pfn,
    order: Order,
) -> Result<(), FreeError> {
    count(&gate.nested);
    let block = Release::block(Block::new(start, order));
    frames.system().free_nested(cpu, block)
}

/// Frees frames that are not a block. Returns 0 or an error, as the operations do.
#[cold]
#[inline(never)]
fn free_parts(frames: &Frames, gate: &'static Gate, cpu: CpuId, start: Pfn, order: Order) -> i32 {
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
