//! The columns of the table of systems on a trace.
//!
//! The table of the terminal and the table of the page are the same: which numbers, under which headings, in which
//! order. The terminal shows the default columns, `--all-columns` and the page show all.
//!
//! # Invariants
//! Headings differ, and each has its unit or needs none. The metric says which values are good.

use self::Places::{AboveFloor, Fixed, Three};
use self::When::{AnyOther, Changes, Threads};
use crate::{Metric, find};
use everybuddy_text::size::grouped;

/// The order that the numbers of a column are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// None.
    NoOrder,
    /// This order.
    Order(u8),
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
    /// What it shows, and the unit or what else tells it from others: the two lines of the heading. `None` for the
    /// heading of the metric.
    pub head: Option<[&'static str; 2]>,
    /// What it shows, in a line. `None` for the metric's.
    pub legend: Option<&'static str>,
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
    factor: f64,
    places: Places,
) -> Column {
    Column {
        metric,
        operation,
        statistic,
        at: At::NoOrder,
        head: None,
        legend: None,
        factor,
        places,
        when: When::Always,
        is_default: false,
    }
}

impl Column {
    /// Returns the two lines of the heading.
    pub fn heading(&self) -> [String; 2] {
        if let Some(head) = self.head {
            return head.map(String::from);
        }
        let [first, second] =
            find(self.metric).map_or_else(Default::default, |own| own.heading(self.statistic));
        let unit = if self.factor == 100.0 { " %" } else { "" };
        [first, second + unit]
    }

    /// Returns the heading in one line.
    pub fn title(&self) -> String {
        self.heading().join(" ")
    }

    /// Writes a number of the column, after its multiplication by the factor. Times up to the floor of the timer, and
    /// with it those without a row, are 0.
    pub fn text(&self, value: f64, floor: f64) -> String {
        match self.places {
            Places::Three => short(value),
            Places::Fixed(places) => format!("{:.places$}", value + 0.0),
            Places::AboveFloor if value > 0.0 => short(value),
            Places::AboveFloor => format!("≤{floor:.0}"),
        }
    }

    /// Returns what it shows, in a line.
    pub fn line(&self) -> String {
        let of_metric = || find(self.metric).map_or_else(String::new, Metric::line);
        self.legend.map_or_else(of_metric, String::from)
    }

    const fn head(mut self, head: [&'static str; 2]) -> Column {
        self.head = Some(head);
        self
    }

    const fn legend(mut self, legend: &'static str) -> Column {
        self.legend = Some(legend);
        self
    }

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

/// Formats about three digits: `0.95`, `12.3`, `110`, `1,240`.
pub fn short(value: f64) -> String {
    match value {
        v if v < 9.95 => format!("{:.2}", v + 0.0),
        v if v < 99.5 => format!("{v:.1}"),
        v => grouped(v.round() as u64),
    }
}

/// The order of the blocks that columns count: 4 MiB, the largest of Linux and of the papers.
const LARGE: At = At::Order(10);

/// The order of a huge page.
const HUGE: At = At::Order(9);

macro_rules! columns {
    ($($metric:literal, $operation:literal, $statistic:literal, $factor:literal, $places:expr
        $(, $more:ident($($value:expr)?))*;)+) => {
        /// All columns, from left to right.
        pub const COLUMNS: &[Column] = &[
            $(column($metric, [$operation, $statistic], $factor, $places)$(.$more($($value)?))*,)+
        ];
    };
}

// The metric, the operation, the statistic, the factor, how numbers are written, and what differs from `column`.
columns! {
    "latency", "allocate", "mean", 1.0, Three, head(["alloc", "mean ns"]),
        legend("mean time of an allocation, over segments of up to 64 calls"), default();
    "latency", "allocate", "p99", 1.0, AboveFloor, head(["alloc", "p99 ns"]),
        legend("99 of 100 allocations, timed one by one, took at most this; ≤: below the timer's floor"), default();
    "latency", "free", "mean", 1.0, Three, head(["free", "mean ns"]),
        legend("mean time of a free, over segments of up to 64 calls"), default();
    "latency", "free", "p99", 1.0, AboveFloor, head(["free", "p99 ns"]),
        legend("99 of 100 frees, timed one by one, took at most this"), default();
    "throughput", "all", "rate", 1e-6, Three, head(["total", "Mcalls/s"]),
        legend("million calls per second over the whole replay, waiting included");
    "service_ratio", "all", "value", 100.0, Fixed(1);
    "batch", "all", "value", 1.0, Fixed(0), head(["list", "batch"]),
        legend("frames that a refill or a drain of a CPU's list moves, if it is fixed; Linux scales it with memory"),
        when(AnyOther(0.0)), default();
    "miss_rate", "all", "value", 100.0, Fixed(1), default();
    // Apart: an empty list serves frees best, and a full one allocations.
    "residual", "allocate", "mean", 1.0, Three, head(["idle after", "allocs"]),
        legend("frames left in the CPU's list when a run of allocations ends, mean (residual)"), default();
    "residual", "free", "mean", 1.0, Three, head(["idle after", "frees"]),
        legend("frames in the CPU's list when a run of frees ends, mean (residual)");
    "lock_acquisitions", "all", "mean", 1e3, Fixed(0), head(["locks per", "1k calls"]),
        legend("lock acquisitions per 1,000 calls"), default();
    "contention_rate", "all", "value", 100.0, Fixed(2), head(["calls that", "wait %"]), when(Threads), default();
    "free_blocks", "all", "mean", 1.0, Fixed(1), head(["free 4M", "avg"]),
        legend("free blocks of 4 MiB (order 10) in the room, mean over the trace"), at(LARGE);
    "free_blocks", "all", "min", 1.0, Fixed(0), head(["free 4M", "min"]), legend("the same, minimum over the trace"),
        at(LARGE);
    "unusable_index", "all", "mean", 100.0, Fixed(1), head(["unusable", "at 4M %"]),
        legend("share of the free memory that no block of 4 MiB (order 10) could use, mean"), at(LARGE), default();
    "staying_blocks", "all", "mean", 1.0, Fixed(1), head(["2M that", "stay"]),
        legend("blocks of 2 MiB with a frame that cannot be moved, mean"), at(HUGE), when(AnyOther(0.0));
    "movable_blocks", "all", "mean", 1.0, Fixed(1), head(["2M by", "moving"]),
        legend("blocks of 2 MiB that contain movable frames and no others, mean"), at(HUGE), when(AnyOther(0.0));
    "owner_spread", "all", "mean", 1.0, Three, at(HUGE), when(AnyOther(1.0)), default();
    "lone_regions", "all", "mean", 100.0, Fixed(1), head(["lone", "2M %"]),
        legend("regions of 2 MiB in use whose frames in use are all of one owner, mean"), at(HUGE), when(AnyOther(1.0));
    "domains", "all", "mean", 1.0, Fixed(1), head(["domains", "avg"]), when(Changes);
    "internal_fragmentation", "all", "mean", 1.0, Fixed(3), head(["held", "/asked"]),
        legend("frames held over frames asked for, mean (internal fragmentation)"), when(AnyOther(1.0)), default();
    "blocking_probability", "allocate", "count", 1.0, Fixed(0), head(["refused", "requests"]), when(AnyOther(0.0)),
        default();
    "blocking_probability_large", "allocate", "rate", 100.0, Fixed(1), head(["refused", "order>0 %"]),
        legend("share of the requests above order 0 that were refused"), when(AnyOther(0.0)), default();
    "metadata_bytes_per_frame", "all", "value", 1.0, Fixed(2), head(["metadata", "B/frame"]),
        legend("bytes of metadata per managed frame");
}
