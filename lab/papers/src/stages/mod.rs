//! The experiment `stages`: its method and its figure.

pub(crate) mod figure;
pub(crate) mod measure;
mod numbers;
mod programs;
