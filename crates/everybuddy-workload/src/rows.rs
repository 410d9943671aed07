//! The list of workloads and of their variants.
//!
//! Why it exists: benchmarks, help and docs are made from these rows.
//!
//! Invariant: names of variants are unique. A variant is called as its workload only if it is the only one,
//! so that a workload's name always stands for all of its variants.

use everybuddy::Order;

use crate::churn::{self, Mix};
use crate::{Program, Setting, batch, burst, fill, handover, hot, steady};

/// A workload, described.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Its variants.
    pub variants: &'static [Variant],
}

/// A variant of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The name, as it is chosen: `hot:order9`.
    pub name: &'static str,
    /// What is special about it, in a few words.
    pub summary: &'static str,
    /// The largest order that it asks for.
    pub largest: Order,
    /// The fewest threads that it can be done with.
    pub threads: u16,
    /// How often a round is repeated on the same memory, to be timed.
    pub repeats: u32,
    /// Whether it is about what is left in the end: how many blocks of orders 9 and 10 can be had. Such a
    /// variant takes long and is done once.
    pub harvest: bool,
    make: fn(&Setting, u16) -> Program,
}

impl Variant {
    /// Makes the program of a thread.
    pub fn program(&self, setting: &Setting, thread: u16) -> Program {
        (self.make)(setting, thread)
    }
}

/// An order that is known to be one.
const fn order(order: u8) -> Order {
    match Order::new(order) {
        Some(order) => order,
        None => Order::ZERO,
    }
}

const fn variant(
    name: &'static str,
    summary: &'static str,
    make: fn(&Setting, u16) -> Program,
) -> Variant {
    Variant {
        name,
        summary,
        largest: Order::ZERO,
        threads: 1,
        repeats: 3,
        harvest: false,
        make,
    }
}

impl Variant {
    const fn up_to(self, order: Order) -> Variant {
        Variant {
            largest: order,
            ..self
        }
    }

    const fn harvesting(self) -> Variant {
        Variant {
            harvest: true,
            repeats: churn::ROUNDS,
            ..self
        }
    }
}

const NINE: Order = order(9);
const FOUR: Order = order(4);
const OURS: &str = "synthetic";
const MIXED: &str =
    "orders as in iBuddy (000) figure 3: 98.4 % single frames, the rest over orders 1 to 4";

/// All workloads.
pub const WORKLOADS: &[Row] = &[
    Row {
        name: "hot",
        summary: "Pairs: one block is allocated and freed at once, again and again.",
        source: OURS,
        variants: &[
            variant("hot:order0", "single frames, empty memory", |s, _| {
                hot::empty(s, Order::ZERO)
            }),
            variant(
                "hot:order0:scattered",
                "single frames, every other frame of a random half held",
                |s, t| hot::scattered(s, t, Order::ZERO),
            ),
            variant("hot:order9", "blocks of 2 MiB, empty memory", |s, _| {
                hot::empty(s, NINE)
            })
            .up_to(NINE),
            variant(
                "hot:order9:scattered",
                "blocks of 2 MiB, every other frame of a random half held",
                |s, t| hot::scattered(s, t, NINE),
            )
            .up_to(NINE),
        ],
    },
    Row {
        name: "burst",
        summary: "Bursts: 8,192 single frames are allocated, then all are freed.",
        source: OURS,
        variants: &[
            variant("burst:in-order", "freed in the same order", |s, t| {
                burst::burst(s, t, true)
            }),
            variant("burst:random", "freed in random order", |s, t| {
                burst::burst(s, t, false)
            }),
        ],
    },
    Row {
        name: "batch",
        summary: "Batches: 512 single frames in, the same 512 out.",
        source: OURS,
        variants: &[variant("batch", "single frames", |s, _| batch::batch(s))],
    },
    Row {
        name: "steady",
        summary: "Random replacement at a constant level: a random block is freed, another allocated.",
        source: MIXED,
        variants: &[
            variant("steady:50", "single frames, 50 % full", |s, t| {
                steady::steady(s, t, 50, Mix::Single)
            }),
            variant("steady:50:mixed", "mixed orders, 50 % full", |s, t| {
                steady::steady(s, t, 50, Mix::Mostly)
            })
            .up_to(FOUR),
            variant("steady:90", "single frames, 90 % full", |s, t| {
                steady::steady(s, t, 90, Mix::Single)
            }),
            variant("steady:90:mixed", "mixed orders, 90 % full", |s, t| {
                steady::steady(s, t, 90, Mix::Mostly)
            })
            .up_to(FOUR),
        ],
    },
    Row {
        name: "handover",
        summary: "One thread allocates single frames, another frees them.",
        source: OURS,
        variants: &[Variant {
            threads: 2,
            ..variant("handover", "single frames", handover::handover)
        }],
    },
    Row {
        name: "fill",
        summary: "Runs of 64 single frames in and out, where memory is filled at random to a level.",
        source: OURS,
        variants: &[
            variant("fill:1", "1 % full", |s, t| fill::fill(s, t, 1)),
            variant("fill:25", "25 % full", |s, t| fill::fill(s, t, 25)),
            variant("fill:50", "50 % full", |s, t| fill::fill(s, t, 50)),
            variant("fill:75", "75 % full", |s, t| fill::fill(s, t, 75)),
            variant("fill:90", "90 % full", |s, t| fill::fill(s, t, 90)),
            variant("fill:99", "99 % full", |s, t| fill::fill(s, t, 99)),
        ],
    },
    Row {
        name: "churn",
        summary: "Random replacement, 10 million operations: each step empties a random slot or fills it; \
            then, how many large blocks can be had?",
        source: MIXED,
        variants: &[
            variant("churn:mixed", "mixed orders", |s, t| {
                churn::churn(s, t, Mix::Mostly)
            })
            .up_to(FOUR)
            .harvesting(),
            variant("churn:order0", "single frames", |s, t| {
                churn::churn(s, t, Mix::Single)
            })
            .harvesting(),
        ],
    },
];
