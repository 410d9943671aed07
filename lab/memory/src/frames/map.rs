//! A picture of memory as data: a cell per block, with what decides about it.
//!
//! # Invariants
//! A cell covers one block of 2 MiB, or a power of two of them if there would be more than 20,000 cells. It then shows
//! what most of its blocks show. Cells without memory are left out at the beginning and the end of a zone only.

use std::collections::BTreeMap;

use super::blocks::{Blocks, Verdict};
use super::snapshot::Snapshot;

/// The bytes of the blocks that are judged.
const BLOCK_BYTES: u64 = 2 << 20;
/// The most cells of a picture.
const MOST_CELLS: u64 = 20_000;

/// The cells of a zone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ZoneMap {
    /// The NUMA node.
    pub node: u32,
    /// The zone's name.
    pub name: String,
    /// The physical address of the first cell.
    pub address: u64,
    /// The cells, in ascending order of addresses.
    pub cells: Vec<Verdict>,
    /// The number of blocks of 2 MiB that show the same, for each that occurs.
    pub blocks: BTreeMap<Verdict, u64>,
}

/// The cells of a machine's memory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Map {
    /// The bytes of a judged block: 2 MiB, unless a single frame is larger.
    pub block_bytes: u64,
    /// The bytes of a cell.
    pub cell_bytes: u64,
    /// The zones that have memory.
    pub zones: Vec<ZoneMap>,
}

impl Map {
    /// Draws a snapshot.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let order = snapshot.order_of(BLOCK_BYTES);
        let blocks = Blocks::of(snapshot, order);
        let block_bytes = snapshot.frame_bytes << order;
        let count = |size: usize| -> u64 {
            let cells = blocks
                .zones
                .iter()
                .map(|zone| zone.blocks.len().div_ceil(size) as u64);
            cells.sum()
        };
        let mut per_cell = 1;
        while count(per_cell) > MOST_CELLS {
            per_cell *= 2;
        }
        let zones = snapshot
            .zones
            .iter()
            .zip(&blocks.zones)
            .filter_map(|(frames, blocks)| {
                let mut counts = BTreeMap::new();
                for block in &blocks.blocks {
                    *counts.entry(*block).or_insert(0) += 1;
                }
                // A zone's first cell may begin in the middle, so that all cells are aligned.
                let skipped = (blocks.first >> order) as usize % per_cell;
                let (first, rest) = blocks
                    .blocks
                    .split_at((per_cell - skipped).min(blocks.blocks.len()));
                let cells = [first].into_iter().chain(rest.chunks(per_cell)).map(most);
                let mut cells: Vec<Verdict> = cells.collect();
                let lead = cells
                    .iter()
                    .take_while(|cell| **cell == Verdict::Absent)
                    .count();
                while cells.last() == Some(&Verdict::Absent) {
                    cells.pop();
                }
                cells.drain(..lead.min(cells.len()));
                let cell = (blocks.first >> order) / per_cell as u64 + lead as u64;
                (!cells.is_empty()).then(|| ZoneMap {
                    node: frames.extent.node.unwrap_or(0),
                    name: frames.extent.name.clone(),
                    address: cell
                        .saturating_mul(per_cell as u64)
                        .saturating_mul(block_bytes),
                    cells,
                    blocks: counts,
                })
            });
        Self {
            block_bytes,
            cell_bytes: block_bytes.saturating_mul(per_cell as u64),
            zones: zones.collect(),
        }
    }
}

/// Returns what most blocks of a cell show. Blocks that are not memory count only if there is no other.
fn most(blocks: &[Verdict]) -> Verdict {
    let mut counts: BTreeMap<Verdict, u64> = BTreeMap::new();
    for block in blocks {
        *counts.entry(*block).or_default() += 1;
    }
    let memory = counts
        .iter()
        .filter(|(shown, _)| **shown != Verdict::Absent);
    // Of equal counts, the worse one.
    let most = memory.max_by_key(|(shown, count)| (**count, **shown));
    most.map_or(Verdict::Absent, |(shown, _)| *shown)
}
