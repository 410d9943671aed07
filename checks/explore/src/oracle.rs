//! What the interface promises, on sets of frames: which results are right, and which state follows.
//!
//! # Invariants
//! The oracle knows nothing of a system but what [`Promises`] says. It judges by the frames that were given and freed.

use everybuddy::systems::{ListKind, ZoneKind};
use everybuddy::{
    AllocateError, Block, FrameAllocator, FrameState, FreeError, Index, Node, Order, Pfn,
    RegionError, Release, Request, Size, Span, SystemSpec, Visit,
};
use everybuddy_explore::platform::{Explored, Token};

use crate::step::{Operation, Outcome, Refusal, Step, bits, frames_of, order};

/// The most frames of a span.
pub(crate) const MOST_FRAMES: usize = 16;
/// No allocated block starts at a frame.
const NONE: u8 = u8::MAX;

/// What a system promises.
pub(crate) struct Promises {
    /// The span.
    pub(crate) span: Span,
    /// The largest order.
    pub(crate) largest: u32,
    /// The CPUs.
    pub(crate) cpus: u16,
    /// Whether the system records the orders of allocations.
    pub(crate) knows_orders: bool,
    /// Whether free frames can lie in lists, queues, or trees that a CPU owns.
    pub(crate) keeps_frames: bool,
}

impl Promises {
    /// Returns those of a system.
    pub(crate) fn of(spec: &SystemSpec, system: &dyn FrameAllocator<Explored>) -> Self {
        let row = spec.row();
        let keeps_frames = row.list != ListKind::None
            || row.zone() == ZoneKind::Owned
            || !system.services().is_empty();
        Self {
            span: *system.span(),
            largest: system.max_order().get().into(),
            cpus: system.cpus(),
            knows_orders: row.knows_orders(),
            keeps_frames,
        }
    }
}

/// Sets of frames, by bit, and the orders of allocated blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Oracle {
    /// Allocated frames.
    pub(crate) allocated: u64,
    /// Frames with memory.
    pub(crate) present: u64,
    /// Reserved frames.
    pub(crate) reserved: u64,
    /// For each frame at which an allocated block starts, the order.
    orders: [u8; MOST_FRAMES],
}

/// Why a result is wrong.
pub(crate) type Fault = String;

impl Oracle {
    /// Memory that is all free.
    pub(crate) fn new(present: u64) -> Self {
        Self {
            allocated: 0,
            present,
            reserved: 0,
            orders: [NONE; MOST_FRAMES],
        }
    }

    /// Returns the free frames.
    pub(crate) fn free(&self) -> u64 {
        self.present & !self.allocated & !self.reserved
    }

    fn are_free(&self, start: u32, frames: u32) -> bool {
        bits(start, frames) & !self.free() == 0
    }

    /// Returns `true` if an aligned block of this order is free, for which `suits` holds.
    fn has_block(&self, promises: &Promises, order: u32, suits: impl Fn(u32) -> bool) -> bool {
        let starts = (0..promises.span.frames()).step_by(1 << order);
        starts
            .into_iter()
            .any(|start| self.are_free(start, 1 << order) && suits(start))
    }

    /// Notes that a run was allocated, in aligned blocks.
    fn take(&mut self, promises: &Promises, start: u32, frames: u32) -> Result<(), Fault> {
        if start + frames > promises.span.frames() || !self.are_free(start, frames) {
            return Err("frames are given that are not free".into());
        }
        self.allocated |= bits(start, frames);
        self.record(promises, start, frames);
        Ok(())
    }

    /// Records the blocks of a run.
    fn record(&mut self, promises: &Promises, start: u32, frames: u32) {
        let largest = if promises.knows_orders {
            promises.largest
        } else {
            0
        };
        for block in Block::cover(Index(start), frames, order(largest)) {
            self.orders[block.start.as_usize()] = block.order.get();
        }
    }

    /// Returns the allocated block that contains a frame: its start and its order.
    pub(crate) fn block_of(&self, frame: u32) -> Option<(u32, u32)> {
        let start = (0..=frame)
            .rev()
            .find(|start| self.orders[*start as usize] != NONE)?;
        let order = u32::from(self.orders[start as usize]);
        (frame < start + (1 << order)).then_some((start, order))
    }

    /// Returns `true` if a release is one of an allocated block by its order.
    pub(crate) fn is_block(&self, release: Release) -> bool {
        let start = release.start.as_usize();
        matches!(release.size, Size::Order(order) if self.orders.get(start) == Some(&order.get()))
    }

    /// Returns `true` if a release is one of the first two or three frames of an allocation, or of one frame.
    pub(crate) fn is_part(&self, release: Release) -> bool {
        let (start, frames) = (release.start.0, frames_of(release.size));
        let is_first = (start as usize) < MOST_FRAMES && self.orders[start as usize] != NONE;
        matches!(release.size, Size::Frames(_))
            && bits(start, frames) & !self.allocated == 0
            && (frames == 1 || is_first && (2..4).contains(&frames))
    }

    /// Notes that allocated frames were freed. What is left of their blocks is pieces.
    fn give(&mut self, promises: &Promises, start: u32, frames: u32) {
        let mut at = start;
        while at < start + frames {
            let Some((first, order)) = self.block_of(at) else {
                return;
            };
            let end = first + (1 << order);
            self.orders[first as usize] = NONE;
            self.record(promises, first, start.saturating_sub(first));
            self.record(
                promises,
                end.min(start + frames),
                end.saturating_sub(start + frames),
            );
            at = end;
        }
        self.allocated &= !bits(start, frames);
    }

    /// Judges the result of a request for a run that starts at a multiple of `alignment`.
    fn given(&mut self, promises: &Promises, request: Request, start: Index) -> Result<(), Fault> {
        let frames = frames_of(request.size);
        if frames == 0 || !start.0.is_multiple_of(frames.next_power_of_two()) {
            return Err("a block is given that is not aligned".into());
        }
        self.take(promises, start.0, frames)
    }

    /// Judges why a request was refused. `suits` says whether a free block could serve it.
    fn refused(
        &self,
        promises: &Promises,
        step: &Step,
        request: Request,
        error: AllocateError,
        suits: impl Fn(u32) -> bool,
    ) -> Result<(), Fault> {
        let frames = frames_of(request.size);
        let fit = Order::covering(frames).map_or(u32::MAX, |order| order.get().into());
        let could = || self.has_block(promises, fit, suits);
        let is_right = match error {
            AllocateError::NoSuchCpu => step.cpu >= promises.cpus,
            _ if step.cpu >= promises.cpus => false,
            AllocateError::ZeroFrames => frames == 0,
            AllocateError::TooLarge { largest } => {
                frames > 0 && fit > promises.largest && u32::from(largest.get()) == promises.largest
            }
            AllocateError::Exhausted | AllocateError::Busy if fit > promises.largest => false,
            AllocateError::Exhausted if could() => {
                let size = if fit == 0 { "frame" } else { "block" };
                return Err(format!("exhausted although a {size} is free"));
            }
            AllocateError::Exhausted => true,
            AllocateError::Busy => promises.keeps_frames || promises.cpus > 1,
        };
        if is_right {
            Ok(())
        } else {
            Err(format!("refused as {}", variant(&error)))
        }
    }

    /// Judges a free, and notes it.
    fn freed(
        &mut self,
        promises: &Promises,
        step: &Step,
        release: Release,
        error: Option<FreeError>,
    ) -> Result<(), Fault> {
        let (start, frames) = (release.start.0, frames_of(release.size));
        let span = promises.span.frames();
        let are_held = start + frames <= span && bits(start, frames) & !self.allocated == 0;
        let is_right = step.cpu < promises.cpus
            && frames > 0
            && are_held
            && match release.size {
                Size::Frames(_) => true,
                Size::Order(_) if !promises.knows_orders => start % frames == 0,
                Size::Order(order) => self.orders[start as usize] == order.get(),
            };
        let Some(error) = error else {
            if !is_right {
                return Err("misuse is accepted".into());
            }
            self.give(promises, start, frames);
            return Ok(());
        };
        if error == FreeError::Busy && promises.cpus > 1 {
            return Ok(());
        }
        if is_right {
            return Err(format!("a free is refused as {}", variant(&error)));
        }
        let any = |set: u64| bits(start, frames.min(63)) & set != 0;
        let is_reason = match error {
            FreeError::NoSuchCpu => step.cpu >= promises.cpus,
            FreeError::ZeroFrames => frames == 0,
            FreeError::Foreign => frames > 0 && start + frames > span,
            FreeError::Hole => any(!self.present & bits(0, span)),
            FreeError::Reserved => any(self.reserved),
            FreeError::NotAllocated => any(self.free()),
            FreeError::InsideBlock { order } => self
                .block_of(start)
                .is_some_and(|(head, size)| head != start && size == u32::from(order.get())),
            FreeError::WrongOrder { allocated } => {
                self.orders.get(start as usize) == Some(&allocated.get())
            }
            FreeError::Busy => false,
        };
        if is_reason {
            Ok(())
        } else {
            Err(format!("misuse is refused as {}", variant(&error)))
        }
    }

    /// Judges an operation on a range that needs all frames to be in `needed`.
    fn ranged(
        &self,
        promises: &Promises,
        step: &Step,
        (start, frames): (u32, u32),
        needed: u64,
        error: Option<RegionError>,
    ) -> Result<(), Fault> {
        let is_inside = start + frames <= promises.span.frames();
        let is_right = frames > 0 && is_inside && bits(start, frames) & !needed == 0;
        let Some(error) = error else {
            return if is_right {
                Ok(())
            } else {
                Err("a range in another state is taken".into())
            };
        };
        // A frame that the error names, and whether it is the first one in another state.
        let named = |frame: Pfn, is_first: bool| {
            let Some(frame) = promises.span.index(frame) else {
                return false;
            };
            let other = bits(start, frames) & !needed;
            let is_it = if is_first {
                frame.0 == other.trailing_zeros()
            } else {
                other >> frame.0 & 1 == 1
            };
            other != 0 && is_it
        };
        let (at, tries) = (
            matches!(step.operation, Operation::AllocateAt(..)),
            matches!(step.operation, Operation::TryAllocateAt(..)),
        );
        let is_reason = match error {
            RegionError::Empty => frames == 0,
            RegionError::OutsideSpan => frames > 0 && !is_inside,
            RegionError::AlreadyManaged(frame) => {
                matches!(step.operation, Operation::Add(..)) && named(frame, false)
            }
            RegionError::NotReserved(frame) => {
                matches!(step.operation, Operation::Unreserve(..)) && named(frame, false)
            }
            // What a list keeps is not free for a call that drains none.
            RegionError::NotFree(_) if tries && promises.keeps_frames => true,
            RegionError::NotFree(frame) => named(frame, at),
            RegionError::Busy => promises.cpus > 1 || tries && promises.keeps_frames,
            RegionError::NoSuchCpu => false,
        };
        match is_reason {
            true => Ok(()),
            false if is_right => Err(format!("a range is refused as {}", variant(&error))),
            false => Err(format!(
                "a range in another state is refused as {}",
                variant(&error)
            )),
        }
    }

    /// Judges what a step returned, and becomes the state that follows.
    ///
    /// # Errors
    /// Why the result is wrong.
    pub(crate) fn judge(
        &mut self,
        promises: &Promises,
        step: &Step,
        outcome: &Outcome,
    ) -> Result<(), Fault> {
        let region = match outcome.refusal {
            Some(Refusal::Region(error)) => Some(error),
            _ => None,
        };
        let fits = |_: u32| true;
        match (step.operation, outcome.refusal) {
            (
                Operation::Allocate(request)
                | Operation::AllocateNested(request)
                | Operation::AllocateBulk(request),
                Some(Refusal::Allocate(error)),
            ) => self.refused(promises, step, request, error, fits),
            (Operation::Allocate(request) | Operation::AllocateNested(request), None) => {
                self.given(promises, request, outcome.given[0].start)
            }
            (Operation::AllocateBulk(request), None) => {
                for run in outcome.runs() {
                    self.given(promises, request, run.start)?;
                }
                let fit = frames_of(request.size).trailing_zeros();
                let is_short = outcome.count < outcome.given.len();
                let may_be = promises.cpus > 1 || !self.has_block(promises, fit, fits);
                let is_wrong = is_short && !may_be || outcome.count == 0;
                ensure(!is_wrong, || "exhausted although a block is free".into())
            }
            (Operation::AllocateIn(request, place), result) => {
                let frames = frames_of(request.size);
                let is_here = !matches!(place.node, Node::Only(1..));
                let holds = |start: u32| {
                    is_here && place.holds(promises.span.physical(Index(start)), frames)
                };
                match result {
                    Some(Refusal::Allocate(error)) => {
                        self.refused(promises, step, request, error, holds)
                    }
                    _ if !holds(outcome.given[0].start.0) => {
                        Err("frames are given outside the place".into())
                    }
                    _ => self.given(promises, request, outcome.given[0].start),
                }
            }
            (Operation::AllocateRuns(frames, least), Some(Refusal::Allocate(error))) => {
                let fit = frames
                    .max(least.frames())
                    .next_power_of_two()
                    .trailing_zeros();
                match error {
                    AllocateError::Exhausted if self.has_block(promises, fit, fits) => {
                        Err("exhausted although a block is free".into())
                    }
                    AllocateError::Exhausted | AllocateError::TooLarge { .. } => {
                        let is_too_large = u32::from(least.get()) > promises.largest;
                        let is_right = is_too_large == (error != AllocateError::Exhausted);
                        ensure(is_right, || format!("refused as {}", variant(&error)))
                    }
                    _ => self.refused(promises, step, Request::FRAME, error, fits),
                }
            }
            (Operation::AllocateRuns(frames, least), None) => {
                let total: u32 = outcome.runs().iter().map(|run| run.frames).sum();
                let (_, most) = outcome.runs().split_last().ok_or("no run is given")?;
                if total != frames || most.iter().any(|run| run.frames < least.frames()) {
                    return Err("the runs are others than asked for".into());
                }
                outcome
                    .runs()
                    .iter()
                    .try_for_each(|run| self.take(promises, run.start.0, run.frames))
            }
            (Operation::Free(release) | Operation::FreeNested(release), refusal) => {
                let error = match refusal {
                    Some(Refusal::Free(error)) => Some(error),
                    _ => None,
                };
                self.freed(promises, step, release, error)
            }
            (Operation::FreeBulk(first, second), refusal) => {
                let failed = match refusal {
                    Some(Refusal::Bulk(error)) => Some(error),
                    _ => None,
                };
                for (index, start) in [first, second].into_iter().enumerate() {
                    let error = failed.filter(|failed| failed.index == index);
                    let release = Release::frames(Index(start), 1);
                    self.freed(promises, step, release, error.map(|failed| failed.error))?;
                    if error.is_some() {
                        break;
                    }
                }
                Ok(())
            }
            (Operation::VisitFree(size, visit), _) => {
                let frames = size.frames();
                let all = (0..promises.span.frames()).step_by(frames as usize);
                let free: u64 = all
                    .filter(|start| self.are_free(*start, frames))
                    .map(|start| bits(start, frames))
                    .sum();
                if outcome.visited & !free != 0 {
                    return Err("a block is visited that is not free".into());
                }
                let should = !promises.keeps_frames && promises.cpus == 1;
                let is_kept = visit == Visit::KeepAndStop;
                if is_kept && (outcome.count == 1) != (outcome.visited != 0) {
                    return Err("the number of kept blocks is wrong".into());
                }
                if should
                    && (!is_kept && outcome.visited != free || outcome.visited == 0 && free != 0)
                {
                    return Err("a free block is not visited".into());
                }
                outcome
                    .runs()
                    .iter()
                    .try_for_each(|run| self.take(promises, run.start.0, run.frames))
            }
            (Operation::AllocateAt(start, frames) | Operation::TryAllocateAt(start, frames), _) => {
                self.ranged(promises, step, (start, frames), self.free(), region)?;
                match region {
                    None => self.take(promises, start, frames),
                    Some(_) => Ok(()),
                }
            }
            (Operation::Add(start, frames), _) => {
                let absent = !self.present & bits(0, promises.span.frames());
                self.ranged(promises, step, (start, frames), absent, region)?;
                self.present |= region.map_or(bits(start, frames), |_| 0);
                Ok(())
            }
            (Operation::Remove(start, frames), _) => {
                self.ranged(promises, step, (start, frames), self.free(), region)?;
                self.present &= !region.map_or(bits(start, frames), |_| 0);
                Ok(())
            }
            (Operation::Reserve(start, frames), _) => {
                self.ranged(promises, step, (start, frames), self.free(), region)?;
                self.reserved |= region.map_or(bits(start, frames), |_| 0);
                Ok(())
            }
            (Operation::Unreserve(start, frames), _) => {
                self.ranged(promises, step, (start, frames), self.reserved, region)?;
                self.reserved &= !region.map_or(bits(start, frames), |_| 0);
                Ok(())
            }
            (Operation::Drain | Operation::Park | Operation::Serve(_), _) => Ok(()),
            (Operation::Quiesce | Operation::DrainParked(_), None) => Ok(()),
            (
                Operation::Quiesce | Operation::DrainParked(_),
                Some(Refusal::Allocate(AllocateError::Busy)),
            ) if promises.cpus > 1 => Ok(()),
            (_, Some(refusal)) => Err(format!("refused as {refusal:?}")),
        }
    }

    /// Judges the state of a system.
    ///
    /// # Errors
    /// What differs from the oracle, or violates an invariant.
    pub(crate) fn inspect(
        &self,
        promises: &Promises,
        system: &dyn FrameAllocator<Explored>,
        states: &[Option<FrameState>],
    ) -> Result<(), Fault> {
        for (frame, state) in (0..).zip(states) {
            let is = |set: u64| set >> frame & 1 == 1;
            let is_right = match state {
                Some(FrameState::Allocated { head, order }) => {
                    self.block_of(frame) == Some((head.0, order.get().into()))
                }
                Some(FrameState::Hole) => !is(self.present),
                Some(FrameState::Reserved) => is(self.reserved),
                Some(FrameState::Free { .. }) => is(self.free()),
                Some(FrameState::Buffered { .. } | FrameState::Queued) => {
                    is(self.free()) && promises.keeps_frames
                }
                None => false,
            };
            if !is_right {
                return Err("the state of a frame is wrong".into());
            }
        }
        if system.frame_state(Index(states.len() as u32)).is_some() {
            return Err("a frame outside the span has a state".into());
        }
        let census = system
            .check(&mut Token::of(0))
            .map_err(|violation| format!("check: {}", violation.what))?;
        let number = |set: u64| u64::from(set.count_ones());
        let free = census.free + census.buffered + census.queued;
        if [census.allocated, free, census.reserved]
            != [self.allocated, self.free(), self.reserved].map(number)
        {
            return Err("check: the numbers of frames are wrong".into());
        }
        Ok(())
    }

    /// Judges free memory after all CPUs have parked and one has quiesced: its blocks are as large as can be.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn inspect_whole(
        &self,
        promises: &Promises,
        system: &dyn FrameAllocator<Explored>,
    ) -> Result<(), Fault> {
        for cpu in 1..promises.cpus {
            system.park(&mut Token::of(cpu));
        }
        let token = &mut Token::of(0);
        system
            .quiesce(token)
            .map_err(|error| format!("quiesce after all have parked returns {error:?}"))?;
        let snapshot = system.snapshot(token);
        let (mut left, mut blocks) = (self.free(), [0; Order::LIMIT.index() + 1]);
        for size in (0..=promises.largest).rev() {
            for start in (0..promises.span.frames()).step_by(1 << size) {
                let block = bits(start, 1 << size);
                if block & !left == 0 {
                    left &= !block;
                    blocks[size as usize] += 1;
                }
            }
        }
        ensure(snapshot.free_blocks == blocks, || {
            "free memory is not whole after quiesce".into()
        })
    }
}

/// Returns an error unless `is_right`.
fn ensure(is_right: bool, fault: impl FnOnce() -> Fault) -> Result<(), Fault> {
    if is_right { Ok(()) } else { Err(fault()) }
}

/// Returns the name of an error, without its fields.
fn variant(error: &impl core::fmt::Debug) -> String {
    let text = format!("{error:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}
