//! The state of a Linux machine's memory: free blocks, and the pages that prevent larger ones.

pub mod frames;
