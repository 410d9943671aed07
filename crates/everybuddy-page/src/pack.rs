//! How data travels in the page, and what is left out when it is too much.
//!
//! Exists because the library and the data are some megabytes as text: compressed with gzip, which
//! every browser inflates by itself, and written in base64, which can hold no markup.
//!
//! Invariant: maps of a moment are one parcel for all systems of a trace, so leaving out a moment
//! changes no other parcel.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use crate::report::{Map, Report, Trace};

/// Compresses and writes in base64.
pub(crate) fn pack(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory can't fail; if it did, the page would say that it can't read its data.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    STANDARD.encode(written.unwrap_or_default())
}

/// All parcels that there could be.
pub(crate) struct Packed<'r> {
    traces: Vec<PackedTrace<'r>>,
}

struct PackedTrace<'r> {
    trace: &'r Trace,
    /// Position and parcel.
    moments: Vec<(f64, String)>,
}

/// What a trace brings along.
pub(crate) struct Parcel {
    /// Its numbers.
    pub(crate) numbers: String,
    /// Its maps, one for each moment.
    pub(crate) maps: Vec<String>,
    /// Moments that there were.
    pub(crate) moments_given: usize,
}

/// A trace's numbers, and which moments its maps are of.
#[derive(Serialize)]
struct Numbers<'r> {
    #[serde(flatten)]
    trace: &'r Trace,
    moments: Vec<f64>,
}

impl<'r> Packed<'r> {
    /// Packs the maps of a report.
    pub(crate) fn new(report: &'r Report) -> Packed<'r> {
        let packed = |trace: &'r Trace| {
            let moments = trace.systems.iter().map(|s| s.maps.len()).max();
            let moment = |at: usize| {
                let maps = || trace.systems.iter().map(move |system| system.maps.get(at));
                let position = maps().flatten().next().map_or(0.0, |map| map.position);
                (position, pack(&written(maps())))
            };
            PackedTrace {
                trace,
                moments: (0..moments.unwrap_or(0)).map(moment).collect(),
            }
        };
        Packed {
            traces: report.traces.iter().map(packed).collect(),
        }
    }

    /// Returns the most moments that a trace has.
    pub(crate) fn most_moments(&self) -> usize {
        let moments = self.traces.iter().map(|trace| trace.moments.len());
        moments.max().unwrap_or(0)
    }

    /// Returns what each trace brings along, with at most so many moments at about equal distances.
    pub(crate) fn parcels(&self, most: usize) -> Vec<Parcel> {
        self.traces.iter().map(|trace| trace.parcel(most)).collect()
    }
}

impl PackedTrace<'_> {
    fn parcel(&self, most: usize) -> Parcel {
        let kept: Vec<&(f64, String)> = chosen(self.moments.len(), most)
            .filter_map(|at| self.moments.get(at))
            .collect();
        let numbers = Numbers {
            trace: self.trace,
            moments: kept.iter().map(|(position, _)| *position).collect(),
        };
        // Plain data with text keys always becomes JSON; were it not so, the page would say so.
        let json = serde_json::to_vec(&numbers).unwrap_or_default();
        Parcel {
            numbers: pack(&json),
            maps: kept.into_iter().map(|(_, map)| map.clone()).collect(),
            moments_given: self.moments.len(),
        }
    }
}

/// Chooses at most `most` of `all` places, from the middle of equal stretches.
fn chosen(all: usize, most: usize) -> impl Iterator<Item = usize> {
    let kept = all.min(most);
    (0..kept).map(move |at| (2 * at + 1) * all / (2 * kept))
}

/// Writes the maps of a moment one after the other; none as a map without runs.
fn written<'m>(maps: impl Iterator<Item = Option<&'m Map>>) -> Vec<u8> {
    let (none, mut bytes) = (Map::default(), Vec::new());
    for map in maps {
        map.unwrap_or(&none).write(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_that_are_kept_are_spread_evenly() {
        let of = |all, most| chosen(all, most).collect::<Vec<_>>();
        assert_eq!(of(8, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of(8, 4), [1, 3, 5, 7]);
        assert_eq!(of(8, 1), [4]);
        assert!(of(8, 0).is_empty());
        assert_eq!(of(3, 8), [0, 1, 2]);
        for most in 1..8 {
            let kept = of(8, most);
            assert!(kept.windows(2).all(|pair| pair[0] < pair[1]) && kept[most - 1] < 8);
        }
    }

    #[test]
    fn what_is_packed_can_be_inflated() {
        use std::io::Read;
        let text = "blocks ".repeat(1000);
        let packed = pack(text.as_bytes());
        assert!(packed.len() < 200);
        let bytes = STANDARD.decode(packed).unwrap();
        let mut back = String::new();
        flate2::read::GzDecoder::new(&bytes[..])
            .read_to_string(&mut back)
            .unwrap();
        assert_eq!(back, text);
    }
}
