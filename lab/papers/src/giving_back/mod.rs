//! The experiment `giving-back`: its guests, their host, its method and its figure.

pub(crate) mod figure;
pub(crate) mod guest;
pub(crate) mod measure;
pub(crate) mod world;
