//! What the CPUs of a simulation do.
//!
//! A plan treats all loads in the same way: each has a name and needs some CPUs.
//!
//! # Invariants
//! The name of a load is the source of its rows.

use std::fmt;
use std::sync::Arc;

use everybuddy_workload::Variant;

use crate::trace::Traced;

/// What the CPUs do.
#[derive(Clone)]
pub enum Load {
    /// A workload of the benchmark.
    Workload(&'static Variant),
    /// A trace, whose tasks are dealt out to the CPUs.
    Trace(Arc<Traced>),
}

/// Different for loads that do something else: it is part of the identity of cells.
impl fmt::Debug for Load {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Workload(variant) => write!(out, "{variant:?}"),
            Load::Trace(own) => write!(out, "trace {} {:016x}", own.name(), own.fingerprint()),
        }
    }
}

impl Load {
    /// Returns the name, which is the source of the rows.
    pub fn name(&self) -> &str {
        match self {
            Load::Workload(variant) => variant.name,
            Load::Trace(traced) => traced.name(),
        }
    }

    /// Returns the cycles before an allocation and before a free, if the load has a pace of its own.
    pub fn pace(&self) -> Option<[u32; 2]> {
        match self {
            Load::Workload(variant) => variant.pace().map(|own| [own.allocate, own.free]),
            Load::Trace(_) => None,
        }
    }

    /// Returns the smallest number of CPUs on which it runs.
    pub fn least_cpus(&self) -> u16 {
        match self {
            Load::Workload(variant) => variant.threads,
            Load::Trace(_) => 1,
        }
    }
}
