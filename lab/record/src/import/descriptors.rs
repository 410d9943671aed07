//! Frames that a recording names by the address of the page's descriptor.
//!
//! Up to version 4.0, the kernel recorded the address of `struct page`, and computed the frame's number only where it
//! printed the event itself. Tools that print a recorded event do not know the size of the structure, so that their
//! `pfn` is the distance in bytes from the first descriptor. On x86-64 the first descriptor has a fixed address. The
//! size of the structure divides all distances.
//!
//! # Invariants
//! Frames are converted only if all of a recording are of this kind, and only by a size that such kernels have.

use super::error::Fault;
use super::import_log::ImportLog;
use crate::kernel::{KernelEvent, What};

/// The first descriptor of x86-64 kernels without randomized addresses, and the end of descriptors.
const FIRST: u64 = 0xffff_ea00_0000_0000;
const END: u64 = 0xffff_eb00_0000_0000;

/// The sizes of a descriptor, the most frequent first.
const SIZES: [u64; 4] = [64, 56, 80, 72];

/// The number of different frames that must agree: fewer may all be multiples of several sizes by chance.
const ENOUGH: usize = 4;

/// Returns `true` for the address of a descriptor.
pub(crate) fn is_kernel_address(address: u64) -> bool {
    (FIRST..END).contains(&address)
}

/// What the events of a recording say about descriptors.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    /// Events whose only number is the address.
    alone: u64,
    /// Events whose `pfn` equals the distance.
    equal: u64,
    /// Other events with a frame.
    others: u64,
    /// Events with an address that is unknown.
    unknown: u64,
    /// The greatest common divisor of the distances, and the first different ones.
    divisor: u64,
    different: Vec<u64>,
}

impl Descriptors {
    /// Follows an event with a frame's number.
    pub(crate) fn number(&mut self, pfn: u64, descriptor: Option<u64>, order: u32) {
        if descriptor.is_some_and(|address| address - FIRST == pfn) {
            self.equal += 1;
            self.distance(pfn, order);
        } else {
            self.others += 1
        }
    }

    /// Follows an event with an address alone. Returns the distance, if it is known.
    pub(crate) fn address(&mut self, address: u64, order: u32) -> Option<u64> {
        if !is_kernel_address(address) {
            self.unknown += 1;
            return None;
        }
        self.alone += 1;
        self.distance(address - FIRST, order);
        Some(address - FIRST)
    }

    fn distance(&mut self, distance: u64, order: u32) {
        // The first frame of a block is a multiple of its size, which says nothing about the descriptor.
        let distance = distance >> order.min(63);
        self.divisor = gcd(self.divisor, distance);
        if self.different.len() < ENOUGH && !self.different.contains(&distance) {
            self.different.push(distance);
        }
    }

    /// Converts the distances among the frames of all events, if they are distances.
    pub(crate) fn finish(
        &self,
        events: &mut [KernelEvent],
        log: &mut ImportLog,
    ) -> Result<(), Fault> {
        log.unknown_frames = self.unknown;
        let mut sizes = SIZES
            .into_iter()
            .filter(|size| self.divisor.is_multiple_of(*size));
        let (size, other) = (sizes.next(), sizes.next());
        let is_certain = self.different.len() >= ENOUGH || (self.alone > 0 && other.is_none());
        match size.filter(|_| self.divisor > 0 && self.others == 0 && is_certain) {
            Some(size) => {
                for event in events {
                    if let What::Allocate { pfn, .. }
                    | What::Free { pfn, .. }
                    | What::FreeReport { pfn, .. } = &mut event.what
                    {
                        *pfn /= size;
                    }
                }
                log.remark(
                    "the recording is of a kernel up to 4.0, which recorded the addresses of page descriptors: the \
                     frames were computed from these",
                );
                Ok(())
            }
            None if self.alone > 0 => Err(unknown(self.alone + self.unknown)),
            None => Ok(()),
        }
    }
}

/// Returns the error of a recording without frames.
pub(crate) fn unknown(events: u64) -> Fault {
    Fault::refuse(
        "",
        format!(
            "{events} events of the page allocator name a page only by the address of its descriptor, as kernels up \
             to 4.0 do (field `page`), and its frame does not follow from that address"
        ),
        "import the kernel's own text, the file `trace` of tracefs or a newer kernel's recording: both contain frame \
         numbers (`pfn`)",
    )
}

fn gcd(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}
