//! A buddy system in a small memory, step by step: what `everybuddy play` shows.
//!
//! A [`Session`] holds one system, whichever it is, with two CPUs and 16 to 256 frames. It does one [`Step`] of a
//! script at a time, and returns a [`Picture`]: what each frame, list, part of memory and queue is after the step, and
//! one sentence that says why. The code of the systems is that of the crate `everybuddy`, with a probe that records
//! every event.
//!
//! `ci/play.sh` compiles this crate to WebAssembly for the page. The same code runs in tests, so what the page shows
//! can be compared with what a session says here.
//!
//! ```
//! use everybuddy_session::{Session, Step};
//!
//! let mut session = Session::open("bs", 16, 3).unwrap();
//! let picture = session.apply(&Step::parse("a 0 0").unwrap());
//! assert_eq!(picture.why, "CPU 0 asks for 1 frame and gets frame 8. It acquires the lock. Blocks of order 3, 2 and 1 \
//!     are split.");
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `session` | a system, its CPUs, and what was allocated |
//! | `step` | what a line of a script says |
//! | `overlap` | a call during another one |
//! | `memory` | the metadata, which can be copied and put back |
//! | `platform` | CPUs of one thread, which take turns |
//! | `picture`, `json` | what is shown, and its text |
//! | `why` | the sentence of a step |
//! | `scripts`, `systems` | the lists of both |
//! | `exports` | the functions of the WebAssembly module |
//!
//! # Invariants
//! The same steps on the same system give the same pictures, natively and in a browser: nothing reads a clock, an
//! address or a random number.

#[cfg(target_arch = "wasm32")]
mod exports;
mod json;
mod memory;
mod overlap;
mod picture;
mod platform;
pub mod scripts;
mod session;
mod step;
pub mod systems;
mod why;

pub use picture::{Class, Cpu, Kind, List, Picture, Piece};
pub use session::Session;
pub use step::{Action, Step};
