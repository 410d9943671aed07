//! The shelf of the locked spring: the domains that no CPU holds, in the order in which they were put back.
//!
//! A CPU takes the domain that was put back last, so idle ones sink; see [`locked`](super::locked).
//!
//! # Invariants
//! All operations are under the spring's lock.

use super::domain::DomainTable;
use super::spring_records::SpringHead;
use crate::platform::{Platform, SharedCell};
use crate::wrapping_slice::WrappingSlice;

/// A place of the shelf.
#[repr(C)]
pub(super) struct Shelved<P: Platform> {
    domain: P::Cell<u32>,
    /// The acquisition after which the domain was put back.
    since: P::Cell<u32>,
}

impl<P: Platform> Shelved<P> {
    pub(super) fn new() -> Self {
        let [domain, since] = [0, 0].map(P::Cell::new);
        Self { domain, since }
    }
}

/// The domains that no CPU holds.
pub(super) struct Shelf<'a, P: Platform> {
    pub(super) head: &'a SpringHead<'a, P>,
    pub(super) places: WrappingSlice<'a, Shelved<P>>,
}

impl<'a, P: Platform> Shelf<'a, P> {
    /// Returns the number of domains on the shelf.
    pub(super) fn length(&self) -> u32 {
        self.head.top.get().wrapping_sub(self.head.bottom.get())
    }

    /// Takes the domain on top.
    pub(super) fn take(&self, all: &DomainTable<'a, P>) -> Option<u32> {
        let head = self.head;
        if self.length() == 0 {
            return None;
        }
        head.clock.set(head.clock.get().wrapping_add(1));
        let top = head.top.get().wrapping_sub(1);
        head.top.set(top);
        let domain = self.places.at(top).domain.get();
        all.records.at(domain).hold();
        Some(domain)
    }

    /// Puts a domain on top, for its holder.
    pub(super) fn put(&self, all: &DomainTable<'a, P>, domain: u32) {
        let top = self.head.top.get();
        self.place(all, top, domain, self.head.clock.get());
        self.head.top.set(top.wrapping_add(1));
    }

    pub(super) fn place(&self, all: &DomainTable<'a, P>, at: u32, domain: u32, since: u32) {
        all.records.at(domain).release();
        self.places.at(at).domain.set(domain);
        self.places.at(at).since.set(since);
    }

    /// Takes the lowest domain if it was not taken during more than `patience` acquisitions. Returns it with the
    /// acquisition after which it was put back.
    pub(super) fn take_idle(&self, all: &DomainTable<'a, P>, patience: u32) -> Option<(u32, u32)> {
        let (head, bottom) = (self.head, self.head.bottom.get());
        let lowest = self.places.at(bottom);
        let age = head.clock.get().wrapping_sub(lowest.since.get());
        if self.length() == 0 || age <= patience {
            return None;
        }
        head.bottom.set(bottom.wrapping_add(1));
        let domain = lowest.domain.get();
        all.records.at(domain).hold();
        Some((domain, lowest.since.get()))
    }
}
