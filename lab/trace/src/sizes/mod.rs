//! Statistics of sizes: the orders that a workload requests, and the number of blocks of each that its first requests
//! need.
//!
//! A system can divide memory in advance into the blocks that a workload will request, if they are known from an
//! earlier run. This is the improved preliminary classification of \[Serewa\] 2.2.3.
//!
//! | file | contents |
//! |------|------------|
//! | `mod` | gathering statistics, and merging them |
//! | `file` | the JSON file and its errors |
//! | `division` | the optimal division of memory |
//!
//! # Invariants
//! Needs increase with the number of requests, and a need never exceeds the peak of its order.

mod division;
mod file;

pub use division::division;
pub use file::SizesError;

use crate::model::LARGEST_ORDER;
use crate::resolve::{Resolved, StepKind};

/// The number of orders.
pub const ORDERS: usize = LARGEST_ORDER as usize + 1;

/// Statistics of the sizes of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The source: the name of a trace, or several.
    pub source: String,
    /// The frames of the memory for which they were gathered.
    pub frames: u64,
    /// The number of requests of each order.
    pub requests: [u64; ORDERS],
    /// The maximum number of blocks of each order in use at the same time.
    pub peak: [u32; ORDERS],
    /// The needs of the first requests: after 1, 2, 4, 8 requests and so on, and after all.
    pub first: Vec<Need>,
}

/// The needs of the first requests of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// The number of requests.
    pub requests: u64,
    /// The minimum number of blocks of each order with which every request finds a block of its order, if freed
    /// blocks are reused: the maximum in use at the same time.
    pub blocks: [u32; ORDERS],
}

impl Sizes {
    /// Gathers the statistics of a trace for a memory of `frames` frames, in one pass over its steps.
    ///
    /// A block that is freed in parts counts as in use until its last frame is freed.
    pub fn of(source: &str, resolved: &Resolved, frames: u64) -> Sizes {
        let mut sizes = Sizes {
            source: source.to_string(),
            frames,
            ..Sizes::default()
        };
        // For each block, its order and its frames in use.
        let mut blocks = vec![(0u8, 0u32); resolved.blocks as usize];
        let mut live = [0u32; ORDERS];
        let (mut requests, mut next) = (0u64, 1u64);
        for step in &resolved.steps {
            let Some((order, left)) = blocks.get_mut(step.block as usize) else {
                continue;
            };
            let part = 1u32 << step.order.min(LARGEST_ORDER);
            if step.kind != StepKind::Allocate {
                *left = left.saturating_sub(part);
                if *left == 0 {
                    live[usize::from(*order)] = live[usize::from(*order)].saturating_sub(1);
                }
                continue;
            }
            (*order, *left) = (step.order.min(LARGEST_ORDER), part);
            let at = usize::from(*order);
            sizes.requests[at] += 1;
            live[at] += 1;
            sizes.peak[at] = sizes.peak[at].max(live[at]);
            requests += 1;
            if requests == next {
                sizes.first.push(Need {
                    requests,
                    blocks: sizes.peak,
                });
                next *= 2;
            }
        }
        if sizes
            .first
            .last()
            .is_some_and(|last| last.requests < requests)
        {
            sizes.first.push(Need {
                requests,
                blocks: sizes.peak,
            });
        }
        sizes
    }

    /// Returns the number of requests.
    pub fn total(&self) -> u64 {
        self.requests.iter().sum()
    }

    /// Returns the needs of the first `requests` requests: the next recorded needs that are not smaller, so never too
    /// few. Beyond the number of requests, returns the needs of all.
    pub fn need(&self, requests: u64) -> Need {
        let noted = self.first.iter().find(|need| need.requests >= requests);
        match noted.or(self.first.last()) {
            Some(need) if requests > 0 => *need,
            _ => Need::default(),
        }
    }

    /// Merges the statistics of another run: adds the requests, and takes the maximum of peaks and needs, so that the
    /// result serves either run.
    pub fn join(&mut self, other: &Sizes) {
        let ends: Vec<u64> = [&self.first, &other.first]
            .into_iter()
            .flat_map(|first| first.iter().map(|need| need.requests))
            .collect();
        let larger = |a: [u32; ORDERS], b: [u32; ORDERS]| {
            let mut larger = a;
            for (own, other) in larger.iter_mut().zip(b) {
                *own = (*own).max(other);
            }
            larger
        };
        let mut first: Vec<Need> = ends
            .into_iter()
            .map(|requests| Need {
                requests,
                blocks: larger(self.need(requests).blocks, other.need(requests).blocks),
            })
            .collect();
        first.sort_by_key(|need| need.requests);
        first.dedup();
        self.first = first;
        self.peak = larger(self.peak, other.peak);
        for (own, more) in self.requests.iter_mut().zip(other.requests) {
            *own += more;
        }
        self.frames = self.frames.max(other.frames);
        self.source = format!("{}, {}", self.source, other.source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::Step;

    /// Allocations `(block, order)`, and frees `(block, order)` of a part or of the whole.
    fn resolved(steps: &[(StepKind, u32, u8)]) -> Resolved {
        let step = |(kind, block, order): &(StepKind, u32, u8)| Step {
            time_ns: 0,
            block: *block,
            task: 0,
            region: 0,
            left: 0,
            operand: 0,
            cpu: 0,
            order: *order,
            kind: *kind,
        };
        Resolved {
            steps: steps.iter().map(step).collect(),
            blocks: 8,
            ..Resolved::default()
        }
    }

    #[test]
    fn a_block_that_comes_back_is_needed_once() {
        use StepKind::{Allocate as A, Free as F, FreePart as P};
        let steps = [
            (A, 0, 0),
            (F, 0, 0),
            (A, 1, 0),
            (A, 2, 1),
            (P, 2, 0),
            (A, 3, 1),
            (P, 2, 0),
            (A, 4, 1),
        ];
        let sizes = Sizes::of("x", &resolved(&steps), 64);
        assert_eq!((sizes.requests[0], sizes.requests[1]), (2, 3));
        assert_eq!((sizes.peak[0], sizes.peak[1]), (1, 2));
        let of = |requests| [0, 1].map(|order| sizes.need(requests).blocks[order]);
        assert_eq!(
            [of(0), of(1), of(2), of(3), of(4)],
            [[0, 0], [1, 0], [1, 0], [1, 2], [1, 2]]
        );
        assert_eq!(
            of(1000),
            [1, 2],
            "beyond the number of requests, the needs of all"
        );
        assert_eq!(sizes.first.last().map(|need| need.requests), Some(5));
    }

    #[test]
    fn what_is_joined_serves_either() {
        use StepKind::Allocate as A;
        let a = Sizes::of("a", &resolved(&[(A, 0, 0), (A, 1, 0)]), 64);
        let b = Sizes::of("b", &resolved(&[(A, 0, 2), (A, 1, 0), (A, 2, 2)]), 32);
        let mut both = a.clone();
        both.join(&b);
        for requests in 0..5 {
            for own in [&a, &b] {
                let pairs = both
                    .need(requests)
                    .blocks
                    .into_iter()
                    .zip(own.need(requests).blocks);
                assert!(
                    pairs.into_iter().all(|(both, own)| both >= own),
                    "{requests}"
                );
            }
        }
        assert_eq!(both.total(), 5);
        assert_eq!(both.frames, 64);
        assert_eq!(both.source.as_str(), "a, b");
        let rising = both.first.windows(2);
        assert!(
            rising
                .into_iter()
                .all(|pair| pair[0].requests < pair[1].requests)
        );
    }
}
