//! The serial line, and the end of the machine.
//!
//! # Invariants
//!
//! A line is printed whole: CPUs print one after the other. Interrupt handlers print only if they panic.

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use spin::{Mutex, Once};
use uart_16550::backend::PioBackend;
use uart_16550::{Config, Uart16550Tty};
use x86_64::instructions::port::Port;

use crate::conformance;

/// The first serial port.
const SERIAL: u16 = 0x3f8;

/// The port of QEMU's device isa-debug-exit. QEMU ends with twice the value plus one.
const EXIT: u16 = 0xf4;

static LINE: Once<Mutex<Uart16550Tty<PioBackend>>> = Once::new();

/// How the machine ends.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Outcome {
    /// QEMU ends with 33.
    Passed = 16,
    /// QEMU ends with 35.
    Failed = 17,
}

/// Opens the serial line, or ends the machine.
pub(crate) fn open() {
    // SAFETY: the port is that of a PC's first serial line, and nothing else uses it.
    match unsafe { Uart16550Tty::new_port(SERIAL, Config::default()) } {
        Ok(line) => {
            LINE.call_once(|| Mutex::new(line));
        }
        Err(_) => exit(Outcome::Failed),
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

/// Ends the machine.
pub(crate) fn exit(outcome: Outcome) -> ! {
    let mut port = Port::new(EXIT);
    loop {
        // SAFETY: the device ends the machine; without it, the port is not connected.
        unsafe { port.write(outcome as u32) };
    }
}

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
    exit(Outcome::Failed)
}
