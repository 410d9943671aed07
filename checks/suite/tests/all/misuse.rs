//! What the table of misuse says about each system.

use everybuddy_suite::misuse::{MISUSES, accepted};

#[test]
fn only_what_keeps_no_orders_accepts_misuse() {
    for (misuse, systems) in MISUSES.iter().zip(accepted()) {
        for name in systems {
            assert_eq!(name, "llfree", "accepts {}", misuse.freed);
        }
    }
}
