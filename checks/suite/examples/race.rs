//! The canary of `ci/tsan.sh`: two threads access a cell, and nothing orders them.
//!
//! `race value` reads the value, which ThreadSanitizer must report. `race hint` reads the copy for hints, which it must
//! not. Otherwise a run that reports nothing would mean nothing.

use std::sync::atomic::{AtomicU32, Ordering};

use everybuddy::platform::SharedCell;
use everybuddy_suite::all_at_once;
use everybuddy_suite::plain::PlainCell;

fn main() {
    let is_hint = match std::env::args().nth(1).as_deref() {
        Some("value") => false,
        Some("hint") => true,
        _ => {
            eprintln!("race: say what is read: value or hint");
            std::process::exit(2);
        }
    };
    let (cell, meet) = (PlainCell::<u64>::new(0), AtomicU32::new(0));
    all_at_once(2, |thread| {
        // Relaxed: that they meet orders nothing.
        meet.fetch_add(1, Ordering::Relaxed);
        while meet.load(Ordering::Relaxed) < 2 {
            std::thread::yield_now();
        }
        match (thread, is_hint) {
            (0, _) => cell.set(1),
            (_, true) => assert!(cell.peek() <= 1),
            (_, false) => assert!(cell.get() <= 1),
        }
    });
}
