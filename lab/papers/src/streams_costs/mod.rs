//! The experiment `streams-costs`: its method, predicted times, and its figure.

pub(crate) mod figure;
mod fixed;
pub(crate) mod measure;
