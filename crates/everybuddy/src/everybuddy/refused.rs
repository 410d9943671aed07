//! What was refused stays refused until something is freed.
//!
//! A refusal costs a search of all trees, during which no other CPU owns one. Until something is freed, the next
//! request of that size would fail in the same way. So the system remembers the smallest block that it refused, and
//! refuses requests for as much without a search.
//!
//! A hit must not write or read a shared word for that. A free hits if the owner of the tree is the CPU's *free
//! identity*, which is [`CLOSED_ID`] while a refusal is remembered. So the first free of each CPU after a refusal
//! misses, and the system forgets the refusal before that free changes anything. Allocations keep their identity, and
//! hit.
//!
//! # Invariants
//! While a block is remembered as refused, no such block is free. A request that searches in vain reads the number of
//! frees (`moment`) before it asks the other CPUs for their trees, and remembers its size only if the number is still
//! the same. It therefore sees each free or is stopped by it:
//!
//! - The CPU that frees has not acknowledged the request yet. It does so after the free, and the search sees the free.
//! - It has acknowledged the request. Then it counts the free before the free changes anything, and after the request
//!   read the number.
//! - The free is nested, and belongs to no operation of a CPU. Such frees announce themselves in a word of their CPU,
//!   and the request looks there before it searches. A nested free that comes later sees the request and is counted.

use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform};

use super::OwnedTrees;
use super::local::Local;
use super::wanted::CLOSED_ID;

/// The bits with the order of the smallest block that was refused, plus one; 0 if none is remembered. The other bits
/// count calls of [`forget`](Refused::forget).
const ORDER: u64 = 0xff;

/// The memory of refusals.
pub(super) struct Refused<P: Platform>(P::AtomicU64);

impl<P: Platform> Refused<P> {
    pub(super) fn new() -> Self {
        Self(P::AtomicU64::new(0))
    }

    /// Returns the smallest block that is remembered as refused. A hint.
    pub(super) fn order(&self) -> Option<Order> {
        order_of(self.0.load(Ordering::Relaxed))
    }

    /// Returns `true` if a request for `frames` frames is refused now.
    #[inline(always)]
    pub(super) fn covers(&self, frames: u32) -> bool {
        self.0.load(Ordering::Relaxed) & ORDER != 0 && self.covers_now(frames)
    }

    #[cold]
    #[inline(never)]
    fn covers_now(&self, frames: u32) -> bool {
        let covers = |word| order_of(word).is_some_and(|order| frames >= order.frames());
        // An addition reads the latest value, so a free that ended before this request is seen. The load before keeps
        // the line shared while other requests are served. Relaxed: the answer depends on no other memory.
        covers(self.0.load(Ordering::Relaxed)) && covers(self.0.fetch_add(0, Ordering::Relaxed))
    }

    /// Returns the number of calls of [`forget`](Self::forget). A request reads it before it asks other CPUs.
    pub(super) fn moment(&self) -> u64 {
        // Relaxed: the exchanges that begin the request release this load.
        self.0.load(Ordering::Relaxed) / (ORDER + 1)
    }

    /// Remembers that no block of an order is free, unless [`forget`](Self::forget) was called since `moment`.
    pub(super) fn remember(&self, moment: u64, order: Order) {
        let code = u64::from(order.get()) + 1;
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let known = seen & ORDER;
            if seen / (ORDER + 1) != moment || known != 0 && known <= code {
                return;
            }
            let new = seen & !ORDER | code;
            // Relaxed: the end of the request releases it, and CPUs that hit again acquire that.
            match self
                .0
                .compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Counts a free that begins, and forgets what was refused.
    pub(super) fn forget(&self) {
        let mut seen = self.0.load(Ordering::Relaxed);
        // Relaxed: what the free changes afterwards is released by other words, and this exchange with it.
        while let Err(now) = self.0.compare_exchange(
            seen,
            (seen | ORDER).wrapping_add(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            seen = now;
        }
    }
}

fn order_of(word: u64) -> Option<Order> {
    Order::new(((word & ORDER) as u8).wrapping_sub(1))
}

impl<P: Platform> OwnedTrees<'_, P> {
    /// Prepares a free that did not hit. Returns `true` if the CPU may keep trees.
    #[inline]
    pub(super) fn begin_free(&self, local: &Local<'_, P>) -> bool {
        // Relaxed: a CPU that is asked while it works notices it in its next operation.
        if local.free_identity.load(Ordering::Relaxed) != CLOSED_ID {
            return true;
        }
        self.resume(local);
        let mut open = false;
        // Twice, so that the identity is back, unless another CPU was refused meanwhile. A free does not wait for that.
        for _ in 0..2 {
            open = self.service(local);
            if local.free_identity.load(Ordering::Relaxed) != CLOSED_ID {
                return true;
            }
            // After the last acknowledgement: a request that this CPU has acknowledged must count the free.
            self.requests.refused.forget();
            if !open {
                break;
            }
        }
        open
    }

    /// Calls `free` for code that may have interrupted an operation of the CPU.
    pub(super) fn with_nested_free<T>(&self, local: &Local<'_, P>, free: impl FnOnce() -> T) -> T {
        // Acquire: pairs with the release in `has_nested_free`: if the request looked before, this CPU sees below that
        // it is pending.
        local.nested_frees.fetch_add(1, Ordering::Acquire);
        // Acquire: pairs with the exchange that ends a request: this CPU then sees what the request remembered.
        let is_pending = self.requests.count.load(Ordering::Acquire) != 0;
        if is_pending || self.requests.refused.order().is_some() {
            self.requests.refused.forget();
        }
        let result = free();
        // Release: pairs with the acquire in `has_nested_free`: the search sees what was freed.
        local.nested_frees.fetch_sub(1, Ordering::Release);
        result
    }

    /// Returns `true` if a nested free has begun and not ended. If not, this CPU sees all nested frees before.
    pub(super) fn has_nested_free(&self) -> bool {
        // An addition reads the latest value. Acquire: pairs with the release at the end of `with_nested_free`.
        // Release: pairs with the acquire at its begin.
        let has = |local: &Local<'_, P>| local.nested_frees.fetch_add(0, Ordering::AcqRel) != 0;
        self.locals.iter().any(has)
    }
}
