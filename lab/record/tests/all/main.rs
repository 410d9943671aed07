//! The tests of importing and assembling, in one program.
//!
//! The tests in `record.rs` are a separate program: other tests would disturb the recorded commands.

mod assembly;
mod assembly_examples;
mod common;
mod corpus;
mod forms;
mod import;
mod locks;
mod perf_chains;
