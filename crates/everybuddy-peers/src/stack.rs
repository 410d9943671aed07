//! Values too large for a thread's stack.
//!
//! Why it exists: two peers are single values of up to megabytes that can only be made by value, and the
//! compiler may build them on the stack before they reach the heap; a test's thread has 2 MiB.
//!
//! Invariant: only the making happens elsewhere; the value comes back boxed.

use std::thread;

/// What fits any stack.
const MODEST: usize = 256 << 10;

/// Makes a boxed value of `bytes` on a stack that has room for it.
///
/// # Panics
/// When the thread can't be started, or `make` panics.
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
        Err(error) => panic!("no thread to make a peer of {bytes} bytes on: {error}"),
    }
}
