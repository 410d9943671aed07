//! The list of workloads and of their variants.
//!
//! # Purpose
//!
//! Benchmarks, help texts and documents are generated from these rows.
//!
//! # Invariants
//!
//! The names of variants are unique. A variant has the name of its workload only if it is the only variant, so that a
//! workload's name always stands for all of its variants.

use everybuddy::Order;

use crate::churn::{self, Mix};
use crate::published::{self, Published};
use crate::{
    Pace, Program, Runs, Setting, aged, batch, burst, fill, handover, hot, relief, steady, today,
};

/// The description of a workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadInfo {
    /// The name.
    pub name: &'static str,
    /// A description in one sentence.
    pub summary: &'static str,
    /// The source of the workload.
    pub source: &'static str,
    /// Its variants.
    pub variants: &'static [Variant],
}

/// A variant of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The name on the command line: `hot:order9`.
    pub name: &'static str,
    /// A short description of the variant.
    pub summary: &'static str,
    /// The largest order that it requests.
    pub largest: Order,
    /// The minimum number of threads.
    pub threads: u16,
    /// The number of timed rounds on the same memory.
    pub repeats: u32,
    /// Whether the variant measures the state of memory afterwards: how many blocks of orders 9 and 10 can still be
    /// allocated. Such a variant takes long and runs once.
    pub counts_large_blocks: bool,
    make: Make,
}

/// How the program of a thread is created.
#[derive(Clone, Copy, Debug)]
enum Make {
    /// By a function.
    By(fn(&Setting, u16) -> Program),
    /// From what is known about a program.
    Published(&'static Published),
}

impl Variant {
    /// Creates the program of a thread.
    pub fn program(&self, setting: &Setting, thread: u16) -> Program {
        match self.make {
            Make::By(make) => make(setting, thread),
            Make::Published(own) => own.program(setting, thread),
        }
    }

    /// Returns whether it stands for a program that is measured elsewhere. A benchmark without `--workloads` leaves it
    /// out.
    pub fn is_published(&self) -> bool {
        matches!(self.make, Make::Published(_))
    }

    /// Returns the pace at which such a program makes requests where time is simulated.
    pub fn pace(&self) -> Option<Pace> {
        match self.make {
            Make::By(_) => None,
            Make::Published(own) => Some(own.pace),
        }
    }

    /// Returns the requests of such a program that follow each other in a region, if the paper states them.
    pub fn runs(&self) -> Option<Runs> {
        match self.make {
            Make::By(_) => None,
            Make::Published(own) => own.runs,
        }
    }
}

/// Converts an order that is known to be valid.
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
        counts_large_blocks: false,
        make: Make::By(make),
    }
}

/// Returns the variants for programs that are measured elsewhere.
const fn programs<const N: usize>(own: &'static [Published; N]) -> [Variant; N] {
    let mut all = [program(&own[0]); N];
    let mut at = 1;
    while at < N {
        all[at] = program(&own[at]);
        at += 1;
    }
    all
}

const fn program(own: &'static Published) -> Variant {
    Variant {
        name: own.name,
        summary: own.summary,
        largest: own.largest(),
        threads: 1,
        repeats: 3,
        counts_large_blocks: false,
        make: Make::Published(own),
    }
}

impl Variant {
    const fn up_to(self, order: Order) -> Variant {
        Variant {
            largest: order,
            ..self
        }
    }

    const fn counting_large_blocks(self) -> Variant {
        Variant {
            counts_large_blocks: true,
            repeats: churn::ROUNDS,
            ..self
        }
    }
}

const NINE: Order = order(9);
const FOUR: Order = order(4);
const OURS: &str = "synthetic";
const MIXED: &str =
    "orders as in [iBuddy] figure 3: 98.4 % single frames, the rest over orders 1 to 4";

/// All workloads.
pub const WORKLOADS: &[WorkloadInfo] = &[
    WorkloadInfo {
        name: "hot",
        summary: "Pairs: allocates one block and frees it immediately, repeatedly.",
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
    WorkloadInfo {
        name: "burst",
        summary: "Bursts: allocates 8,192 single frames, then frees them all.",
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
    WorkloadInfo {
        name: "bulk",
        summary: "Allocates half of the memory, then frees all of it in the same order.",
        source: "as [LLFree] describes its benchmark bulk",
        variants: &[
            variant("bulk:order0", "single frames", |s, t| {
                burst::bulk(s, t, Order::ZERO)
            }),
            variant("bulk:order9", "blocks of 2 MiB", |s, t| {
                burst::bulk(s, t, NINE)
            })
            .up_to(NINE),
        ],
    },
    WorkloadInfo {
        name: "batch",
        summary: "Batches: allocates 512 single frames, then frees them.",
        source: OURS,
        variants: &[variant("batch", "single frames", |s, _| batch::batch(s))],
    },
    WorkloadInfo {
        name: "steady",
        summary: "Random replacement at a constant level: frees a random block and allocates another.",
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
    WorkloadInfo {
        name: "relief",
        summary: "Random replacement at a level, in memory that was 99.9 % full and was freed at random.",
        source: "synthetic: orders 0 to 4 equally often",
        variants: &[
            variant("relief:70", "70 % full", |s, t| relief::relief(s, t, 70)).up_to(FOUR),
            variant("relief:80", "80 % full", |s, t| relief::relief(s, t, 80)).up_to(FOUR),
            variant("relief:90", "90 % full", |s, t| relief::relief(s, t, 90)).up_to(FOUR),
            variant("relief:98", "98 % full", |s, t| relief::relief(s, t, 98)).up_to(FOUR),
            variant("relief:99", "99 % full", |s, t| relief::relief(s, t, 99)).up_to(FOUR),
        ],
    },
    WorkloadInfo {
        name: "handover",
        summary: "One thread allocates single frames, another frees them.",
        source: OURS,
        variants: &[Variant {
            threads: 2,
            ..variant("handover", "single frames", handover::handover)
        }],
    },
    WorkloadInfo {
        name: "fill",
        summary: "Allocates and frees runs of 64 single frames while memory is filled at random to a level.",
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
    WorkloadInfo {
        name: "split",
        summary: "Allocates and frees a single frame where all free memory consists of blocks of one order.",
        source: OURS,
        variants: &[
            variant("split:0", "free frames", |s, t| {
                fill::split(s, t, Order::ZERO)
            }),
            variant("split:4", "free blocks of 16 frames", |s, t| {
                fill::split(s, t, FOUR)
            })
            .up_to(FOUR),
            variant("split:9", "free blocks of 512 frames", |s, t| {
                fill::split(s, t, NINE)
            })
            .up_to(NINE),
        ],
    },
    WorkloadInfo {
        name: "churn",
        summary: "Random replacement, 10 million operations: each step empties a random slot or fills it; \
            finally counts the large blocks that can still be allocated.",
        source: MIXED,
        variants: &[
            variant("churn:mixed", "mixed orders", |s, t| {
                churn::churn(s, t, Mix::Mostly)
            })
            .up_to(FOUR)
            .counting_large_blocks(),
            variant("churn:order0", "single frames", |s, t| {
                churn::churn(s, t, Mix::Single)
            })
            .counting_large_blocks(),
        ],
    },
    WorkloadInfo {
        name: "aged-churn",
        summary: "Random replacement at 40 %, 10 million times, in memory that was 90 % full, whose blocks were dealt \
            out to the threads anew and freed at random; finally counts the large blocks that can still be allocated.",
        source: MIXED,
        variants: &[
            variant("aged-churn:mixed", "mixed orders", |s, t| {
                aged::churn(s, t, Mix::Mostly)
            })
            .up_to(FOUR)
            .counting_large_blocks(),
            variant(
                "aged-churn:order0",
                "single frames, after the mixed orders",
                |s, t| aged::churn(s, t, Mix::Single),
            )
            .up_to(FOUR)
            .counting_large_blocks(),
        ],
    },
    WorkloadInfo {
        name: "ibuddy",
        summary: "Page requests like those of the programs of [iBuddy], generated from what the paper says about them.",
        source: "[iBuddy] 6.1 and figure 2, with assumptions",
        variants: &programs(published::IBUDDY),
    },
    WorkloadInfo {
        name: "spring",
        summary: "Page requests like those of the programs of [Spring], generated from what the paper says about them.",
        source: "[Spring] IV-A and table II, with assumptions",
        variants: &programs(published::SPRING),
    },
    WorkloadInfo {
        name: "today",
        summary: "Page requests of loads of today: faults of many processes, purges, huge pages among small ones.",
        source: "will-it-scale, jemalloc, with assumptions",
        variants: &programs(today::TODAY),
    },
];
