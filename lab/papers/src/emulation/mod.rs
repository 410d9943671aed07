//! The emulation program of \[Serewa\] §3: a million calls on a simple buddy system, which splits first or
//! merges first.
//!
//! The paper explains a gain of 38 % by blocks that are spread evenly over queues. Its profile says that
//! four fifths of the time went into walking a queue to its end. So the same program runs here on better structures,
//! and what is walked is counted in addition to the time. A unit of 8 bytes stands for a frame.
//!
//! | file | contents |
//! |------|----------|
//! | [`rand`] | the random numbers of the C library that the paper's program was linked with |
//! | [`program`] | listing 1 |
//! | [`manager`] | the routines that it calls: allocation, release, arranging, merging |
//! | [`function`] | their names in the paper, and the number of calls of each |
//! | [`store`] | the stores of free blocks |
//! | [`queue`] | queues, first in, first out: as the paper's profile implies, and with a known end |
//! | [`ordered`] | the structures by address of the allocators' crate: trees and bits |
//! | [`standalone`] | a structure by address without a zone |
//! | [`watch`] | observers of the manager: none, a counter of steps, a sampler |
//! | [`counting`] | a platform on which every access to a structure's words is a step |
//! | [`runs`] | runs by case and store: counted, or timed |
//! | [`paper`] | listings 2 and 3 |
//!
//! # Invariants
//! What is asked for depends on the seed and on nothing else; the accounting identities that the paper's
//! profiles obey hold in every run ([`manager::Work::balance`]).

pub mod counting;
pub(crate) mod figure;
pub mod function;
pub mod manager;
pub(crate) mod measure;
pub mod ordered;
pub mod paper;
pub mod program;
pub mod queue;
pub mod rand;
pub mod runs;
pub mod standalone;
pub mod store;
pub mod watch;
