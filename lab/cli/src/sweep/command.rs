//! The commands that a cell can run, and the keys and options that a grid can set for each.

use everybuddy_trace::named;

named! {
    /// The command of all cells.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Command {
        /// `everybuddy simulate`.
        Simulate => "simulate",
        /// `everybuddy compare`, which measures times of this machine.
        Compare => "compare",
    }
}

impl Command {
    /// Returns the keys of its grids.
    #[rustfmt::skip]
    pub(super) fn keys(self) -> &'static [&'static str] {
        match self {
            Command::Simulate => &[
                "command", "systems", "options", "workloads", "traces", "machines", "cpus",
                "seeds", "arguments",
            ],
            Command::Compare => &[
                "command", "systems", "options", "traces", "cpus", "seeds", "arguments",
            ],
        }
    }

    /// Returns the options of the command that a grid may set for all its cells. Others are lists of the grid, or
    /// choose what is printed and written.
    #[rustfmt::skip]
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Command::Simulate => &[
                "memory", "think", "around", "program", "shrink", "lenient", "phases", "frees", "zones", "slice",
                "whole-calls", "cut-off", "services",
            ],
            Command::Compare => &["memory", "aged", "sizes", "sizes-first", "lenient"],
        }
    }
}
