//! Models of what accesses cost.

mod caches;
mod coming;
mod core;
mod directory;
mod hardware;
mod tags;
mod window;

pub use caches::Caches;
pub use directory::Traffic;
pub use hardware::{Cache, Hardware, HardwareError, Place, Transfer, Waiters};
