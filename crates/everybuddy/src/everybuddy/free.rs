//! Frees: into a list, or elsewhere.
//!
//! A block that enters no list goes [back to its tree](super::put_back), and so does a run. Small blocks of one word
//! that are freed one after the other are gathered, so that one change serves all but the first, in whatever tree they
//! lie.
//!
//! # Invariants
//! A free is checked by the byte of its first frame, or by those of its pieces, before it changes anything else.

use crate::bit_runs::{WORD, block};
use crate::error::FreeError;
use crate::frame::{Index, Order};
use crate::lock::Section;
use crate::platform::{AtomicWord, CpuToken, Ordering, Platform, SharedCell, WaitLimit};
use crate::probe::{Event, Probe};
use crate::request::Size;

use super::OwnedTrees;
use super::heads::kind_of;
use super::local::{List, Local};
use super::tree::Part;
use super::wanted::is_large;

impl<P: Platform> OwnedTrees<'_, P> {
    /// Frees a large block, or what is not a block of the kind that was freed last.
    #[cold]
    #[inline(never)]
    pub(super) fn free_other(
        &self,
        cpu: &mut P::Cpu,
        start: Index,
        size: Size,
    ) -> Result<(), FreeError> {
        let Some(local) = self.local(cpu.id()) else {
            return Err(FreeError::NoSuchCpu);
        };
        let order = self.order_of(start, size);
        let taken = order.and_then(|order| {
            let kind = self.shared.heads.take(start.0, order)?;
            Some((order, kind))
        });
        let Some((order, kind)) = taken else {
            return self.free_part(cpu, local, start, size);
        };
        local.last.set(kind as u8);
        match local.list(order, kind) {
            Some(list) => self.free_of_list(cpu, local, list, (start.0, order)),
            None => self.free_unlisted(cpu, local, start.0, order),
        }
    }

    /// Frees a block that was checked by its head: into the list, if it lies at or below the first-fit point and the
    /// list has room, or elsewhere. The calls are the last thing that it does, so that a hit saves no registers.
    #[inline(always)]
    pub(super) fn free_of_list(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        list: &List<'_, P>,
        (start, order): (u32, Order),
    ) -> Result<(), FreeError> {
        if start > list.point.get() {
            return self.free_unlisted(cpu, local, start, order);
        }
        if local.push(list, start) {
            return Ok(());
        }
        self.free_beside(cpu, local, start, order)
    }

    /// Frees a block of the last kind that the list has no room for, or while the CPU may keep nothing.
    #[cold]
    #[inline(never)]
    fn free_beside(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        start: u32,
        order: Order,
    ) -> Result<(), FreeError> {
        let head = local.last_head(order);
        let list = local.lists.get(usize::from(head));
        // A list that holds nothing in this memory is full and empty: it is not used up.
        if let Some(list) = list.filter(|list| list.is_full() && !list.is_empty()) {
            if is_large(order) {
                // Small requests need not search anew: other trees serve them.
                list.point.set(0);
            } else {
                local.start_over(list, kind_of(head));
            }
        }
        self.free_unlisted(cpu, local, start, order)
    }

    /// Frees a block of the last kind that does not enter its list by address, after it was checked by its head: with
    /// others of its word, if the one before was of that word.
    #[inline(never)]
    fn free_unlisted(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        start: u32,
        order: Order,
    ) -> Result<(), FreeError> {
        if local.gather(start, order) {
            return Ok(());
        }
        self.free_ungathered(cpu, local, start, order)
    }

    /// Frees such a block, and lets the CPU gather further ones of its word.
    #[inline(never)]
    fn free_ungathered(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        start: u32,
        order: Order,
    ) -> Result<(), FreeError> {
        if local.fitting.is_on() {
            return self.free_in_shortage(cpu, local, start, order);
        }
        local.gather_next(&self.shared, start);
        self.free_into_tree(cpu, local, start, order)
    }

    /// Frees a block in a shortage: a small one into its list, unless its buddy is free. Then both become one block.
    #[inline(never)]
    fn free_in_shortage(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        start: u32,
        order: Order,
    ) -> Result<(), FreeError> {
        if !is_large(order)
            && let Some(part) = self.shared.trees.part(start ^ order.frames())
            && let Some(list) = local.lists.get(usize::from(local.last_head(order)))
        {
            let buddy = part.frames.wrapping_mul(block(order));
            if part.word.free_hint() & buddy != buddy && local.push(list, start) {
                return Ok(());
            }
        }
        self.free_into_tree(cpu, local, start, order)
    }

    /// Frees a block into its tree.
    #[inline(always)]
    fn free_into_tree(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        start: u32,
        order: Order,
    ) -> Result<(), FreeError> {
        let is_freed = if is_large(order) {
            let words = order.frames() / WORD;
            order <= self.largest_hit && local.free_words(&self.shared, start, words)
        } else {
            self.shared.trees.part(start).is_some_and(|part| {
                // The bits from the first frame on, below the one after the last frame.
                let frames = (part.frames << order.frames()).wrapping_sub(part.frames);
                let part = Part { frames, ..part };
                local.give(&self.shared, &part, start, order.frames())
            })
        };
        if is_freed {
            return Ok(());
        }
        self.free_checked(cpu, local, start, order.frames())
    }

    /// Frees frames by count, or a block that was not allocated as such: an earlier free left it of an allocation, or
    /// it is misuse.
    #[inline(never)]
    pub(super) fn free_part(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        start: Index,
        size: Size,
    ) -> Result<(), FreeError> {
        let (start, frames) = self.checked(start, size, false)?;
        if local.free_run(&self.shared, start, frames) {
            return Ok(());
        }
        self.free_checked(cpu, local, start, frames)
    }

    /// Frees what did not hit, after its place and size were checked.
    #[inline(never)]
    fn free_checked(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        start: u32,
        frames: u32,
    ) -> Result<(), FreeError> {
        let open = self.begin_free(local, (start, frames));
        let freed = match self.shared.trees.part_of_word(start, frames) {
            Some(part) if local.put_back(&self.shared, open, &part) => Ok(()),
            Some(_) => Err(self.diagnose(start, frames)),
            None => self.free_words(local, open, start, frames),
        };
        if freed.is_ok() {
            if frames < WORD
                && let Some(part) = self.shared.trees.part_of_word(start, frames)
            {
                local.pass_over(part.header.kind_hint(), start, frames);
            }
            let order = Order::covering(frames).unwrap_or(self.max_order);
            P::probe(cpu).record(Event::Bypass(order));
        }
        freed
    }

    /// Checks a free. Returns the first frame and the number of frames. They have no heads afterwards. The free of a
    /// part waits for CPUs that divide pieces, but not without a bound; a nested one does not wait.
    pub(super) fn checked(
        &self,
        start: Index,
        size: Size,
        is_nested: bool,
    ) -> Result<(u32, u32), FreeError> {
        let heads = &self.shared.heads;
        let (first, frames) = match size {
            Size::Order(order) if heads.take(start.0, order).is_some() => {
                return Ok((start.0, order.frames()));
            }
            Size::Order(order) if heads.is_left(start.0, order) => (start.0, order.frames()),
            Size::Order(order) => {
                // Another CPU, whose free is misuse, may have claimed it for a moment.
                let is_racing = heads.is_piece(start.0, order) || heads.is_claimed_at(start.0);
                let busy = is_racing.then_some(FreeError::Busy);
                return Err(busy.unwrap_or_else(|| self.misused(start, size)));
            }
            Size::Frames(_) => self.named(start, size)?,
        };
        if heads.take_pieces(first, frames) {
            return Ok((first, frames));
        }
        let _section = Section::<P>::begin();
        if !self.begin_to_divide(is_nested) {
            return Err(FreeError::Busy);
        }
        let is_taken = heads.take_run(first, frames);
        // Pairs with the Acquire of the next CPU that divides.
        self.divides.store(0, Ordering::Release);
        P::wake(&self.divides);
        if is_taken {
            Ok((first, frames))
        } else if heads.is_claimed(first, frames) {
            Err(FreeError::Busy)
        } else {
            Err(self.diagnose(first, frames))
        }
    }

    /// Waits until no other CPU divides pieces. Returns `false` if one stopped meanwhile.
    fn begin_to_divide(&self, is_nested: bool) -> bool {
        let (mut polls, mut limit) = (0, WaitLimit::<P>::new());
        // Acquire: pairs with the Release of the CPU that divided before, whose pieces are visible then.
        while self
            .divides
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            if is_nested || limit.is_over(polls) {
                return false;
            }
            P::wait(&self.divides, 1, polls);
            polls = polls.saturating_add(1);
        }
        true
    }

    /// Says what is wrong with a free by order.
    #[cold]
    #[inline(never)]
    fn misused(&self, start: Index, size: Size) -> FreeError {
        match self.shared.heads.block_of(start) {
            Some((head, order)) if head != start => FreeError::InsideBlock { order },
            Some((_, allocated)) if Size::Order(allocated) != size => {
                FreeError::WrongOrder { allocated }
            }
            _ => match self.named(start, size) {
                Ok((start, _)) => self.diagnose(start, 1),
                Err(error) => error,
            },
        }
    }
}
