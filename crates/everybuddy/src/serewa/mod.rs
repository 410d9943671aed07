//! Serewa's system: whoever asks is answered from what is there, and others do the rest.
//!
//! Source: \[Serewa\] section 2.2, figure 1. Three actions are kept apart: resource management answers requests,
//! dividing cuts what remains of blocks that were larger than asked for, linking merges what was freed. Two queues
//! join them.
//!
//! Why it exists: in the standard buddy who asks for a frame waits for all the splits that it takes, and who gives one
//! back for all the merges. Here a request takes one block out and leaves the remnant behind as it is; a release is an
//! entry in a queue. A system of its own and no policy, because what its callers do is not what its services do.
//!
//! | file | what it is |
//! |---|---|
//! | `manager` | resource management: answers requests, takes releases |
//! | `services` | dividing and linking, a step at a time |
//! | `queue` | the queues |
//! | `area` | what is in them |
//! | `request_slots` | requests to a manager that runs on a thread of its own |
//! | `division` | how memory is divided in the beginning |
//!
//! Services are declared, and run by the host: on threads, or by a CPU that is idle (`serve(cpu, service, budget)`, a
//! unit of the budget for each area). Where no host runs them, requests do when they find nothing else.
//!
//! Invariants:
//! 1. A frame is in a free block, or in exactly one slot of a queue, or allocated, or in the hand of who is giving it
//!    back; also while a thread stands still before any operation of a queue. The first frame of an area in a slot or
//!    a hand is tagged with its length.
//! 2. Blocks leave the free lists for the dividing queue only under the lock; areas leave a queue for the free lists
//!    under the lock, and their slots are emptied afterwards. So who holds the lock, finds no block, and then both
//!    queues empty, has seen that memory is exhausted.
//! 3. No two buddies are both in the free lists, except where memory was divided so in the beginning.
//!
//! Decides, where the paper is silent: a queue that is full makes its caller do the work. A request that finds no
//! block does what waits in the queues, one area at a time, and waits for what others have in hand, before it fails.
//! Who files a piece of a remnant merges it if its buddy has come back meanwhile. Linking goes one level at a time,
//! and lets others at the free lists in between; so does dividing after each piece.

pub(crate) mod area;
mod manager;
mod presplit;
pub(crate) mod queue;
mod request_slots;
mod services;
#[cfg(test)]
mod tests;

pub use presplit::Presplit;

use core::marker::PhantomData;

use crate::api::Service;
use crate::arena::{Arena, ArenaPlan};
use crate::coalesce::{Coalesce, Eager};
use crate::error::BuildError;
use crate::frame::{Order, Pfn};
use crate::frame_table::{Frame, pieces};
use crate::lock::{Guard, ZoneLock};
use crate::platform::{AtomicWord, Platform};
use crate::probe::Queue;
use crate::structure::Structure;
use crate::zone::Caller;
use crate::zone::memory::Part;
use queue::AreaQueue;
use request_slots::RequestSlots;

/// Who answers requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manager {
    /// `manager=caller`: whoever asks, under the lock.
    #[default]
    Caller,
    /// `manager=thread`: a service; who asks sends it the request and waits for the answer.
    Thread,
}

/// What a request does that finds no block of its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RemnantPolicy {
    /// `remnants=wait`: it takes the next larger block, and leaves its remnant behind too.
    #[default]
    Wait,
    /// `remnants=first`: it divides what waits to be divided, if anything does, before it takes a larger block.
    First,
}

/// How the actions are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Slots of each queue, a power of two.
    pub slots: u32,
    /// Whether each operation of a queue is done under a binary semaphore.
    pub semaphore: bool,
    /// Who answers requests.
    pub manager: Manager,
    /// What a request does that finds no block of its order.
    pub remnants: RemnantPolicy,
}

/// Slots of a queue when nothing else is asked for.
pub(crate) const SLOTS: u32 = 256;

const DIVIDING: Service = Service {
    name: "dividing",
    own_thread: true,
};
const LINKING: Service = Service {
    name: "linking",
    own_thread: true,
};
const MANAGER: Service = Service {
    name: "manager",
    own_thread: true,
};

/// Resource management, its lock, and the queues.
pub struct Serewa<'a, P: Platform, S> {
    lock: &'a ZoneLock<P>,
    structure: S,
    dividing: AreaQueue<'a, P>,
    linking: AreaQueue<'a, P>,
    /// Changes whenever a service has done with an area.
    done: &'a P::AtomicU32,
    request_slots: Option<RequestSlots<'a, P>>,
    remnants: RemnantPolicy,
    /// Whether memory was divided in the beginning, so that buddies may both be free.
    presplit: bool,
    memory: PhantomData<&'a P>,
}

impl<'a, P: Platform, S: Structure<P>> Serewa<'a, P, S> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, services: ServiceOptions, cpus: u16) -> ArenaPlan {
        let plan = AreaQueue::<P>::plan(plan, services.slots);
        let plan = AreaQueue::<P>::plan(plan, services.slots).slice::<P::AtomicU32>(1);
        match services.manager {
            Manager::Caller => plan,
            Manager::Thread => RequestSlots::<P>::plan(plan, cpus),
        }
    }

    /// Makes the system around an empty structure.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        (lock, place): Part<'a, P>,
        services: ServiceOptions,
        cpus: u16,
        presplit: bool,
    ) -> Result<Self, BuildError>
    where
        S: crate::structure::Placed<'a, P>,
    {
        let ServiceOptions {
            slots,
            semaphore,
            manager,
            remnants,
        } = services;
        let table = place.table;
        let mut queue = |which| AreaQueue::new(arena, table, which, slots, semaphore);
        let (dividing, linking) = (queue(Queue::Dividing)?, queue(Queue::Linking)?);
        let done = arena.one(P::AtomicU32::new(0))?;
        let request_slots = match manager {
            Manager::Caller => None,
            Manager::Thread => Some(RequestSlots::new(arena, cpus)?),
        };
        Ok(Self {
            lock,
            structure: S::new(place),
            dividing,
            linking,
            done,
            request_slots,
            remnants,
            presplit,
            memory: PhantomData,
        })
    }

    /// Makes a run of interior frames free, before the system is in use: in blocks as large as they can be, but where
    /// `wanted` asks for smaller ones. O(blocks + orders).
    pub(crate) fn seed(&self, start: Pfn, frames: u32, wanted: &mut Presplit) {
        let max_order = self.structure.max_order();
        if let Some(start) = self.structure.table().frame(start) {
            for (head, order) in pieces(start, frames, max_order) {
                self.seed_block(head, order, wanted);
            }
        }
    }

    /// Divides a block as long as smaller ones are wanted. At most as deep as there are orders.
    fn seed_block(&self, head: Frame, order: Order, wanted: &mut Presplit) {
        if !self.presplit {
            // Ranges may touch each other.
            let probe = &mut P::Probe::default();
            Eager.free(&self.structure, head, order, probe);
        } else if wanted.take(order) || !wanted.wants_below(order) {
            self.structure.insert(head, order);
        } else {
            let half = order.down();
            self.seed_block(head, half, wanted);
            self.seed_block(head.offset(half.frames()), half, wanted);
        }
    }

    /// Takes the lock; a nested caller only tries.
    #[inline]
    fn enter<'c>(&'c self, caller: &'c mut Caller<'_, P>) -> Option<Guard<'c, P>> {
        if caller.nested {
            Guard::try_lock(self.lock, caller.probe)
        } else {
            Some(Guard::lock(self.lock, caller.probe))
        }
    }
}
