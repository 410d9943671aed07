//! Tests of the crate from outside.

mod answers;
mod command;
mod common;
mod corpus;
mod frames;
mod history;
mod mangled;
mod many;
mod need;
mod requests;
