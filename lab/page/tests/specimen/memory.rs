//! Made-up memory: related frames are mostly adjacent.
//!
//! Maps make up most of a page's size, so they must be as disordered as real ones.
//!
//! # Invariants
//! A map has as many frames as the memory, and about as many frames in use as the trace.

use everybuddy_page::report::{FREE, LISTED, Map};

use super::numbers::Random;

/// The parameters of a memory.
pub(crate) struct Memory {
    pub(crate) frames: u64,
    pub(crate) together: f64,
    pub(crate) owners: u64,
    pub(crate) large: bool,
}

impl Memory {
    /// Creates the maps of eight moments.
    pub(crate) fn maps(&self, live: &[u64], random: &mut Random) -> Vec<Map> {
        (0..8)
            .map(|moment| {
                let position = (f64::from(moment) + 0.5) / 8.0;
                let live = live[(position * 200.0) as usize];
                let regions = (0..self.frames.div_ceil(512)).map(|at| (at % 7) as u8);
                Map {
                    regions: regions.collect(),
                    ..Map::of(position, self.frames_at(live, random))
                }
            })
            .collect()
    }

    /// Fills memory in units of 4 MiB: some full, some empty, some mixed.
    fn frames_at(&self, live: u64, random: &mut Random) -> Vec<(u8, u8)> {
        let share = live as f64 / self.frames as f64;
        let mut frames: Vec<(u8, u8)> = Vec::with_capacity(self.frames as usize);
        while (frames.len() as u64) < self.frames {
            let end = frames.len() + 1024;
            let used = match random.unit() {
                x if x < share * 0.6 => 0.99,
                x if x < 1.0 - (1.0 - share) * 0.6 => share * 0.8,
                _ => 0.0,
            };
            while frames.len() < end {
                let left = end - frames.len();
                let length = (random.exponential() * self.together + 1.0) as usize;
                let frame = match random.unit() {
                    _ if used == 0.0 => (FREE, 10),
                    x if x >= used => (FREE, 0),
                    x if x < used * 0.01 => (LISTED, 0),
                    _ => (1 + (random.unit().powi(2) * self.owners as f64) as u8, 0),
                };
                if self.large && frame.0 == 1 && left >= 512 {
                    frames.extend(std::iter::repeat_n((1, 9), 512));
                } else {
                    frames.extend(std::iter::repeat_n(frame, length.min(left)));
                }
            }
        }
        frames.truncate(self.frames as usize);
        frames
    }
}
