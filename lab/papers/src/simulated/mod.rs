//! The method `simulated`: workloads on a simulated machine with many CPUs, for experiments about such machines.

pub(crate) mod figure;
pub(crate) mod measure;
mod printed;
