//! Results for people: text for a terminal.
//!
//! Exists to keep words and layout out of the commands and the replay.
//!
//! | file | what it makes |
//! |------|---------------|
//! | [`mod@bench`] | the tables of a benchmark |
//! | [`bench_claims`] | what a benchmark has to show, and whether it does |
//! | [`bench_doc`] | a benchmark as a page of the docs |
//! | [`comparison`] | the table of systems on a trace, its legend, how it was measured |
//! | [`experiments`] | the list of experiments, their tables and claims |
//! | [`trace`] | what a trace is like |
//! | [`systems`] | the list of systems |
//! | `recorded` | what was recorded, and what it took |
//! | `live` | how far something is whose end is not known |
//! | [`table`] | aligned columns, the best value marked |
//! | [`sparkline`] | a series in one line |
//! | [`progress`] | how long it will still take |
//! | [`output`] | the streams, and whether they take colour |
//!
//! Invariant: colour and progress appear on a terminal only, and never when `NO_COLOR` is set.

pub mod bench;
pub mod bench_claims;
pub mod bench_doc;
pub mod comparison;
pub mod experiments;
#[cfg(target_os = "linux")]
pub mod live;
pub mod output;
pub mod progress;
#[cfg(target_os = "linux")]
pub mod recorded;
pub mod sparkline;
pub mod systems;
pub mod table;
pub mod trace;
