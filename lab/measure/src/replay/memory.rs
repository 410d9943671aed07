//! The size of the managed memory, and which of it is in use at the start.
//!
//! Every system manages the same frames, and starts with the same frames in use.
//!
//! # Aging
//! The memory of a machine that has been running for weeks is neither empty nor ordered. Long-lived blocks (slabs,
//! page tables, stray pages of the page cache) are scattered, but not everywhere, because kernels try to keep them
//! together. `--aged SEED` creates such memory:
//! 1. The managed memory is enlarged by a ninth, so that long-lived frames make up a tenth of it.
//! 2. All of it is allocated, frame by frame.
//! 3. A quarter of the blocks of order 10, chosen at random, are *mixed*. As many frames as were added are chosen at
//!    random from these blocks, and stay allocated for the whole replay.
//! 4. All other frames are freed one by one in random order, which leaves free lists as disordered as on an old
//!    machine. Then the per-CPU list is drained.
//!
//! As a result, a quarter of the 4 MiB blocks can never become whole again, and the others can. The choice depends on
//! the seed and the size alone: each system starts with the same frames in use.
//!
//! # Invariants
//! The managed memory is a whole number of blocks of the largest order.

use std::borrow::Cow;
use std::sync::Arc;

use everybuddy::{
    AllocateError, FrameRange, FreeError, Index, Order, Pfn, Release, Request, Setup,
};

use crate::Error;
use crate::replay::free_map::FreeMap;
use crate::replay::machine::Machine;
use crate::replay::random::Random;
use crate::replay::script::Script;

/// What is in use before a replay starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Initial {
    /// Nothing.
    #[default]
    Fresh,
    /// What aging with this seed keeps.
    Aged(u64),
    /// What was in use on a machine.
    As(Arc<FreeMap>),
}

impl Initial {
    /// Returns memory that is aged, if there is a seed.
    pub fn of_seed(seed: Option<u64>) -> Initial {
        seed.map_or(Initial::Fresh, Initial::Aged)
    }
}

/// The memory of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Frames that the system manages, with those that are in use.
    pub frames: u64,
    /// The number of these frames that are in use before the replay starts.
    pub taken: u64,
    /// Which ones are in use.
    pub initial: Initial,
}

/// The smallest default memory: 8 MiB.
const LEAST: u64 = 2048;

impl Memory {
    /// Returns a memory of which nothing is in use.
    pub fn fresh(frames: u64) -> Memory {
        Memory {
            frames,
            taken: 0,
            initial: Initial::Fresh,
        }
    }

    /// Returns the memory of a machine.
    pub fn started(map: Arc<FreeMap>) -> Memory {
        Memory {
            frames: map.frames(),
            taken: map.frames() - map.free(),
            initial: Initial::As(map),
        }
    }

    /// Returns the usual memory for a program with this peak: 1.25 times as much.
    pub fn usual(peak_frames: u64) -> u64 {
        (peak_frames + peak_frames.div_ceil(4)).max(LEAST)
    }

    /// Returns the room of a replay on a machine: what the trace states, but at least what suffices.
    ///
    /// That is the usual memory of a program with this peak, and the frames that the lists of its CPUs may keep: lists
    /// that are as long as on a large machine would otherwise hold most of the free frames of a small room, where they
    /// take no refill and leave no whole block.
    pub fn room(machine: &Machine, peak_frames: u64, cpus: u16) -> u64 {
        let enough = Memory::usual(peak_frames) + machine.kept(cpus);
        machine.room.unwrap_or(0).max(enough)
    }

    /// Chooses the memory for a trace: the given size, or 1.25 times the peak; enlarged if it is aged. Of a machine's
    /// memory, it is the first part in which the given size is free, or all of it.
    ///
    /// # Errors
    /// Returns a usage error if the size exceeds the maximum, or if less than the trace's peak is free on a machine.
    pub fn new(script: &Script, given: Option<u64>, initial: &Initial) -> Result<Memory, Error> {
        if let Initial::As(map) = initial {
            let map =
                given.map_or_else(|| Ok(Arc::clone(map)), |free| map.part(free).map(Arc::new))?;
            if map.free() < script.peak_frames {
                return Err(Error::usage(format!(
                    "trace {}: its peak of {} does not fit into the {} that are free in {}\nhelp: choose another \
                     --start, or a trace that has less in use at its peak",
                    script.name,
                    crate::size::frames(script.peak_frames),
                    crate::size::frames(map.free()),
                    map.described(),
                )));
            }
            return Ok(Memory::started(map));
        }
        let largest = script.largest_order.max(Order::TEN);
        let wanted = given.unwrap_or(Memory::usual(script.peak_frames));
        let block = u64::from(largest.frames());
        let base = wanted.checked_next_multiple_of(block).unwrap_or(u64::MAX);
        let most = u64::from(everybuddy::Span::LARGEST) * 9 / 10;
        if base > most {
            return Err(Error::usage(format!(
                "trace {}: {} of managed memory exceeds the maximum of {}\nhelp: {}",
                script.name,
                crate::size::frames(base),
                crate::size::frames(most),
                match given {
                    Some(_) => "choose a smaller --memory",
                    None => "choose a trace that has less in use at its peak",
                },
            )));
        }
        let frames = match initial {
            Initial::Aged(_) => (base + base.div_ceil(9)).next_multiple_of(block),
            _ => base,
        };
        Ok(Memory {
            frames,
            taken: frames - base,
            initial: initial.clone(),
        })
    }

    /// Returns the memory map for [`setup`](Self::setup). What was in use on a machine is not part of it.
    pub fn ranges(&self) -> Cow<'_, [FrameRange]> {
        match &self.initial {
            Initial::As(map) => map.ranges().into(),
            _ => vec![FrameRange::new(Pfn(0), self.frames)].into(),
        }
    }

    /// Returns the set-up of a system on this memory, with the lists of a machine. `ranges` are [those](Self::ranges)
    /// of this memory.
    pub fn setup<'r>(
        &self,
        machine: Option<Machine>,
        ranges: &'r [FrameRange],
        cpus: u16,
    ) -> Setup<'r> {
        let setup = Machine::setup(machine, ranges, cpus);
        match self.initial {
            // Places count from the first frame, whether or not it is free.
            Initial::As(_) => setup.with_reach(FrameRange::new(Pfn(0), self.frames)),
            _ => setup,
        }
    }

    /// Returns the frames that are not in use before the replay starts.
    pub fn free(&self) -> u64 {
        self.frames - self.taken
    }

    /// Returns the frames that the system has allocated before the replay starts.
    pub fn allocated(&self) -> u64 {
        match self.initial {
            Initial::As(_) => 0,
            _ => self.taken,
        }
    }

    /// Ages the memory of a new system by operations on single frames. Nothing else may run; the caller must drain
    /// the lists afterwards.
    ///
    /// # Errors
    /// Returns [`Error::Broken`] if the system does not allocate all of its memory, or if a free fails.
    pub fn age(
        &self,
        allocate: &mut dyn FnMut(Request) -> Result<Index, AllocateError>,
        free: &mut dyn FnMut(Release) -> Result<(), FreeError>,
    ) -> Result<(), Error> {
        let Initial::Aged(seed) = self.initial else {
            return Ok(());
        };
        let broken = |what: String| Error::Broken(format!("aging memory: {what}"));
        for _ in 0..self.frames {
            allocate(Request::FRAME).map_err(|error| broken(error.to_string()))?;
        }
        for frame in self.leaving(seed) {
            free(Release::frame(Index(frame))).map_err(|error| broken(error.to_string()))?;
        }
        Ok(())
    }

    /// Returns the frames that are in use before the replay starts, in increasing order.
    pub fn taken_frames(&self) -> Vec<u32> {
        let seed = match &self.initial {
            Initial::Fresh => return Vec::new(),
            Initial::As(map) => return map.taken().collect(),
            Initial::Aged(seed) => *seed,
        };
        let mut stays = vec![true; self.frames as usize];
        for frame in self.leaving(seed) {
            stays[frame as usize] = false;
        }
        (0..self.frames as u32)
            .filter(|frame| stays[*frame as usize])
            .collect()
    }

    /// Returns the other frames, in the order in which they are freed.
    fn leaving(&self, seed: u64) -> Vec<u32> {
        let mut random = Random::new(seed);
        let block = u64::from(Order::TEN.frames());
        let mut blocks: Vec<u64> = (0..self.frames / block).collect();
        random.shuffle(&mut blocks);
        // Enough mixed blocks for all frames that stay in use, even in the smallest memory.
        let mixed = (blocks.len() / 4).max(self.taken.div_ceil(block) as usize);
        let frames = |blocks: &[u64]| {
            let starts = blocks.iter().map(|b| b * block);
            starts
                .flat_map(|start| start..start + block)
                .map(|frame| frame as u32)
                .collect()
        };
        let mut candidates: Vec<u32> = frames(&blocks[..mixed]);
        random.shuffle(&mut candidates);
        let mut leaving: Vec<u32> = frames(&blocks[mixed..]);
        leaving.extend(&candidates[self.taken as usize..]);
        random.shuffle(&mut leaving);
        leaving
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_what_was_free_if_the_program_fits_into_it() {
        let room = |free_kib, peak| {
            let machine = everybuddy_trace::Machine {
                total_kib: 1 << 24,
                free_kib,
                ..everybuddy_trace::Machine::default()
            };
            let trace = everybuddy_trace::Trace {
                metadata: vec![machine.entry()],
                ..everybuddy_trace::Trace::default()
            };
            let machine = Machine::new(&trace, None, 2);
            let enough = Memory::usual(peak) + machine.kept(2);
            (Memory::room(&machine, peak, 2), enough)
        };
        assert_eq!(room(Some(400 << 10), 15_000).0, 102_400);
        assert_eq!(room(Some(9 << 20), 15_000).0, 1 << 20);
        for (own, enough) in [room(Some(400 << 10), 100_000), room(None, 15_000)] {
            assert_eq!(own, enough);
        }
        // A machine of 16 GiB with two CPUs, whose lists keep about 8,600 frames each.
        let usual = Memory::usual(15_000);
        let lists = room(None, 15_000).0 - usual;
        assert!((16_000..19_000).contains(&lists), "{lists}");
    }

    #[test]
    fn aging_takes_what_it_says_from_a_quarter_of_the_blocks() {
        for frames in [2048, 3072, 30 * 1024] {
            let taken = frames / 10 / 1024 * 1024;
            let memory = Memory {
                frames,
                taken,
                initial: Initial::Aged(7),
            };
            let leaving = memory.leaving(7);
            assert_eq!(leaving.len() as u64, frames - taken);
            assert_eq!(leaving, memory.leaving(7));
            assert_eq!(memory.taken_frames().len() as u64, taken);
            let mut sorted = leaving.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), leaving.len());
            let whole = (0..frames / 1024)
                .filter(|b| {
                    sorted
                        .iter()
                        .filter(|f| u64::from(**f) / 1024 == *b)
                        .count()
                        == 1024
                })
                .count() as u64;
            assert!(
                whole >= frames / 1024 * 3 / 4 - 1 || taken == 0,
                "{whole} of {}",
                frames / 1024
            );
        }
    }
}
