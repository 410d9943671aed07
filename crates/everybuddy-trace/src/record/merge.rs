//! One sequence of events from the pages of all CPUs.
//!
//! Exists because the kernel keeps a buffer for each CPU, and a trace is in order of time. Each
//! stream is in order by itself; a heap of their next events gives the earliest of all, so that
//! memory holds one page of each.
//!
//! Invariant: events of one stream keep their order; at the same time frees come first, so that
//! a frame that changes hands is free in between, and what a task does comes before what it
//! allocates.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;

use super::decode::Decoder;
use super::drain::Stream;
use super::page::{Page, PageLayout};
use crate::kernel::{KernelEvent, What};

/// What was found to be wrong with pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageFaults {
    /// Pages before which records were lost.
    pub(super) lossy: u64,
    /// Records that such pages say were lost, where they say it.
    pub(super) lost: u64,
    /// Pages that ended within a record.
    pub(super) cut: u64,
    /// Records that were no known event.
    pub(super) unknown: u64,
}

/// A stream with the events of its current page.
struct Source {
    stream: Stream,
    events: VecDeque<KernelEvent>,
}

/// The merged events of all streams.
pub(super) struct Merge<'a> {
    decoder: &'a Decoder,
    layout: &'a PageLayout,
    sources: Vec<Source>,
    /// The next event of each source that has one: its time, its rank, the source.
    next: BinaryHeap<Reverse<(u64, u8, usize)>>,
    page: Vec<u8>,
    faults: PageFaults,
}

/// Returns which of events of the same time comes first.
fn rank(event: &KernelEvent) -> u8 {
    match event.what {
        What::Free { .. } => 0,
        What::Allocate { .. } | What::Refuse { .. } => 2,
        _ => 1,
    }
}

impl<'a> Merge<'a> {
    /// Begins with streams of any CPUs.
    pub(super) fn new(
        streams: Vec<Stream>,
        decoder: &'a Decoder,
        layout: &'a PageLayout,
    ) -> io::Result<Merge<'a>> {
        let source = |stream| Source {
            stream,
            events: VecDeque::new(),
        };
        let mut merge = Merge {
            decoder,
            layout,
            sources: streams.into_iter().map(source).collect(),
            next: BinaryHeap::new(),
            page: Vec::new(),
            faults: PageFaults::default(),
        };
        for index in 0..merge.sources.len() {
            merge.advance(index)?;
        }
        Ok(merge)
    }

    /// Returns the earliest event that is left.
    pub(super) fn next(&mut self) -> io::Result<Option<KernelEvent>> {
        let Some(Reverse((_, _, index))) = self.next.pop() else {
            return Ok(None);
        };
        let event = self.sources[index].events.pop_front();
        self.advance(index)?;
        Ok(event)
    }

    /// Returns what was wrong with the pages so far.
    pub(super) fn faults(&self) -> PageFaults {
        self.faults
    }

    /// Puts the next event of a source into the heap, if it has one.
    fn advance(&mut self, index: usize) -> io::Result<()> {
        let source = &mut self.sources[index];
        while source.events.is_empty() && source.stream.next_page(&mut self.page)? {
            let mut page = Page::new(&self.page, self.layout);
            if let Some(lost) = page.lost() {
                self.faults.lossy += 1;
                self.faults.lost += lost;
            }
            for (time_ns, record) in page.by_ref() {
                match self.decoder.decode(time_ns, source.stream.cpu, record) {
                    Some(event) => source.events.push_back(event),
                    None => self.faults.unknown += 1,
                }
            }
            self.faults.cut += u64::from(page.is_cut());
        }
        if let Some(event) = source.events.front() {
            self.next.push(Reverse((event.time_ns, rank(event), index)));
        }
        Ok(())
    }
}
