//! Buddy systems whose block sizes are not only powers of two, for comparisons of fragmentation.
//!
//! A binary buddy system rounds a request up to a power of two. Systems with more sizes waste less inside
//! blocks, and more between them. The module shows how much. Its systems are sequential and are not among the
//! allocators: a unit stands for any amount of memory.
//!
//! | file | contents |
//! |---|---|
//! | [`sizes`] | the sizes of a system, and how blocks of each are split |
//! | [`area`] | one engine for all of them: splitting, coalescing, finding the buddy |
//!
//! # Source
//! Knowlton 1965 for the binary system, Hirschberg 1973 and Hinds 1975 for sizes S(n) = S(n-1) + S(n-k), Cranston and
//! Thomas 1975 for finding the buddy among them, Shen and Peterson 1974 for the weighted system, and Page and Hagins
//! 1986 for the dual one. Peterson and Norman 1977 treat all of the first as one class of recurrences, as this module
//! does.
//!
//! # Invariants
//! Every unit of an area is in exactly one block, and the size of every block is in the system's list.

pub mod area;
pub mod sizes;

pub use area::{Area, Broken, Held, Misuse};
pub use sizes::{Scheme, Sizes};
