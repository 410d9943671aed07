//! What a Rust library without the standard library needs in a C program: an end after a panic.
//!
//! # Invariants
//! No input reaches a panic: misuse is an error code. Should one happen nevertheless, the process ends here, because
//! the state of the allocator is unknown.

use core::panic::PanicInfo;

unsafe extern "C" {
    /// The C library's, or that of the kernel.
    safe fn abort() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    abort()
}
