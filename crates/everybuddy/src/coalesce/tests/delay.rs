//! \[BL89\]'s algorithms against their own definitions: figure 1, figure 3, lemmas and theorem.

use std::vec::Vec;

use proptest::prelude::*;

use super::{Counting, Delays, Lists};
use crate::coalesce::delay::{Delay, Rule};
use crate::coalesce::{Coalesce, Eager};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, Tag};
use crate::platform::SharedCell;
use crate::probe::{Event, Probe};
use crate::structure::{FreeLists, LocalStructure, Placed, Structure, add, with_structure};
use crate::zone::range;

/// DELAY-2 as figure 1 has it: by the state of a class, without a slack variable.
pub(super) struct StateDriven;

/// The lazy space: condition (i) with the blocks that can never coalesce, condition (ii).
fn is_lazy(total: u32, local: u32, global: u32, alone: u32) -> bool {
    2 * global <= total + alone && global + 2 * local <= total
}

impl StateDriven {
    fn is_in_lazy_space(structure: &Lists<'_>, order: Order, more_local: u32) -> bool {
        let class = structure.class(order);
        let (total, local, global) = (class.total.get(), class.local.get(), class.global.get());
        // Condition (i) always holds, which Lemma 1 says and a test of its own looks at.
        global + 2 * (local + more_local) <= total
    }

    /// Puts the slack right, which the structure checks and this algorithm doesn't have.
    pub(super) fn note(structure: &Lists<'_>, order: Order) {
        let class = structure.class(order);
        let busy = class
            .total
            .get()
            .wrapping_sub(2 * class.local.get() + class.global.get());
        class.slack.set(busy);
    }

    fn free_globally(structure: &Lists<'_>, head: Frame, order: Order, probe: &mut Delays) {
        let buddy = head.buddy(order);
        if order >= structure.max_order() || !structure.contains(buddy, order) {
            structure.insert(head, order);
            Self::note(structure, order);
            return;
        }
        structure.remove(buddy, order);
        add::<Counting>(&structure.class(order).total, 2u32.wrapping_neg());
        Self::note(structure, order);
        probe.record(Event::Coalesce(order));
        structure.table().set_tag(head.max(buddy), Tag::INTERIOR);
        StateDriven.free(structure, head.min(buddy), order.up(), probe);
    }
}

impl<'a> Coalesce<Counting, Lists<'a>> for StateDriven {
    const DELAYS: bool = true;

    fn allocate(&self, structure: &Lists<'a>, order: Order, probe: &mut Delays) -> Option<Frame> {
        let head = structure
            .take_local(order)
            .or_else(|| structure.take(order));
        if head.is_some() {
            Self::note(structure, order);
            return head;
        }
        if order >= structure.max_order() {
            return None;
        }
        let head = self.allocate(structure, order.up(), probe)?;
        probe.record(Event::Split(order.up()));
        structure.insert_local(head.offset(order.frames()), order);
        add::<Counting>(&structure.class(order).total, 2);
        Self::note(structure, order);
        Some(head)
    }

    fn free(&self, structure: &Lists<'a>, head: Frame, order: Order, probe: &mut Delays) {
        if Self::is_in_lazy_space(structure, order, 1) {
            structure.insert_local(head, order);
            Self::note(structure, order);
            return;
        }
        Self::free_globally(structure, head, order, probe);
        if !Self::is_in_lazy_space(structure, order, 0)
            && let Some(second) = structure.take_local(order)
        {
            Self::free_globally(structure, second, order, probe);
        }
    }

    fn adopt(&self, structure: &Lists<'a>, head: Frame, order: Order, probe: &mut Delays) {
        SLACK.adopt(structure, head, order, probe);
    }
}

pub(super) const SLACK: Delay = Delay {
    rule: Rule::Slack,
    reclaim: false,
};

const LARGEST: u8 = 5;

/// What is done: allocations of an order, releases of what is held.
pub(super) type Steps = Vec<(bool, u8, u16)>;

pub(super) fn steps() -> impl Strategy<Value = Steps> {
    prop::collection::vec((prop::bool::weighted(0.55), 0u8..4, any::<u16>()), 1..200)
}

/// Fl, Fg, N and D of each class.
pub(super) type States = Vec<(u32, u32, u32, u32)>;

/// Returns the states of all classes.
fn lists(structure: &Lists<'_>) -> States {
    let orders = Order::up_to(structure.max_order());
    orders
        .map(|order| {
            let class = structure.class(order);
            let counts = (class.local.get(), class.global.get(), class.total.get());
            (counts.0, counts.1, counts.2, class.slack.get())
        })
        .collect()
}

/// Runs steps on a policy over `frames` frames. Calls `after` after each step, with the coalescings of the call and
/// the order that was freed, if one was. Finally frees everything.
fn run<C>(
    policy: &C,
    frames: u32,
    steps: &Steps,
    mut after: impl FnMut(&Lists<'_>, &Delays, Option<Order>, Option<u32>),
) where
    C: for<'a> Coalesce<Counting, Lists<'a>>,
{
    with_structure::<Counting, _>(frames, LARGEST, Tag::INTERIOR, |place| {
        let structure = &Lists::new(place);
        let first = structure.table().frame(Index(0)).unwrap();
        range::adopt_pieces(structure, policy, first, frames, &mut Delays::default());
        let mut held: Vec<(Frame, Order)> = Vec::new();
        let mut step = |allocates: bool, order: u8, pick: u16, held: &mut Vec<(Frame, Order)>| {
            let mut probe = Delays::default();
            if allocates {
                let order = Order::new(order).unwrap();
                let head = policy.allocate(structure, order, &mut probe);
                if let Some(head) = head {
                    structure.table().set_tag(head, Tag::allocated(order));
                    held.push((head, order));
                }
                after(structure, &probe, None, head.map(|head| head.index().0));
            } else if !held.is_empty() {
                let (head, order) = held.swap_remove(usize::from(pick) % held.len());
                policy.free(structure, head, order, &mut probe);
                after(structure, &probe, Some(order), None);
            }
            structure.check().unwrap();
        };
        for (allocates, order, pick) in steps {
            step(*allocates, *order, *pick, &mut held);
        }
        while !held.is_empty() {
            step(false, 0, 7, &mut held);
        }
        // The theorem: all returned, all coalesced, without any sweep.
        let whole = with_structure::<Counting, _>(frames, LARGEST, Tag::INTERIOR, |place| {
            let standard = FreeLists::new(place);
            let first = standard.table().frame(Index(0)).unwrap();
            range::free_pieces(&standard, &Eager, first, frames, &mut Delays::default());
            Order::up_to(standard.max_order())
                .map(|order| standard.blocks(order))
                .collect::<Vec<_>>()
        });
        for ((local, global, total, _), blocks) in lists(structure).into_iter().zip(whole) {
            assert_eq!((local, global, total), (0, blocks, blocks));
        }
    });
}

#[test]
fn a_class_outside_the_lazy_space_is_reported() {
    let delay = |rule| Delay {
        rule,
        reclaim: false,
    };
    with_structure::<Counting, _>(32, LARGEST, Tag::INTERIOR, |place| {
        let structure = &Lists::new(place);
        let class = structure.class(Order::ZERO);
        class.slack.set(0);
        let rules = [Rule::Slack, Rule::Debt, Rule::NEVER];
        let checks = || rules.map(|rule| delay(rule).check(structure).is_ok());
        assert_eq!(checks(), [true; 3]);
        // The slack wraps below zero.
        class.slack.set(u32::MAX);
        assert_eq!(checks(), [false, true, true]);
    });
}

/// Everything that can be seen of a run.
pub(super) fn history<C>(policy: &C, frames: u32, steps: &Steps) -> Vec<(States, Option<u32>)>
where
    C: for<'a> Coalesce<Counting, Lists<'a>>,
{
    let mut seen = Vec::new();
    run(policy, frames, steps, |structure, _, _, given| {
        seen.push((lists(structure), given))
    });
    seen
}

/// The blocks of each class that can never coalesce, which the class begins with.
fn alone(frames: u32) -> Vec<u32> {
    let mut alone = std::vec![0; usize::from(LARGEST) + 1];
    alone[usize::from(LARGEST)] = frames >> LARGEST;
    for (order, blocks) in alone.iter_mut().enumerate().take(usize::from(LARGEST)) {
        *blocks = frames >> order & 1;
    }
    alone
}

proptest! {
    #[test]
    fn the_slack_variable_does_what_the_states_say(frames in 1u32..200, steps in steps()) {
        prop_assert_eq!(history(&SLACK, frames, &steps), history(&StateDriven, frames, &steps));
    }

    #[test]
    fn the_state_stays_in_the_lazy_space(frames in 1u32..200, steps in steps()) {
        let alone = alone(frames);
        let mut before: Vec<u32> = Vec::new();
        run(&SLACK, frames, &steps, |structure, _, freed, _| {
            let states = lists(structure);
            for ((local, global, total, slack), alone) in states.iter().zip(&alone) {
                // Lemma 1 and condition (ii); D is what is allocated less what is locally free.
                assert!(is_lazy(*total, *local, *global, *alone), "{total} {local} {global}");
                assert_eq!(*slack, total - local - global - local);
                // With no slack there is a locally free block, or nothing is allocated at all.
                assert!(*slack > 0 || *local > 0 || local + global == *total);
            }
            // Lemma 2, for the class that was freed into from outside: N changes by 2 or 4 at most.
            if let (Some(order), Some(was)) = (freed, before.get(order_index(freed))) {
                let now = states[order.index()].2;
                assert!([0, 2, 4].contains(&(was - now)), "{was} to {now}");
            }
            before = states.iter().map(|state| state.2).collect();
        });
    }

    #[test]
    fn a_release_into_a_class_costs_two_delays_at_most(
        frames in 1u32..200,
        steps in steps(),
        lazy in 0u32..=500,
        more in 0u32..=500,
    ) {
        let watermarks = Delay {
            rule: Rule::Watermarks { lazy, speedup: (lazy + more).min(500) },
            reclaim: false,
        };
        for policy in [SLACK, watermarks] {
            run(&policy, frames, &steps, |_, delays, freed, _| {
                let Some(freed) = freed else { return };
                let mut releases = 0;
                for order in Order::up_to(Order::new(LARGEST).unwrap()) {
                    releases += u32::from(order == freed);
                    let coalescings = delays.0[order.index()];
                    assert!(coalescings <= 2 * releases, "{coalescings} of {releases} at {order:?}");
                    // Each coalescing is a release into the next class.
                    releases = coalescings;
                }
            });
        }
    }
}

fn order_index(order: Option<Order>) -> usize {
    order.map_or(usize::MAX, Order::index)
}

/// Lemma 2 over all states: from every state of a lazy space, a request or a release leads into a lazy space of
/// N + 2, N, N - 2 or N - 4. Up to 64 blocks, up to three of which can never coalesce.
#[test]
fn lemma_2_holds_for_every_state() {
    let mut states = 0u32;
    for alone in 0..=3 {
        for total in 0..=64u32 {
            let all = (0..=total).flat_map(|local| (0..=total).map(move |global| (local, global)));
            for (local, global) in all.filter(|(l, g)| is_lazy(total, *l, *g, alone)) {
                states += 1;
                let mut to = Vec::new();
                match (local, global) {
                    (1.., _) => to.push((total, local - 1, global)),
                    (0, 1..) => to.push((total, 0, global - 1)),
                    (0, 0) => to.push((total + 2, 1, 0)),
                }
                let busy = total - local - global;
                if busy > 0 {
                    to.extend(released(total, local, global, alone));
                }
                for (next, l, g) in to {
                    let change = next.abs_diff(total);
                    assert!(change == 0 || change == 2 || (change == 4 && next < total));
                    assert!(
                        is_lazy(next, l, g, alone),
                        "({total}, {local}, {global}) to ({next}, {l}, {g})"
                    );
                }
            }
        }
    }
    assert!(states > 50_000, "{states}");
}

/// The states after a release, by figure 1: with and without coalescing wherever a buddy could be free.
fn released(total: u32, local: u32, global: u32, alone: u32) -> Vec<(u32, u32, u32)> {
    if global + 2 * (local + 1) <= total {
        return std::vec![(total, local + 1, global)];
    }
    let mut next = Vec::new();
    // Without coalescing there must be room for one more globally free block; with it, one to coalesce with.
    if 2 * (global + 1) <= total + alone {
        next.push((total, local, global + 1));
    }
    if global > 0 && total >= 2 {
        next.push((total - 2, local, global - 1));
    }
    let mut all = Vec::new();
    for (total, local, global) in next {
        if global + 2 * local <= total {
            all.push((total, local, global));
            continue;
        }
        assert!(local > 0, "a class without slack has a locally free block");
        if 2 * (global + 1) <= total + alone {
            all.push((total, local - 1, global + 1));
        }
        if global > 0 && total >= 2 {
            all.push((total - 2, local - 1, global - 1));
        }
    }
    all
}
