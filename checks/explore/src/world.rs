//! A system in memory of its own, and its states.
//!
//! # Invariants
//! 1. The memory of a world lives for ever, and the world alone writes to it, apart from the system's cells and words.
//! 2. Between two calls of [`World::undo`], a word differs from the loaded state only if the log names it.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use everybuddy::{
    BuildError, FrameAllocator, LINE, Memory, Setup, SystemSpec, build_erased, metadata_layout,
};

use crate::platform::{self, Explored};

/// A state: the words of the metadata that differ from those of the new system, by position.
pub type State = Box<[(u32, u64)]>;

/// A system, and the state in which it is.
pub struct World {
    /// The system.
    pub system: &'static dyn FrameAllocator<Explored>,
    memory: *mut u64,
    /// The words of the new system.
    first: Box<[u64]>,
    /// The words of the state that was loaded last.
    loaded: Box<[u64]>,
    /// The positions where `loaded` may differ from `first`.
    different: Vec<u32>,
    /// For each word, the last pass that has seen it.
    seen: Box<[u32]>,
    pass: u32,
}

impl World {
    /// Builds a system. Its memory is never freed.
    ///
    /// # Errors
    /// Any [`BuildError`].
    pub fn new(spec: &SystemSpec, setup: &Setup<'_>) -> Result<World, BuildError> {
        let layout = metadata_layout::<Explored>(spec, setup)?;
        let words = layout.size().div_ceil(8);
        let bytes = vec![0u64; words + LINE / 8].leak();
        let offset = bytes.as_ptr().align_offset(LINE);
        let memory = bytes[offset..].as_mut_ptr();
        // SAFETY: at least `words` words follow `memory`, and nothing else refers to them.
        let given = unsafe {
            core::slice::from_raw_parts_mut(memory.cast::<MaybeUninit<u8>>(), layout.size())
        };
        let system = build_erased::<Explored>(spec, setup, Memory::new(given))?;
        platform::forget_writes();
        let first: Box<[u64]> = (0..words).map(|word| read(memory, word)).collect();
        Ok(World {
            system,
            memory,
            loaded: first.clone(),
            first,
            different: Vec::new(),
            seen: vec![0; words].into(),
            pass: 0,
        })
    }

    /// Returns the number of words.
    pub fn words(&self) -> usize {
        self.first.len()
    }

    /// Calls `f` once for each word that was written since the last [`undo`](Self::undo): with its position, and its
    /// value in the loaded state and now.
    fn for_each_written(&mut self, mut f: impl FnMut(u32, u64, u64)) {
        self.pass = self.pass.wrapping_add(1);
        platform::with_log(|log| {
            // A word that is written often stays in the log once.
            log.retain(|address| {
                let word = (address - self.memory.addr()) / 8;
                let is_new = self.seen[word] != self.pass;
                self.seen[word] = self.pass;
                if is_new {
                    f(word as u32, self.loaded[word], read(self.memory, word));
                }
                is_new
            });
        });
    }

    /// Restores the loaded state.
    pub fn undo(&mut self) {
        let memory = self.memory;
        self.for_each_written(|word, before, now| write(memory, word, before, now));
        platform::forget_writes();
    }

    /// Returns the present state.
    pub fn state(&mut self) -> State {
        let mut positions = core::mem::take(&mut self.different);
        let loaded = positions.len();
        self.for_each_written(|word, _, _| positions.push(word));
        let mut state: Vec<(u32, u64)> = positions
            .iter()
            .map(|&word| (word, read(self.memory, word as usize)))
            .filter(|&(word, value)| value != self.first[word as usize])
            .collect();
        state.sort_unstable();
        state.dedup();
        positions.truncate(loaded);
        self.different = positions;
        state.into()
    }

    /// Goes to a state, from which [`undo`](Self::undo) returns to it.
    pub fn load(&mut self, state: &State) {
        self.undo();
        for word in self.different.drain(..) {
            let word = word as usize;
            write(
                self.memory,
                word as u32,
                self.first[word],
                self.loaded[word],
            );
            self.loaded[word] = self.first[word];
        }
        for &(word, value) in state {
            write(self.memory, word, value, self.first[word as usize]);
            self.loaded[word as usize] = value;
            self.different.push(word);
        }
    }

    /// Returns a hash of the present state, if `loaded` is that of the loaded one: a sum over the words.
    pub fn hash(&mut self, loaded: u128) -> u128 {
        let mut hash = loaded;
        self.for_each_written(|word, before, now| {
            if before != now {
                hash = hash
                    .wrapping_sub(mix(word, before))
                    .wrapping_add(mix(word, now));
            }
        });
        hash
    }

    /// Returns the hash of a state; that of the new system is 0.
    pub fn hash_of(&self, state: &State) -> u128 {
        state.iter().fold(0, |hash, &(word, value)| {
            let first = mix(word, self.first[word as usize]);
            hash.wrapping_sub(first).wrapping_add(mix(word, value))
        })
    }

    /// Compares all words, and returns the position of one that changed but is not in the log.
    pub fn unlogged(&mut self) -> Option<usize> {
        self.for_each_written(|_, _, _| {});
        (0..self.words()).find(|&word| {
            self.seen[word] != self.pass && read(self.memory, word) != self.loaded[word]
        })
    }
}

/// Reads a word of the metadata.
fn read(memory: *mut u64, word: usize) -> u64 {
    let place = memory.wrapping_add(word);
    // SAFETY: the word lies in the world's memory, which was initialised as zero. The access is volatile, so it reads
    // what the memory holds, padding included, and no other thread writes there.
    unsafe { place.read_volatile() }
}

/// Writes `value` where `now` is. Only bytes that differ are written: the system's cells and words have written them,
/// so they are interior of cells, and no plain field, which the compiler may assume to be unchanged, is touched.
fn write(memory: *mut u64, word: u32, value: u64, now: u64) {
    let bytes = memory.wrapping_add(word as usize).cast::<u8>();
    let both = value.to_ne_bytes().into_iter().zip(now.to_ne_bytes());
    for (byte, (value, now)) in both.enumerate() {
        if value != now {
            let place = bytes.wrapping_add(byte);
            // SAFETY: the byte lies in the world's memory, in a cell or word of the system (see above).
            unsafe { place.write_volatile(value) };
        }
    }
}

/// Mixes a position and a value.
pub fn mix(position: u32, value: u64) -> u128 {
    let scramble = |mut word: u64| {
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    };
    let place = (u64::from(position) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let high = scramble(value.wrapping_add(place));
    let low = scramble(high ^ value.rotate_left(32) ^ place.wrapping_mul(0xD6E8_FEB8_6659_FD93));
    u128::from(high) << 64 | u128::from(low)
}
