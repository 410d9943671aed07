//! How a pool is described and built.
//!
//! Everything that a pool cannot change later is chosen here.
//!
//! # Invariants
//! A pool is built completely, or not at all: an error leaves no memory. (If too few huge pages are reserved, it leaves
//! addresses, which cost nothing.)

use std::alloc::Layout;
use std::marker::PhantomData;
use std::thread;
use std::time::Duration;

use everybuddy::systems::{Options, layout};
use everybuddy::{BuildError, Everybuddy, Order, Setup, System};

use crate::error::PoolError;
use crate::mapping::HugePages;
use crate::slots::{MAX_TOKENS, Machine};

/// A description of a pool.
///
/// ```
/// use everybuddy::systems::Lbs31;
/// use everybuddy_pool::Pool;
///
/// // 64 MiB with the per-CPU lists of Linux, for about four threads that allocate simultaneously.
/// let pool = Pool::builder(64 << 20).system::<Lbs31>().tokens(4).build()?;
/// assert_eq!(pool.statistics()?.system, "lbs-31");
/// # Ok::<(), everybuddy_pool::PoolError>(())
/// ```
#[derive(Debug)]
#[must_use = "a description is not a pool: call `build`"]
pub struct PoolBuilder<S: System + 'static = Everybuddy> {
    pub(crate) bytes: usize,
    pub(crate) tokens: u16,
    pub(crate) huge_pages: HugePages,
    /// `None` for a huge block.
    pub(crate) release_order: Option<Order>,
    pub(crate) release_period: Option<Duration>,
    pub(crate) options: Options,
    system: PhantomData<fn() -> S>,
}

impl PoolBuilder {
    pub(crate) fn new(bytes: usize) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            bytes,
            tokens: u16::try_from(processors).map_or(MAX_TOKENS, |count| count.min(MAX_TOKENS)),
            huge_pages: HugePages::Default,
            release_order: None,
            release_period: None,
            options: Options::NONE,
            system: PhantomData,
        }
    }
}

impl<S: System + 'static> PoolBuilder<S> {
    /// Chooses the number of threads that can allocate simultaneously. More threads share tokens. The default is the
    /// number of processors that the process may use. Each token costs about 4 KiB, and a pool with many tokens for its
    /// size is divided into smaller parts.
    pub fn tokens(self, tokens: u16) -> Self {
        Self { tokens, ..self }
    }

    /// Chooses how the pool uses huge pages. With [`Advised`](HugePages::Advised) and
    /// [`Reserved`](HugePages::Reserved), the size is rounded up to a multiple of 2 MiB.
    pub fn huge_pages(self, huge_pages: HugePages) -> Self {
        Self { huge_pages, ..self }
    }

    /// Chooses the order of the smallest block that [`release_free`](crate::Pool::release_free) returns to the
    /// operating system: 2^`order` pages. The default is 2 MiB. Smaller blocks return more of a fragmented pool, and
    /// may cost more system calls and faults. A pool with smaller ones has no transparent huge pages, and with
    /// [`Advised`](HugePages::Advised) the order is that of 2 MiB at least: the kernel provides a huge page as a whole.
    pub fn release_order(self, order: Order) -> Self {
        let release_order = Some(order);
        Self {
            release_order,
            ..self
        }
    }

    /// Returns free memory to the operating system after each `period`, at least a millisecond, on a thread of the
    /// pool. By default a pool starts no thread.
    ///
    /// The thread calls [`release_next`](crate::Pool::release_next) for a sixteenth of the pool, or 64 MiB, until it
    /// comes to the end, with a millisecond between two calls. Each parks the tokens of idle threads, which empties
    /// their lists. Errors are passed over. During a call, `release_free` by another thread is busy, and the memory of
    /// a pool that is dropped lasts until the call ends. After a `fork`, the child must not use such a pool: the thread
    /// may have been in a call.
    pub fn release_every(self, period: Duration) -> Self {
        let release_period = Some(period.max(Duration::from_millis(1)));
        Self {
            release_period,
            ..self
        }
    }

    /// Chooses options of the system. Without the option `order`, the largest run has 2^18 pages, or the
    /// largest power of two that fits the pool and that the system takes.
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Chooses another system.
    pub fn system<T: System + 'static>(self) -> PoolBuilder<T> {
        let Self {
            bytes,
            tokens,
            huge_pages,
            release_order,
            release_period,
            options,
            ..
        } = self;
        PoolBuilder {
            bytes,
            tokens,
            huge_pages,
            release_order,
            release_period,
            options,
            system: PhantomData,
        }
    }

    /// Checks what needs no system.
    pub(crate) fn check(&self) -> Result<(), PoolError> {
        let tokens = self.tokens;
        match (self.bytes, tokens) {
            (0, _) => Err(PoolError::NoSize),
            (_, 1..=MAX_TOKENS) => Ok(()),
            _ => Err(PoolError::BadTokens { tokens }),
        }
    }

    /// Returns the options, and the memory of the metadata. Without the option `order`, it is the largest one that fits
    /// the pool and does not contradict the system or the other options.
    pub(crate) fn fit(
        &self,
        setup: &Setup<'_>,
        frames: u64,
    ) -> Result<(Options, Layout), PoolError> {
        let with = |order| {
            let options = Options {
                order,
                ..self.options
            };
            layout::<S, Machine>(&options, setup).map(|layout| (options, layout))
        };
        if self.options.order.is_some() {
            return Ok(with(self.options.order)?);
        }
        let fits = |order: &Order| u64::from(order.frames()) <= frames;
        let orders = Order::up_to(Order::LIMIT).rev().filter(fits);
        let mut fitted = orders.map(|order| with(Some(order)));
        let found = fitted.find(|fit| !matches!(fit, Err(BuildError::Contradiction { .. })));
        Ok(found.unwrap_or_else(|| with(None))?)
    }
}
