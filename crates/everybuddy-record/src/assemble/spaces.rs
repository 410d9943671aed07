//! Address spaces and their regions, put together again from the calls that map memory.
//!
//! Exists because a fault tells an address and nobody tells what lies there. Fork copies a space,
//! exec begins anew. What exec itself maps is not told: stack, image and loader are guessed from
//! where they lie on x86-64.
//!
//! Invariant: stretches of a space share no address; a region gets its id when the first
//! allocation falls into it, so only such regions reach the trace.

use std::collections::{BTreeMap, HashMap};

use everybuddy_trace::{AddressRegion, RegionId, RegionKind};

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

/// A region, whether or not the trace will need it.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) about: AddressRegion,
    is_guessed: bool,
    id: Option<RegionId>,
}

/// Addresses up to `end` of one region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) end: u64,
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

    /// Notes a new end of the heap, and returns the one before, if it is known.
    pub(super) fn replace_break(&mut self, id: SpaceId, new: u64) -> Option<u64> {
        self.spaces[id].program_break.replace(new)
    }

    /// Gives a region another extent.
    pub(super) fn move_region(&mut self, region: usize, start: u64, end: u64) {
        let about = &mut self.regions[region].about;
        (about.start, about.len) = (start, end - start);
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

    pub(super) fn about(
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

    pub(super) fn add(&mut self, about: AddressRegion, is_guessed: bool) -> usize {
        self.regions.push(Region {
            about,
            is_guessed,
            id: None,
        });
        self.regions.len() - 1
    }

    /// Gives addresses to a region of this space, whose extent grows to hold them.
    pub(super) fn place(&mut self, id: SpaceId, start: u64, end: u64, region: usize) {
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
    pub(super) fn own(&mut self, id: SpaceId, first: u64) -> usize {
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
    pub(super) fn stretch_at(&self, id: SpaceId, address: u64) -> Option<u64> {
        let before = self.spaces[id].stretches.range(..=address).next_back();
        before.and_then(|(first, stretch)| (stretch.end > address).then_some(*first))
    }

    /// Finds the stretch that ends where something begins, by its first address.
    pub(super) fn adjacent_before(
        &self,
        id: SpaceId,
        start: u64,
        same: impl Fn(&Region) -> bool,
    ) -> Option<u64> {
        let (first, stretch) = self.spaces[id].stretches.range(..start).next_back()?;
        (stretch.end == start && same(&self.regions[stretch.region])).then_some(*first)
    }

    /// Finds the stretch that begins where something ends.
    pub(super) fn adjacent_after(
        &self,
        id: SpaceId,
        end: u64,
        same: impl Fn(&Region) -> bool,
    ) -> Option<Stretch> {
        let stretch = self.spaces[id].stretches.get(&end)?;
        same(&self.regions[stretch.region]).then_some(*stretch)
    }

    /// Takes addresses away from whatever has them.
    pub(super) fn unmap(&mut self, id: SpaceId, start: u64, end: u64) {
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
