//! Why a request failed.
//!
//! An error says that no block is free, or that another CPU was busy. To act on it, a kernel needs to know whether
//! memory is short, or scattered, or kept by which CPU, or free in another place. An error of eight bytes cannot say
//! that, and so a second call does.
//!
//! # Invariants
//! The numbers describe a single moment only if no other CPU allocates or frees during the call.

use core::fmt;

use crate::frame::Order;
use crate::platform::CpuId;
use crate::request::{BlockType, Size};
use crate::snapshot::{PageBlocks, Snapshot};

/// What was free after a request failed. Its [`Display`](fmt::Display) form is a report of a few lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// What was requested.
    pub size: Size,
    /// What the zone layer has, and what lists and queues hold.
    pub free: Snapshot,
    /// Frames in the list of the calling CPU; they are among the buffered ones.
    pub own_list: u64,
    /// Free frames on other nodes. Only [`Nodes`](crate::Nodes) knows them.
    pub elsewhere: u64,
    /// The other CPU that keeps what is missing; `None` if a block of that size is free to the caller, or no CPU keeps
    /// any.
    pub kept: Option<Kept>,
    /// The largest order of the system.
    pub max_order: Order,
}

/// Free frames that one CPU keeps, in its list or in its trees. Others cannot allocate them before that CPU calls an
/// operation, parks, or leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The CPU.
    pub cpu: CpuId,
    /// The number of frames.
    pub frames: u64,
}

/// The reason that explains a shortage best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A block of that size is free: the shortage has ended, or the request had restrictions, or the block belongs to a
    /// zone's reserve.
    None,
    /// The request is for no frames, or for more than a largest block.
    Size,
    /// Fewer frames are free than were requested, wherever they are.
    Memory,
    /// Enough frames are free, but some of them are on other nodes.
    Elsewhere,
    /// Enough frames are free, but some of them in the lists or trees of CPUs, or in queues.
    Lists,
    /// Enough frames are free in the zone layer, but not in one block.
    Fragmentation,
}

impl Shortage {
    /// Returns the largest order of which a block is free in the zone layer: the largest block that a request would
    /// have been given.
    pub fn largest(&self) -> Option<Order> {
        let mut orders = Order::up_to(self.max_order).rev();
        orders.find(|order| self.free.available_blocks(*order) > 0)
    }

    /// Returns the number of frames of the request.
    pub fn frames(&self) -> u32 {
        self.size.extent().frames()
    }

    /// Returns the reason that explains the shortage best.
    pub fn reason(&self) -> Reason {
        let frames = u64::from(self.frames());
        let Some(order) = Order::covering(self.frames()).filter(|order| *order <= self.max_order)
        else {
            return Reason::Size;
        };
        let (zone, lists) = (self.free.free_frames(), self.free.buffered_frames);
        if self.free.available_blocks(order) > 0 {
            match self.kept {
                None => Reason::None,
                Some(_) => Reason::Lists,
            }
        } else if zone >= frames {
            Reason::Fragmentation
        } else if zone + lists >= frames {
            Reason::Lists
        } else if zone + lists + self.elsewhere >= frames {
            Reason::Elsewhere
        } else {
            Reason::Memory
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason() {
            Reason::None => {
                "a block of that size is free now, unless the request's place or a zone's reserve excludes it"
            }
            Reason::Size => "the system has no block of that size",
            Reason::Memory => "memory is short",
            Reason::Elsewhere => "enough frames are free, but some are on other nodes",
            Reason::Lists => "enough frames are free, but CPUs or queues keep some",
            Reason::Fragmentation => "enough frames are free, but not in one block",
        };
        match self.frames() {
            1 => writeln!(f, "cannot allocate a frame: {reason}")?,
            frames => writeln!(f, "cannot allocate {frames} frames: {reason}")?,
        }
        write!(f, "  free: {} frames", self.free.free_frames())?;
        match self.largest() {
            Some(largest) => writeln!(f, ", the largest block has order {largest}")?,
            None => writeln!(f)?,
        }
        writeln!(
            f,
            "  in lists and queues: {} frames, {} of them in this CPU's list",
            self.free.buffered_frames, self.own_list
        )?;
        if let Some(Kept { cpu, frames }) = self.kept {
            writeln!(
                f,
                "  CPU {} keeps {frames} free frames until it calls, parks or leaves",
                cpu.0
            )?;
        }
        if self.elsewhere > 0 {
            writeln!(f, "  elsewhere: {} frames", self.elsewhere)?;
        }
        write!(f, "  free blocks by order:")?;
        for (order, blocks) in Order::up_to(self.max_order).zip(self.free.free_blocks) {
            write!(f, " {order}:{blocks}")?;
        }
        for (kind, page_blocks) in BlockType::ALL.into_iter().zip(self.free.page_blocks) {
            if page_blocks.blocks > 0 {
                let PageBlocks {
                    blocks,
                    free_frames,
                } = page_blocks;
                write!(
                    f,
                    "\n  {kind} page blocks: {blocks}, with {free_frames} free frames"
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frames;
    use std::string::ToString;

    fn shortage(blocks: &[(usize, u32)], lists: u64, elsewhere: u64, size: Size) -> Shortage {
        let mut free_blocks = [0; Order::LIMIT.index() + 1];
        for (order, number) in blocks {
            free_blocks[*order] = *number;
        }
        Shortage {
            size,
            free: Snapshot {
                free_blocks,
                buffered_frames: lists,
                domains: 1,
                ..Snapshot::NONE
            },
            own_list: lists.min(2),
            elsewhere,
            kept: None,
            max_order: Order::TEN,
        }
    }

    #[test]
    fn the_reason_is_the_nearest_one() {
        let pair = Size::Order(Order::new(1).unwrap());
        let run = |frames| Size::Frames(Frames(frames));
        let cases = [
            (shortage(&[(3, 1)], 0, 0, pair), Reason::None),
            (shortage(&[(0, 2)], 0, 0, pair), Reason::Fragmentation),
            (shortage(&[(0, 1)], 1, 9, pair), Reason::Lists),
            (shortage(&[(0, 1)], 0, 1, pair), Reason::Elsewhere),
            (shortage(&[(0, 1)], 0, 0, pair), Reason::Memory),
            (shortage(&[(3, 1)], 0, 0, run(0)), Reason::Size),
            (shortage(&[(3, 1)], 0, 0, run(1025)), Reason::Size),
            (shortage(&[(2, 2)], 0, 0, run(5)), Reason::Fragmentation),
        ];
        for (shortage, reason) in cases {
            assert_eq!(shortage.reason(), reason, "{shortage}");
        }
        // Free blocks count in trees that another CPU keeps.
        let kept = Shortage {
            kept: Some(Kept {
                cpu: CpuId(7),
                frames: 8,
            }),
            ..shortage(&[(3, 1)], 0, 0, pair)
        };
        assert_eq!(kept.reason(), Reason::Lists);
        assert!(kept.to_string().contains("CPU 7 keeps 8 free frames"));
    }

    #[test]
    fn the_report_lists_the_types_of_page_blocks() {
        let order = Order::new(4).unwrap();
        let mut shortage = shortage(&[(0, 3)], 0, 0, Size::Order(order));
        assert!(!shortage.to_string().contains("page blocks"));
        shortage.free.page_blocks[BlockType::Reclaimable as usize] = PageBlocks {
            blocks: 2,
            free_frames: 3,
        };
        let report = shortage.to_string();
        assert!(
            report.ends_with("\n  reclaimable page blocks: 2, with 3 free frames"),
            "{report}"
        );
    }

    #[test]
    fn the_report_says_what_is_free_and_where() {
        let order = Order::new(4).unwrap();
        let report = shortage(&[(0, 3), (3, 2)], 40, 7, Size::Order(order)).to_string();
        for part in [
            "cannot allocate 16 frames: enough frames are free, but not in one block",
            "free: 19 frames, the largest block has order 3",
            "in lists and queues: 40 frames, 2 of them in this CPU's list",
            "elsewhere: 7 frames",
            "by order: 0:3 1:0 2:0 3:2 4:0",
        ] {
            assert!(report.contains(part), "{report}");
        }
    }
}
