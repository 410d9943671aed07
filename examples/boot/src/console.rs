//! The serial line, and the report of a panic.
//!
//! # Invariants
//! A line is printed whole: CPUs print one after the other. Interrupt handlers print only if they panic.

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use spin::{Mutex, Once};

use crate::arch::{self, Line};
use crate::conformance;

static LINE: Once<Mutex<Line>> = Once::new();

/// How the machine ends.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Outcome {
    /// QEMU ends with 33.
    Passed = 16,
    /// QEMU ends with 35.
    Failed = 17,
}

/// Sets the serial line, or ends the machine.
pub(crate) fn open(line: Option<Line>) {
    match line {
        Some(line) => {
            LINE.call_once(|| Mutex::new(line));
        }
        None => arch::exit(Outcome::Failed),
    }
}

/// Prints a text, whole.
pub(crate) fn print(text: fmt::Arguments<'_>) {
    if let Some(line) = LINE.get() {
        // The line cannot fail.
        let _ = line.lock().write_fmt(text);
    }
}

/// Prints a line on the serial line.
macro_rules! println {
    ($($text:tt)*) => { $crate::console::print(format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use println;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    if let Some(line) = LINE.get() {
        // The CPU may have been interrupted, or may have panicked, while it printed.
        for _ in 0..1_000_000 {
            if !line.is_locked() {
                break;
            }
            core::hint::spin_loop();
        }
        if line.is_locked() {
            // SAFETY: the machine ends here. What another CPU prints may be mixed with this.
            unsafe { line.force_unlock() };
        }
    }
    // Another CPU may have it, if it changes the property now.
    if let Some((name, spec)) = conformance::CURRENT.try_lock().and_then(|current| *current) {
        println!("\nboot: the property {name} of {spec}");
    }
    println!("\nboot: FAILED: {info}");
    arch::exit(Outcome::Failed)
}
