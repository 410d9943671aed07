//! Results for readers: blocks of a document, and text for a terminal.
//!
//! Separates text and layout from the commands and the replay. What has rows is a document, which a terminal, a page
//! and Markdown show.
//!
//! | file | contents |
//! |------|---------------|
//! | [`mod@bench`] | the tables of a benchmark |
//! | [`claims`] | claims and their verdicts |
//! | [`comparison`] | the table of systems on a trace, its legend, notes on the method |
//! | [`machines`] | the list of machines, and a machine with its sources |
//! | [`experiments`] | the list of experiments, their tables and claims |
//! | [`trace`] | the statistics of a trace |
//! | [`advise`] | advice for the machine of a trace |
//! | [`systems`] | the list of systems |
//! | `recorded` | the summary of a recording |
//! | [`simulated`], [`sensitivity`] | the tables of a simulation |
//! | [`rows`] | what two files of rows differ in |
//! | [`scaling`] | measured next to predicted calls per second |
//! | [`limits`] | where systems stop scaling under many loads |
//! | [`waits`] | recorded waits for the zone's lock next to simulated ones, for the terminal and the page |
//! | `live` | a status line for work without a known end |
//! | `values` | values of one system out of rows |
//! | [`document`] | blocks of a document |
//! | `figures`, `curves` | figures of experiments and of simulations, for pages |
//! | [`table`] | aligned columns with the best value marked |
//! | [`sparkline`] | a series as one line of text |
//! | [`progress`] | a progress bar with an estimate |
//! | [`output`] | the output streams, and their use of colour |
//!
//! # Invariants
//! Colour and progress appear on a terminal only, and never if `NO_COLOR` is set.

pub mod advise;
pub mod bench;
pub mod claims;
pub mod cold;
pub mod comparison;
mod curves;
pub mod document;
pub mod experiments;
mod figures;
pub mod limits;
#[cfg(target_os = "linux")]
pub mod live;
pub mod machines;
pub mod output;
pub mod progress;
#[cfg(target_os = "linux")]
pub mod recorded;
pub mod rows;
pub mod scaling;
pub mod sensitivity;
pub mod simulated;
pub mod sparkline;
pub mod systems;
pub mod table;
pub mod trace;
mod values;
pub mod waits;
