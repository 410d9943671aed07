//! The class of a page frame, from its word in `/proc/kpageflags`.
//!
//! # Invariants
//! The order of the tests matters, because a word keeps bits of earlier uses. Slab pages also show `ANON` and `KSM`,
//! free frames keep `UPTODATE`, and reserved ones show `MMAP` and `REFERENCED`. A frame without flags is not called
//! free: free frames on the CPUs' lists look like that, and so do kernel stacks, pipe buffers and `vmalloc` memory.

use everybuddy_text::named;

named! {
    /// What a page frame holds.
    ///
    /// No value is zero, so filling memory with a class makes the kernel provide it.
    #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
    #[repr(u8)]
    pub enum Kind {
        /// A free frame of the buddy allocator (`BUDDY`).
        Free = 1 => "free",
        /// A program's own memory, shared memory and tmpfs: `ANON` or `SWAPBACKED`, on the kernel's list of pages in
        /// use or on the way to it. Compaction moves it.
        Anonymous => "programs and shared memory",
        /// A page of a file that is dirty, under writeback, or mapped by a program. Compaction moves it, but
        /// `drop_caches` keeps it.
        FileHeld => "page cache, dirty or mapped",
        /// A page of a file that can be dropped: `LRU` without `ANON`, `SWAPBACKED`, `UNEVICTABLE`, `MLOCKED`, `DIRTY`,
        /// `WRITEBACK` or `MMAP`, in a folio of which no page has `MMAP`.
        Cache => "page cache",
        /// A locked page (`UNEVICTABLE` or `MLOCKED`). Compaction moves it if `vm.compact_unevictable_allowed` is 1,
        /// which is the default.
        Unevictable => "locked pages",
        /// A page of the pool of huge pages (`HUGE`), in use or not. Compaction does not move it.
        HugePool => "pool of huge pages",
        /// A slab page: small objects of the kernel.
        Slab => "slab",
        /// A page table.
        PageTable => "page tables",
        /// A frame that the kernel has reserved since boot, or the page of zeros.
        Reserved => "reserved since boot",
        /// A frame that the guest has returned to its host (balloon), or memory that is logically offline.
        Offline => "balloon or offline",
        /// A page of several frames that the kernel allocated for itself.
        Compound => "large kernel pages",
        /// Any other page of the kernel: it has flags, but none that compaction would accept.
        Kernel => "other kernel pages",
        /// A frame that the hardware reported as broken.
        Poisoned => "broken memory",
        /// A frame without flags: on a CPU's own free list, or a page of the kernel. Flags cannot tell.
        Unknown => "lists of CPUs, or kernel pages without flags",
        /// A free frame on a CPU's own list, by its count of references. Draining the lists makes it free for blocks.
        OnList => "free, on lists of CPUs",
        /// A movable page that is pinned for now, by its count of references.
        Pinned => "pinned for devices or pipes",
        /// Memory that the kernel has not initialised yet.
        NotStarted => "not initialised yet",
        /// Not memory: a hole in the address space, or outside of the zone.
        Hole => "hole",
    }
}

/// The number of values of [`Kind`], plus one for the value 0.
pub const KINDS: usize = Kind::Hole as usize + 1;

impl Kind {
    /// Returns `true` if compaction can move the page, provided that no device and no program has pinned it.
    #[must_use]
    pub fn is_movable(self) -> bool {
        matches!(
            self,
            Self::Anonymous | Self::FileHeld | Self::Cache | Self::Unevictable
        )
    }

    /// Returns `true` if the frame certainly stays where it is: no compaction and no drained list makes it free.
    #[must_use]
    pub fn is_pinned(self) -> bool {
        matches!(
            self,
            Self::HugePool
                | Self::Slab
                | Self::PageTable
                | Self::Reserved
                | Self::Offline
                | Self::Compound
                | Self::Kernel
                | Self::Poisoned
                | Self::Pinned
        )
    }

    /// Returns `true` if the frame is not memory that the allocator manages.
    #[must_use]
    pub fn is_absent(self) -> bool {
        matches!(self, Self::NotStarted | Self::Hole)
    }
}

const DIRTY: u64 = 1 << 4;
const LRU: u64 = 1 << 5;
const SLAB: u64 = 1 << 7;
const WRITEBACK: u64 = 1 << 8;
const BUDDY: u64 = 1 << 10;
const MMAP: u64 = 1 << 11;
const ANON: u64 = 1 << 12;
const SWAPBACKED: u64 = 1 << 14;
const HEAD: u64 = 1 << 15;
const TAIL: u64 = 1 << 16;
const HUGE: u64 = 1 << 17;
const UNEVICTABLE: u64 = 1 << 18;
const HWPOISON: u64 = 1 << 19;
const NOPAGE: u64 = 1 << 20;
const OFFLINE: u64 = 1 << 23;
const ZERO_PAGE: u64 = 1 << 24;
const PGTABLE: u64 = 1 << 26;
const RESERVED: u64 = 1 << 32;
const MLOCKED: u64 = 1 << 33;

/// Returns the class of one word, without regard to its neighbours.
#[must_use]
pub fn classify(word: u64) -> Kind {
    let has = |bits: u64| word & bits != 0;
    // Most words of a machine are one of these two.
    if word == BUDDY {
        return Kind::Free;
    }
    if word == 0 {
        return Kind::Unknown;
    }
    if has(NOPAGE) {
        return Kind::Hole;
    }
    if has(HWPOISON) {
        return Kind::Poisoned;
    }
    if has(RESERVED | ZERO_PAGE) {
        return Kind::Reserved;
    }
    if has(OFFLINE) {
        return Kind::Offline;
    }
    if has(BUDDY) {
        return Kind::Free;
    }
    if has(SLAB) {
        return Kind::Slab;
    }
    if has(PGTABLE) {
        return Kind::PageTable;
    }
    if has(HUGE) {
        return Kind::HugePool;
    }
    if has(UNEVICTABLE | MLOCKED) {
        return Kind::Unevictable;
    }
    // `ANON` without `LRU`: a batch of pages that a CPU has yet to put on the list.
    if has(ANON) || has(LRU) && has(SWAPBACKED) {
        return Kind::Anonymous;
    }
    if has(LRU) {
        return if has(DIRTY | WRITEBACK | MMAP) {
            Kind::FileHeld
        } else {
            Kind::Cache
        };
    }
    if has(HEAD | TAIL) {
        return Kind::Compound;
    }
    Kind::Kernel
}

/// The classes of consecutive words, with the folios (pages of several frames) that they form.
///
/// New kernels repeat the flags of a folio's first frame in all others. Older ones give them to the first frame only,
/// so that the others take its class. And a folio with one mapped page is not dropped, so that all its frames are held.
#[derive(Clone, Debug, Default)]
pub struct Folios {
    /// The first frame's position in the output, and its class.
    folio: Option<(usize, Kind)>,
    /// The last word outside of folios, and its class: equal words follow each other.
    last: Option<(u64, Kind)>,
}

impl Folios {
    /// Writes the classes of `words` into `kinds`, from position `at` on. Calls must follow each other without a
    /// gap, or on a fresh value. Words that find no room are ignored.
    pub fn extend(&mut self, words: impl Iterator<Item = u64>, kinds: &mut [Kind], at: usize) {
        for (offset, word) in words.enumerate() {
            let at = at + offset;
            if at >= kinds.len() {
                return;
            }
            if word & (HEAD | TAIL) == 0 {
                self.folio = None;
                kinds[at] = match self.last {
                    Some((last, kind)) if last == word => kind,
                    _ => {
                        let kind = classify(word);
                        self.last = Some((word, kind));
                        kind
                    }
                };
                continue;
            }
            let own = classify(word);
            kinds[at] = own;
            if word & HEAD != 0 {
                self.folio = Some((at, own));
            } else if let Some((head, kind)) = self.folio {
                match (kind, own) {
                    (_, Kind::Compound) | (Kind::FileHeld, Kind::Cache) => kinds[at] = kind,
                    (Kind::Cache, Kind::FileHeld) => {
                        kinds[head..at].fill(Kind::FileHeld);
                        self.folio = Some((head, Kind::FileHeld));
                    }
                    _ => {}
                }
            }
        }
    }
}
