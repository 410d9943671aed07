//! The commands that cells are command lines of, and what a grid may say about each.

/// The command of all cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// `everybuddy simulate`.
    Simulate,
    /// `everybuddy compare`, which measures times of this machine.
    Compare,
}

impl Command {
    pub(super) const ALL: [Command; 2] = [Command::Simulate, Command::Compare];

    /// Returns the name of the command.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Command::Simulate => "simulate",
            Command::Compare => "compare",
        }
    }

    /// Returns the keys of its grids.
    pub(super) fn keys(self) -> &'static [&'static str] {
        match self {
            Command::Simulate => &[
                "command",
                "systems",
                "options",
                "workloads",
                "traces",
                "machines",
                "cpus",
                "seeds",
                "arguments",
            ],
            Command::Compare => &[
                "command",
                "systems",
                "options",
                "traces",
                "cpus",
                "seeds",
                "arguments",
            ],
        }
    }

    /// Returns the options of the command that a grid may set for all its cells. Others are lists of the grid, or
    /// choose what is printed and written.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Command::Simulate => &[
                "memory",
                "think",
                "shrink",
                "lenient",
                "phases",
                "frees",
                "slice",
                "whole-calls",
                "cut-off",
                "services",
            ],
            Command::Compare => &["memory", "aged", "sizes", "sizes-first", "lenient"],
        }
    }
}
