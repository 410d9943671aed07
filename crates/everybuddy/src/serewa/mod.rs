//! Serewa's system: requests are served from the blocks that exist, and services do the rest.
//!
//! In the standard buddy an allocating caller waits for all splits that its request needs, and a freeing caller waits
//! for all merges. Here a request removes one block and leaves its remnant as it is, and a free is an entry in a
//! queue. It is a system of its own and not a policy, because its callers and its services do different work.
//!
//! # Source
//! \[Serewa\] §2.2, figure 1. Three actions are separate: resource management answers requests, dividing splits what
//! remains of blocks that were larger than requested, and linking merges what was freed. Two queues join them.
//!
//! | file | contents |
//! |---|---|
//! | `manager` | resource management: answers requests, accepts frees |
//! | `services` | dividing and linking, one step at a time |
//! | `queue` | the queues |
//! | `area` | the entries of the queues |
//! | `request_slots` | requests to a manager that runs on a thread of its own |
//! | `presplit` | how memory is divided initially |
//!
//! # Services
//! Services are declared here and run by the host: on threads, or on an idle CPU (`serve(cpu, service, budget)`, one
//! unit of the budget per area). Where no host runs them, requests do their work when they find no block. With
//! `linking=idle`, linking needs no thread: it is for idle CPUs. A free that finds the queue full merges itself.
//!
//! # Invariants
//! 1. A frame is in a free block, or in exactly one slot of a queue, or allocated, or owned by the thread that is
//!    freeing it; also while a thread is suspended before any operation of a queue. The first frame of an area in a
//!    slot, or owned by a freeing thread, is tagged with the area's length.
//! 2. Blocks leave the free lists for the dividing queue only under the lock. Areas leave a queue for the free lists
//!    under the lock, and their slots are emptied afterwards. A thread that holds the lock, finds no block, and then
//!    finds both queues empty while no manager owes a block, has therefore seen that memory is exhausted.
//! 3. No two buddies are both in the free lists, except where memory was initially divided so.
//!
//! # Design decisions
//! Where the paper is silent: a full queue makes its caller do the work. A request that finds no block processes what
//! waits in the queues, one area at a time, and waits for areas that other threads process, before it fails. A thread
//! that files a piece of a remnant merges it if its buddy was freed meanwhile. Linking proceeds one level at a time
//! and releases the free lists in between; dividing does so after each piece.

pub(crate) mod area;
mod manager;
mod presplit;
pub(crate) mod queue;
mod request_slots;
mod services;
#[cfg(test)]
mod tests;

pub use presplit::{Presplit, StartStatistics};

use core::marker::PhantomData;

use crate::api::Service;
use crate::arena::{Arena, ArenaPlan};
use crate::coalesce::{Coalesce, Eager};
use crate::error::BuildError;
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, pieces};
use crate::lock::{Guard, ZoneLock};
use crate::platform::{AtomicWord, Platform};
use crate::probe::Queue;
use crate::structure::Structure;
use crate::zone::Caller;
use crate::zone::memory::LockedPart;
use queue::AreaQueue;
use request_slots::RequestSlots;

/// Which thread answers requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manager {
    /// `manager=caller`: the calling thread, under the lock.
    #[default]
    Caller,
    /// `manager=thread`: a service. The caller sends it the request and waits for the answer.
    Thread,
}

/// What a request does that finds no block of its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RemnantPolicy {
    /// `remnants=wait`: it splits the next larger block, and leaves that remnant in the queue too.
    #[default]
    Wait,
    /// `remnants=first`: it divides the remnants that wait, if there are any, before it splits a larger block.
    First,
}

/// When the blocks in the linking queue are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linking {
    /// `linking=eager`: a service on a thread merges what waits.
    #[default]
    Eager,
    /// `linking=idle`: a CPU without other work merges, or a request that would be refused, or a free that finds the
    /// queue full.
    Idle,
}

/// How the three actions are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Slots of each queue, a power of two.
    pub slots: u32,
    /// Whether a lock guards each operation of a queue.
    pub locked: bool,
    /// When freed blocks are linked.
    pub linking: Linking,
    /// Which thread answers requests.
    pub manager: Manager,
    /// What a request does that finds no block of its order.
    pub remnants: RemnantPolicy,
}

/// Default number of slots of a queue.
pub(crate) const SLOTS: u32 = 256;

/// The services by number: dividing, linking, and the manager if it is a service.
pub const SERVICES: [Service; 3] = services(true);

/// The same with `linking=idle`.
const IDLE_SERVICES: [Service; 3] = services(false);

const fn services(linking_has_thread: bool) -> [Service; 3] {
    let [dividing, linking, manager] = ["dividing", "linking", "manager"];
    [
        Service {
            name: dividing,
            own_thread: true,
        },
        Service {
            name: linking,
            own_thread: linking_has_thread,
        },
        Service {
            name: manager,
            own_thread: true,
        },
    ]
}

/// Resource management, its lock, and the queues.
pub struct Serewa<'a, P: Platform, S> {
    lock: &'a ZoneLock<'a, P>,
    structure: S,
    dividing: AreaQueue<'a, P>,
    linking: AreaQueue<'a, P>,
    /// Changes whenever a service has finished an area.
    done: &'a P::AtomicU32,
    request_slots: Option<RequestSlots<'a, P>>,
    linking_rule: Linking,
    remnants: RemnantPolicy,
    /// Whether memory was initially divided into smaller blocks, so that two buddies may both be free.
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

    /// Creates the system around an empty structure.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        (lock, place): LockedPart<'a, P>,
        services: ServiceOptions,
        cpus: u16,
        presplit: bool,
    ) -> Result<Self, BuildError>
    where
        S: crate::structure::Placed<'a, P>,
    {
        let ServiceOptions {
            slots,
            locked,
            linking: linking_rule,
            manager,
            remnants,
        } = services;
        let table = place.table;
        let mut queue = |which| AreaQueue::new(arena, table, which, slots, locked);
        let (dividing, linking) = (queue(Queue::Dividing)?, queue(Queue::Linking)?);
        let done = arena.one("count of areas done", P::AtomicU32::new(0))?;
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
            linking_rule,
            remnants,
            presplit,
            memory: PhantomData,
        })
    }

    /// Adds a run of interior frames as free, before the system is in use: in blocks as large as possible, except where
    /// `wanted` requests smaller ones. O(blocks + orders).
    pub(crate) fn seed(&self, start: Index, frames: u32, wanted: &mut Presplit) {
        let max_order = self.structure.max_order();
        if let Some(start) = self.structure.table().frame(start) {
            for (head, order) in pieces(start, frames, max_order) {
                self.seed_block(head, order, wanted);
            }
        }
    }

    /// Divides a block while smaller blocks are wanted. The recursion is at most as deep as there are orders.
    fn seed_block(&self, head: Frame, order: Order, wanted: &mut Presplit) {
        if !self.presplit {
            // Ranges may be adjacent.
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

    /// Acquires the lock; a nested caller only tries.
    #[inline]
    fn enter<'c>(&'c self, caller: &'c mut Caller<'_, P>) -> Option<Guard<'c, P>> {
        if caller.nested {
            Guard::try_lock(self.lock, caller.probe)
        } else {
            Some(Guard::lock(self.lock, caller.probe))
        }
    }
}
