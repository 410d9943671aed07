//! Statistics of sizes as a small JSON file.
//!
//! The statistics are gathered in one run and used in the next, perhaps by another version of the program on a
//! machine with a different memory size. An invalid file must be rejected with a reason.
//!
//! ```json
//! {
//!   "format": "everybuddy-sizes", "version": 1, "frame_bytes": 4096,
//!   "source": "gcc_build", "frames": 19456,
//!   "orders": [{"order": 0, "requests": 210000, "peak": 9000}],
//!   "first": [{"requests": 1, "blocks": [1]}, {"requests": 2, "blocks": [1, 0, 0, 1]}]
//! }
//! ```
//!
//! `blocks` are listed by order, from 0 on, without trailing zeros; `orders` contains requested orders only.
//!
//! # Invariants
//! Reading returns what was written; no file causes a panic.

use serde_json::{Value, json};

use super::{Need, ORDERS, Sizes};
use crate::model::PAGE_SHIFT;

/// The name of the format.
const FORMAT: &str = "everybuddy-sizes";
/// Its version.
const VERSION: u64 = 1;

/// What helps against any error.
const AGAIN: &str = "help: create the file with `everybuddy trace sizes TRACE`";

/// The reason why a file contains no usable statistics of sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizesError {
    /// The file is empty.
    #[error("the file is empty\n{AGAIN}")]
    Empty,
    /// The file has another format; the reason.
    #[error("not a file of size statistics ({0})\n{AGAIN}")]
    Foreign(String),
    /// The file was written in another version of the format.
    #[error("size statistics of version {0}, but this program reads version {VERSION}\n{AGAIN}")]
    Version(u64),
    /// The file has this format but contains an invalid value; the description.
    #[error("{0}\n{AGAIN}")]
    Damaged(String),
}

impl Sizes {
    /// Returns the statistics as JSON, terminated by a newline.
    pub fn to_json(&self) -> String {
        let orders = self.requests.iter().zip(self.peak).enumerate();
        let orders = orders.filter(|(_, (requests, _))| **requests > 0);
        let orders: Vec<Value> = orders
            .map(|(order, (requests, peak))| {
                json!({"order": order, "requests": requests, "peak": peak})
            })
            .collect();
        let first = self.first.iter().map(|need| {
            let last = need.blocks.iter().rposition(|blocks| *blocks > 0);
            let blocks = &need.blocks[..last.map_or(0, |last| last + 1)];
            json!({"requests": need.requests, "blocks": blocks})
        });
        let all = json!({
            "format": FORMAT,
            "version": VERSION,
            "frame_bytes": 1u64 << PAGE_SHIFT,
            "source": self.source,
            "frames": self.frames,
            "orders": orders,
            "first": first.collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }

    /// Parses statistics from the bytes of a file.
    ///
    /// # Errors
    /// Returns the problem with the file.
    pub fn from_json(bytes: &[u8]) -> Result<Sizes, SizesError> {
        if bytes.trim_ascii().is_empty() {
            return Err(SizesError::Empty);
        }
        let all: Value = serde_json::from_slice(bytes)
            .map_err(|error| SizesError::Foreign(format!("not JSON: {error}")))?;
        match all.get("format").and_then(Value::as_str) {
            Some(FORMAT) => {}
            Some(other) => {
                let other: String = other.chars().take(40).collect();
                return Err(SizesError::Foreign(format!("its format is `{other}`")));
            }
            None => {
                return Err(SizesError::Foreign(format!(
                    "missing `\"format\": \"{FORMAT}\"`"
                )));
            }
        }
        let version = number(&all, "version")?;
        if version != VERSION {
            return Err(SizesError::Version(version));
        }
        let frame = number(&all, "frame_bytes")?;
        if frame != 1 << PAGE_SHIFT {
            return Err(damaged(format!(
                "its frames have {frame} bytes instead of {}",
                1u64 << PAGE_SHIFT
            )));
        }
        let source = all.get("source").and_then(Value::as_str);
        let mut sizes = Sizes {
            source: source.unwrap_or("an unknown workload").to_string(),
            frames: number(&all, "frames")?,
            ..Sizes::default()
        };
        for own in list(&all, "orders")? {
            let order = number(own, "order")?;
            let at = usize::try_from(order).unwrap_or(ORDERS);
            let (Some(requests), Some(peak)) = (sizes.requests.get_mut(at), sizes.peak.get_mut(at))
            else {
                return Err(damaged(format!("invalid order {order}")));
            };
            *requests = number(own, "requests")?;
            *peak = small(number(own, "peak")?)?;
        }
        for own in list(&all, "first")? {
            let mut need = Need {
                requests: number(own, "requests")?,
                ..Need::default()
            };
            let blocks = list(own, "blocks")?;
            if blocks.len() > ORDERS {
                return Err(damaged(format!(
                    "`blocks` has {} orders, more than {ORDERS}",
                    blocks.len()
                )));
            }
            for (place, value) in need.blocks.iter_mut().zip(blocks) {
                let value = value
                    .as_u64()
                    .ok_or_else(|| damaged("`blocks` does not contain numbers".into()))?;
                *place = small(value)?;
            }
            sizes.first.push(need);
        }
        sizes.consistent()
    }

    fn consistent(self) -> Result<Sizes, SizesError> {
        let grows = |pair: &[Need]| {
            let [a, b] = pair else { return true };
            a.requests < b.requests && a.blocks.iter().zip(b.blocks).all(|(a, b)| *a <= b)
        };
        if !self.first.windows(2).all(grows) {
            return Err(damaged(
                "the needs of the first requests do not increase with their number".into(),
            ));
        }
        let last = self.first.last().copied().unwrap_or_default();
        let total = self
            .requests
            .iter()
            .try_fold(0u64, |sum, own| sum.checked_add(*own));
        if Some(last.requests) > total
            || last
                .blocks
                .iter()
                .zip(self.peak)
                .any(|(need, peak)| *need > peak)
        {
            return Err(damaged(
                "the first requests need more than all requests".into(),
            ));
        }
        let mut peaks = self.requests.iter().zip(self.peak);
        if peaks.any(|(requests, peak)| u64::from(peak) > *requests) {
            return Err(damaged(
                "more blocks of an order are live than were requested".into(),
            ));
        }
        match total {
            Some(_) => Ok(self),
            None => Err(damaged("the number of requests is too large".into())),
        }
    }
}

fn damaged(what: String) -> SizesError {
    SizesError::Damaged(what)
}

fn number(value: &Value, key: &str) -> Result<u64, SizesError> {
    let found = value.get(key).and_then(Value::as_u64);
    found.ok_or_else(|| damaged(format!("`{key}` is missing or not an integer")))
}

fn list<'v>(value: &'v Value, key: &str) -> Result<&'v Vec<Value>, SizesError> {
    let found = value.get(key).and_then(Value::as_array);
    found.ok_or_else(|| damaged(format!("`{key}` is missing or not a list")))
}

fn small(value: u64) -> Result<u32, SizesError> {
    u32::try_from(value).map_err(|_| damaged(format!("the number of blocks {value} is too large")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes() -> impl Strategy<Value = Sizes> {
        let needs = prop::collection::vec((1..9u64, prop::array::uniform19(0..3u32)), 0..5);
        (".{0,12}", 0..1u64 << 40, needs).prop_map(|(source, frames, steps)| {
            let (mut sizes, mut need) = (Sizes::default(), Need::default());
            (sizes.source, sizes.frames) = (source, frames);
            for (requests, more) in steps {
                need.requests += requests;
                sizes.requests[0] += requests;
                for (own, more) in need.blocks.iter_mut().zip(more) {
                    *own += more;
                }
                sizes.first.push(need);
            }
            sizes.peak = need.blocks;
            // At most as many are live as were requested.
            for (requests, peak) in sizes.requests.iter_mut().zip(sizes.peak) {
                *requests += u64::from(peak);
            }
            sizes
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(sizes in sizes()) {
            prop_assert_eq!(Sizes::from_json(sizes.to_json().as_bytes()), Ok(sizes));
        }

        #[test]
        fn damage_is_refused_and_never_a_panic(
            sizes in sizes(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut bytes = sizes.to_json().into_bytes();
            let at = at.index(bytes.len());
            let _ = Sizes::from_json(&bytes[..at]);
            bytes[at] = byte;
            if let Ok(read) = Sizes::from_json(&bytes) {
                prop_assert_eq!(Sizes::from_json(read.to_json().as_bytes()), Ok(read));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let says = |text: &str| Sizes::from_json(text.as_bytes()).unwrap_err().to_string();
        let good = Sizes::default().to_json();
        assert!(Sizes::from_json(good.as_bytes()).is_ok());
        assert!(says(" \n").contains("empty"));
        assert!(says("# name: sizes").contains("not JSON"));
        assert!(says("[1, 2]").contains("not a file of size statistics"));
        assert!(says("{\"format\": \"other\"}").contains("`other`"));
        assert!(says(&good.replace("\"version\": 1", "\"version\": 7")).contains("version 7"));
        assert!(says(&good.replace("\"frames\": 0", "\"frames\": -1")).contains("`frames`"));
        assert!(says(&good.replace("4096", "16384")).contains("16384 bytes"));
        let beyond = good.replace("\"orders\": []", "\"orders\": [{\"order\": 77}]");
        assert!(says(&beyond).contains("order 77"));
    }
}
