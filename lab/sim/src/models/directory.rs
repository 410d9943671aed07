//! The cores and caches that have each line.
//!
//! # Invariants
//! A line with an owner has no other sharer. The pages of lines that were never touched do not exist.

use core::ops::{AddAssign, Range};

/// No core owns the line.
pub(super) const NOBODY: u16 = u16::MAX;

/// The number of lines of a page.
const PAGE: usize = 4096;

/// The state of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The time until which no request begins: the line moves, or a read of it has just begun.
    pub(super) busy: u64,
    /// The time at which all copies have arrived. A store waits for it.
    pub(super) arrived: u64,
    /// The core that has it alone, or [`NOBODY`].
    pub(super) owner: u16,
    /// The core that stored to it last, or [`NOBODY`].
    pub(super) writer: u16,
    /// Whether the owner has modified it.
    pub(super) is_modified: bool,
    /// The last two cores that it moves away from, and the times in which they still have it.
    pub(super) kept: [Kept; 2],
}

/// When a core that gives a line away still has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) core: u16,
    pub(super) from: u64,
    pub(super) until: u64,
}

impl Entry {
    const NEW: Self = Self {
        busy: 0,
        arrived: 0,
        owner: NOBODY,
        writer: NOBODY,
        is_modified: false,
        kept: [Kept {
            core: NOBODY,
            from: 0,
            until: 0,
        }; 2],
    };
}

/// What happened to a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Accesses of all kinds.
    pub accesses: u64,
    /// Accesses that did not hit in a cache of their core, upgrades included.
    pub misses: u64,
    /// Misses that were answered by another core, or that invalidated the copy of another core.
    pub transfers: u64,
    /// Those of them that crossed sockets.
    pub far: u64,
    /// Misses that went to memory.
    pub memory: u64,
    /// Stores and read-modify-writes after one by another core.
    pub hand_overs: u64,
    /// The cycles that the CPUs spent on all accesses to the line.
    pub cycles: u64,
    /// Times that a CPU waited for a word of the line, such as a lock.
    pub waits: u64,
    /// The cycles that the CPUs waited.
    pub waited: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.misses += other.misses;
        self.transfers += other.transfers;
        self.far += other.far;
        self.memory += other.memory;
        self.hand_overs += other.hand_overs;
        self.cycles += other.cycles;
        self.waits += other.waits;
        self.waited += other.waited;
    }
}

struct Page {
    entries: Box<[Entry]>,
    traffic: Box<[Traffic]>,
    /// For each line, the cores that have it, and behind them the last-level caches.
    holders: Box<[u64]>,
}

/// The state of all lines.
pub(super) struct Directory {
    pages: Vec<Option<Page>>,
    /// Words of a set of cores.
    words: usize,
    /// Words of the two sets of a line: of cores, and of last-level caches.
    width: usize,
}

impl Directory {
    pub(super) fn new(cores: u32, groups: u32) -> Self {
        let words = (cores as usize).div_ceil(64);
        Self {
            pages: Vec::new(),
            words,
            width: words + (groups as usize).div_ceil(64),
        }
    }

    fn page(&mut self, line: u32) -> &mut Page {
        let page = line as usize / PAGE;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let width = self.width;
        self.pages[page].get_or_insert_with(|| Page {
            entries: vec![Entry::NEW; PAGE].into(),
            traffic: vec![Traffic::default(); PAGE].into(),
            holders: vec![0; PAGE * width].into(),
        })
    }

    #[inline]
    pub(super) fn entry(&mut self, line: u32) -> &mut Entry {
        &mut self.page(line).entries[line as usize % PAGE]
    }

    #[inline]
    pub(super) fn traffic(&mut self, line: u32) -> &mut Traffic {
        &mut self.page(line).traffic[line as usize % PAGE]
    }

    /// Returns the cores that have a copy, as bits.
    #[inline]
    pub(super) fn sharers(&mut self, line: u32) -> &mut [u64] {
        let (words, width) = (self.words, self.width);
        let start = line as usize % PAGE * width;
        &mut self.page(line).holders[start..start + words]
    }

    /// Returns the last-level caches that have it, as bits.
    #[inline]
    pub(super) fn groups(&mut self, line: u32) -> &mut [u64] {
        let (words, width) = (self.words, self.width);
        let start = line as usize % PAGE * width;
        &mut self.page(line).holders[start + words..start + width]
    }

    /// Adds a last-level cache to those that have it, and returns `true` if it was one before.
    pub(super) fn add_group(&mut self, line: u32, group: u16) -> bool {
        let word = &mut self.groups(line)[usize::from(group / 64)];
        let before = *word;
        *word |= 1 << (group % 64);
        before == *word
    }

    pub(super) fn remove_group(&mut self, line: u32, group: u16) {
        self.groups(line)[usize::from(group / 64)] &= !(1 << (group % 64));
    }

    pub(super) fn has_group(&mut self, line: u32, group: u16) -> bool {
        self.groups(line)[usize::from(group / 64)] & 1 << (group % 64) != 0
    }

    pub(super) fn add_sharer(&mut self, line: u32, core: u16) {
        self.sharers(line)[usize::from(core / 64)] |= 1 << (core % 64);
    }

    pub(super) fn remove_sharer(&mut self, line: u32, core: u16) {
        self.sharers(line)[usize::from(core / 64)] &= !(1 << (core % 64));
    }

    pub(super) fn has(&mut self, line: u32, core: u16) -> bool {
        self.sharers(line)[usize::from(core / 64)] & 1 << (core % 64) != 0
    }

    /// Returns a member of the set `word`, whose first number is `64 * index`, and removes it.
    pub(super) fn next_of(index: usize, word: &mut u64) -> Option<u16> {
        let bit = word.trailing_zeros();
        *word &= word.checked_sub(1)?;
        Some((index as u32 * 64 + bit) as u16)
    }

    /// Returns a range of numbers as the members of the word at `index` of a set.
    #[inline]
    pub(super) fn members(index: usize, range: Range<u16>) -> u64 {
        let below = |end: u16| match u32::from(end).saturating_sub(index as u32 * 64) {
            some @ 0..64 => (1 << some) - 1,
            _ => u64::MAX,
        };
        below(range.end) & !below(range.start)
    }

    /// Returns the number of words of a set of cores.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// Returns the number of words of a set of last-level caches.
    pub(super) fn group_words(&self) -> usize {
        self.width - self.words
    }

    /// Forgets what happened, but not where lines are.
    pub(super) fn forget_traffic(&mut self) {
        for page in self.pages.iter_mut().flatten() {
            page.traffic.fill(Traffic::default());
        }
    }

    /// Returns all lines that were accessed, with what happened to them.
    pub(super) fn all_traffic(&self) -> impl Iterator<Item = (u32, Traffic)> + '_ {
        let pages = self.pages.iter().enumerate();
        pages
            .flat_map(|(page, lines)| {
                let traffic = lines.iter().flat_map(|lines| lines.traffic.iter());
                let numbered = traffic.enumerate();
                numbered.map(move |(index, traffic)| ((page * PAGE + index) as u32, *traffic))
            })
            .filter(|(_, traffic)| traffic.accesses > 0)
    }
}
