//! Systems whose state can be saved, compared and restored: what the explorer runs on.
//!
//! A system of Everybuddy is its metadata: the object lies there, and a token has no state. So a copy of these bytes
//! is a state, and an explorer can return to it, as a model checker of distributed protocols does with a process.
//!
//! | module | what it holds |
//! |---|---|
//! | [`platform`] | one thread that logs its writes, counts its accesses, and can stop at any of them |
//! | [`world`] | a system on it, with its states |
//!
//! The explorer itself is the program. This library is apart from it because it compiles every system.

pub mod platform;
pub mod world;
