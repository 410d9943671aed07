//! The structures by address of the allocators' crate, as a store.
//!
//! What is measured here is what systems can be built with.
//!
//! # Invariants
//! A unit stands for a frame, a class for an order.

use everybuddy::structure::{Ordered, Placed};
use everybuddy::{Index, Order, Platform};

use crate::emulation::standalone::Standalone;
use crate::emulation::store::{Store, Unit};

/// Returns the order that a class is; the classes of a heap are never above the largest one.
fn order(class: u8) -> Order {
    Order::new(class).unwrap_or(Order::LIMIT)
}

impl<'a, P: Platform, S: Placed<'a, P> + Ordered<P>> Store for Standalone<'a, P, S> {
    fn add(&mut self, class: u8, unit: Unit) {
        let added = self.insert(Index(unit), order(class));
        debug_assert!(added, "class {class}, unit {unit}");
    }

    fn take(&mut self, class: u8) -> Option<Unit> {
        Standalone::take(self, order(class)).map(|head| head.0)
    }

    fn remove(&mut self, class: u8, unit: Unit) {
        let removed = Standalone::remove(self, Index(unit), order(class));
        debug_assert!(removed, "class {class}, unit {unit}");
    }

    fn is_empty(&self, class: u8) -> bool {
        Standalone::blocks(self, order(class)) == 0
    }

    fn first(&self, _: u8) -> Unit {
        0
    }

    fn pair(&self, class: u8, from: Unit) -> Option<(Unit, Unit)> {
        let lower = Standalone::pair(self, order(class), Index(from))?.0;
        Some((lower, lower + (2 << class)))
    }

    fn blocks(&self, class: u8) -> Vec<Unit> {
        let heads = (0..self.frames()).step_by(1 << class);
        let is_in = |unit: &Unit| self.contains(Index(*unit), order(class));
        heads.filter(is_in).collect()
    }
}
