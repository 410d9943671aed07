//! The experiment `streams-distribution`: its method and its figure.

pub(crate) mod figure;
pub(crate) mod measure;
