//! Tests that build systems: here, because a test of the library itself would compile all of them again.

mod start;
mod systems;
