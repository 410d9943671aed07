//! The watermark policy against its own definition: three modes by the usage of a class.
//!
//! # Source
//! \[BL89\] §3.1.

use std::sync::atomic::{AtomicU32, Ordering};
use std::vec::Vec;

use proptest::prelude::*;

use super::delay::{SLACK, StateDriven, history, steps};
use super::{Counting, Delays, Lists};
use crate::coalesce::Coalesce;
use crate::coalesce::delay::{Delay, Rule};
use crate::frame::Order;
use crate::frame_table::{Frame, Tag};
use crate::platform::SharedCell;
use crate::probe::{Event, Probe};
use crate::structure::{LocalStructure, Structure, add};

/// The policy by its definition. Requests are those of DELAY-2.
struct ByUsage {
    /// The lazy and the speedup ratio, in thousandths.
    ratios: (u32, u32),
    /// The number of frees in each mode: lazy, reclaiming, accelerated.
    frees: [AtomicU32; 3],
}

impl ByUsage {
    fn new(lazy: u32, speedup: u32) -> Self {
        Self {
            ratios: (lazy, speedup),
            frees: [0, 0, 0].map(AtomicU32::new),
        }
    }

    /// Returns 0 in lazy mode, 1 in reclaiming mode, 2 in accelerated mode: the number of blocks that a free into the
    /// class frees globally. The block that is being freed counts as free.
    fn mode(&self, structure: &Lists<'_>, order: Order) -> usize {
        let class = structure.class(order);
        let free = class.local.get() + class.global.get() + 1;
        let usage = f64::from(free) / f64::from(class.total.get());
        let limit = |thousandths: u32| f64::from(thousandths) / 1000.0 + 1e-9;
        usize::from(usage > limit(self.ratios.0)) + usize::from(usage > limit(self.ratios.1))
    }

    fn free_globally(&self, structure: &Lists<'_>, head: Frame, order: Order, probe: &mut Delays) {
        let buddy = head.buddy(order);
        if order >= structure.max_order() || !structure.contains(buddy, order) {
            structure.insert(head, order);
            StateDriven::note(structure, order);
            return;
        }
        structure.remove(buddy, order);
        add::<Counting>(&structure.class(order).total, 2u32.wrapping_neg());
        StateDriven::note(structure, order);
        probe.record(Event::Coalesce(order));
        structure.table().set_tag(head.max(buddy), Tag::INTERIOR);
        self.free(structure, head.min(buddy), order.up(), probe);
    }
}

impl<'a> Coalesce<Counting, Lists<'a>> for ByUsage {
    const DELAYS: bool = true;

    fn allocate(&self, structure: &Lists<'a>, order: Order, probe: &mut Delays) -> Option<Frame> {
        SLACK.allocate(structure, order, probe)
    }

    fn free(&self, structure: &Lists<'a>, head: Frame, order: Order, probe: &mut Delays) {
        let mode = self.mode(structure, order);
        self.frees[mode].fetch_add(1, Ordering::Relaxed);
        if mode == 0 {
            structure.insert_local(head, order);
            StateDriven::note(structure, order);
            return;
        }
        self.free_globally(structure, head, order, probe);
        if mode == 2
            && let Some(second) = structure.take_local(order)
        {
            self.free_globally(structure, second, order, probe);
        }
    }

    fn adopt(&self, structure: &Lists<'a>, head: Frame, order: Order, probe: &mut Delays) {
        SLACK.adopt(structure, head, order, probe);
    }
}

fn policy(lazy: u32, speedup: u32) -> Delay {
    Delay {
        rule: Rule::Watermarks { lazy, speedup },
        reclaim: false,
    }
}

proptest! {
    #[test]
    fn the_policy_does_what_the_modes_say(
        frames in 1u32..200,
        steps in steps(),
        lazy in 0u32..=500,
        more in 0u32..=500,
    ) {
        let speedup = (lazy + more).min(500);
        let defined = history(&ByUsage::new(lazy, speedup), frames, &steps);
        prop_assert_eq!(history(&policy(lazy, speedup), frames, &steps), defined);
    }
}

/// A program in which the middle mode occurs, so that one that is treated as a neighbour shows.
#[test]
fn each_mode_is_its_own() {
    let steps: Vec<_> = (0..400u16)
        .map(|step| (step % 40 < 26, (step % 7 == 0).into(), step * 31))
        .collect();
    let seen = |lazy, speedup| {
        let defined = ByUsage::new(lazy, speedup);
        let history_of_definition = history(&defined, 128, &steps);
        assert_eq!(
            history(&policy(lazy, speedup), 128, &steps),
            history_of_definition
        );
        (
            defined.frees.map(AtomicU32::into_inner),
            history_of_definition,
        )
    };
    let (frees, between) = seen(250, 400);
    assert!(frees.iter().all(|frees| *frees > 10), "{frees:?}");
    // Without a middle mode, and with nothing above it.
    let ((lazy, never_reclaims), (other, never_speeds_up)) = (seen(250, 250), seen(250, 500));
    assert!(lazy[1] == 0 && other[1] > frees[1], "{lazy:?} {other:?}");
    assert!(between != never_reclaims && between != never_speeds_up);
}
