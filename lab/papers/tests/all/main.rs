//! The tests of the papers' experiments, in one program.

mod bounds;
mod broken;
mod claims;
mod emulation;
mod schemes;
mod streams;
