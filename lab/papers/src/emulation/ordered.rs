//! The structures by address of the allocators' crate, as a store.
//!
//! # Purpose
//!
//! What is measured here is what systems can be built with.
//!
//! # Invariants
//!
//! A unit stands for a frame, a class for an order.

use everybuddy::{Order, Pfn};

use crate::emulation::standalone::FreeBlocks;
use crate::emulation::store::{Store, Unit};

/// A store of units by address.
#[derive(Debug)]
pub struct ByAddress<'b, B> {
    blocks: &'b B,
    units: u32,
}

impl<'b, B: FreeBlocks> ByAddress<'b, B> {
    /// Wraps a structure for a heap of the given number of units.
    pub fn new(blocks: &'b B, units: u32) -> Self {
        Self { blocks, units }
    }
}

/// Returns the order that a class is; the classes of a heap are never above the largest one.
fn order(class: u8) -> Order {
    Order::new(class).unwrap_or(Order::LIMIT)
}

impl<B: FreeBlocks> Store for ByAddress<'_, B> {
    fn add(&mut self, class: u8, unit: Unit) {
        let added = self.blocks.insert(Pfn(unit), order(class));
        debug_assert!(added, "class {class}, unit {unit}");
    }

    fn take(&mut self, class: u8) -> Option<Unit> {
        self.blocks.take(order(class)).map(|head| head.0)
    }

    fn remove(&mut self, class: u8, unit: Unit) {
        let removed = self.blocks.remove(Pfn(unit), order(class));
        debug_assert!(removed, "class {class}, unit {unit}");
    }

    fn is_empty(&self, class: u8) -> bool {
        self.blocks.blocks(order(class)) == 0
    }

    fn first(&self, _: u8) -> Unit {
        0
    }

    fn pair(&self, class: u8, from: Unit) -> Option<(Unit, Unit)> {
        let lower = self.blocks.pair(order(class), Pfn(from))?.0;
        Some((lower, lower + (2 << class)))
    }

    fn blocks(&self, class: u8) -> Vec<Unit> {
        let heads = (0..self.units).step_by(1 << class);
        let is_in = |unit: &Unit| self.blocks.contains(Pfn(*unit), order(class));
        heads.filter(is_in).collect()
    }
}
