//! Calls that are generated once and performed on every manager.
//!
//! Generating the calls takes longer than serving them, and would hide the measured effect.
//!
//! # Invariants
//! A slot is full from a successful allocation to its free.

use everybuddy::{Order, Size};
use everybuddy_workload::Step;
use everybuddy_workload::streams::{Streams, Traffic};

/// A call on a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The slot.
    pub slot: u32,
    /// The order of an allocation; `None` for a free.
    pub order: Option<Order>,
}

/// The calls of some traffic.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The calls, in their order.
    pub calls: Vec<Call>,
    /// The number of calls before the counted part, while the level of memory in use rises.
    pub warm: usize,
    /// The number of slots.
    pub slots: u32,
    /// Virtual nanoseconds from the first counted call to the last.
    pub nanos: u64,
}

impl Recording {
    /// Records `warm` uncounted calls and `calls` counted ones. O(calls x log held).
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
                    // Streams request and free blocks, and never hand them over.
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
