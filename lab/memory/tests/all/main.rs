//! Tests of the crate from outside.

mod answers;
mod command;
mod common;
mod frames;
mod mangled;
mod need;
