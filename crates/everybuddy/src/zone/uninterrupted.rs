//! A zone layer that disables interrupts during its operations.
//!
//! An interrupt handler may wait for a lock that another CPU holds while that CPU allocates. If the handler interrupted
//! an operation that holds the lock of a zone, or a domain, both CPUs could wait for each other for ever. So each
//! operation of a zone layer runs in a [`Section`], which compiles to nothing in user space.
//!
//! # Invariants
//! A lock or a domain of a zone layer for which CPUs wait without a bound is held only within a section. Sections are
//! properly nested; guards of locks are not.

use super::supply::{Demand, Supplied};
use super::{Caller, ZoneLayer};
use crate::api::{Progress, Service};
use crate::detail::Detail;
use crate::error::{AllocateError, FreeError, RangeError};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::{Section, Unserved};
use crate::platform::Platform;
use crate::snapshot::{Census, Snapshot, Violation};

/// A zone layer whose operations run with interrupts disabled.
pub(crate) struct Uninterrupted<Z>(pub(crate) Z);

/// Implements operations of a zone layer: those of the layer within, each in a section.
macro_rules! in_sections {
    ($(fn $name:ident($($argument:ident: $type:ty),*; $($closure:ident: [$($bound:tt)*]),*) $(-> $result:ty)?;)*) => {
        $(
            #[inline(always)]
            fn $name(
                &self,
                caller: &mut Caller<'_, P>,
                $($argument: $type,)*
                $($closure: impl $($bound)*,)*
            ) $(-> $result)? {
                let _section = Section::<P>::begin();
                self.0.$name(caller, $($argument,)* $($closure,)*)
            }
        )*
    };
}

impl<P: Platform, Z: ZoneLayer<P>> ZoneLayer<P> for Uninterrupted<Z> {
    const UNKNOWN_CPUS_ARE_BUSY: bool = Z::UNKNOWN_CPUS_ARE_BUSY;
    const HAS_CLASSES: bool = Z::HAS_CLASSES;
    const TRIES: bool = Z::TRIES;

    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.0.table()
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.0.max_order()
    }

    fn services(&self) -> &'static [Service] {
        self.0.services()
    }

    fn free_frames(&self) -> u64 {
        self.0.free_frames()
    }

    fn inspect(&self, see: &mut dyn FnMut(Detail)) {
        self.0.inspect(see);
    }

    operations!(in_sections);
}
