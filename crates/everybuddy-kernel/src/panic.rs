//! A panic calls the kernel with its message.
//!
//! # Invariants
//! The message is written into a buffer on the stack. The kernel's function does not return.

use core::fmt::Write;
use core::panic::PanicInfo;

use crate::codes::Text;

unsafe extern "C" {
    /// Prints the message and stops, as `BUG()` does.
    fn everybuddy_panic(message: *const u8) -> !;
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let mut buffer = [0; 256];
    let _ = write!(Text::new(&mut buffer), "{info}");
    // SAFETY: the header states that the function reads a text that ends with a zero, and does not return.
    unsafe { everybuddy_panic(buffer.as_ptr()) }
}
