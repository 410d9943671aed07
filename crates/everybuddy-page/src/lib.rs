//! The page that shows a comparison: one HTML file that works offline.
//!
//! Exists as a crate of its own so that it builds and is tested without the allocators: plain data
//! goes in ([`Report`]), text comes out.
//!
//! Invariant: the page never asks the network for anything, and never trusts a name.

pub mod report;
mod round;

pub use report::Report;
