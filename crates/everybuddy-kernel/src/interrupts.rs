//! Disables the interrupts of a CPU.
//!
//! # Design decisions
//! The kernel provides the functions: one that runs as a program, or as a paravirtual guest, cannot disable interrupts
//! with an instruction. In user space, the functions do nothing; in tests, they count the depth of nesting.

#[cfg(target_os = "none")]
unsafe extern "C" {
    fn everybuddy_interrupts_off() -> usize;
    fn everybuddy_interrupts_restore(before: usize);
}

/// Disables interrupts. Returns what [`restore`] takes.
#[cfg(target_os = "none")]
#[inline(always)]
pub(crate) fn off() -> usize {
    // SAFETY: the header states what the function does; it has no condition.
    unsafe { everybuddy_interrupts_off() }
}

/// Enables interrupts if they were enabled before [`off`].
#[cfg(target_os = "none")]
#[inline(always)]
pub(crate) fn restore(before: usize) {
    // SAFETY: as above.
    unsafe { everybuddy_interrupts_restore(before) }
}

#[cfg(not(target_os = "none"))]
pub(crate) use user::*;

#[cfg(not(target_os = "none"))]
mod user {
    #[cfg(test)]
    std::thread_local! {
        static DEPTH: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
    }

    #[inline(always)]
    pub(crate) fn off() -> usize {
        #[cfg(test)]
        return DEPTH.replace(DEPTH.get() + 1);
        #[cfg(not(test))]
        0
    }

    #[inline(always)]
    pub(crate) fn restore(before: usize) {
        #[cfg(test)]
        DEPTH.set(before);
        #[cfg(not(test))]
        let _ = before;
    }

    /// Returns `true` in a section without interrupts.
    #[cfg(test)]
    pub(crate) fn are_off() -> bool {
        DEPTH.get() > 0
    }
}
