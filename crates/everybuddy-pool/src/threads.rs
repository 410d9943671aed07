//! The slots that this thread prefers, one per pool.
//!
//! A call finds its slot by one comparison. When a thread ends, it leaves its slots.
//!
//! # Invariants
//! The number of a pool is its generation: no two pools of a process have the same one. So a slot that was found for a
//! pool that does not exist any more is never used for another one.

use std::cell::{Cell, RefCell};
use std::sync::Weak;

/// A pool, seen by a thread that ends.
pub(crate) trait Home: Send + Sync {
    /// The thread does not prefer this slot any more.
    fn leave(&self, slot: u32);
}

struct Claim {
    pool: u64,
    slot: u32,
    home: Weak<dyn Home>,
}

struct Claims(Vec<Claim>);

impl Drop for Claims {
    fn drop(&mut self) {
        for claim in &self.0 {
            if let Some(home) = claim.home.upgrade() {
                home.leave(claim.slot);
            }
        }
    }
}

thread_local! {
    /// The pool that this thread called last, and its slot there. Pool 0 does not exist.
    static LAST: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
    static CLAIMS: RefCell<Claims> = const { RefCell::new(Claims(Vec::new())) };
}

/// Returns the slot of this thread in a pool. `join` chooses one in the first call.
#[inline]
pub(crate) fn slot(pool: u64, join: impl FnOnce() -> (u32, Weak<dyn Home>)) -> u32 {
    let (last, slot) = LAST.get();
    if last == pool { slot } else { find(pool, join) }
}

#[cold]
fn find(pool: u64, join: impl FnOnce() -> (u32, Weak<dyn Home>)) -> u32 {
    let found = CLAIMS.try_with(|claims| {
        let claims = &mut claims.try_borrow_mut().ok()?.0;
        if let Some(claim) = claims.iter().find(|claim| claim.pool == pool) {
            return Some(claim.slot);
        }
        claims.retain(|claim| claim.home.strong_count() > 0);
        let (slot, home) = join();
        claims.push(Claim { pool, slot, home });
        Some(slot)
    });
    match found {
        Ok(Some(slot)) => {
            LAST.set((pool, slot));
            slot
        }
        // The thread has left its slots already: the call borrows one.
        _ => 0,
    }
}
