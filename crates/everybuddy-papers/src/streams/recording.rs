//! Calls, made once and performed on every manager.
//!
//! # Purpose
//!
//! Making the calls takes longer than serving them, and would hide what is measured.
//!
//! # Invariants
//!
//! A slot is full from an allocation that is served to its release.

use everybuddy::{Order, Size};
use everybuddy_workload::Step;
use everybuddy_workload::streams::{Streams, Traffic};

/// A call on a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The slot.
    pub slot: u32,
    /// The order of an allocation; nothing for a release.
    pub order: Option<Order>,
}

/// The calls of some traffic.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The calls, in their order.
    pub calls: Vec<Call>,
    /// How many of them come before anything counts, while the level of what is held rises.
    pub warm: usize,
    /// Slots that the calls name.
    pub slots: u32,
    /// Virtual nanoseconds from the first call that counts to the last.
    pub nanos: u64,
}

impl Recording {
    /// Records `warm` calls that don't count and `calls` that do. O(calls x log held).
    pub fn of(traffic: Traffic, warm: usize, calls: usize) -> Self {
        let mut streams = Streams::new(traffic);
        let (mut first, mut last) = (0, 0);
        let made = streams.by_ref().take(warm + calls).enumerate();
        let calls = made
            .filter_map(|(index, call)| {
                if index <= warm {
                    first = call.at;
                }
                last = call.at;
                match call.step {
                    Step::Allocate {
                        slot,
                        size: Size::Order(order),
                    } => Some(Call {
                        slot,
                        order: Some(order),
                    }),
                    Step::Free { slot } => Some(Call { slot, order: None }),
                    // Streams ask for blocks, and hand nothing over.
                    _ => None,
                }
            })
            .collect();
        Self {
            calls,
            warm,
            slots: streams.slots(),
            nanos: last - first,
        }
    }
}
