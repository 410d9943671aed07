//! Tests which errors shuttle finds, and which it does not.
//!
//! As in the canary of loom.

use crate::broken::{Fault, Join, count_under};
use everybuddy_model::Shuttle;
use everybuddy_model::strong::{Picking, sample, switch_at_cells};

fn shuttle_thread(f: Box<dyn FnOnce() + Send>) -> Join {
    let thread = shuttle::thread::spawn(f);
    Box::new(move || thread.join().unwrap())
}

#[test]
#[should_panic(expected = "a count was lost")]
fn shuttle_finds_a_lock_that_is_not_atomic() {
    sample("a broken lock", Picking::Random, 1, 1000, || {
        switch_at_cells(true);
        count_under::<Shuttle>(Fault::NotAtomic, shuttle_thread);
    });
}

#[test]
fn shuttle_does_not_see_a_missing_release() {
    // A known limit, not a goal: see `strong`.
    sample("a broken lock", Picking::Random, 1, 1000, || {
        switch_at_cells(true);
        count_under::<Shuttle>(Fault::NoRelease, shuttle_thread);
    });
}
