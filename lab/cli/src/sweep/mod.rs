//! Grids of cells: simulations and replays that outgrow one run, and one machine.
//!
//! A cell is a command line of this program, with one value of each list of a grid. The same cells run here, as tasks
//! of Ray, or as commands that another scheduler starts; and a search chooses which cells to run.
//!
//! | file | contents |
//! |---|---|
//! | [`grid`] | the file of a grid, and its cells |
//! | [`command`] | the commands of cells |
//! | [`input`] | words of a command line, and the files that they name |
//! | [`values`] | the values of lists |
//! | [`cell`] | a cell: its command line, its key, running it |
//! | [`workers`] | what runs cells: this machine, or Ray |
//! | [`measure`] | what a search minimizes, and the bounds that it keeps |
//! | [`search`] | a search for the best options, by Optuna |
//!
//! # Invariants
//! The key of a cell depends on all that its rows depend on: its command line, the contents of the files that it reads,
//! and the program. A file of a cell is complete, or it does not exist.

pub(crate) mod cell;
mod command;
pub(crate) mod grid;
mod input;
pub(crate) mod measure;
pub(crate) mod search;
mod values;
pub(crate) mod workers;
