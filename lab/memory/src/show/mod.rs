//! Output: a table for people, a page, JSON, and metrics for Prometheus.
//!
//! Each form shows the same answers.
//!
//! # Invariants
//! A bound is shown as a bound, never as a number.

pub mod history;
pub mod holders;
pub mod html;
pub mod json;
pub mod prometheus;
pub mod terminal;
