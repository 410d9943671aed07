//! The experiment `buffers`: its method and its figure.

pub(crate) mod figure;
mod held_out;
pub(crate) mod measure;
