//! Address spaces and their regions, reconstructed from the system calls that map memory.
//!
//! A fault reports an address, but not the mapping at that address. A fork copies a space, an exec starts an empty
//! one. The mappings that exec itself creates are not reported: stack, image and loader are inferred from their
//! addresses on x86-64.
//!
//! # Invariants
//! The ranges of a space are disjoint. A region gets its id at the first allocation in it, so only such regions are
//! in the trace.

use std::collections::{BTreeMap, HashMap};

use everybuddy_trace::{AddressRegion, RegionId, RegionKind};

/// The position of an address space in the list of all spaces.
pub(super) type SpaceId = usize;

/// The maximum number of ranges that forks may copy into existing spaces, about 200 MB.
const MOST_COPIED: usize = 1 << 22;

/// Addresses from here on belong to the kernel, or to an unknown layout.
const USER_END: u64 = 1 << 47;

/// x86-64 places the stack in the highest 16 GiB, and mappings at least 128 MiB below them.
const STACKS_BEGIN: u64 = USER_END - (16 << 30) - (128 << 20);

/// Mappings are above this address, images of programs and their heaps below.
const MAPPINGS_BEGIN: u64 = 0x7000_0000_0000;

/// A region, whether or not it will be in the trace.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) about: AddressRegion,
    is_guessed: bool,
    id: Option<RegionId>,
}

/// The addresses up to `end` of one region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) end: u64,
    region: usize,
    /// The region belongs to the space that was copied; the copy gets its own region when it is used.
    is_inherited: bool,
}

/// The mappings of one process.
#[derive(Clone, Debug, Default)]
struct Space {
    tgid: u32,
    created_ns: u64,
    users: u32,
    copied: usize,
    stretches: BTreeMap<u64, Stretch>,
    program_break: Option<u64>,
    /// Own regions that replace inherited ones.
    own: HashMap<usize, usize>,
}

/// A region that existed when the recording started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRegion {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Protection bits as for mmap; 0 if unknown.
    pub prot: u32,
    /// Flags as for mmap; 0 if unknown.
    pub flags: u32,
    /// The kind of mapping.
    pub kind: RegionKind,
}

/// The location of a fault's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FaultPlace {
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
    /// Creates an empty space for a process, with one user.
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

    /// Adds a user to a space: a thread, or a process that shares its creator's space.
    pub(super) fn join(&mut self, id: SpaceId) -> SpaceId {
        self.spaces[id].users += 1;
        id
    }

    /// Removes a user; a space without users is deleted.
    pub(super) fn leave(&mut self, id: SpaceId) {
        let space = &mut self.spaces[id];
        space.users -= 1;
        if space.users == 0 {
            self.copied -= space.copied;
            *space = Space::default();
            self.unused.push(id);
        }
    }

    /// Copies a space for a new process; also returns `false` if it had too many regions.
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

    /// Adds a region that existed before the recording.
    pub(super) fn register_known(&mut self, id: SpaceId, known: &KnownRegion) {
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

    /// Sets the end of the heap, and returns the previous one if it is known.
    pub(super) fn replace_break(&mut self, id: SpaceId, new: u64) -> Option<u64> {
        self.spaces[id].program_break.replace(new)
    }

    /// Changes the extent of a region.
    pub(super) fn move_region(&mut self, region: usize, start: u64, end: u64) {
        let about = &mut self.regions[region].about;
        (about.start, about.len) = (start, end - start);
    }

    /// Finds or infers the region of an address, and adds it to the trace.
    pub(super) fn locate(&mut self, id: SpaceId, address: u64, now_ns: u64) -> Option<FaultPlace> {
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
        found.id.map(|region| FaultPlace { region, is_guessed })
    }

    /// Returns the regions of the trace by id, with times relative to `begin_ns`.
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

    /// Infers the mapping at an unknown address: the usual extent of such a mapping, minus the known mappings around
    /// it.
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

    /// Assigns addresses to a region of this space, whose extent grows to include them.
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

    /// Gives this space its own copy of the region at `first`, and returns it.
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
            unreachable!("callers pass a range that they found");
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

    /// Returns the first address of the range that contains an address.
    pub(super) fn stretch_at(&self, id: SpaceId, address: u64) -> Option<u64> {
        let before = self.spaces[id].stretches.range(..=address).next_back();
        before.and_then(|(first, stretch)| (stretch.end > address).then_some(*first))
    }

    /// Returns the first address of the range that ends at the given address.
    pub(super) fn adjacent_before(
        &self,
        id: SpaceId,
        start: u64,
        same: impl Fn(&Region) -> bool,
    ) -> Option<u64> {
        let (first, stretch) = self.spaces[id].stretches.range(..start).next_back()?;
        (stretch.end == start && same(&self.regions[stretch.region])).then_some(*first)
    }

    /// Finds the range that starts at the given address.
    pub(super) fn adjacent_after(
        &self,
        id: SpaceId,
        end: u64,
        same: impl Fn(&Region) -> bool,
    ) -> Option<Stretch> {
        let stretch = self.spaces[id].stretches.get(&end)?;
        same(&self.regions[stretch.region]).then_some(*stretch)
    }

    /// Removes addresses from all regions.
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
