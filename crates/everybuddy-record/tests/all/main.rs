//! The tests of importing and assembling, in one program.
//!
//! The tests in `record.rs` are a program of their own: other tests would disturb the recorded commands.

mod assembly;
mod assembly_examples;
mod common;
mod corpus;
mod import;
