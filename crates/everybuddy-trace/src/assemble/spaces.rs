//! Address spaces and their regions, put together again from the calls that map memory.
//!
//! Exists because a fault tells an address and nobody tells what lies there. The kernel's own
//! rules are followed as far as they can be seen: a mapping replaces what it overlaps, adjacent
//! anonymous mappings of the same kind become one, fork copies, exec begins anew. What exec itself
//! maps is not told: stack, image and loader are guessed from where they lie on x86-64.
//!
//! Invariant: stretches of a space share no address; a region gets its id when the first
//! allocation falls into it, so only such regions reach the trace.

use std::collections::{BTreeMap, HashMap};

use crate::model::{AddressRegion, RegionId, RegionKind};

/// Position of an address space in the list of all.
pub(super) type SpaceId = usize;

/// Stretches that forks may have copied into spaces that still exist, about 200 MB.
const MOST_COPIED: usize = 1 << 22;

/// Addresses from here on are the kernel's, or of a layout that can't be guessed.
const USER_END: u64 = 1 << 47;

/// x86-64 puts the stack into the highest 16 GiB, and mappings at least 128 MiB below them.
const STACKS_BEGIN: u64 = USER_END - (16 << 30) - (128 << 20);

/// Mappings lie above, images of programs and their heaps below.
const MAPPINGS_BEGIN: u64 = 0x7000_0000_0000;

/// Flags of mmap that matter here.
const MAP_SHARED: u32 = 0x1;
const MAP_ANONYMOUS: u32 = 0x20;
const MAP_STACK: u32 = 0x2_0000;
/// Flags that say how to map and not what: fixed, populate, nonblock, fixed without replacing.
const MAP_MANNER: u32 = 0x10 | 0x8000 | 0x1_0000 | 0x10_0000;

/// Page size, as a mask for rounding.
const PAGE_MASK: u64 = 0xfff;

/// A region, whether or not the trace will need it.
#[derive(Clone, Debug)]
struct Region {
    about: AddressRegion,
    is_guessed: bool,
    id: Option<RegionId>,
}

/// Addresses up to `end` of one region.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    end: u64,
    region: usize,
    /// The region is that of the space which was copied; the copy gets its own when it is used.
    is_inherited: bool,
}

/// What one process has mapped.
#[derive(Clone, Debug, Default)]
struct Space {
    tgid: u32,
    created_ns: u64,
    users: u32,
    copied: usize,
    stretches: BTreeMap<u64, Stretch>,
    program_break: Option<u64>,
    /// Own regions in place of inherited ones.
    own: HashMap<usize, usize>,
}

/// A region of which a source knew when the recording began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRegion {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Protection bits as mmap's; 0 when unknown.
    pub prot: u32,
    /// Flags as mmap's; 0 when unknown.
    pub flags: u32,
    /// What it is.
    pub kind: RegionKind,
}

/// Where a fault's address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) region: RegionId,
    pub(super) is_guessed: bool,
}

/// All address spaces and regions.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    spaces: Vec<Space>,
    unused: Vec<SpaceId>,
    copied: usize,
    regions: Vec<Region>,
    /// Regions of the trace, by their ids.
    in_trace: Vec<usize>,
}

/// Rounds a length or an address up to pages.
fn page_up(bytes: u64) -> Option<u64> {
    Some(bytes.checked_add(PAGE_MASK)? & !PAGE_MASK)
}

/// Returns the pages from `start`, with so many bytes; `None` when empty or beyond all addresses.
fn pages(start: u64, bytes: u64) -> Option<(u64, u64)> {
    let start = start & !PAGE_MASK;
    let end = start.checked_add(page_up(bytes)?)?;
    (end > start).then_some((start, end))
}

impl Spaces {
    /// Makes an empty space for a process, with one user.
    pub(super) fn create(&mut self, tgid: u32, created_ns: u64) -> SpaceId {
        let space = Space {
            tgid,
            created_ns,
            users: 1,
            ..Space::default()
        };
        match self.unused.pop() {
            Some(id) => {
                self.spaces[id] = space;
                id
            }
            None => {
                self.spaces.push(space);
                self.spaces.len() - 1
            }
        }
    }

    /// Notes one more user of a space: a thread, or a process that borrows its maker's.
    pub(super) fn join(&mut self, id: SpaceId) -> SpaceId {
        self.spaces[id].users += 1;
        id
    }

    /// Notes one user less; without users a space is gone.
    pub(super) fn leave(&mut self, id: SpaceId) {
        let space = &mut self.spaces[id];
        space.users -= 1;
        if space.users == 0 {
            self.copied -= space.copied;
            *space = Space::default();
            self.unused.push(id);
        }
    }

    /// Copies a space for a new process; `false` beside it when its regions were too many.
    pub(super) fn fork(&mut self, id: SpaceId, tgid: u32, created_ns: u64) -> (SpaceId, bool) {
        let copied = self.spaces[id].stretches.len();
        let fits = self.copied + copied <= MOST_COPIED;
        let child = self.create(tgid, created_ns);
        if !fits {
            return (child, false);
        }
        let mut stretches = self.spaces[id].stretches.clone();
        for stretch in stretches.values_mut() {
            stretch.is_inherited = true;
        }
        let program_break = self.spaces[id].program_break;
        let space = &mut self.spaces[child];
        (space.stretches, space.copied, space.program_break) = (stretches, copied, program_break);
        self.copied += copied;
        (child, true)
    }

    /// Adds a region that was there before the recording.
    pub(super) fn know(&mut self, id: SpaceId, known: &KnownRegion) {
        if known.start >= known.end {
            return;
        }
        let about = AddressRegion {
            prot: known.prot,
            flags: known.flags,
            ..self.about(id, known.start, known.end, known.kind, 0)
        };
        let region = self.add(about, false);
        self.place(id, known.start, known.end, region);
        if known.kind == RegionKind::Heap {
            self.spaces[id].program_break = Some(known.end);
        }
    }

    /// Carries out an mmap that gave `start`.
    pub(super) fn map(&mut self, id: SpaceId, start: u64, arguments: &[u64; 6], now_ns: u64) {
        let [_, bytes, prot, flags, fd, _] = *arguments;
        let Some((mut start, mut end)) = pages(start, bytes) else {
            return;
        };
        let (prot, flags) = (prot as u32, flags as u32);
        self.unmap(id, start, end);
        let is_anonymous = flags & MAP_ANONYMOUS != 0;
        let mut merged = None;
        if is_anonymous && prot != 0 && flags & (MAP_SHARED | MAP_STACK) == 0 {
            let same = |region: &Region| {
                let about = &region.about;
                about.kind == RegionKind::Anonymous
                    && about.prot == prot
                    && (about.flags ^ flags) & !MAP_MANNER == 0
            };
            if let Some(next) = self.adjacent_after(id, end, same) {
                merged = Some(self.own(id, end));
                end = next.end;
            }
            if let Some(first) = self.adjacent_before(id, start, same) {
                merged = Some(self.own(id, first));
                start = first;
            }
        }
        let region = match merged {
            Some(region) => region,
            None => {
                let (kind, fd) = match is_anonymous {
                    true => (RegionKind::Anonymous, -1),
                    false => (RegionKind::File, fd as i32),
                };
                let about = AddressRegion {
                    prot,
                    flags,
                    fd,
                    ..self.about(id, start, end, kind, now_ns)
                };
                self.add(about, false)
            }
        };
        self.place(id, start, end, region);
    }

    /// Carries out a munmap that succeeded.
    pub(super) fn unmap_call(&mut self, id: SpaceId, arguments: &[u64; 6]) {
        if let Some((start, end)) = pages(arguments[0], arguments[1]) {
            self.unmap(id, start, end);
        }
    }

    /// Carries out a brk that gave `new`.
    pub(super) fn set_break(&mut self, id: SpaceId, new: u64, now_ns: u64) {
        let old = self.spaces[id].program_break.replace(new);
        let (Some(old), Some(new)) = (old.and_then(page_up), page_up(new)) else {
            return;
        };
        if new < old {
            self.unmap(id, new, old);
        } else if new > old {
            self.unmap(id, old, new);
            let is_heap = |region: &Region| region.about.kind == RegionKind::Heap;
            let (start, region) = match self.adjacent_before(id, old, is_heap) {
                Some(first) => (first, self.own(id, first)),
                None => {
                    let about = AddressRegion {
                        prot: 3,
                        flags: 0x22,
                        ..self.about(id, old, new, RegionKind::Heap, now_ns)
                    };
                    (old, self.add(about, false))
                }
            };
            self.place(id, start, new, region);
        }
    }

    /// Carries out an mremap that gave `start`.
    pub(super) fn remap(&mut self, id: SpaceId, start: u64, arguments: &[u64; 6], now_ns: u64) {
        let [old, old_bytes, new_bytes, ..] = *arguments;
        let Some((start, end)) = pages(start, new_bytes) else {
            return;
        };
        let moved = self.stretch_at(id, old).map(|first| self.own(id, first));
        if let Some((old, old_end)) = pages(old, old_bytes) {
            self.unmap(id, old, old_end);
        }
        let region = match moved {
            Some(region) => {
                let about = &mut self.regions[region].about;
                (about.start, about.len) = (start, end - start);
                region
            }
            None => {
                let about = self.about(id, start, end, RegionKind::Anonymous, now_ns);
                self.add(about, false)
            }
        };
        self.place(id, start, end, region);
    }

    /// Finds or guesses the region of an address, which the trace then has.
    pub(super) fn locate(&mut self, id: SpaceId, address: u64, now_ns: u64) -> Option<Place> {
        let region = match self.stretch_at(id, address) {
            Some(first) => self.own(id, first),
            None => self.guess(id, address, now_ns)?,
        };
        let next = RegionId::from_index(self.in_trace.len());
        let found = &mut self.regions[region];
        if found.id.is_none() {
            found.id = Some(next?);
            self.in_trace.push(region);
        }
        let is_guessed = found.is_guessed;
        found.id.map(|region| Place { region, is_guessed })
    }

    /// Gives the regions of the trace, by their ids, with times relative to `begin_ns`.
    pub(super) fn into_regions(self, begin_ns: u64) -> Vec<AddressRegion> {
        let numbered = self.in_trace.iter().zip(1..);
        numbered
            .map(|(region, number)| {
                let about = self.regions[*region].about;
                let created_ns = about.created_ns.saturating_sub(begin_ns);
                AddressRegion {
                    number,
                    created_ns,
                    ..about
                }
            })
            .collect()
    }

    /// Guesses what lies at an address that nothing is known of: as much as such things usually
    /// have, without what is known around it.
    fn guess(&mut self, id: SpaceId, address: u64, now_ns: u64) -> Option<usize> {
        let (kind, size) = match address {
            USER_END.. => return None,
            STACKS_BEGIN.. => (RegionKind::Stack, 16 << 20),
            MAPPINGS_BEGIN.. => (RegionKind::Other, 256 << 10),
            _ => (RegionKind::Image, 16 << 20),
        };
        let (mut start, mut end) = (address & !(size - 1), (address & !(size - 1)) + size);
        let stretches = &self.spaces[id].stretches;
        if let Some((_, before)) = stretches.range(..address).next_back() {
            start = start.max(before.end);
        }
        if let Some((after, _)) = stretches.range(address..).next() {
            end = end.min(*after);
        }
        let same = |region: &Region| region.is_guessed && region.about.kind == kind;
        let region = if let Some(first) = self.adjacent_before(id, start, same) {
            start = first;
            self.own(id, first)
        } else if let Some(next) = self.adjacent_after(id, end, same) {
            let region = self.own(id, end);
            end = next.end;
            region
        } else {
            self.add(self.about(id, start, end, kind, now_ns), true)
        };
        self.place(id, start, end, region);
        Some(region)
    }

    fn about(
        &self,
        id: SpaceId,
        start: u64,
        end: u64,
        kind: RegionKind,
        created_ns: u64,
    ) -> AddressRegion {
        AddressRegion {
            tgid: self.spaces[id].tgid,
            start,
            len: end - start,
            kind,
            created_ns,
            ..AddressRegion::unknown(0)
        }
    }

    fn add(&mut self, about: AddressRegion, is_guessed: bool) -> usize {
        self.regions.push(Region {
            about,
            is_guessed,
            id: None,
        });
        self.regions.len() - 1
    }

    /// Gives addresses to a region of this space, whose extent grows to hold them.
    fn place(&mut self, id: SpaceId, start: u64, end: u64, region: usize) {
        self.unmap(id, start, end);
        let stretch = Stretch {
            end,
            region,
            is_inherited: false,
        };
        self.spaces[id].stretches.insert(start, stretch);
        let about = &mut self.regions[region].about;
        let whole = end.max(about.start.saturating_add(about.len));
        about.start = about.start.min(start);
        about.len = whole - about.start;
    }

    /// Makes the region of the stretch at `first` this space's own, and returns it.
    fn own(&mut self, id: SpaceId, first: u64) -> usize {
        let Spaces {
            spaces, regions, ..
        } = self;
        let Space {
            tgid,
            created_ns,
            stretches,
            own,
            ..
        } = &mut spaces[id];
        let Some(stretch) = stretches.get_mut(&first) else {
            unreachable!("callers name a stretch that they found");
        };
        if stretch.is_inherited {
            let copied = *own.entry(stretch.region).or_insert_with(|| {
                let Region {
                    about, is_guessed, ..
                } = regions[stretch.region];
                let (tgid, created_ns) = (*tgid, *created_ns);
                let about = AddressRegion {
                    tgid,
                    created_ns,
                    ..about
                };
                regions.push(Region {
                    about,
                    is_guessed,
                    id: None,
                });
                regions.len() - 1
            });
            (stretch.region, stretch.is_inherited) = (copied, false);
        }
        stretch.region
    }

    /// Finds the stretch that holds an address, by its first one.
    fn stretch_at(&self, id: SpaceId, address: u64) -> Option<u64> {
        let before = self.spaces[id].stretches.range(..=address).next_back();
        before.and_then(|(first, stretch)| (stretch.end > address).then_some(*first))
    }

    /// Finds the stretch that ends where something begins, by its first address.
    fn adjacent_before(
        &self,
        id: SpaceId,
        start: u64,
        same: impl Fn(&Region) -> bool,
    ) -> Option<u64> {
        let (first, stretch) = self.spaces[id].stretches.range(..start).next_back()?;
        (stretch.end == start && same(&self.regions[stretch.region])).then_some(*first)
    }

    /// Finds the stretch that begins where something ends.
    fn adjacent_after(
        &self,
        id: SpaceId,
        end: u64,
        same: impl Fn(&Region) -> bool,
    ) -> Option<Stretch> {
        let stretch = self.spaces[id].stretches.get(&end)?;
        same(&self.regions[stretch.region]).then_some(*stretch)
    }

    /// Takes addresses away from whatever has them.
    fn unmap(&mut self, id: SpaceId, start: u64, end: u64) {
        let stretches = &mut self.spaces[id].stretches;
        if let Some((_, before)) = stretches.range_mut(..start).next_back() {
            let whole = *before;
            if whole.end > start {
                before.end = start;
            }
            if whole.end > end {
                stretches.insert(end, whole);
            }
        }
        while let Some((&first, &inside)) = stretches.range(start..end).next() {
            stretches.remove(&first);
            if inside.end > end {
                stretches.insert(end, inside);
            }
        }
    }
}
