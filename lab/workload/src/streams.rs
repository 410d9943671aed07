//! Traffic of message buffers in virtual time: each block is allocated at one moment and freed at another.
//!
//! # Source
//! \[BL89\] section 5 and table 1: for each class of blocks, the mean time between the requests of a user, and the mean
//! holding time of a block.
//!
//! Whether delayed coalescing pays off depends on how steady the demand for each class is. Distributions of times
//! describe that; a random choice of the next step does not.
//!
//! # Invariants
//! A block is freed after its holding time, whether or not other requests failed, so the calls are the same for every
//! allocator. The same seed gives the same calls on every machine, since no library function whose last bit may
//! differ is used.
//!
//! # Design decisions
//! The paper does not specify these points:
//! - With deterministic times, each user has its own clock for each class, which starts at a random moment of the
//!   first interval. Users whose requests arrive at random are merged into one source with the sum of their rates.
//! - If a free and a request are due at the same moment, the free comes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use everybuddy::{Order, Size};

use crate::Step;
use crate::random::Random;

/// Bytes per unit: the smallest block. A unit stands for a frame.
pub const UNIT: u32 = 16;

/// A class of blocks: the request rate of one user, and the holding time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Bytes of a block.
    pub bytes: u32,
    /// Mean time between two requests of a user, in milliseconds.
    pub interarrival_ms: u32,
    /// Mean time from an allocation to its free, in milliseconds.
    pub holding_ms: u32,
}

const fn class(bytes: u32, interarrival_ms: u32, holding_ms: u32) -> Class {
    Class {
        bytes,
        interarrival_ms,
        holding_ms,
    }
}

/// \[BL89\] table 1: one heavy user.
pub const CLASSES: [Class; 7] = [
    class(16, 113, 54),
    class(64, 112, 5),
    class(128, 138, 654),
    class(256, 528, 12),
    class(512, 10_142, 14),
    class(1024, 4804, 17),
    class(2048, 60, 275),
];

impl Class {
    /// Returns the order of a block, in units.
    pub fn order(self) -> Order {
        Order::covering(self.bytes.div_ceil(UNIT)).unwrap_or_default()
    }
}

/// The distributions of interarrival times and holding times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Constant, equal to their means: D/D/m.
    Deterministic,
    /// Exponential: M/M/m.
    Exponential,
    /// Exponential, with exactly this many requests per arrival and a correspondingly smaller rate of arrivals. Each
    /// block has its own holding time.
    Batches(u32),
    /// Batches of random size, geometrically distributed with this mean.
    Geometric(u32),
    /// The same for blocks of the largest class only; all other requests arrive one by one.
    GeometricLargest(u32),
}

impl Timing {
    /// Returns the mean number of requests per arrival, for a class.
    fn per_arrival(self, class: Class) -> u32 {
        let is_largest = CLASSES.iter().all(|other| other.bytes <= class.bytes);
        match self {
            Timing::Deterministic | Timing::Exponential => 1,
            Timing::Batches(mean) | Timing::Geometric(mean) => mean.max(1),
            Timing::GeometricLargest(mean) if is_largest => mean.max(1),
            Timing::GeometricLargest(_) => 1,
        }
    }
}

/// The parameters of the traffic.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// The distributions.
    pub timing: Timing,
    /// The number of users, which need not be whole: the rate of the requests is that of one user times this number.
    pub users: f64,
    /// The seed of the random choices.
    pub seed: u64,
}

/// A call at a moment of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Nanoseconds from the start.
    pub at: u64,
    /// An allocation or a free.
    pub step: Step,
}

const NANOS_PER_MILLI: f64 = 1e6;

/// A pending event; events happen in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The block in this slot is freed.
    Release(u32),
    /// A source makes a request.
    Arrival(usize),
}

/// A source of requests for blocks of one class.
#[derive(Clone, Copy, Debug)]
struct Source {
    order: Order,
    interarrival: f64,
    holding: f64,
    /// The mean number of requests per arrival.
    batch: u32,
}

/// The endless stream of calls of some traffic. See the module documentation.
#[derive(Clone, Debug)]
pub struct Streams {
    timing: Timing,
    random: Random,
    sources: Vec<Source>,
    due: BinaryHeap<Reverse<Due>>,
    /// The remaining requests of a batch at this moment: the time, the source and their number.
    rest: Option<(u64, usize, u32)>,
    empty: Vec<u32>,
    slots: u32,
}

impl Streams {
    /// Starts the traffic, with no blocks held. O(users).
    pub fn new(traffic: Traffic) -> Self {
        let users = traffic.users.max(f64::MIN_POSITIVE);
        // One clock per user, or one source for all users.
        let clocks = match traffic.timing {
            Timing::Deterministic => (users.ceil() as u32).max(1),
            _ => 1,
        };
        let sources: Vec<Source> = CLASSES
            .iter()
            .flat_map(|class| {
                let batch = traffic.timing.per_arrival(*class);
                let rate = users / f64::from(clocks) / f64::from(batch);
                let source = Source {
                    order: class.order(),
                    interarrival: f64::from(class.interarrival_ms) * NANOS_PER_MILLI / rate,
                    holding: f64::from(class.holding_ms) * NANOS_PER_MILLI,
                    batch,
                };
                (0..clocks).map(move |_| source)
            })
            .collect();
        let mut own = Streams {
            timing: traffic.timing,
            random: Random::new(traffic.seed, 0),
            sources,
            due: BinaryHeap::new(),
            rest: None,
            empty: Vec::new(),
            slots: 0,
        };
        for source in 0..own.sources.len() {
            let mean = own.sources[source].interarrival;
            let first = match own.timing {
                Timing::Deterministic => (own.random.share() * mean) as u64,
                _ => own.time(mean),
            };
            own.expect(first, What::Arrival(source));
        }
        own
    }

    /// Returns the number of slots that the calls so far have used.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    fn expect(&mut self, at: u64, what: What) {
        self.due.push(Reverse(Due { at, what }));
    }

    /// Draws a time with this mean, in nanoseconds.
    fn time(&mut self, mean: f64) -> u64 {
        match self.timing {
            Timing::Deterministic => mean as u64,
            _ => (-mean * logarithm(self.random.share())) as u64,
        }
    }

    /// Draws the number of requests of an arrival whose mean is `batch`.
    fn batch(&mut self, batch: u32) -> u32 {
        match self.timing {
            Timing::Deterministic | Timing::Exponential => 1,
            Timing::Batches(_) => batch,
            Timing::Geometric(_) | Timing::GeometricLargest(_) => {
                let mut size = 1;
                while batch > 1 && self.random.below(batch) > 0 {
                    size += 1;
                }
                size
            }
        }
    }

    /// Returns a request at this moment and schedules its free.
    fn request(&mut self, at: u64, source: usize) -> Call {
        let Source { order, holding, .. } = self.sources[source];
        let slot = self.empty.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        let back = at + self.time(holding);
        self.expect(back, What::Release(slot));
        let size = Size::Order(order);
        let step = Step::Allocate { slot, size };
        Call { at, step }
    }
}

impl Iterator for Streams {
    type Item = Call;

    fn next(&mut self) -> Option<Call> {
        if let Some((at, source, count)) = self.rest.take() {
            self.rest = (count > 1).then_some((at, source, count - 1));
            return Some(self.request(at, source));
        }
        let Reverse(Due { at, what }) = self.due.pop()?;
        match what {
            What::Release(slot) => {
                self.empty.push(slot);
                let step = Step::Free { slot };
                Some(Call { at, step })
            }
            What::Arrival(source) => {
                let next = at + self.time(self.sources[source].interarrival);
                self.expect(next, What::Arrival(source));
                let count = self.batch(self.sources[source].batch);
                self.rest = (count > 1).then_some((at, source, count - 1));
                Some(self.request(at, source))
            }
        }
    }
}

/// Returns the natural logarithm of a positive normal number, computed with additions, multiplications and divisions
/// alone, whose results are identical to the last bit on all machines.
fn logarithm(number: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    const BIAS: i32 = 1023;
    let bits = number.to_bits();
    let exponent = (bits >> 52) as i32 - BIAS;
    // Between 1 and 2, and then between 3/4 and 3/2.
    let mantissa = f64::from_bits(bits & FRACTION | (BIAS as u64) << 52);
    let (mantissa, exponent) = if mantissa > 1.5 {
        (mantissa / 2.0, exponent + 1)
    } else {
        (mantissa, exponent)
    };
    // ln m = 2 artanh((m - 1) / (m + 1)), whose argument is at most a fifth.
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = (0..13).rev().fold(0.0, |sum, power| {
        sum * square + 1.0 / f64::from(2 * power + 1)
    });
    f64::from(exponent) * core::f64::consts::LN_2 + 2.0 * ratio * series
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMINGS: [Timing; 5] = [
        Timing::Deterministic,
        Timing::Exponential,
        Timing::Batches(4),
        Timing::Geometric(4),
        Timing::GeometricLargest(4),
    ];

    fn calls(timing: Timing, seed: u64, count: usize) -> Vec<Call> {
        let users = 3.0;
        Streams::new(Traffic {
            timing,
            users,
            seed,
        })
        .take(count)
        .collect()
    }

    #[test]
    fn logarithms_are_right() {
        let mut number = 1e-300;
        while number < 1e300 {
            let error = (logarithm(number) - number.ln()).abs();
            assert!(error <= 4e-16 * number.ln().abs().max(1.0), "{number}");
            number *= 1.37;
        }
        assert_eq!(logarithm(1.0), 0.0);
    }

    #[test]
    fn time_goes_forward_and_slots_alternate() {
        for timing in TIMINGS {
            let mut full = Vec::new();
            let mut before = 0;
            for call in calls(timing, 5, 50_000) {
                assert!(call.at >= before);
                before = call.at;
                match call.step {
                    Step::Allocate { slot, .. } => {
                        full.resize(full.len().max(slot as usize + 1), false);
                        assert!(!std::mem::replace(&mut full[slot as usize], true));
                    }
                    Step::Free { slot } => {
                        assert!(std::mem::replace(&mut full[slot as usize], false))
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(full.len() < 400, "{timing:?}: {} slots", full.len());
            assert_eq!(calls(timing, 5, 1000), calls(timing, 5, 1000));
            assert_ne!(calls(timing, 5, 1000), calls(timing, 6, 1000));
        }
    }

    /// Returns the requests per second and the mean number of live blocks of each order.
    fn load(timing: Timing, users: f64, count: usize) -> [(f64, f64, f64); 8] {
        let seed = 1;
        let mut held = [0u32; 8];
        let mut area = [0f64; 8];
        let mut requests = [0u32; 8];
        let mut slots = vec![0; 1000];
        let mut before = 0;
        let traffic = Traffic {
            timing,
            users,
            seed,
        };
        for call in Streams::new(traffic).take(count) {
            for (area, held) in area.iter_mut().zip(held) {
                *area += f64::from(held) * (call.at - before) as f64;
            }
            before = call.at;
            match call.step {
                Step::Allocate { slot, size } => {
                    let Size::Order(order) = size else { panic!() };
                    held[order.index()] += 1;
                    requests[order.index()] += 1;
                    slots[slot as usize] = order.index();
                }
                Step::Free { slot } => held[slots[slot as usize]] -= 1,
                other => panic!("{other:?}"),
            }
        }
        std::array::from_fn(|at| {
            let seen = f64::from(requests[at]);
            let rate = seen / (before as f64 / NANOS_PER_MILLI);
            (seen, rate, area[at] / before as f64)
        })
    }

    /// By Little's law, the mean number of blocks of a class is its rate times its holding time. The bounds are five
    /// standard deviations, from the number of requests of the class: the rare classes are tested as well.
    #[test]
    fn every_class_has_the_load_of_the_table() {
        for (timing, users) in TIMINGS
            .map(|timing| (timing, 3.0))
            .into_iter()
            .chain([(Timing::Exponential, 0.25), (Timing::Deterministic, 1.5)])
        {
            let load = load(timing, users, 1_200_000);
            for class in CLASSES {
                let (seen, rate, mean) = load[class.order().index()];
                let spread = match timing {
                    Timing::Deterministic => 0.0,
                    // The variance of the number of requests in a geometric batch of mean m is m^2 - m.
                    _ => (f64::from(2 * timing.per_arrival(class)) / seen).sqrt(),
                };
                let (wanted, within) = (users / f64::from(class.interarrival_ms), 5.0 * spread);
                let about = |own: f64, wanted: f64, slack: f64| {
                    let off = (own / wanted - 1.0).abs();
                    assert!(off < slack, "{timing:?} {users} {class:?} {off} {slack}");
                };
                about(rate, wanted, within + 0.002);
                about(
                    mean,
                    wanted * f64::from(class.holding_ms),
                    1.5 * within + 0.004,
                );
            }
        }
    }

    #[test]
    fn batches_have_the_size_that_they_are_named_for() {
        let sizes = |timing| {
            let mut sizes: Vec<u32> = Vec::new();
            let mut at = None;
            for call in calls(timing, 3, 200_000) {
                match call.step {
                    Step::Allocate { size, .. } if at == Some((call.at, size)) => {
                        if let Some(last) = sizes.last_mut() {
                            *last += 1;
                        }
                    }
                    Step::Allocate { size, .. } => {
                        at = Some((call.at, size));
                        sizes.push(1);
                    }
                    _ => {}
                }
            }
            sizes.pop();
            sizes
        };
        assert!(sizes(Timing::Batches(4)).iter().all(|size| *size == 4));
        assert!(sizes(Timing::Exponential).iter().all(|size| *size == 1));
        // Alone among all classes, the largest one has batches.
        let in_largest = sizes(Timing::GeometricLargest(4));
        assert!(in_largest.iter().any(|size| *size > 1));
        let calls = calls(Timing::GeometricLargest(4), 3, 200_000);
        let order = |call: &Call| match call.step {
            Step::Allocate { size, .. } => Some(size),
            _ => None,
        };
        for pair in calls.windows(2).filter(|pair| pair[0].at == pair[1].at) {
            let both = (order(&pair[0]), order(&pair[1]));
            let largest = Some(Size::Order(CLASSES[6].order()));
            assert!(both.0.is_none() || both.1.is_none() || both == (largest, largest));
        }
        let sizes = sizes(Timing::Geometric(4));
        let mean = f64::from(sizes.iter().sum::<u32>()) / sizes.len() as f64;
        assert!((mean - 4.0).abs() < 0.1, "{mean}");
        let single = sizes.iter().filter(|size| **size == 1).count() as f64;
        assert!((single / sizes.len() as f64 - 0.25).abs() < 0.01);
    }
}
