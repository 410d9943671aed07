//! A map of memory at one moment, frame by frame.
//!
//! A map of a hundred thousand frames must be small: adjacent frames with equal values form one run.
//!
//! # Invariants
//! The runs of a map, in order from frame 0, cover each frame once.

/// The owner of a frame that is free in the zone layer.
pub const FREE: u8 = 0;

/// The owner of a frame in a CPU's list: neither free in the zone layer nor in use.
pub const LISTED: u8 = 15;

/// The largest owner index; indices start at 1.
pub const OWNERS: usize = 8;

/// All frames at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    /// The moment: a position in the calls of the trace, from 0 to 1.
    pub position: f64,
    /// The frames, from frame 0 up.
    pub runs: Vec<MapRun>,
    /// How many owners the frames in use of each region of 2 MiB have, from frame 0 up; empty if unknown.
    pub regions: Vec<u8>,
}

/// Adjacent frames with the same owner, in blocks of the same order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MapRun {
    /// The number of frames.
    pub frames: u32,
    /// [`FREE`], [`LISTED`], or an index from 1 into the trace's owners.
    pub owner: u8,
    /// The order of the block that contains the frame, at most 15. For free frames it is 0 if unknown.
    pub order: u8,
}

impl Map {
    /// Creates a map from the owner and order of each frame.
    pub fn of(position: f64, frames: impl IntoIterator<Item = (u8, u8)>) -> Map {
        let mut runs: Vec<MapRun> = Vec::new();
        for (owner, order) in frames {
            match runs.last_mut() {
                Some(last) if (last.owner, last.order) == (owner, order) => last.frames += 1,
                _ => runs.push(MapRun {
                    frames: 1,
                    owner,
                    order,
                }),
            }
        }
        Map {
            position,
            runs,
            regions: Vec::new(),
        }
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.frames)).sum()
    }

    /// Encodes the runs for the page. First the number of runs (four bytes, little-endian), then one byte per run
    /// (owner + 16 * order), then the lengths of all runs (seven bits per byte, least significant first; the eighth
    /// bit is set if more bytes follow). Last, the number of regions (like that of the runs), and a byte for each.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let known = |owner: u8| match usize::from(owner) {
            0..=OWNERS => owner,
            _ => LISTED,
        };
        let runs = || self.runs.iter().filter(|run| run.frames > 0);
        out.extend_from_slice(&(runs().count() as u32).to_le_bytes());
        out.extend(runs().map(|run| known(run.owner) | (run.order.min(15) << 4)));
        for run in runs() {
            let mut rest = run.frames;
            while rest >= 0x80 {
                out.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            out.push(rest as u8);
        }
        out.extend_from_slice(&(self.regions.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.regions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inverse of [`Map::write`], as implemented in the page.
    fn read(bytes: &[u8]) -> (Vec<MapRun>, &[u8]) {
        let count = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let (values, mut lengths) = bytes[4..].split_at(count);
        let mut runs = Vec::new();
        for value in values {
            let (mut frames, mut shift) = (0, 0);
            loop {
                let byte = lengths[0];
                lengths = &lengths[1..];
                frames |= u32::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let (owner, order) = (value & 15, value >> 4);
            runs.push(MapRun {
                frames,
                owner,
                order,
            });
        }
        let (count, regions) = lengths.split_at(4);
        assert_eq!(count, (regions.len() as u32).to_le_bytes());
        (runs, regions)
    }

    #[test]
    fn what_was_written_is_read_again() {
        let frames = (0..300_000u32).map(|frame| match frame {
            0..127 => (1, 0),
            127..256 => (FREE, 7),
            256..512 => ((frame % 9) as u8, (frame % 16) as u8),
            512..1000 => (LISTED, 0),
            _ => (2, 10),
        });
        let map = Map {
            regions: vec![1, 0, 255],
            ..Map::of(0.5, frames)
        };
        assert_eq!(map.frames(), 300_000);
        let mut bytes = Vec::new();
        map.write(&mut bytes);
        assert_eq!(read(&bytes), (map.runs, &map.regions[..]));
    }

    #[test]
    fn an_unknown_owner_is_not_shown_as_a_program() {
        let mut bytes = Vec::new();
        Map::of(0.0, [(14, 200)]).write(&mut bytes);
        assert_eq!(
            read(&bytes).0,
            [MapRun {
                frames: 1,
                owner: LISTED,
                order: 15
            }]
        );
    }
}
