//! The tests of importing and assembling, in one program. `record` is a program of its own, because it records commands.

mod assembly;
mod assembly_examples;
mod common;
mod corpus;
mod import;
