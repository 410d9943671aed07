//! The spring whose CPUs return to their own domains: `spring=own`.
//!
//! While all CPUs find their domains, a visit acquires no lock and writes no cache line that other CPUs write.
//!
//! # Source
//! Not in \[Spring\], which does not say which domain a CPU acquires.
//!
//! # Mechanism
//! Two CPUs that had the same domain last would meet in it again and again. Therefore a CPU that finds its domain held,
//! but others free, takes one to which no CPU returns. If it took any, the CPU that returns there would be the next to
//! find its domain held. If there is none, and there are fewer domains than CPUs, it takes one that is large; otherwise
//! any. As long as there are fewer domains than CPUs, it splits what it took and keeps a part, if both parts contain a
//! block of the largest order.
//!
//! How idle domains are found: see [`compress`](super::compress).
//!
//! # Invariants
//! A record of a CPU is written by that CPU only. Other CPUs read `last` as a hint, under the spring's lock.

use super::spring_records::{Home, NO_CPU, Root};
use crate::platform::{Platform, SharedCell};

/// The CPUs and their domains.
pub(super) struct Homes<'a, P: Platform> {
    /// One for each CPU; none with `spring=locked`, so that every visit takes the slow path to the lock.
    pub(super) all: &'a [Home<P>],
}

impl<P: Platform> Homes<'_, P> {
    /// Returns `true` if a CPU returns to a domain: if it had that domain last. Reads a line of that CPU. Under the
    /// lock. O(1), O(CPUs) if it is another CPU than before.
    pub(super) fn is_home(&self, root: &Root<P>) -> bool {
        let domain = root.domain.get();
        let returns = |home: &Home<P>| home.last.peek() == domain;
        let known = self.all.get(root.home.get() as usize);
        if known.is_some_and(returns) {
            return true;
        }
        let home = self.all.iter().position(returns);
        root.home.set(home.map_or(NO_CPU, |cpu| cpu as u32));
        home.is_some()
    }
}
