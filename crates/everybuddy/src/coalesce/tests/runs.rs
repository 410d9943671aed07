//! Runs of blocks, parts of allocations, and memory that comes and goes.

use std::vec::Vec;

use proptest::prelude::*;

use super::debt::whole;
use super::{Counting, Delays, Lists};
use crate::coalesce::Coalesce;
use crate::coalesce::delay::{Delay, Rule};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, Tag, pieces};
use crate::platform::SharedCell;
use crate::structure::{LocalStructure, Placed, Structure, with_structure};
use crate::zone::range;

/// What a step does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate,
    Free,
    FreePart,
    Withdraw,
    Add,
}

/// Blocks that are held and runs that were withdrawn, of memory whose class counts must not drift.
struct Memory<'s, 'a> {
    structure: &'s Lists<'a>,
    policy: Delay,
    held: Vec<(Frame, Order)>,
    gone: Vec<(Index, u32)>,
}

impl Memory<'_, '_> {
    fn step(&mut self, step: Step, first: u32, second: u32) {
        let (structure, policy, probe) = (self.structure, &self.policy, &mut Delays::default());
        let table = structure.table();
        match step {
            Step::Allocate => {
                let order = Order::new((first % 5) as u8).unwrap();
                if let Some(head) = policy.allocate(structure, order, probe) {
                    table.set_tag(head, Tag::allocated(order));
                    self.held.push((head, order));
                }
            }
            Step::Free | Step::FreePart if !self.held.is_empty() => {
                let (head, order) = self.held.swap_remove(first as usize % self.held.len());
                if matches!(step, Step::Free) {
                    return policy.free(structure, head, order, probe);
                }
                let from = second % order.frames();
                let upto = from + 1 + second / 64 % (order.frames() - from);
                range::free_run(structure, policy, head.offset(from), upto - from, probe).unwrap();
                self.held.extend(pieces(head, from, Order::LIMIT));
                let rest = head.index().0 + upto;
                if let Some(rest) = table.frame(Index(rest)) {
                    self.held
                        .extend(pieces(rest, order.frames() - upto, Order::LIMIT));
                }
            }
            Step::Withdraw => {
                let start = Index(first % table.frames());
                let frames = 1 + second % 24.min(table.frames() - start.0);
                if range::withdraw(structure, policy, start, frames, Tag::HOLE, probe).is_ok() {
                    self.gone.push((start, frames));
                }
            }
            Step::Add if !self.gone.is_empty() => {
                let (start, frames) = self.gone.swap_remove(first as usize % self.gone.len());
                range::add(structure, policy, start, frames, Tag::HOLE, probe).unwrap();
            }
            _ => {}
        }
    }
}

proptest! {
    /// Whatever is freed in parts, withdrawn and added again: finally each class has the blocks of fresh memory.
    #[test]
    fn parts_and_ranges_leave_no_trace(
        frames in 1u32..200,
        rule in prop::sample::select(std::vec![
            Rule::Slack,
            Rule::Debt,
            Rule::AT_ONCE,
            Rule::NEVER,
            Rule::Watermarks { lazy: 250, speedup: 500 },
        ]),
        steps in prop::collection::vec((0usize..8, any::<u32>(), any::<u32>()), 1..150),
    ) {
        use Step::*;
        let kinds = [Allocate, Allocate, Allocate, Free, FreePart, FreePart, Withdraw, Add];
        with_structure::<Counting, _>(frames, 6, Tag::INTERIOR, |place| {
            let structure = &Lists::new(place);
            let policy = Delay { rule, reclaim: false };
            let first = structure.table().frame(Index(0)).unwrap();
            range::adopt_pieces(structure, &policy, first, frames, &mut Delays::default());
            let mut memory = Memory { structure, policy, held: Vec::new(), gone: Vec::new() };
            for (kind, first, second) in steps {
                memory.step(kinds[kind], first, second);
                structure.check().unwrap();
            }
            while !memory.held.is_empty() {
                memory.step(Free, 0, 0);
            }
            while !memory.gone.is_empty() {
                memory.step(Add, 0, 0);
            }
            policy.settle(structure, &mut Delays::default());
            structure.check().unwrap();
            for (order, blocks) in Order::up_to(structure.max_order()).zip(whole(frames)) {
                let class = structure.class(order);
                let counts = [class.local.get(), class.global.get(), class.total.get()];
                assert_eq!(counts.map(u64::from), [0, blocks, blocks], "{order:?}");
            }
        });
    }
}
