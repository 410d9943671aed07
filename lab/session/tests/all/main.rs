//! Tests of sessions. One program, and none in the library: all systems are compiled into each.

mod figures;
mod lines;
