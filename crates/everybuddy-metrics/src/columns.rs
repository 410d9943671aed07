//! The columns of the table of systems on a trace.
//!
//! # Purpose
//!
//! The table of the terminal and the table of the page are the same: which numbers, under which headings, in which
//! order. The terminal shows the default columns, `--all-columns` and the page show all.
//!
//! # Invariants
//!
//! Headings differ, and each has its unit or needs none. The metric says which values are good.

/// The order that the numbers of a column are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// None.
    NoOrder,
    /// This order.
    Order(u8),
    /// The system's largest order.
    Largest,
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// With three digits: `0.95`, `12.3`, `110`.
    Three,
    /// With this many decimal places.
    Fixed(usize),
    /// As a latency that may lie below the timer's floor: with three digits, or `≤` and the floor. A call that has
    /// no row for this statistic, but a mean, was that fast.
    AboveFloor,
}

/// When a column is worth its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Always.
    Always,
    /// If the replay had several threads.
    Threads,
    /// If any system's number, as it is written, differs from this one.
    AnyOther(f64),
    /// If the number changes over the samples of any system.
    Changes,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The metric.
    pub metric: &'static str,
    /// The operation.
    pub operation: &'static str,
    /// The statistic.
    pub statistic: &'static str,
    /// The order.
    pub at: At,
    /// What it shows, and the unit or what else tells it from others: the two lines of the heading.
    pub head: [&'static str; 2],
    /// What it shows, in a line.
    pub legend: &'static str,
    /// What the rows' values are multiplied by.
    pub factor: f64,
    /// How its numbers are written.
    pub places: Places,
    /// When it is shown.
    pub when: When,
    /// Whether it is among those that are shown unless all are asked for.
    pub is_default: bool,
}

const fn column(
    metric: &'static str,
    [operation, statistic]: [&'static str; 2],
    head: [&'static str; 2],
    legend: &'static str,
    factor: f64,
    places: Places,
) -> Column {
    Column {
        metric,
        operation,
        statistic,
        at: At::NoOrder,
        head,
        legend,
        factor,
        places,
        when: When::Always,
        is_default: false,
    }
}

impl Column {
    const fn default(mut self) -> Column {
        self.is_default = true;
        self
    }

    const fn when(mut self, when: When) -> Column {
        self.when = when;
        self
    }

    const fn at(mut self, at: At) -> Column {
        self.at = at;
        self
    }
}

/// The order of the blocks that columns count: 4 MiB, the largest of Linux and of the papers.
const LARGE: At = At::Order(10);

/// All columns, from left to right.
pub const COLUMNS: &[Column] = &[
    column(
        "latency",
        ["allocate", "mean"],
        ["alloc", "mean ns"],
        "mean time of an allocation, over segments of up to 64 calls",
        1.0,
        Places::Three,
    )
    .default(),
    column(
        "latency",
        ["allocate", "p99"],
        ["alloc", "p99 ns"],
        "99 of 100 allocations, timed one by one, took at most this; ≤: below the timer's floor",
        1.0,
        Places::AboveFloor,
    )
    .default(),
    column(
        "latency",
        ["free", "mean"],
        ["free", "mean ns"],
        "mean time of a free, over segments of up to 64 calls",
        1.0,
        Places::Three,
    )
    .default(),
    column(
        "latency",
        ["free", "p99"],
        ["free", "p99 ns"],
        "99 of 100 frees, timed one by one, took at most this",
        1.0,
        Places::AboveFloor,
    )
    .default(),
    column(
        "throughput",
        ["all", "rate"],
        ["total", "Mcalls/s"],
        "million calls per second over the whole replay, waiting included",
        1e-6,
        Places::Three,
    ),
    column(
        "service_ratio",
        ["all", "value"],
        ["kept", "local %"],
        "1 - frames that moved between lists and zone / order-0 calls (service ratio)",
        100.0,
        Places::Fixed(1),
    ),
    column(
        "miss_rate",
        ["all", "value"],
        ["list", "misses %"],
        "order-0 calls that the CPU's own list could not serve",
        100.0,
        Places::Fixed(1),
    )
    .default(),
    // Apart: an empty list serves frees best, and a full one allocations.
    column(
        "residual",
        ["allocate", "mean"],
        ["idle after", "allocs"],
        "frames left in the CPU's list when a run of allocations ends, mean (residual)",
        1.0,
        Places::Three,
    )
    .default(),
    column(
        "residual",
        ["free", "mean"],
        ["idle after", "frees"],
        "frames in the CPU's list when a run of frees ends, mean (residual)",
        1.0,
        Places::Three,
    ),
    column(
        "lock_acquisitions",
        ["all", "mean"],
        ["locks per", "1k calls"],
        "lock acquisitions per 1,000 calls",
        1e3,
        Places::Fixed(0),
    )
    .default(),
    column(
        "contention_rate",
        ["all", "value"],
        ["calls that", "wait %"],
        "calls that had to wait for another CPU",
        100.0,
        Places::Fixed(2),
    )
    .when(When::Threads)
    .default(),
    column(
        "free_blocks",
        ["all", "mean"],
        ["free 4M", "avg"],
        "free blocks of 4 MiB (order 10) that could be allocated, mean over the trace",
        1.0,
        Places::Fixed(1),
    )
    .at(LARGE),
    column(
        "free_blocks",
        ["all", "min"],
        ["free 4M", "min"],
        "the same, minimum over the trace",
        1.0,
        Places::Fixed(0),
    )
    .at(LARGE),
    column(
        "fragmentation_rate",
        ["all", "mean"],
        ["unusable", "at 4M %"],
        "free memory that is not in blocks of the largest order (4 MiB), mean",
        100.0,
        Places::Fixed(1),
    )
    .at(At::Largest)
    .default(),
    column(
        "domains",
        ["all", "mean"],
        ["domains", "avg"],
        "parts that free memory is divided into, mean; blocks of different parts do not merge",
        1.0,
        Places::Fixed(1),
    )
    .when(When::Changes),
    column(
        "internal_fragmentation",
        ["all", "mean"],
        ["held", "/asked"],
        "frames held over frames asked for, mean (internal fragmentation)",
        1.0,
        Places::Fixed(3),
    )
    .when(When::AnyOther(1.0))
    .default(),
    column(
        "blocking_probability",
        ["allocate", "count"],
        ["refused", "requests"],
        "requests for which no block was found",
        1.0,
        Places::Fixed(0),
    )
    .when(When::AnyOther(0.0))
    .default(),
    column(
        "metadata_bytes_per_frame",
        ["all", "value"],
        ["metadata", "B/frame"],
        "bytes of metadata per managed frame",
        1.0,
        Places::Fixed(2),
    ),
];
