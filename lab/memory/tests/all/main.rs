//! Tests of the crate from outside.

mod answers;
mod command;
mod common;
mod mangled;
mod need;
