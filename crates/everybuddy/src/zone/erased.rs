//! A zone layer of any type, called indirectly.
//!
//! # Invariants
//! Each call is one call of the layer within.

use super::supply::{Demand, Supplied};
use super::{Caller, ZoneLayer};
use crate::api::{Progress, Service};
use crate::detail::Detail;
use crate::error::{AllocateError, FreeError, RangeError};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::Unserved;
use crate::platform::Platform;
use crate::snapshot::{Census, Snapshot, Violation};

/// A zone layer of any type.
pub(crate) struct ErasedZone<'z, P: Platform>(pub(crate) &'z dyn AnyZone<P>);

/// Declares and implements `AnyZone`, which is [`ZoneLayer`] without type parameters and constants.
macro_rules! any_zone {
    ($(fn $name:ident($($argument:ident: $type:ty),*; $($closure:ident: [$($bound:tt)*]),*) $(-> $result:ty)?;)*) => {
        /// [`ZoneLayer`] as an object.
        pub(crate) trait AnyZone<P: Platform>: Send + Sync {
            fn table(&self) -> FrameTable<'_, P>;
            fn max_order(&self) -> Order;
            fn services(&self) -> &'static [Service];
            fn free_frames(&self) -> u64;
            fn inspect(&self, see: &mut dyn FnMut(Detail));
            $(fn $name(
                &self,
                caller: &mut Caller<'_, P>,
                $($argument: $type,)*
                $($closure: &mut dyn $($bound)*,)*
            ) $(-> $result)?;)*
        }

        impl<P: Platform, Z: ZoneLayer<P>> AnyZone<P> for Z {
            fn table(&self) -> FrameTable<'_, P> {
                ZoneLayer::table(self)
            }

            fn max_order(&self) -> Order {
                ZoneLayer::max_order(self)
            }

            fn services(&self) -> &'static [Service] {
                ZoneLayer::services(self)
            }

            fn free_frames(&self) -> u64 {
                ZoneLayer::free_frames(self)
            }

            fn inspect(&self, see: &mut dyn FnMut(Detail)) {
                ZoneLayer::inspect(self, see);
            }

            $(fn $name(
                &self,
                caller: &mut Caller<'_, P>,
                $($argument: $type,)*
                $($closure: &mut dyn $($bound)*,)*
            ) $(-> $result)? {
                ZoneLayer::$name(self, caller, $($argument,)* $($closure,)*)
            })*
        }

        impl<P: Platform> ZoneLayer<P> for ErasedZone<'_, P> {
            // A layer without classes ignores them, and one that does not try says so.
            const HAS_CLASSES: bool = true;
            const TRIES: bool = true;

            fn table(&self) -> FrameTable<'_, P> {
                self.0.table()
            }

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

            $(fn $name(
                &self,
                caller: &mut Caller<'_, P>,
                $($argument: $type,)*
                $(mut $closure: impl $($bound)*,)*
            ) $(-> $result)? {
                self.0.$name(caller, $($argument,)* $(&mut $closure,)*)
            })*
        }
    };
}

operations!(any_zone);
