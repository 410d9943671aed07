//! The search for a space that can serve a request.
//!
//! A request tries the CPU's own space first, then an unassigned one in exchange for it, then the spaces of other
//! CPUs. This order, and the locks held meanwhile, are defined here. With `exchange=single` a larger block comes from
//! an unassigned space that stays unassigned: where one request in a hundred is for 2 MiB, exchanges break up a space
//! per such request.
//!
//! # Source
//! \[iBuddy\] §5, algorithm 1; §3.2 for sharing.
//!
//! # Invariants
//! The pool is informed about a space while that space's lock is held. A CPU never holds the locks of two spaces.

use super::Caller;
use super::pool::NO_SPACE;
use super::space::Space;
use super::spaces::Spaces;
use crate::coalesce::Coalesce;
use crate::error::AllocateError;
use crate::frame::Order;
use crate::lock::Guard;
use crate::platform::Platform;
use crate::probe::{Event, Probe};
use crate::structure::Placed;

/// How often a request starts over because spaces were reassigned, or frames were freed, meanwhile.
const ATTEMPTS: u32 = 64;

impl<'a, P: Platform, S: Placed<'a, P>, C: Coalesce<P, S>> Spaces<'a, P, S, C> {
    /// Returns how often spaces were reassigned, and how much was freed, so far. If it is the same before and after a
    /// search of all spaces, what the search saw was true of all of them at its end. O(CPUs + shards), or O(spaces) if
    /// spaces are fixed.
    fn changes(&self) -> (u32, u32) {
        let given = |index: u32| {
            let space = self.spaces.get(index as usize);
            space.map_or(0, Space::given_hint)
        };
        let sum = |all: &mut dyn Iterator<Item = u32>| all.map(given).fold(0, u32::wrapping_add);
        // What is freed into an unassigned space that had no such block changes the pool.
        let moves = self.pool.moves();
        let given = if self.pool.is_fixed() {
            sum(&mut (0..self.spaces.len() as u32))
        } else {
            sum(&mut (0..self.pool.cpus()).map(|cpu| self.pool.of(cpu)))
        };
        (moves, given)
    }

    /// Calls `work` on the first space that can serve it: the CPU's own, an unassigned one, or another CPU's. `work`
    /// returns its result and the number of frames that left the space.
    #[inline]
    pub(super) fn try_spaces<R>(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        mut work: impl FnMut(&Space<'a, P, S>, &mut Guard<'_, P>) -> Option<(R, u32)>,
    ) -> Result<R, AllocateError> {
        let cpu = caller.cpu.index();
        for _ in 0..ATTEMPTS {
            let own = self.pool.of(cpu);
            let Some(space) = self.spaces.get(own as usize) else {
                if self.exchange(caller, None, order)? {
                    continue;
                } else {
                    break;
                }
            };
            let (cpu, nested, class) = (caller.cpu, caller.nested, caller.class);
            let mut guard = caller.enter(&space.lock).ok_or(AllocateError::Busy)?;
            // A nested request may have exchanged the space since it was looked up. A request that is nested itself
            // cannot wait for the pool.
            if nested && !space.is_assigned() {
                return Err(AllocateError::Busy);
            }
            if let Some((result, frames)) = work(space, &mut guard) {
                space.take(frames);
                self.update_pool(own, space, guard.probe);
                return Ok(result);
            }
            // The lock stays held: what the pool is told about the old space must be true when the pool records it.
            let mut inner = Caller {
                cpu,
                probe: guard.probe,
                nested,
                found_held: false,
                class,
            };
            if !self.exchange(&mut inner, Some((own, space)), order)? {
                break;
            }
        }
        self.serve_from_peer(caller, order, work)
    }

    /// Exchanges the CPU's space, whose lock the caller holds, for an unassigned one that can serve `order`. Returns
    /// `true` if there was one. Otherwise, or if the request does not justify an exchange, the CPU keeps its space.
    #[cold]
    fn exchange(
        &self,
        caller: &mut Caller<'_, P>,
        old: Option<(u32, &Space<'a, P, S>)>,
        order: Order,
    ) -> Result<bool, AllocateError> {
        let may_keep = !caller.nested || self.pool.is_fixed();
        if self.pool.keeps_space(order) && old.is_some() && may_keep {
            return Ok(false);
        }
        let cpu = caller.cpu.index();
        let own = old.map(|(index, _)| self.pool.shard_of(index));
        for (turn, shard) in self.pool.shards_from(cpu).enumerate() {
            // The home shard is asked under its lock, the others only if they seem to have something.
            if turn > 0 && !self.pool.may_serve(shard) {
                continue;
            }
            // Locks of shards are acquired in the order of their numbers.
            let other = own.filter(|own| *own != shard);
            let first = other.map_or(shard, |other| other.min(shard));
            let first = self
                .pool
                .enter(first, caller.probe, caller.nested)
                .ok_or(AllocateError::Busy)?;
            let second = match other {
                Some(other) => {
                    let second = other.max(shard);
                    let second = self.pool.enter(second, first.probe, caller.nested);
                    Some(second.ok_or(AllocateError::Busy)?)
                }
                None => None,
            };
            let Some(new) = self.pool.candidate(shard, order) else {
                continue;
            };
            if let Some((index, space)) = old
                && self.pool.release(cpu, index)
            {
                self.pool.settle(index, space.state());
            }
            if self.pool.assign(cpu, new) {
                drop(second);
                if old.is_some() {
                    first.probe.record(Event::Exchange);
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Serves a request from an unassigned space that can, without assigning it. Returns `None` if there is none.
    #[cold]
    fn serve_from_unassigned<R>(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        work: &mut impl FnMut(&Space<'a, P, S>, &mut Guard<'_, P>) -> Option<(R, u32)>,
    ) -> Result<Option<R>, AllocateError> {
        for _ in 0..ATTEMPTS {
            let Some(index) = self.unassigned(caller, order)? else {
                return Ok(None);
            };
            if let Some(result) = self.try_unassigned(caller, index, &mut *work)? {
                return Ok(Some(result));
            }
        }
        Ok(None)
    }

    /// Returns an unassigned space that could serve a request when the pool was asked.
    fn unassigned(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
    ) -> Result<Option<u32>, AllocateError> {
        for shard in self.pool.shards_from(caller.cpu.index()) {
            let pool = self.pool.enter(shard, caller.probe, caller.nested);
            let _pool = pool.ok_or(AllocateError::Busy)?;
            if let Some(space) = self.pool.candidate(shard, order) {
                return Ok(Some(space));
            }
        }
        Ok(None)
    }

    /// Serves a request from another CPU's space, and shares that space from then on. If the CPU keeps its own space,
    /// an unassigned space comes first, and no space is shared.
    #[cold]
    fn serve_from_peer<R>(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        mut work: impl FnMut(&Space<'a, P, S>, &mut Guard<'_, P>) -> Option<(R, u32)>,
    ) -> Result<R, AllocateError> {
        let own = caller.cpu.index();
        if self.pool.keeps_space(order)
            && !caller.nested
            && let Some(result) = self.serve_from_unassigned(caller, order, &mut work)?
        {
            return Ok(result);
        }
        for _ in 0..ATTEMPTS {
            let changes = self.changes();
            let mut was_busy = false;
            // CPUs start at their own place, so that they do not all share the space of the first CPU.
            let is_fixed = self.pool.is_fixed();
            let turns = if is_fixed {
                self.spaces.len()
            } else {
                self.pool.cpus()
            };
            for turn in 0..turns {
                let peer = (own + turn) % turns;
                // Fixed spaces have the numbers of the CPUs that prefer them.
                let index = if is_fixed {
                    peer as u32
                } else {
                    self.pool.of(peer)
                };
                let Some(space) = self.spaces.get(index as usize) else {
                    continue;
                };
                let nested = caller.nested;
                let Some(mut guard) = caller.enter(&space.lock) else {
                    was_busy = true;
                    continue;
                };
                if nested && !space.is_assigned() {
                    was_busy = true;
                    continue;
                }
                if let Some((result, frames)) = work(space, &mut guard) {
                    space.take(frames);
                    self.update_pool(index, space, guard.probe);
                    drop(guard);
                    if peer != own && !caller.nested && !self.pool.keeps_space(order) {
                        self.assign_shared(caller, index);
                    }
                    return Ok(result);
                }
            }
            if was_busy {
                return Err(AllocateError::Busy);
            }
            // A space that was unassigned before may be assigned now, and the reverse.
            match self.unassigned(caller, order)? {
                Some(index) => {
                    if let Some(result) = self.try_unassigned(caller, index, &mut work)? {
                        return Ok(result);
                    }
                }
                None if self.changes() == changes => return Err(AllocateError::Exhausted),
                None => {}
            }
        }
        Err(AllocateError::Busy)
    }

    /// Serves a request from an unassigned space, without assigning it.
    fn try_unassigned<R>(
        &self,
        caller: &mut Caller<'_, P>,
        index: u32,
        mut work: impl FnMut(&Space<'a, P, S>, &mut Guard<'_, P>) -> Option<(R, u32)>,
    ) -> Result<Option<R>, AllocateError> {
        let Some(space) = self.spaces.get(index as usize) else {
            return Ok(None);
        };
        if caller.nested {
            return Err(AllocateError::Busy);
        }
        let mut guard = Guard::lock(&space.lock, caller.probe);
        Ok(work(space, &mut guard).map(|(result, frames)| {
            space.take(frames);
            self.update_pool(index, space, guard.probe);
            result
        }))
    }

    /// Assigns a CPU a space that other CPUs share.
    fn assign_shared(&self, caller: &mut Caller<'_, P>, index: u32) {
        let cpu = caller.cpu.index();
        let old = self.pool.of(cpu);
        if let Some(space) = self.spaces.get(old as usize) {
            let guard = Guard::lock(&space.lock, caller.probe);
            let shard = self.pool.shard_of(old);
            let Some(_pool) = self.pool.enter(shard, guard.probe, false) else {
                return;
            };
            if self.pool.release(cpu, old) {
                self.pool.settle(old, space.state());
            }
        }
        let shard = self.pool.shard_of(index);
        let Some(pool) = self.pool.enter(shard, caller.probe, false) else {
            return;
        };
        if self.pool.is_assigned(index) && self.pool.assign(cpu, index) {
            if old != NO_SPACE {
                pool.probe.record(Event::Exchange);
            }
            pool.probe.record(Event::Share);
        }
    }
}
