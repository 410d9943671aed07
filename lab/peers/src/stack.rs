//! Construction of values that are too large for a thread's stack.
//!
//! Two peers are single values of up to several megabytes that can only be constructed by value. The compiler may
//! build them on the stack before it moves them to the heap, but a test's thread has a stack of only 2 MiB.
//!
//! # Invariants
//! Only the construction runs on another thread; the value is returned boxed.

use std::thread;

/// A size that fits on any stack.
const MODEST: usize = 256 << 10;

/// Constructs a boxed value of `bytes` on a stack that is large enough.
///
/// # Panics
/// If the thread cannot be started, or if `make` panics.
pub(crate) fn on_large_stack<T: Send>(bytes: usize, make: fn() -> Box<T>) -> Box<T> {
    if bytes <= MODEST {
        return make();
    }
    let made = thread::scope(|scope| {
        thread::Builder::new()
            .stack_size(MODEST + 8 * bytes)
            .spawn_scoped(scope, make)
            .map(|thread| thread.join())
    });
    match made {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => {
            panic!("failed to spawn a thread to construct a peer of {bytes} bytes: {error}")
        }
    }
}
