//! Merges the pages of all CPUs to one sequence of events.
//!
//! The kernel keeps a buffer for each CPU, and a trace is in order of time. Each stream is in order by itself; a heap
//! of their next events gives the earliest of all, so that memory holds one page of each.
//!
//! # Invariants
//! Events of one stream keep their order; at the same time frees come first, so that a frame that changes hands is free
//! in between, and what a task does comes before what it allocates.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;

use super::decode::Decoder;
use super::drain::Stream;
use super::page::{Page, PageLayout};
use crate::kernel::{KernelEvent, What};

/// Problems found in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageFaults {
    /// Pages preceded by lost records.
    pub(super) lossy: u64,
    /// The number of lost records that such pages report, if they do.
    pub(super) lost: u64,
    /// Pages that ended within a record.
    pub(super) cut: u64,
    /// Records of unknown events.
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
    /// The next event of each non-empty source: its time, its rank, the source.
    next: BinaryHeap<Reverse<(u64, u8, usize)>>,
    page: Vec<u8>,
    faults: PageFaults,
}

/// Returns the rank of an event among events with the same time.
fn rank(event: &KernelEvent) -> u8 {
    match event.what {
        What::Free { .. } => 0,
        What::Allocate { .. } | What::Refuse { .. } => 2,
        _ => 1,
    }
}

impl<'a> Merge<'a> {
    /// Starts with streams of any CPUs.
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

    /// Returns the earliest remaining event.
    pub(super) fn next(&mut self) -> io::Result<Option<KernelEvent>> {
        let Some(Reverse((_, _, index))) = self.next.pop() else {
            return Ok(None);
        };
        let event = self.sources[index].events.pop_front();
        self.advance(index)?;
        Ok(event)
    }

    /// Returns the problems found in pages so far.
    pub(super) fn faults(&self) -> PageFaults {
        self.faults
    }

    /// Inserts the next event of a source into the heap, if there is one.
    fn advance(&mut self, index: usize) -> io::Result<()> {
        let source = &mut self.sources[index];
        while source.events.is_empty() && source.stream.next_page(&mut self.page)? {
            let mut page = Page::new(&self.page, self.layout);
            if let Some(lost) = page.lost() {
                self.faults.lossy += 1;
                self.faults.lost += lost;
            }
            let (cpu, mut is_lossy) = (source.stream.cpu, page.lost().is_some());
            for (time_ns, record) in page.by_ref() {
                match self.decoder.decode(time_ns, cpu, record) {
                    Some(event) => {
                        if std::mem::take(&mut is_lossy) {
                            let what = What::Lost { cpu: Some(cpu) };
                            source.events.push_back(KernelEvent {
                                what,
                                ..event.clone()
                            });
                        }
                        source.events.push_back(event);
                    }
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufReader, Seek, Write};

    use super::super::made::{allocation, description, layout, page, short};
    use super::super::tracepoints::MEMORY;
    use super::*;

    const ALLOCATE: u16 = 653;
    const FREE: u16 = 655;
    /// Stands for lost events where frames are compared.
    const LOST: u64 = u64::MAX;

    fn decoder() -> Decoder {
        let mut decoder = Decoder::default();
        let free = description(FREE, &[("pfn", 8, 8, 0), ("order", 16, 4, 0)]);
        assert!(decoder.learn(&MEMORY[0], &allocation()) && decoder.learn(&MEMORY[1], &free));
        decoder
    }

    /// A record of a call, the given number of nanoseconds after the previous one.
    fn call(delta: u32, id: u16, pfn: u64) -> Vec<u8> {
        let mut record = id.to_ne_bytes().to_vec();
        record.resize(8, 0);
        record.extend(pfn.to_ne_bytes());
        record.resize(36, 0);
        short(delta, &record)
    }

    fn stream(cpu: u16, pages: &[Vec<u8>]) -> Stream {
        let mut file: File = tempfile::tempfile().unwrap();
        for page in pages {
            file.write_all(&(page.len() as u32).to_ne_bytes()).unwrap();
            file.write_all(page).unwrap();
        }
        file.rewind().unwrap();
        Stream {
            cpu,
            pages: BufReader::new(file),
            bytes: 0,
        }
    }

    #[test]
    fn cpus_become_one_sequence_in_order_of_time() {
        let (decoder, layout) = (decoder(), layout());
        let lossy = page(1 << 31, &[&call(30, ALLOCATE, 4), &short(1, &[9; 8])]);
        let mut cut = page(0, &[&call(50, FREE, 5), &call(1, FREE, 6)]);
        cut.truncate(cut.len() - 30);
        let streams = vec![
            stream(
                0,
                &[
                    page(0, &[&call(10, ALLOCATE, 1), &call(10, ALLOCATE, 3)]),
                    lossy,
                ],
            ),
            stream(1, &[]),
            stream(2, &[page(0, &[&call(20, FREE, 2)]), cut]),
        ];
        let mut merge = Merge::new(streams, &decoder, &layout).unwrap();
        let mut found = Vec::new();
        while let Some(event) = merge.next().unwrap() {
            let pfn = match event.what {
                What::Allocate { pfn, .. } | What::Free { pfn, .. } => pfn,
                What::Lost { cpu: Some(0) } => LOST,
                _ => panic!("{event:?}"),
            };
            found.push((event.time_ns, event.cpu, pfn));
        }
        // At 1020 ns the free comes first.
        assert_eq!(
            found,
            [
                (1010, 0, 1),
                (1020, 2, 2),
                (1020, 0, 3),
                (1030, 0, LOST),
                (1030, 0, 4),
                (1050, 2, 5)
            ]
        );
        assert_eq!(
            merge.faults(),
            PageFaults {
                lossy: 1,
                lost: 0,
                cut: 1,
                unknown: 1
            }
        );
    }
}
