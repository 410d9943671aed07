//! Models of what accesses cost.

mod hardware;

pub use hardware::{Cache, Hardware, HardwareError, Place, Transfer, Waiters};
