//! A system in the memory that the kernel provides, and the operations on it.
//!
//! # Invariants
//! Gates, system and metadata lie in the memory that was given to `build`, and nowhere else. Frame numbers are physical
//! here; the system counts from the base of its span.

use core::mem::MaybeUninit;
use core::slice;

use everybuddy::{
    AllocateError, Block, BuildError, Census, CpuId, Flags, FrameAllocator, FreeError, LINE,
    Memory, Order, Pfn, Progress, Release, Request, Setup, Snapshot, SystemSpec, Violation,
    build_any, metadata_layout,
};

use crate::gate::{Gate, Machine, PreemptionDisabled, count};

/// The frame allocator of a kernel.
pub struct Frames {
    system: &'static dyn FrameAllocator<Machine>,
    gates: &'static [Gate],
    /// The physical frame that the system calls 0.
    base: u64,
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
        let system = build_any::<Machine>(spec, setup, Memory::new(memory))?;
        let frames = frames.first_mut().ok_or(small)?;
        for gate in gates.iter_mut() {
            gate.write(Gate::default());
        }
        // SAFETY: the loop above wrote all elements, which are borrowed for ever.
        let gates = unsafe { slice::from_raw_parts(gates.as_ptr().cast::<Gate>(), cpus) };
        let base = system.span().base();
        Ok(frames.write(Frames {
            system,
            gates,
            base,
        }))
    }

    /// Allocates a block; returns its first physical frame.
    ///
    /// The caller runs on this CPU with preemption disabled, or in an interrupt of it.
    ///
    /// # Errors
    /// Those of [`FrameAllocator::allocate`], and of `allocate_nested` inside an interrupted operation.
    #[inline(always)]
    pub fn allocate(&self, cpu: CpuId, order: Order, flags: Flags) -> Result<u64, AllocateError> {
        let request = Request::order(order).with_flags(flags);
        let gate = self.gates.get(cpu.index());
        let gate = gate.ok_or(AllocateError::NoSuchCpu)?;
        let pfn = match gate.enter(cpu) {
            Some(mut token) => self.system.allocate(&mut token, request),
            None => {
                count(&gate.nested);
                self.system.allocate_nested(cpu, request)
            }
        };
        Ok(self.base + u64::from(pfn?.0))
    }

    /// Frees a block by its first physical frame. The caller is as that of [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// Every [`FreeError`]; nothing changes then.
    #[inline(always)]
    pub fn free(&self, cpu: CpuId, frame: u64, order: Order) -> Result<(), FreeError> {
        let gate = self.gates.get(cpu.index()).ok_or(FreeError::NoSuchCpu)?;
        let freed = self.free_through(gate, cpu, frame, order);
        if !matches!(freed, Ok(()) | Err(FreeError::Busy)) {
            count(&gate.misuses);
        }
        freed
    }

    /// Frees 2^order frames that are a block, a part of one, or several. A whole block is freed as
    /// [`free`](Self::free) does it. The caller is as that of [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// Every [`FreeError`] except `WrongOrder` and `InsideBlock`; nothing changes then.
    #[inline(always)]
    pub fn free_part(&self, cpu: CpuId, frame: u64, order: Order) -> Result<(), FreeError> {
        let gate = self.gates.get(cpu.index()).ok_or(FreeError::NoSuchCpu)?;
        let mut freed = self.free_through(gate, cpu, frame, order);
        if let Err(FreeError::WrongOrder { .. } | FreeError::InsideBlock { .. }) = freed {
            freed = self.free_frames(gate, cpu, frame, order.frames());
        }
        if !matches!(freed, Ok(()) | Err(FreeError::Busy)) {
            count(&gate.misuses);
        }
        freed
    }

    #[inline(always)]
    fn free_through(
        &self,
        gate: &'static Gate,
        cpu: CpuId,
        frame: u64,
        order: Order,
    ) -> Result<(), FreeError> {
        let release = Release::block(Block::new(self.pfn(frame)?, order));
        self.release(gate, cpu, release)
    }

    #[cold]
    #[inline(never)]
    fn free_frames(
        &self,
        gate: &'static Gate,
        cpu: CpuId,
        frame: u64,
        frames: u32,
    ) -> Result<(), FreeError> {
        self.release(gate, cpu, Release::frames(self.pfn(frame)?, frames))
    }

    /// Returns the number by which the system knows a physical frame.
    #[inline(always)]
    fn pfn(&self, frame: u64) -> Result<Pfn, FreeError> {
        let pfn = frame.checked_sub(self.base);
        let pfn = pfn.and_then(|pfn| u32::try_from(pfn).ok());
        pfn.map(Pfn).ok_or(FreeError::Foreign)
    }

    #[inline(always)]
    fn release(&self, gate: &'static Gate, cpu: CpuId, release: Release) -> Result<(), FreeError> {
        match gate.enter(cpu) {
            Some(mut token) => self.system.free(&mut token, release),
            None => {
                count(&gate.nested);
                self.system.free_nested(cpu, release)
            }
        }
    }

    /// Runs `call` as a CPU. Returns `None` without calling it if the system was not set up for that CPU, or if the
    /// caller interrupted an operation of it.
    pub(crate) fn with<R>(
        &self,
        cpu: CpuId,
        call: impl FnOnce(&mut PreemptionDisabled) -> R,
    ) -> Option<R> {
        let mut token = self.gates.get(cpu.index())?.enter(cpu)?;
        Some(call(&mut token))
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

    /// Returns the number of frames in the lists of all CPUs: a hint while they work. O(CPUs), no lock.
    pub fn buffered(&self) -> u64 {
        let cpus = 0..self.system.cpus();
        cpus.map(|cpu| self.system.buffered_frames(CpuId(cpu)))
            .sum()
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
type Placed<T> = (
    &'static mut [MaybeUninit<T>],
    &'static mut [MaybeUninit<u8>],
);

/// Splits the place of `count` elements off a piece of memory. Returns `None` if it is too small.
fn place<T>(memory: &'static mut [MaybeUninit<u8>], count: usize) -> Option<Placed<T>> {
    let skip = memory.as_ptr().align_offset(align_of::<T>());
    let (_, memory) = memory.split_at_mut_checked(skip)?;
    let (own, rest) = memory.split_at_mut_checked(size_of::<T>().checked_mul(count)?)?;
    // SAFETY: elements that may be uninitialised have no invalid bytes.
    let (_, own, _) = unsafe { own.align_to_mut::<MaybeUninit<T>>() };
    (own.len() == count).then_some((own, rest))
}
