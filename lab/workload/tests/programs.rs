//! Programs keep their guarantees: slots alternate, seeds repeat, levels are reached, threads agree.

use everybuddy::{Order, Size};
use everybuddy_workload::{Body, Part, Program, Setting, Step, Variant, WORKLOADS};

const SETTING: Setting = Setting {
    frames: 1 << 14,
    threads: 2,
    seed: 7,
    shrink: 500,
};

fn variants() -> impl Iterator<Item = &'static Variant> {
    WORKLOADS.iter().flat_map(|row| row.variants)
}

/// The contents of the slots of a thread.
struct Slots(Vec<Option<Order>>);

impl Slots {
    fn of(program: &Program) -> Slots {
        Slots(vec![None; program.slots() as usize])
    }

    /// Performs a section; replacement may start with a free of an empty slot.
    fn perform(&mut self, body: &Body, largest: Order) -> u64 {
        let may_be_empty = matches!(body, Body::Replace { .. });
        let mut operations = 0;
        for step in body.steps() {
            match step {
                Step::Allocate { slot, size } => {
                    let Size::Order(order) = size else {
                        panic!("{size:?}")
                    };
                    assert!(order <= largest);
                    let before = self.0[slot as usize].replace(order);
                    assert_eq!(before, None, "allocated into a full slot");
                    operations += 1;
                }
                Step::Free { slot } => {
                    let before = self.0[slot as usize].take();
                    assert!(before.is_some() || may_be_empty, "freed an empty slot");
                    operations += 1;
                }
                Step::Hand { slot } => assert!(self.0[slot as usize].take().is_some()),
                Step::Receive { slot } => {
                    assert_eq!(self.0[slot as usize].replace(Order::ZERO), None)
                }
            }
        }
        assert_eq!(operations, body.operations());
        operations
    }

    fn frames(&self) -> u64 {
        self.0
            .iter()
            .flatten()
            .map(|order| u64::from(order.frames()))
            .sum()
    }
}

#[test]
fn names_are_unique_and_workloads_stand_for_their_variants() {
    let mut names: Vec<_> = variants().map(|variant| variant.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for row in WORKLOADS {
        for variant in row.variants {
            let is_only = row.variants.len() == 1;
            assert!(variant.name.starts_with(row.name));
            assert_eq!(variant.name == row.name, is_only, "{}", variant.name);
        }
    }
}

#[test]
fn slots_alternate_and_what_is_held_fits() {
    for variant in variants() {
        let mut held = 0;
        for thread in 0..SETTING.threads {
            let mut program = variant.program(&SETTING, thread);
            let mut slots = Slots::of(&program);
            for body in program.prepare() {
                slots.perform(body, variant.largest);
            }
            for body in program.settle() {
                slots.perform(body, variant.largest);
            }
            let level = slots.frames();
            for _ in 0..3 {
                for section in program.round() {
                    let calls = slots.perform(&section.body, variant.largest);
                    assert!(calls > 0 || matches!(section.body, Body::Scan { .. }));
                }
                let is_neutral = variant.largest == Order::ZERO && !variant.counts_large_blocks;
                assert!(!is_neutral || slots.frames() == level, "{}", variant.name);
            }
            held += slots.frames();
        }
        assert!(held <= u64::from(SETTING.frames), "{}", variant.name);
    }
}

#[test]
fn seeds_repeat_and_threads_agree() {
    for variant in variants() {
        let parts = |thread, seed| {
            let setting = Setting { seed, ..SETTING };
            let mut program = variant.program(&setting, thread);
            (program.prepare().to_vec(), program.round(), program.round())
        };
        assert_eq!(parts(0, 1), parts(0, 1), "{}", variant.name);
        let counted = |sections: &[everybuddy_workload::Section]| -> Vec<Part> {
            sections.iter().map(|section| section.part).collect()
        };
        let (one, other) = (parts(0, 1), parts(1, 1));
        assert_eq!(counted(&one.1), counted(&other.1), "{}", variant.name);
        let is_random = ["steady", "churn", "aged"]
            .iter()
            .any(|name| variant.name.starts_with(name));
        assert!(!is_random || parts(0, 1) != parts(0, 2), "{}", variant.name);
        assert!(
            !is_random || one.1 != other.1,
            "{}: threads differ",
            variant.name
        );
    }
}

#[test]
fn levels_are_reached() {
    let level = |name: &str| -> f64 {
        let variant = variants().find(|variant| variant.name == name).unwrap();
        let all = (0..SETTING.threads).map(|thread| {
            let program = variant.program(&SETTING, thread);
            let mut slots = Slots::of(&program);
            for body in program.prepare().iter().chain(program.settle()) {
                slots.perform(body, variant.largest);
            }
            slots.frames()
        });
        all.sum::<u64>() as f64 / f64::from(SETTING.frames)
    };
    for (name, expected) in [
        ("hot:order0", 0.0),
        ("hot:order0:scattered", 0.25),
        ("hot:order9:scattered", 0.25),
        ("steady:50", 0.5),
        ("steady:50:mixed", 0.5),
        ("steady:90", 0.9),
        ("steady:90:mixed", 0.9),
        ("fill:1", 0.01),
        ("fill:75", 0.75),
        ("fill:99", 0.99),
        ("aged-churn:mixed", 0.4),
        // As many blocks, of single frames.
        ("aged-churn:order0", 0.4),
    ] {
        let level = level(name);
        assert!((level - expected).abs() < 0.02, "{name}: {level}");
    }
}

#[test]
fn as_much_is_received_as_is_handed() {
    let variant = variants()
        .find(|variant| variant.name == "handover")
        .unwrap();
    let steps = |thread| {
        let mut program = variant.program(&SETTING, thread);
        let round = program.round();
        let steps: Vec<Step> = round
            .iter()
            .flat_map(|section| section.body.steps())
            .collect();
        steps
    };
    let handed = steps(0)
        .iter()
        .filter(|s| matches!(s, Step::Hand { .. }))
        .count();
    let received = steps(1)
        .iter()
        .filter(|s| matches!(s, Step::Receive { .. }))
        .count();
    assert!(handed > 0);
    assert_eq!(handed, received);
}

#[test]
fn the_shares_of_a_pot_are_disjoint_and_together_the_pot() {
    use everybuddy_workload::deal;
    let pot: Vec<u32> = (0..1001).collect();
    let shares: Vec<Vec<u32>> = (0..3).map(|thread| deal(&pot, thread, 3, 5)).collect();
    assert_eq!(
        [0, 1, 2].map(|thread: usize| shares[thread].len()),
        [334, 334, 333]
    );
    let mut all = shares.concat();
    assert_ne!(all, pot);
    all.sort_unstable();
    assert_eq!(all, pot);
    assert_ne!(deal(&pot, 0, 3, 5), deal(&pot, 0, 3, 6));
}
