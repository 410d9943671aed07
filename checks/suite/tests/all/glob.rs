//! Everything of the crate can be imported by a glob, and its paths still mean what they did.

use everybuddy::*;

#[test]
fn a_glob_import_hides_no_path() {
    // Compiled, this holds: nothing that a glob imports has the name of the crate.
    let block: everybuddy::Block = Block::new(Index(8), everybuddy::Order::ZERO);
    assert_eq!(block.buddy().start, everybuddy::Index(9));
}
