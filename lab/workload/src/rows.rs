//! The list of workloads and of their variants.
//!
//! Benchmarks, help texts and documents are generated from these rows.
//!
//! # Invariants
//! The names of variants are unique. A variant has the name of its workload only if it is the only variant, so that a
//! workload's name always stands for all of its variants.

use std::fmt;

use everybuddy::Order;

use crate::churn::{self, Mix};
use crate::published::{self, Published};
use crate::{
    Pace, Program, Runs, Setting, Use, aged, batch, burst, fill, handover, hot, relief, steady,
    today, touch,
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
#[derive(Clone, Copy)]
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
    /// Whether it uses the memory behind its frames. A benchmark without `--workloads` leaves it out.
    pub touches: bool,
    make: Make,
}

/// How the program of a thread is created.
#[derive(Clone, Copy)]
enum Make {
    /// By a function.
    By(fn(&Setting, u16) -> Program),
    /// From what is known about a program.
    Published(&'static Published),
}

/// The name, which no other variant has: it is part of the identity of cells, and addresses of functions differ.
impl fmt::Debug for Variant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "workload {}", self.name)
    }
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
        touches: false,
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
        touches: false,
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

    const fn on_two(self) -> Variant {
        Variant { threads: 2, ..self }
    }

    const fn touching(self) -> Variant {
        Variant {
            touches: true,
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

/// Makes variants: the name, the summary, the program and what differs from `variant`.
macro_rules! variants {
    ($($name:literal, $summary:literal, $make:expr $(, $more:ident($($value:expr)?))*;)+) => {
        [$(variant($name, $summary, $make)$(.$more($($value)?))*),+]
    };
}

/// Declares the list of workloads: the name, the summary, the source and the variants of each.
macro_rules! workloads {
    ($($name:literal, $summary:literal, $source:expr => $variants:expr;)+) => {
        /// All workloads.
        pub const WORKLOADS: &[WorkloadInfo] = &[$(WorkloadInfo {
            name: $name,
            summary: $summary,
            source: $source,
            variants: &$variants,
        }),+];
    };
}

workloads! {
    "hot", "Pairs: allocates one block and frees it immediately, repeatedly.", OURS => variants! {
        "hot:order0", "single frames, empty memory", |s, _| hot::empty(s, Order::ZERO);
        "hot:order0:scattered", "single frames, every other frame of a random half held",
            |s, t| hot::scattered(s, t, Order::ZERO);
        "hot:order9", "blocks of 2 MiB, empty memory", |s, _| hot::empty(s, NINE), up_to(NINE);
        "hot:order9:scattered", "blocks of 2 MiB, every other frame of a random half held",
            |s, t| hot::scattered(s, t, NINE), up_to(NINE);
    };
    "burst", "Bursts: allocates 8,192 single frames, then frees them all.", OURS => variants! {
        "burst:in-order", "freed in the same order", |s, t| burst::burst(s, t, true);
        "burst:random", "freed in random order", |s, t| burst::burst(s, t, false);
    };
    "bulk", "Allocates half of the memory, then frees all of it in the same order.",
        "as [LLFree] describes its benchmark bulk" => variants! {
        "bulk:order0", "single frames", |s, t| burst::bulk(s, t, Order::ZERO);
        "bulk:order9", "blocks of 2 MiB", |s, t| burst::bulk(s, t, NINE), up_to(NINE);
    };
    "batch", "Batches: allocates 512 single frames, then frees them.", OURS => variants! {
        "batch", "single frames", |s, _| batch::batch(s);
    };
    "steady", "Random replacement at a constant level: frees a random block and allocates another.",
        MIXED => variants! {
        "steady:50", "single frames, 50 % full", |s, t| steady::steady(s, t, 50, Mix::Single);
        "steady:50:mixed", "mixed orders, 50 % full", |s, t| steady::steady(s, t, 50, Mix::Mostly), up_to(FOUR);
        "steady:90", "single frames, 90 % full", |s, t| steady::steady(s, t, 90, Mix::Single);
        "steady:90:mixed", "mixed orders, 90 % full", |s, t| steady::steady(s, t, 90, Mix::Mostly), up_to(FOUR);
    };
    "relief", "Random replacement at a level, in memory that was 99.9 % full and was freed at random.",
        "synthetic: orders 0 to 4 equally often" => variants! {
        "relief:70", "70 % full", |s, t| relief::relief(s, t, 70), up_to(FOUR);
        "relief:80", "80 % full", |s, t| relief::relief(s, t, 80), up_to(FOUR);
        "relief:90", "90 % full", |s, t| relief::relief(s, t, 90), up_to(FOUR);
        "relief:98", "98 % full", |s, t| relief::relief(s, t, 98), up_to(FOUR);
        "relief:99", "99 % full", |s, t| relief::relief(s, t, 99), up_to(FOUR);
    };
    "handover", "One thread allocates single frames, another frees them.", OURS => variants! {
        "handover", "single frames", handover::handover, on_two();
    };
    "fill", "Allocates and frees runs of 64 single frames while memory is filled at random to a level.",
        OURS => variants! {
        "fill:1", "1 % full", |s, t| fill::fill(s, t, 1);
        "fill:25", "25 % full", |s, t| fill::fill(s, t, 25);
        "fill:50", "50 % full", |s, t| fill::fill(s, t, 50);
        "fill:75", "75 % full", |s, t| fill::fill(s, t, 75);
        "fill:90", "90 % full", |s, t| fill::fill(s, t, 90);
        "fill:99", "99 % full", |s, t| fill::fill(s, t, 99);
    };
    "split", "Allocates and frees a single frame where all free memory consists of blocks of one order.",
        OURS => variants! {
        "split:0", "free frames", |s, t| fill::split(s, t, Order::ZERO);
        "split:4", "free blocks of 16 frames", |s, t| fill::split(s, t, FOUR), up_to(FOUR);
        "split:9", "free blocks of 512 frames", |s, t| fill::split(s, t, NINE), up_to(NINE);
    };
    "churn", "Random replacement, 10 million operations: each step empties a random slot or fills it; \
        finally counts the large blocks that can still be allocated.", MIXED => variants! {
        "churn:mixed", "mixed orders", |s, t| churn::churn(s, t, Mix::Mostly), up_to(FOUR), counting_large_blocks();
        "churn:order0", "single frames", |s, t| churn::churn(s, t, Mix::Single), counting_large_blocks();
    };
    "aged-churn", "Random replacement at 40 %, 10 million times, in memory that was 90 % full, whose blocks were dealt \
        out to the threads anew and freed at random; finally counts the large blocks that can still be allocated.",
        MIXED => variants! {
        "aged-churn:mixed", "mixed orders",
            |s, t| aged::churn(s, t, Mix::Mostly), up_to(FOUR), counting_large_blocks();
        "aged-churn:order0", "single frames, after the mixed orders",
            |s, t| aged::churn(s, t, Mix::Single), up_to(FOUR), counting_large_blocks();
    };
    "touch", "Frames are used: allocates single frames, writes to them, reads them again, and frees them. A time is of \
        one frame.", OURS => variants! {
        "touch:processes:nothing", "processes of 64 to 1,023 frames; unused: the calls alone",
            |s, t| touch::processes(s, t, Use::Nothing), touching();
        "touch:processes:line", "processes of 64 to 1,023 frames; a line is written",
            |s, t| touch::processes(s, t, Use::Line), touching();
        "touch:processes:zeroed", "processes of 64 to 1,023 frames; zeroed",
            |s, t| touch::processes(s, t, Use::Zeroed), touching();
        "touch:processes:read", "processes of 64 to 1,023 frames; zeroed, and 4 lines of its frames are read",
            |s, t| touch::processes(s, t, Use::Read), touching();
        "touch:steady:50:nothing", "random frames replaced, 50 % full; unused: the calls alone",
            |s, t| touch::replace(s, t, 50, Use::Nothing), touching();
        "touch:steady:50:line", "random frames replaced, 50 % full; a line is written",
            |s, t| touch::replace(s, t, 50, Use::Line), touching();
        "touch:steady:50:zeroed", "random frames replaced, 50 % full; zeroed",
            |s, t| touch::replace(s, t, 50, Use::Zeroed), touching();
        "touch:steady:50:read", "random frames replaced, 50 % full; zeroed, and 4 lines of its frames are read",
            |s, t| touch::replace(s, t, 50, Use::Read), touching();
        "touch:steady:90:nothing", "random frames replaced, 90 % full; unused: the calls alone",
            |s, t| touch::replace(s, t, 90, Use::Nothing), touching();
        "touch:steady:90:line", "random frames replaced, 90 % full; a line is written",
            |s, t| touch::replace(s, t, 90, Use::Line), touching();
        "touch:steady:90:zeroed", "random frames replaced, 90 % full; zeroed",
            |s, t| touch::replace(s, t, 90, Use::Zeroed), touching();
        "touch:steady:90:read", "random frames replaced, 90 % full; zeroed, and 4 lines of its frames are read",
            |s, t| touch::replace(s, t, 90, Use::Read), touching();
        "touch:young:nothing", "7 of 8 replaced frames are young; unused: the calls alone",
            |s, t| touch::young(s, t, Use::Nothing), touching();
        "touch:young:line", "7 of 8 replaced frames are young; a line is written",
            |s, t| touch::young(s, t, Use::Line), touching();
        "touch:young:zeroed", "7 of 8 replaced frames are young; zeroed",
            |s, t| touch::young(s, t, Use::Zeroed), touching();
        "touch:young:read", "7 of 8 replaced frames are young; zeroed, and 4 lines of its frames are read",
            |s, t| touch::young(s, t, Use::Read), touching();
        "touch:set:512", "2 MiB of aged memory, written, then read at random",
            |s, t| touch::set(s, t, 512), up_to(FOUR), touching();
        "touch:set:4096", "the same with 16 MiB", |s, t| touch::set(s, t, 4096), up_to(FOUR), touching();
    };
    "cold", "A burst of 1,024 single frames, freed in the same order; programs use caches between the calls.",
        OURS => variants! {
        "cold", "the calls of `bench --cold`", burst::apart, touching();
    };
    "ibuddy", "Page requests like those of the programs of [iBuddy], generated from what the paper says about them.",
        "[iBuddy] 6.1 and figure 2, with assumptions" => programs(published::IBUDDY);
    "spring", "Page requests like those of the programs of [Spring], generated from what the paper says about them.",
        "[Spring] IV-A and table II, with assumptions" => programs(published::SPRING);
    "today", "Page requests of loads of today: faults of many processes, purges, huge pages among small ones.",
        "will-it-scale, jemalloc, with assumptions" => programs(today::TODAY);
}
