//! The platform of every replay: threads of this process, which wait by yielding.

use std::sync::LazyLock;
use std::thread;
use std::time::Instant;

use everybuddy::platform::{Spin, Waiting};
use everybuddy::{FrameAllocator, Native};

/// Waits by spinning briefly, then by yielding the processor: a thread that holds a lock may have been switched out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Yielding;

impl Waiting for Yielding {
    // A thread can be stopped in a call.
    const MAX_WAIT: u64 = 1_000_000_000;
    const MAX_POLLS: u32 = 1 << 16;

    #[inline]
    fn pause(attempt: u32) {
        if attempt < 32 {
            Spin::pause(attempt)
        } else {
            thread::yield_now()
        }
    }

    fn now() -> Option<u64> {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        u64::try_from(START.elapsed().as_nanos()).ok()
    }
}

/// The platform of every replay.
pub type ReplayPlatform<B> = Native<Yielding, B>;

/// A system of any composition, called through dynamic dispatch.
pub type AnySystem<'s, B> = dyn FrameAllocator<ReplayPlatform<B>> + 's;
