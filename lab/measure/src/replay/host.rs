//! The host of the systems: threads of this process.
//!
//! `everybuddy` does not depend on an operating system, and leaves three tasks to its host: waiting, the assignment
//! of CPU tokens, and the memory for metadata.
//!
//! # Invariants
//! A thread that waits for another thread, or ends, has parked its CPUs first. A thread that runs out of frames can
//! then drain their lists.

use std::mem::MaybeUninit;

use everybuddy::platform::{NativeCpu, NativeCpus};
use everybuddy::systems::Presplit;
use everybuddy::{
    AllocateError, Block, BuildError, Counts, CpuId, CpuToken, Flags, FrameAllocator, FrameState,
    Index, Platform, Probe, Release, Request, Setup, Size, Snapshot, SystemSpec, WithSystem,
    metadata_layout, with_system,
};

use crate::Error;
use crate::replay::adapter::{Adapter, REFUSED, Trouble};
use crate::replay::machine::Machine;
use crate::replay::memory::Memory;
pub use crate::replay::platform::{AnySystem, ReplayPlatform, Yielding};
use crate::replay::retry::{MAX_RETRIES, retry};
use crate::replay::script::{Lane, Move, MoveKind};
use crate::replay::watch::{ReadableProbe, Watch, with_watched};
use crate::touched;

/// Memory for metadata, reused for each system.
#[derive(Default)]
pub struct Arena {
    bytes: Vec<MaybeUninit<u8>>,
    /// The initial division of memory, for systems that support it.
    division: Presplit,
    /// The machine from which the parameters of lists follow; `None` if they follow from the managed memory.
    machine: Option<Machine>,
    /// Whether huge pages should be behind it.
    is_huge: bool,
}

impl Arena {
    /// Asks the operating system for huge pages behind the metadata of all systems that are built from now on.
    pub fn in_huge_pages(&mut self) {
        self.is_huge = true;
    }

    /// Returns the part of the last system's metadata that lies in huge pages, as far as it was used; `None` if the
    /// kernel does not say.
    pub fn huge(&mut self) -> Option<f64> {
        touched::huge_share(self.room().as_ptr().addr())
    }

    /// Sets the initial division of memory for all systems that are built from now on and support it.
    pub fn divide(&mut self, division: Presplit) {
        self.division = division;
    }

    /// Sets the machine from which the lists of all systems that are built from now on take their parameters.
    pub fn place(&mut self, machine: Option<Machine>) {
        self.machine = machine;
    }

    /// Returns the machine whose lists the systems have.
    pub fn machine(&self) -> Option<Machine> {
        self.machine
    }

    /// Builds a system on `memory` and runs `visitor` on it.
    ///
    /// # Errors
    /// Returns a usage error if the system cannot be built.
    pub fn build<B: ReadableProbe, V: WithSystem<ReplayPlatform<B>>>(
        &mut self,
        spec: &SystemSpec,
        memory: &Memory,
        cpus: u16,
        visitor: V,
    ) -> Result<V::Output, Error> {
        let ranges = memory.ranges();
        let division = self.division;
        let setup = memory.setup(self.machine, &ranges, cpus);
        let setup = setup.with_presplit(&division);
        self.reserve::<B>(spec, &setup)?;
        let built = with_system(spec, &setup, self.room(), visitor);
        built.map_err(|error| refused(spec, error))
    }

    /// Builds a system on `memory` and calls `visitor` with it through dynamic dispatch, for untimed use.
    /// Its events are counted.
    ///
    /// # Errors
    /// Like [`build`](Self::build).
    pub fn build_any<T>(
        &mut self,
        spec: &SystemSpec,
        memory: &Memory,
        cpus: u16,
        visitor: impl FnOnce(&AnySystem<'_, Watch>) -> T,
    ) -> Result<T, Error> {
        let ranges = memory.ranges();
        let division = self.division;
        let setup = memory.setup(self.machine, &ranges, cpus);
        let setup = setup.with_presplit(&division);
        self.reserve::<Watch>(spec, &setup)?;
        let (mut visitor, mut came) = (Some(visitor), None);
        let visit = &mut |system: &AnySystem<'_, Watch>| {
            came = visitor.take().map(|visitor| visitor(system));
        };
        with_watched(spec, &setup, &mut self.bytes, visit).map_err(|error| refused(spec, error))?;
        came.ok_or_else(|| {
            Error::Broken(format!(
                "system {spec} was built, but the visitor was not called"
            ))
        })
    }

    /// Returns the memory for metadata. It begins with a huge page, if there is room for one.
    fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        let skip = if self.is_huge {
            self.bytes.as_ptr().align_offset(touched::HUGE)
        } else {
            0
        };
        self.bytes.get_mut(skip..).unwrap_or_default()
    }

    /// Allocates the memory for the metadata of a system.
    fn reserve<B: ReadableProbe>(
        &mut self,
        spec: &SystemSpec,
        setup: &Setup<'_>,
    ) -> Result<(), Error> {
        let layout = metadata_layout::<ReplayPlatform<B>>(spec, setup);
        let layout = layout.map_err(|error| refused(spec, error))?;
        let needed = everybuddy::Memory::room(layout);
        let room = if self.is_huge { touched::HUGE } else { 0 };
        let needed = needed.next_multiple_of(room.max(1)) + room;
        if self.bytes.len() < needed {
            if self.is_huge {
                // Pages that move with their contents are small afterwards.
                self.bytes = Vec::new();
            }
            let missing = needed - self.bytes.len();
            self.bytes.try_reserve_exact(missing).map_err(|_| {
                let amount = crate::size::bytes(needed as f64);
                Error::usage(format!(
                    "system {spec}: failed to allocate {amount} for metadata\nhelp: use a smaller --memory"
                ))
            })?;
            self.bytes.resize(needed, MaybeUninit::uninit());
            if self.is_huge {
                touched::advise_huge(&self.bytes);
            }
        }
        Ok(())
    }
}

fn refused(spec: &SystemSpec, error: BuildError) -> Error {
    Error::usage(format!("system {spec}: {error}"))
}

/// Returns the frames in the lists of a system, of which its snapshot counts `buffered`; only a hint while other CPUs
/// run. O(frames), at most up to the last of these frames.
pub fn listed<P: Platform>(system: &(impl FrameAllocator<P> + ?Sized), buffered: u64) -> Vec<u32> {
    listed_by(&|frame| system.frame_state(Index(frame)), buffered)
}

/// Returns the same from a function that returns the state of a frame. It is called once for each block in a list and
/// each allocated block, and O(order) times for each free one: of a free block, it may read all of the frames.
fn listed_by(state: &dyn Fn(u32) -> Option<FrameState>, buffered: u64) -> Vec<u32> {
    // What a system keeps elsewhere counts, too: then the search goes on to the end.
    let most = usize::try_from(buffered).unwrap_or(usize::MAX);
    let (mut kept, mut frame) = (Vec::new(), 0_u32);
    while kept.len() < most
        && let Some(now) = state(frame)
    {
        let end = match now {
            FrameState::Allocated { head, order } => head.0.saturating_add(order.frames()),
            FrameState::Buffered { order, .. } => {
                let end = frame.saturating_add(order.frames());
                kept.extend(frame..end);
                end
            }
            FrameState::Free { head } => {
                // Its size is a power of two.
                let end = |size| head.0.saturating_add(size);
                let mut size = 1;
                while state(end(size)) == Some(now) {
                    size *= 2;
                }
                end(size)
            }
            FrameState::Hole | FrameState::Reserved | FrameState::Queued => 0,
        };
        frame = end.max(frame.saturating_add(1));
    }
    kept.truncate(most);
    kept
}

/// A thread's access to a system.
pub struct SystemAdapter<'s, A: ?Sized, B: Probe> {
    system: &'s A,
    cpus: &'s NativeCpus,
    tokens: Vec<NativeCpu<B>>,
    flags: Flags,
    trouble: Trouble,
}

impl<'s, A: FrameAllocator<ReplayPlatform<B>> + ?Sized, B: ReadableProbe> SystemAdapter<'s, A, B> {
    /// Claims the tokens of a lane's CPUs, with a probe on each. Returns `None` if a token is taken.
    pub fn claim(
        system: &'s A,
        cpus: &'s NativeCpus,
        lane: &Lane,
        probe: &dyn Fn() -> B,
    ) -> Option<Self> {
        let claim = |cpu: &u16| {
            let mut token = cpus.claim_probed(CpuId(*cpu)).ok()?;
            *token.probe() = probe();
            Some(token)
        };
        let tokens: Option<Vec<_>> = lane.cpus.iter().map(claim).collect();
        let tokens = tokens?;
        // One thread that acts as several CPUs would wait for itself: it must park the CPUs that it acts as instead
        // of requesting a drain from them.
        let flags = if tokens.len() > 1 {
            Flags::NO_WAIT
        } else {
            Flags::NONE
        };
        Some(Self {
            system,
            cpus,
            tokens,
            flags,
            trouble: Trouble::default(),
        })
    }

    /// Takes the results of the probes.
    pub fn take_probes(&mut self) -> Vec<B> {
        let probes = self.tokens.iter_mut();
        probes.map(|token| std::mem::take(token.probe())).collect()
    }

    /// Retries a request that failed because another CPU was busy.
    #[cold]
    #[inline(never)]
    fn retry_until_served(&mut self, wanted: &Move, error: AllocateError) -> u32 {
        let (before, rest) = self.tokens.split_at_mut(usize::from(wanted.token));
        if let Some((own, after)) = rest.split_first_mut() {
            let system = self.system;
            let park_others = || {
                let others = before.iter_mut().chain(&mut *after);
                others.for_each(|other| system.park(other));
            };
            let request = request(wanted, Flags::NONE);
            if let Ok(frame) = retry(system, own, request, error, MAX_RETRIES, park_others) {
                return frame.0;
            }
        }
        self.trouble.refused.add(wanted.order(), 1);
        REFUSED
    }
}

/// Returns the tokens. The replay has parked their CPUs.
impl<A: ?Sized, B: Probe> Drop for SystemAdapter<'_, A, B> {
    fn drop(&mut self) {
        for token in self.tokens.drain(..) {
            self.cpus.release(token);
        }
    }
}

#[inline(always)]
fn request(wanted: &Move, flags: Flags) -> Request {
    Request {
        size: Size::Order(wanted.order()),
        hint: wanted.hint,
        flags: Flags::from_bits(flags.bits() | wanted.flags().bits()),
    }
}

impl<A: FrameAllocator<ReplayPlatform<B>> + ?Sized, B: ReadableProbe> Adapter
    for SystemAdapter<'_, A, B>
{
    #[inline(always)]
    fn allocate(&mut self, wanted: &Move) -> u32 {
        let cpu = &mut self.tokens[usize::from(wanted.token)];
        match self.system.allocate(cpu, request(wanted, self.flags)) {
            Ok(pfn) => pfn.0,
            Err(error) => self.retry_until_served(wanted, error),
        }
    }

    #[inline(always)]
    fn free(&mut self, release: &Move, place: u32) {
        let cpu = &mut self.tokens[usize::from(release.token)];
        let start = Index(place);
        let whole = Release::block(Block {
            start,
            order: release.order(),
        });
        let release = match release.kind {
            MoveKind::FreePart => {
                Release::frames(start, release.order().frames()).with_hint(release.hint)
            }
            _ => whole.with_hint(release.hint),
        };
        if self.system.free(cpu, release).is_err() {
            self.trouble.failed += 1;
        }
    }

    fn park(&mut self) {
        for token in &mut self.tokens {
            self.system.park(token);
        }
    }

    #[inline]
    fn counts(&mut self, token: u16) -> Counts {
        self.tokens[usize::from(token)].probe().read()
    }

    fn kept(&mut self, token: u16) -> u64 {
        let cpu = self.tokens[usize::from(token)].id();
        self.system.buffered_frames(cpu)
    }

    fn snapshot(&mut self) -> Option<Snapshot> {
        let cpu = self.tokens.first_mut()?;
        Some(self.system.snapshot(cpu))
    }

    fn listed(&mut self) -> Vec<u32> {
        let buffered = self.snapshot().map_or(0, |own| own.buffered_frames);
        listed(self.system, buffered)
    }

    fn trouble(&self) -> Trouble {
        self.trouble
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy::Class;
    use everybuddy_trace::{Event, Op, Trace, resolve};

    #[test]
    fn listed_frames_are_found_without_a_look_at_each_frame() {
        for name in ["everybuddy+order=16", "lbs-31", "linux-6", "nbbs"] {
            let spec = name.parse().unwrap();
            let memory = Memory::fresh(1 << 16);
            let looks = std::cell::Cell::new(0);
            let visit = |system: &AnySystem<'_, Watch>| {
                let cpus = NativeCpus::new(1);
                let mut cpu = cpus.claim_probed(CpuId(0)).unwrap();
                for _ in 0..100 {
                    let held: Vec<_> = [3, 0, 0, 1]
                        .map(|order| {
                            let request = Request::order(everybuddy::Order::new(order).unwrap());
                            (system.allocate(&mut cpu, request).unwrap(), request.size)
                        })
                        .into();
                    for (start, size) in &held[1..] {
                        let release = Release {
                            size: *size,
                            ..Release::frame(*start)
                        };
                        system.free(&mut cpu, release).unwrap();
                    }
                }
                let state = |frame| {
                    looks.set(looks.get() + 1);
                    system.frame_state(Index(frame))
                };
                let found = listed_by(&state, u64::MAX);
                let is_listed = |frame: &u32| {
                    let state = system.frame_state(Index(*frame));
                    matches!(state, Some(FrameState::Buffered { .. }))
                };
                let all: Vec<u32> = (0..1 << 16).filter(is_listed).collect();
                assert_eq!(found, all, "{name}");
            };
            Arena::default()
                .build_any(&spec, &memory, 1, visit)
                .unwrap();
            assert!(looks.get() < 2_000, "{name}: {} looks", looks.get());
        }
    }

    #[test]
    fn a_request_has_the_class_of_its_move_and_the_flags_of_its_thread() {
        let event = Event {
            migratetype: 2,
            ..Event::new(0, 0, 1, Op::Allocate, 0, 3)
        };
        let trace = Trace {
            events: vec![event],
            ..Trace::default()
        };
        let script = crate::replay::script::Script::new("t", &resolve(&trace).unwrap(), None);
        let own = script.unwrap().lanes[0].moves[0];
        for flags in [Flags::NONE, Flags::NO_WAIT] {
            let request = request(&own, flags);
            assert_eq!(request.flags.class(), Class::Reclaimable);
            assert_eq!(
                request.flags.contains(Flags::NO_WAIT),
                flags == Flags::NO_WAIT
            );
        }
    }
}
