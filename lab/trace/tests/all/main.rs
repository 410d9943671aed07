//! The tests of the trace format, in one program.

mod common;
mod cut;
mod damage;
mod known_traces;
mod leniency;
mod refusals;
mod round_trip;
