//! The engine against a naive model: random calls on every system.
//!
//! The model knows only which units are allocated. It checks that blocks are disjoint, that their sizes are in the
//! table, and that a request fails only if no free run of units could hold its block.

use std::collections::BTreeMap;

use everybuddy_papers::schemes::{Area, Misuse, Scheme, Sizes};
use proptest::prelude::*;

const UNITS: u32 = 400;

fn schemes() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        Just(Scheme::Binary),
        (1usize..5).prop_map(|distance| Scheme::Fibonacci { distance }),
        Just(Scheme::Weighted),
        (1u32..6).prop_map(|shift| Scheme::Dual { region: 3 << shift }),
    ]
}

/// The naive model: the allocated blocks.
#[derive(Default)]
struct Model {
    held: BTreeMap<u32, u32>,
}

impl Model {
    fn is_free(&self, start: u32, units: u32) -> bool {
        let before = self.held.range(..start + units).next_back();
        before.is_none_or(|(at, size)| at + size <= start)
    }

    /// Returns the length of the longest run of free units.
    fn longest(&self) -> u32 {
        let ends = self.held.iter().map(|(start, size)| (*start, start + size));
        let (mut longest, mut last) = (0, 0);
        for (start, end) in ends.chain([(UNITS, UNITS)]) {
            longest = longest.max(start - last);
            last = end;
        }
        longest
    }
}

proptest! {
    #[test]
    fn blocks_are_disjoint_and_become_whole_again(
        scheme in schemes(),
        largest in 1u32..500,
        calls in prop::collection::vec((0u8..8, 0u32..200), 0..400),
    ) {
        let sizes = Sizes::new(scheme, largest);
        let mut area = Area::new(sizes.clone(), UNITS);
        let mut model = Model::default();
        prop_assert!(area.is_initial());
        for (call, number) in calls {
            if call < 5 {
                match area.allocate(number) {
                    Some(block) => {
                        prop_assert!(block.units >= number);
                        let class = sizes.covering(block.units).unwrap();
                        prop_assert_eq!(sizes.units(class), block.units);
                        prop_assert!(block.start + block.units <= UNITS);
                        prop_assert!(model.is_free(block.start, block.units), "{} overlaps", scheme);
                        model.held.insert(block.start, block.units);
                    }
                    // A new area serves whatever its largest block covers.
                    None => prop_assert!(
                        !model.held.is_empty() || sizes.covering(number).is_none()
                            || sizes.within(UNITS) < sizes.covering(number)
                    ),
                }
            } else if call < 7 && !model.held.is_empty() {
                let start = *model.held.keys().nth(number as usize % model.held.len()).unwrap();
                model.held.remove(&start);
                prop_assert_eq!(area.free(start), Ok(()));
                // Freed twice.
                prop_assert_eq!(area.free(start), Err(Misuse { start }));
            } else if !model.held.contains_key(&number) {
                prop_assert_eq!(area.free(number * 3), match model.held.remove(&(number * 3)) {
                    Some(_) => Ok(()),
                    None => Err(Misuse { start: number * 3 }),
                });
            }
            prop_assert_eq!(area.held(), model.held.values().sum::<u32>());
            prop_assert_eq!(area.check(), Ok(()));
            prop_assert!(area.allocate(model.longest() + 1).is_none());
        }
        for start in model.held.into_keys() {
            prop_assert_eq!(area.free(start), Ok(()));
        }
        prop_assert_eq!(area.check(), Ok(()));
        prop_assert!(area.is_initial(), "{}: the blocks are not whole again", scheme);
    }

    #[test]
    fn a_request_for_a_block_of_the_area_fails_only_if_none_is_free(
        scheme in schemes(),
        requests in prop::collection::vec(1u32..40, 1..200),
    ) {
        // Whatever the requests were, single units fill the area completely, as long as a block of one unit or one
        // that is given instead of it is free.
        let mut area = Area::new(Sizes::new(scheme, 96), UNITS);
        for units in requests {
            area.allocate(units);
        }
        while area.allocate(1).is_some() {}
        prop_assert_eq!(area.held(), UNITS);
    }
}

#[test]
fn a_fibonacci_block_is_split_and_found_again_on_either_side() {
    // 13 = 8 + 5: the request for 4 units takes the right part, the request for 8 the left one.
    let mut area = Area::new(Sizes::new(Scheme::Fibonacci { distance: 2 }, 13), 13);
    let right = area.allocate(4).unwrap();
    let left = area.allocate(8).unwrap();
    assert_eq!(
        (left.start, left.units, right.start, right.units),
        (0, 8, 8, 5)
    );
    assert_eq!(area.allocate(1), None);
    area.free(right.start).unwrap();
    assert!(!area.is_initial());
    area.free(left.start).unwrap();
    assert!(area.is_initial());
}

#[test]
fn a_region_of_the_dual_system_changes_sides_when_it_is_free() {
    let mut area = Area::new(Sizes::new(Scheme::Dual { region: 12 }, 12), 12);
    let six = area.allocate(5).unwrap();
    assert_eq!(six.units, 6);
    // The other half is of the system of three: four units take all of it.
    let other = area.allocate(4).unwrap();
    assert_eq!(other.units, 6);
    area.free(six.start).unwrap();
    area.free(other.start).unwrap();
    let (eight, four) = (area.allocate(8).unwrap(), area.allocate(4).unwrap());
    assert_eq!((eight.units, four.units), (8, 4));
}
