//! Frame allocators behind the traits of Rust kernels, and memory maps of boot loaders.
//!
//! The crate is `no_std` and needs no heap. [`map`] and [`runs`] are always there, and the others are features.
//!
//! | feature | contents |
//! |---|---|
//! | - | [`runs`]: a static that is called with bytes, for kernels with an interface of their own |
//! | `x86_64` | the traits `FrameAllocator` and `FrameDeallocator` of the crate x86_64, for pages of 4 KiB, 2 MiB and 1 GiB |
//! | `bootloader_api`, `limine` | the memory maps of these crates |
//! | `multiboot2`, `uefi` | the memory maps of the crates multiboot2, and uefi-raw or uefi |
//! | `e820`, `fdt` | the memory map of a BIOS, and device trees, without other crates |
//!
//! All of them assume frames of 4 KiB. README.md is a guide.
#![no_std]

#[cfg(feature = "bootloader_api")]
pub mod bootloader_api;
#[cfg(feature = "e820")]
pub mod e820;
#[cfg(feature = "fdt")]
pub mod fdt;
#[cfg(feature = "limine")]
pub mod limine;
pub mod map;
#[cfg(feature = "multiboot2")]
pub mod multiboot2;
pub mod runs;
#[cfg(feature = "uefi")]
pub mod uefi;
#[cfg(feature = "x86_64")]
pub mod x86_64;

/// The bytes of a frame.
pub const FRAME_BYTES: u64 = 4096;

/// The same, as a power of two.
const FRAME_SHIFT: u32 = FRAME_BYTES.trailing_zeros();

/// The guide's code is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Guide;
