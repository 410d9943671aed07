//! Figures: results as pictures.
//!
//! Exists so that what a paper drew can be laid beside what came out here. A figure reads exported rows and
//! nothing else, and gives plain data ([`Drawing`]), of which an SVG is made, or a chart of the page. To add a
//! figure: one file, one line in [`FIGURES`].
//!
//! | file | what it is |
//! |------|------------|
//! | [`chart`] | panels, axes, legend, colours: what all figures share |
//! | `fragmentation` | free 4 MiB blocks over time |
//! | `space_size` | times and free blocks over the size of a space |
//! | `fill_levels` | the cost of a single frame over how full memory is |
//! | `latency_distribution` | histograms of single allocations |
//! | `lock_hold` | how long locks are waited for and held |
//! | `run_lengths` | shares of requests over the length of their run |
//! | `contention` | how often threads wait for each other |
//! | `prediction` | how long runs were over what was predicted |
//! | `buffers` | what lists miss over what they have left |
//! | `stages` | fragmentation and domains over time, on simulated CPUs |
//! | `coalescing` | splits, coalescings and free blocks on traces, by coalescing policy |
//! | `odd_sizes` | what rounding up costs, and what exact service costs |
//! | `division` | blocks that the first requests break, by how memory was divided |
//! | `actions` | what callers wait for, total work and free blocks on traces, with services and without |
//! | `break_even` | a caller's time over the standard buddy's, over the splits that are saved |
//! | `emulation` | Serewa's program: case 2 over case 1, and steps, by store |
//! | `streams_costs` | costs over the standard buddy's, beside the source's |
//! | `streams_blocking` | shares of refused requests over the arena |
//! | `streams_distribution` | operations and coalescings of single calls |
//! | `streams_memory` | memory that managers take over load |
//!
//! Invariant: colours are those of Okabe and Ito, which people with any colour vision can tell apart, and
//! no series differs from another by colour alone.

mod actions;
mod break_even;
mod buffers;
pub mod chart;
mod coalescing;
mod contention;
mod division;
mod emulation;
mod fill_levels;
mod fragmentation;
mod latency_distribution;
mod lock_hold;
mod odd_sizes;
mod prediction;
mod run_lengths;
mod space_size;
mod stages;
mod streams_blocking;
mod streams_costs;
mod streams_distribution;
mod streams_memory;

pub use chart::Drawing;

use crate::experiment::Experiment;
use crate::export::Row;

/// Why a picture could not be drawn, in words.
pub type Undrawn = String;

/// A way to draw results.
pub struct Figure {
    /// The name in an experiment's file.
    pub name: &'static str,
    /// Says what is drawn.
    pub draw: fn(&Experiment, &[Row]) -> Drawing,
}

/// All figures.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "fragmentation",
        draw: fragmentation::draw,
    },
    Figure {
        name: "space-size",
        draw: space_size::draw,
    },
    Figure {
        name: "fill-levels",
        draw: fill_levels::draw,
    },
    Figure {
        name: "latency-distribution",
        draw: latency_distribution::draw,
    },
    Figure {
        name: "lock-hold",
        draw: lock_hold::draw,
    },
    Figure {
        name: "run-lengths",
        draw: run_lengths::draw,
    },
    Figure {
        name: "contention",
        draw: contention::draw,
    },
    Figure {
        name: "prediction",
        draw: prediction::draw,
    },
    Figure {
        name: "buffers",
        draw: buffers::draw,
    },
    Figure {
        name: "stages",
        draw: stages::draw,
    },
    Figure {
        name: "coalescing",
        draw: coalescing::draw,
    },
    Figure {
        name: "odd-sizes",
        draw: odd_sizes::draw,
    },
    Figure {
        name: "division",
        draw: division::draw,
    },
    Figure {
        name: "actions",
        draw: actions::draw,
    },
    Figure {
        name: "break-even",
        draw: break_even::draw,
    },
    Figure {
        name: "emulation",
        draw: emulation::draw,
    },
    Figure {
        name: "streams-costs",
        draw: streams_costs::draw,
    },
    Figure {
        name: "streams-blocking",
        draw: streams_blocking::draw,
    },
    Figure {
        name: "streams-distribution",
        draw: streams_distribution::draw,
    },
    Figure {
        name: "streams-memory",
        draw: streams_memory::draw,
    },
];

/// Returns the sources of some rows, in the order of the rows.
fn sources<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<String> {
    let mut sources: Vec<String> = Vec::new();
    for row in rows {
        if !sources.contains(&row.source) {
            sources.push(row.source.clone());
        }
    }
    sources
}

/// Returns the systems of some rows, in the order of the rows.
fn systems<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<String> {
    let mut names = Vec::new();
    for row in rows {
        let name = row.name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
