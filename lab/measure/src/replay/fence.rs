//! A point that instructions do not cross.
//!
//! A processor reads its time stamp counter while earlier instructions are still in progress, and starts later ones
//! before it is read. The time of a call of a hundred instructions would mostly vanish in the timer's own cost.
//!
//! # Invariants
//! All instructions before the fence are done before any after it starts. Stores may still be on their way to memory.

#![allow(unsafe_code)]

/// Waits until all instructions before it are done.
#[inline(always)]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction belongs to SSE2, which every processor of this architecture has. It touches no memory.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    // Elsewhere, the strongest fence that the language has; a timer there may still overlap with the call.
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
