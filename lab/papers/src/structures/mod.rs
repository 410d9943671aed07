//! The experiment `structures`: its method and its figure.

pub(crate) mod figure;
pub(crate) mod measure;
