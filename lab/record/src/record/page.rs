//! Parses pages of the kernel's ring buffer.
//!
//! The raw pages are the only way out of the kernel that keeps up with it: a page
//! holds records one after the other, each with the time since the one before.
//!
//! # Invariants
//! Any bytes give records that lie inside them, or end the page; nothing panics.

use crate::format::{Field, Format};

/// The layout of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    timestamp: Field,
    commit: Field,
    data: Field,
}

/// The lower bits of a page's commit field: the number of bytes of records.
const LENGTH: u64 = 0xf_ffff;
/// Records before this page were lost.
const LOST: u64 = 1 << 31;
/// Their number follows the records.
const LOST_COUNTED: u64 = 1 << 30;

/// Kinds of records that are not 1 to 28 words of data.
const LONG: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of the time since the previous record.
const DELTA_BITS: u32 = 27;
/// Bits of an absolute time; the higher bits are those of the previous time.
const STAMP_BITS: u32 = 59;

impl PageLayout {
    /// Finds the layout of a page in `events/header_page`. Returns `None` if a part is missing.
    pub(crate) fn new(header_page: &Format) -> Option<PageLayout> {
        Some(PageLayout {
            timestamp: header_page.field("timestamp")?,
            commit: header_page.field("commit")?,
            data: header_page.field("data")?,
        })
    }

    /// Returns the size of a page in bytes.
    pub(crate) fn page_size(&self) -> usize {
        self.data.offset.saturating_add(self.data.size)
    }

    /// Returns the number of meaningful bytes of a page.
    pub(crate) fn used(&self, page: &[u8]) -> usize {
        let commit = self.commit.value(page).unwrap_or(0);
        let counted = match commit & LOST_COUNTED {
            0 => 0,
            _ => size_of::<u64>(),
        };
        let used = self
            .data
            .offset
            .saturating_add((commit & LENGTH) as usize + counted);
        used.min(page.len())
    }
}

/// The records of a page.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    records: &'a [u8],
    time_ns: u64,
    lost: Option<u64>,
    is_cut: bool,
}

impl<'a> Page<'a> {
    /// Opens a page; one that is too short has no records.
    pub(crate) fn new(page: &'a [u8], layout: &PageLayout) -> Page<'a> {
        let (time_ns, commit) = (layout.timestamp.value(page), layout.commit.value(page));
        let (Some(time_ns), Some(commit)) = (time_ns, commit) else {
            return Page {
                records: &[],
                time_ns: 0,
                lost: None,
                is_cut: true,
            };
        };
        let length = (commit & LENGTH) as usize;
        let data = page.get(layout.data.offset..).unwrap_or(&[]);
        let is_cut = length > data.len();
        let (records, behind) = data.split_at(length.min(data.len()));
        let lost = (commit & LOST != 0).then(|| match commit & LOST_COUNTED {
            0 => 0,
            _ => {
                let size = size_of::<usize>();
                Field {
                    offset: 0,
                    size,
                    is_signed: false,
                    is_elsewhere: false,
                }
                .value(behind)
                .unwrap_or(0)
            }
        });
        Page {
            records,
            time_ns,
            lost,
            is_cut,
        }
    }

    /// Returns the number of records lost before this page: `None` for none, 0 for an unknown number.
    pub(crate) fn lost(&self) -> Option<u64> {
        self.lost
    }

    /// Returns `true` if the page ended within a record: everything after it is lost.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Takes the given number of bytes off the front.
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let Some((taken, rest)) = self.records.split_at_checked(bytes) else {
            (self.records, self.is_cut) = (&[], true);
            return None;
        };
        self.records = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u32> {
        let bytes = self.take(size_of::<u32>())?;
        bytes.try_into().ok().map(u32::from_ne_bytes)
    }
}

impl<'a> Iterator for Page<'a> {
    type Item = (u64, &'a [u8]);

    /// Returns the time of the next record and its bytes.
    fn next(&mut self) -> Option<(u64, &'a [u8])> {
        while !self.records.is_empty() {
            let header = self.word()?;
            let (kind, delta) = if cfg!(target_endian = "big") {
                (
                    header >> DELTA_BITS,
                    u64::from(header & ((1 << DELTA_BITS) - 1)),
                )
            } else {
                (header & 31, u64::from(header >> 5))
            };
            match kind {
                // Without a time, padding fills the page to its end.
                PADDING if delta == 0 => self.records = &[],
                PADDING => {
                    let length = self.word()? as usize;
                    self.take(length.saturating_sub(size_of::<u32>()))?;
                    self.time_ns = self.time_ns.wrapping_add(delta);
                }
                TIME_EXTEND => {
                    let upper = u64::from(self.word()?) << DELTA_BITS;
                    self.time_ns = self.time_ns.wrapping_add(upper + delta);
                }
                TIME_STAMP => {
                    let stamp = (u64::from(self.word()?) << DELTA_BITS) + delta;
                    let above = self.time_ns >> STAMP_BITS << STAMP_BITS;
                    let time_ns = above | stamp;
                    self.time_ns = if time_ns < self.time_ns {
                        time_ns.wrapping_add(1 << STAMP_BITS)
                    } else {
                        time_ns
                    };
                }
                kind => {
                    self.time_ns = self.time_ns.wrapping_add(delta);
                    let length = match kind {
                        // The length includes itself.
                        LONG => (self.word()? as usize).saturating_sub(size_of::<u32>()),
                        words => words as usize * size_of::<u32>(),
                    };
                    return Some((self.time_ns, self.take(length)?));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{head, layout, page, short};
    use super::*;

    fn read(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, bool) {
        let mut page = Page::new(page, &layout());
        let records = page.by_ref().map(|(time, bytes)| (time, bytes.to_vec()));
        let records = records.collect();
        (records, page.is_cut())
    }

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(layout().page_size(), 4096);
    }

    #[test]
    fn every_kind_of_record_is_understood() {
        let long = [&head(LONG, 3)[..], &12u32.to_ne_bytes(), &[2; 8]].concat();
        let extend = [head(TIME_EXTEND, 5), 2u32.to_ne_bytes()].concat();
        let stamp = [head(TIME_STAMP, 1), 100u32.to_ne_bytes()].concat();
        let discarded = [&head(PADDING, 4)[..], &12u32.to_ne_bytes(), &[9; 8]].concat();
        let filler = [&head(PADDING, 0)[..], &[7; 40]].concat();
        let parts: [&[u8]; 8] = [
            &short(1, &[1; 4]),
            &long,
            &extend,
            &short(0, &[3; 8]),
            &discarded,
            &short(1, &[4; 4]),
            &[&stamp[..], &short(0, &[5; 4])].concat(),
            &filler,
        ];
        let (records, is_cut) = read(&page(0, &parts));
        let after_extend = 1004 + 5 + (2 << 27);
        assert_eq!(
            records,
            [
                (1001, vec![1; 4]),
                (1004, vec![2; 8]),
                (after_extend, vec![3; 8]),
                (after_extend + 5, vec![4; 4]),
                ((100 << 27) + 1, vec![5; 4]),
            ]
        );
        assert!(!is_cut);
    }

    #[test]
    fn lost_records_are_told_with_and_without_their_number() {
        let parts: [&[u8]; 1] = [&short(1, &[1; 4])];
        let lost = |page: &[u8]| Page::new(page, &layout()).lost();
        assert_eq!(lost(&page(0, &parts)), None);
        assert_eq!(lost(&page(LOST, &parts)), Some(0));
        let mut counted = page(LOST | LOST_COUNTED, &parts);
        assert_eq!(lost(&counted), Some(0), "the number itself is cut off");
        counted.extend(77usize.to_ne_bytes());
        assert_eq!(lost(&counted), Some(77));
        assert_eq!(layout().used(&counted), counted.len());
        assert_eq!(read(&counted).0.len(), 1);
    }

    #[test]
    fn a_page_cut_anywhere_gives_its_first_records() {
        let records = [short(1, &[1; 8]), short(2, &[2; 12]), short(3, &[3; 4])];
        let parts: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let whole = page(0, &parts);
        let all = read(&whole).0;
        for length in 0..whole.len() {
            let (some, is_cut) = read(&whole[..length]);
            assert!(is_cut, "cut to {length} bytes");
            assert_eq!(some, all[..some.len()]);
        }
    }
}
