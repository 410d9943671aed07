//! Page runs as memory: a pool of address space behind a buddy system.
//!
//! A [`Pool`] reserves address space once, and then allocates and frees runs of pages without system calls. It is made
//! for programs that manage pages themselves: buffer pools of databases, packet buffers, arenas of language runtimes.
//! It is not a `malloc`: the smallest allocation is a page.
//!
//! ```
//! use everybuddy_pool::Pool;
//!
//! // 1 GiB of address space. Memory is used when it is written.
//! let pool = Pool::new(1 << 30)?;
//! let mut run = pool.allocate_pages(512)?;
//! run.fill(7);
//! drop(run);
//! let released = pool.release_free()?;
//! assert_eq!(released.bytes, 2 << 20);
//! # Ok::<(), everybuddy_pool::PoolError>(())
//! ```
//!
//! | task | start at |
//! |---|---|
//! | build a pool | [`Pool::new`], [`Pool::builder`] |
//! | allocate and free | [`Pool::allocate_pages`], [`Pages`] |
//! | return memory to the operating system | [`Pool::release_free`], [`Pool::release_next`] |
//! | use huge pages | [`HugePages`] |
//! | keep pages where nothing can be borrowed | [`Pages::into_owned`] |
//! | use it from callbacks of other languages | [`Pages::into_raw`], [`WeakPool`] |
//! | use it for collections | the feature `allocator-api2`: a [`Pool`] is an `Allocator` |
//!
//! README.md is a guide.

#[cfg(feature = "allocator-api2")]
mod allocator;
mod builder;
mod error;
mod mapping;
mod pages;
mod pool;
mod shared;
mod slots;
mod statistics;
mod threads;

/// The systems and their options, in the version that the pool uses.
pub use everybuddy;

pub use builder::PoolBuilder;
pub use error::{NoHugePages, PoolError};
pub use mapping::HugePages;
pub use pages::{OwnedPages, Pages};
pub use pool::{Pool, WeakPool};
pub use slots::MAX_TOKENS;
pub use statistics::{Released, Statistics};

/// The guide's code is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Guide;
