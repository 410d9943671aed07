//! Stacks and the switch from one to another.
//!
//! A virtual CPU that gives way continues another one directly. No published coroutine library offers this: theirs
//! return to the code that resumed the coroutine, which then resumes the next one, at twice the cost.
//!
//! # Invariants
//! 1. A [`Suspended`] value points to the registers that a function call preserves, saved on the stack that it
//!    continues, and to the address at which it continues.
//! 2. Nothing unwinds through a switch or out of the first function of a stack. The unwinder and debuggers find the
//!    end of the stack there: the return address of the first function has no caller.
//!
//! # Not modelled
//! The control words of the floating-point units are not switched: all coroutines of a thread share them.

#[cfg(not(all(unix, any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!(
    "everybuddy-sim switches stacks with instructions of x86-64 or AArch64, under the conventions of Unix. \
     Other targets need a `switch` and a `trampoline` of their own in engine/switch.rs."
);

use core::arch::naked_asm;
use std::io;

use corosensei::stack::{DefaultStack, Stack as _};

/// A stack that is not running, by the address of its saved registers.
pub(super) type Suspended = *const usize;

/// A function that begins on a stack of its own and never returns.
pub(super) type Entry = unsafe extern "C" fn(*const ()) -> !;

/// Words of a saved stack: the registers that a call preserves, and where it continues.
#[cfg(target_arch = "x86_64")]
const SAVED: usize = 7;
#[cfg(target_arch = "aarch64")]
const SAVED: usize = 20;

/// The words of a new stack above its saved registers: two zeros, where a frame would have its caller's frame pointer
/// and return address. Their number is even: the base is aligned to 16 bytes, and so must be the stack that remains
/// when the registers have been restored.
const ABOVE: usize = 2;

/// Memory for a stack, with an inaccessible page at its end.
pub(super) struct Stack(DefaultStack);

impl Stack {
    /// Allocates `bytes` bytes, rounded up to pages.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        DefaultStack::new(bytes).map(Self)
    }

    /// Prepares the stack so that the first switch to it calls `function` with `argument`.
    ///
    /// Whatever is on the stack is overwritten.
    pub(super) fn prepare(&mut self, function: Entry, argument: *const ()) -> Suspended {
        let base = core::ptr::with_exposed_provenance_mut::<usize>(self.0.base().get());
        // SAFETY: `DefaultStack` maps at least 4096 writable bytes below its base.
        let saved = unsafe { base.sub(SAVED + ABOVE) };
        let mut image = [0; SAVED + ABOVE];
        let (function, argument) = (function as usize, argument.expose_provenance());
        // In the order in which `switch` restores them.
        #[cfg(target_arch = "x86_64")]
        {
            // R12, RBX, and the return address.
            image[3] = function;
            image[4] = argument;
            image[6] = trampoline as *const () as usize;
        }
        #[cfg(target_arch = "aarch64")]
        {
            // X19, X20, and X30.
            image[8] = argument;
            image[9] = function;
            image[19] = trampoline as *const () as usize;
        }
        // SAFETY: the words from `saved` to the base belong to the stack, which `self` borrows exclusively.
        unsafe { saved.cast::<[usize; SAVED + ABOVE]>().write(image) };
        saved
    }
}

/// Continues `to`. Stores at `from` what continues the caller; returns when something switches to that.
///
/// # Safety
/// `from` must be valid for a write. `to` must come from [`Stack::prepare`] or from an earlier switch on this
/// thread, its stack must not have run since, and its stack and everything that its code borrows must be alive.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn switch(from: *mut Suspended, to: Suspended) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Where a new stack continues: calls the function in R12 with the argument in RBX.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn trampoline() {
    naked_asm!(
        ".cfi_startproc",
        // This frame has no caller.
        ".cfi_undefined rip",
        "mov rdi, rbx",
        "call r12",
        "ud2",
        ".cfi_endproc",
    )
}

/// Continues `to`. Stores at `from` what continues the caller; returns when something switches to that.
///
/// # Safety
/// `from` must be valid for a write. `to` must come from [`Stack::prepare`] or from an earlier switch on this
/// thread, its stack must not have run since, and its stack and everything that its code borrows must be alive.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn switch(from: *mut Suspended, to: Suspended) {
    naked_asm!(
        "stp d8, d9, [sp, #-160]!",
        "stp d10, d11, [sp, #16]",
        "stp d12, d13, [sp, #32]",
        "stp d14, d15, [sp, #48]",
        "stp x19, x20, [sp, #64]",
        "stp x21, x22, [sp, #80]",
        "stp x23, x24, [sp, #96]",
        "stp x25, x26, [sp, #112]",
        "stp x27, x28, [sp, #128]",
        "stp x29, x30, [sp, #144]",
        "mov x9, sp",
        "str x9, [x0]",
        "mov sp, x1",
        "ldp d10, d11, [sp, #16]",
        "ldp d12, d13, [sp, #32]",
        "ldp d14, d15, [sp, #48]",
        "ldp x19, x20, [sp, #64]",
        "ldp x21, x22, [sp, #80]",
        "ldp x23, x24, [sp, #96]",
        "ldp x25, x26, [sp, #112]",
        "ldp x27, x28, [sp, #128]",
        "ldp x29, x30, [sp, #144]",
        "ldp d8, d9, [sp], #160",
        "ret",
    )
}

/// Where a new stack continues: calls the function in X20 with the argument in X19.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn trampoline() {
    naked_asm!(
        ".cfi_startproc",
        // This frame has no caller.
        ".cfi_undefined x30",
        "mov x0, x19",
        "blr x20",
        "brk #1",
        ".cfi_endproc",
    )
}
