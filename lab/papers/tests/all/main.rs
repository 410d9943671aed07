//! The tests of the papers' experiments, in one program.

mod bounds;
mod broken;
mod emulation;
mod schemes;
mod streams;
