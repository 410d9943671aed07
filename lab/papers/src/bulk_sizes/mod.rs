//! The experiment `bulk-sizes`: its method.

pub(crate) mod measure;
