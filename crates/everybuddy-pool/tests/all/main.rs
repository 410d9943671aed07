//! Tests of pools: one program, so that the systems are compiled once.
//!
//! Pages are filled with patterns that name their owner. A page that two owners have, or that is not mapped, shows.

mod allocator;
mod cache;
mod errors;
mod properties;
mod raw;
mod release;
mod rows;
mod threads;

use everybuddy::System;
use everybuddy_pool::{Pages, Pool};

/// Fills pages with a pattern of their owner.
fn fill<S: System + 'static>(pages: &mut Pages<'_, S>, seed: u64) {
    for (index, word) in pages.chunks_exact_mut(512).enumerate() {
        word[..8].copy_from_slice(&(seed ^ index as u64).to_le_bytes());
    }
}

/// Checks that pages contain the pattern of their owner still.
fn verify<S: System + 'static>(pages: &Pages<'_, S>, seed: u64) {
    for (index, word) in pages.chunks_exact(512).enumerate() {
        assert_eq!(word[..8], (seed ^ index as u64).to_le_bytes(), "at {index}");
    }
}

/// A sequence of numbers that are hard to predict (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// Allocates single pages until none is left.
fn take_all<S: System + 'static>(pool: &Pool<S>) -> Vec<Pages<'_, S>> {
    std::iter::from_fn(|| pool.allocate_pages(1).ok()).collect()
}
