//! The tests of the papers' experiments, in one program.

mod emulation;
mod schemes;
mod streams;
