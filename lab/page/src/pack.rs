//! The encoding of the data in the page, and the choice of what is omitted.
//!
//! The library and the data are several megabytes of text. They are compressed with gzip, which every browser can
//! decompress, and encoded in base64, which cannot contain markup.
//!
//! # Invariants
//! The maps of one moment form one parcel for all systems of a trace, so omitting a moment changes no other parcel.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use crate::report::{Map, Report, Trace};

/// Compresses and encodes in base64.
pub(crate) fn pack(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory cannot fail. If it did, the page would report that it cannot read its data.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    STANDARD.encode(written.unwrap_or_default())
}

/// All parcels of a report, before any is omitted.
pub(crate) struct Packed<'r> {
    traces: Vec<PackedTrace<'r>>,
}

struct PackedTrace<'r> {
    trace: &'r Trace,
    /// Position and parcel.
    moments: Vec<(f64, String)>,
}

/// The encoded data of a trace.
pub(crate) struct Parcel {
    /// The numbers.
    pub(crate) numbers: String,
    /// The maps, one per moment.
    pub(crate) maps: Vec<String>,
    /// The number of moments that were available.
    pub(crate) moments_given: usize,
}

/// The numbers of a trace, and the moments of its maps.
#[derive(Serialize)]
struct Numbers<'r> {
    #[serde(flatten)]
    trace: &'r Trace,
    moments: Vec<f64>,
}

impl<'r> Packed<'r> {
    /// Encodes the maps of a report.
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

    /// Returns the largest number of moments of any trace.
    pub(crate) fn most_moments(&self) -> usize {
        let moments = self.traces.iter().map(|trace| trace.moments.len());
        moments.max().unwrap_or(0)
    }

    /// Returns the data of each trace, with at most `most` moments at about equal distances.
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
        // Plain data with text keys always becomes JSON. If it did not, the page would report an error.
        let json = serde_json::to_vec(&numbers).unwrap_or_default();
        Parcel {
            numbers: pack(&json),
            maps: kept.into_iter().map(|(_, map)| map.clone()).collect(),
            moments_given: self.moments.len(),
        }
    }
}

/// Chooses at most `most` of `all` positions, each from the middle of one of `most` equal sections.
fn chosen(all: usize, most: usize) -> impl Iterator<Item = usize> {
    let kept = all.min(most);
    (0..kept).map(move |at| (2 * at + 1) * all / (2 * kept))
}

/// Encodes the maps of a moment one after another; `None` is encoded as a map without runs.
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
