//! The tests of the modules that read memory frame by frame.

#![allow(missing_docs)]

mod common;
mod counts;
mod groups;
mod k1;
mod map;
mod model;
mod owner;
mod reading;
mod words;
