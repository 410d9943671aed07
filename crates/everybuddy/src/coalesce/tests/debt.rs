//! The debt of DELAY-2: what a call is bounded by, what is owed, and that it is paid.

use std::vec::Vec;

use proptest::prelude::*;

use super::{Counting, Delays, Lists};
use crate::coalesce::debt::balance;
use crate::coalesce::delay::{Delay, Rule};
use crate::coalesce::{Coalesce, Eager};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, Tag};
use crate::platform::SharedCell;
use crate::structure::{FreeLists, LocalStructure, Placed, Structure, with_structure};
use crate::zone::range;

const DEBT: Delay = Delay {
    rule: Rule::Debt,
    reclaim: false,
};
const LARGEST: u8 = 6;

/// Blocks that are held, and the memory that they are from.
struct Bench<'s, 'a> {
    structure: &'s Lists<'a>,
    held: Vec<(Frame, Order)>,
}

impl Bench<'_, '_> {
    /// Runs `program` on `frames` frames.
    fn on(frames: u32, program: impl FnOnce(&mut Bench<'_, '_>)) {
        with_structure::<Counting, _>(frames, LARGEST, Tag::INTERIOR, |place| {
            let structure = &Lists::new(place);
            let first = structure.table().frame(Index(0)).unwrap();
            range::adopt_pieces(structure, &DEBT, first, frames, &mut Delays::default());
            let held = Vec::new();
            program(&mut Bench { structure, held });
        });
    }

    fn orders(&self) -> impl Iterator<Item = Order> + use<> {
        Order::up_to(self.structure.max_order())
    }

    /// What each class owes.
    fn debts(&self) -> Vec<i64> {
        let owed = |order| -balance(self.structure, order).min(0);
        self.orders().map(owed).collect()
    }

    fn allocate(&mut self, order: Order) -> Delays {
        let mut probe = Delays::default();
        if let Some(head) = DEBT.allocate(self.structure, order, &mut probe) {
            let table = self.structure.table();
            table.set_tag(head, Tag::allocated(order));
            self.held.push((head, order));
        }
        self.assert_bounded(order, &probe);
        probe
    }

    fn free(&mut self, pick: usize) -> Delays {
        let mut probe = Delays::default();
        let (head, order) = self.held.swap_remove(pick % self.held.len());
        let slack = balance(self.structure, order);
        DEBT.free(self.structure, head, order, &mut probe);
        // As DELAY-2: locally, globally, or globally with a second block.
        let own = probe.0[order.index()];
        assert!(slack < 2 || own == 0, "slack {slack}: {own} coalesced");
        assert!(slack != 1 || own <= 1, "slack {slack}: {own} coalesced");
        self.assert_bounded(order, &probe);
        probe
    }

    /// What must hold after each call.
    fn assert_bounded(&self, order: Order, delays: &Delays) {
        for class in self.orders() {
            let most = if class < order { 0 } else { 2 };
            assert!(delays.0[class.index()] <= most, "{delays:?}");
            let own = self.structure.class(class);
            let (local, total) = (own.local.get(), own.total.get());
            let busy = total - local - own.global.get();
            // What is owed is what is locally free beyond what is in use: nothing of it can get lost.
            let owed = -balance(self.structure, class).min(0);
            assert_eq!(owed, i64::from(local.saturating_sub(busy)));
        }
        self.structure.check().unwrap();
    }

    /// The free blocks of each class, if none is locally free.
    fn coalesced(&self) -> Option<Vec<u64>> {
        let class = |order| self.structure.class(order);
        let is_whole = self.orders().all(|order| class(order).local.get() == 0);
        let blocks = |order| u64::from(class(order).global.get());
        is_whole.then(|| self.orders().map(blocks).collect())
    }
}

/// Returns the blocks of `frames` frames when everything is coalesced.
pub(super) fn whole(frames: u32) -> Vec<u64> {
    with_structure::<Counting, _>(frames, LARGEST, Tag::INTERIOR, |place| {
        let standard = FreeLists::new(place);
        let first = standard.table().frame(Index(0)).unwrap();
        range::free_pieces(&standard, &Eager, first, frames, &mut Delays::default());
        let orders = Order::up_to(standard.max_order());
        orders
            .map(|order| u64::from(standard.blocks(order)))
            .collect()
    })
}

proptest! {
    #[test]
    fn a_call_coalesces_two_of_a_class_and_owes_the_rest(
        frames in 1u32..300,
        steps in prop::collection::vec((prop::bool::weighted(0.55), 0u8..5, any::<u16>()), 1..300),
        pays in any::<bool>(),
    ) {
        Bench::on(frames, |bench| {
            for (allocates, order, pick) in &steps {
                if *allocates {
                    bench.allocate(Order::new(*order).unwrap());
                } else if !bench.held.is_empty() {
                    bench.free(usize::from(*pick));
                }
            }
            while !bench.held.is_empty() {
                bench.free(7);
            }
            // All is returned. What is not coalesced keeps the larger blocks split, so more may come after what is
            // owed now; but without a debt nothing is locally free.
            let owed: i64 = bench.debts().iter().sum();
            let local = bench.orders().map(|order| i64::from(bench.structure.class(order).local.get()));
            let local: i64 = local.sum();
            assert!(owed <= local && (owed == 0) == (local == 0), "{owed} of {local}");
            if pays {
                // Calls go on and pay; a frame that comes and goes is enough.
                for _ in 0..4 * frames {
                    if bench.coalesced().is_some() {
                        break;
                    }
                    bench.allocate(Order::ZERO);
                    bench.free(0);
                }
            } else {
                DEBT.settle(bench.structure, &mut Delays::default());
            }
            assert_eq!(bench.coalesced(), Some(whole(frames)), "{:?}", bench.debts());
        });
    }
}

/// Holds every frame, in an order for [`Bench::free`] from the end: one half of every pair, and of every larger group,
/// comes back before the other. DELAY-2 then coalesces 2, 4, 8, ... blocks in a call.
fn in_the_worst_order(program: impl FnOnce(&mut Bench<'_, '_>)) {
    let frames = 1 << LARGEST;
    Bench::on(frames, |bench| {
        for _ in 0..frames {
            bench.allocate(Order::ZERO);
        }
        let reversed = |frame: &Frame| frame.index().0.reverse_bits() >> (32 - u32::from(LARGEST));
        let last_first = |(head, _): &(Frame, Order)| std::cmp::Reverse(reversed(head));
        bench.held.sort_by_key(last_first);
        program(bench);
    });
}

#[test]
fn the_worst_order_of_delay_2_leaves_a_debt() {
    in_the_worst_order(|bench| {
        let mut most = 0;
        while !bench.held.is_empty() {
            bench.free(bench.held.len() - 1);
            most = most.max(bench.debts().iter().sum());
        }
        assert!(most > 0, "nothing was ever owed");
    });
}

/// An allocation coalesces what is owed, too.
#[test]
fn an_allocation_pays() {
    in_the_worst_order(|bench| {
        // An allocation makes up for two blocks of its own class, and a call pays two.
        while bench.debts().iter().all(|owed| *owed < 3) {
            assert!(!bench.held.is_empty(), "too little was ever owed");
            bench.free(bench.held.len() - 1);
        }
        let before: i64 = bench.debts().iter().sum();
        let paid: u32 = bench.allocate(Order::ZERO).0.iter().sum();
        let after: i64 = bench.debts().iter().sum();
        assert!(
            paid > 0 && after < before,
            "{paid} coalesced, {before} owed, then {after}"
        );
    });
}
