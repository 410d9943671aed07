//! Which misuse each system refuses, found by doing it.
//!
//! A user who chooses a system wants to know which faults of a kernel it notices. SYSTEMS.md has the table that
//! [`accepted`] gives, so that it cannot differ from what the systems do.
//!
//! # Invariants
//! Each misuse is done to a system of its own, since one that was accepted leaves it damaged.

use alloc::vec::Vec;

use everybuddy::platform::NativeCpus;
use everybuddy::systems::{ROWS, Row};
use everybuddy::{FrameRange, FreeError, Index, Pfn, Release, Request, Setup};

use crate::platform::{Cpu, System, any, claim};
use crate::{SystemSpec, block, order};

/// A misuse: what the caller does wrong, and a function that does it and returns what the system answers.
pub struct Misuse {
    /// What is freed, for a table.
    pub freed: &'static str,
    done: Done,
}

type Done = fn(&System<'_>, &mut Cpu, &mut Cpu) -> Result<(), FreeError>;

const fn misuse(freed: &'static str, done: Done) -> Misuse {
    Misuse { freed, done }
}

/// 16 MiB with a hole between its halves.
const RANGES: &[FrameRange] = &[
    FrameRange::new(Pfn(0), 2048),
    FrameRange::new(Pfn(2304), 2048),
];
/// A frame of the hole.
const HOLE: u32 = 2050;
/// The first frame behind the memory.
const OUTSIDE: u32 = 4352;

/// Allocates a block.
fn take(system: &System<'_>, cpu: &mut Cpu, size: u8) -> Index {
    let start = system.allocate(cpu, Request::order(order(size)));
    start.expect("the memory is free")
}

/// Frees a block by its order.
fn free(system: &System<'_>, cpu: &mut Cpu, start: Index, size: u8) -> Result<(), FreeError> {
    system.free(cpu, Release::block(block(start.0, size)))
}

/// All kinds of misuse that a system can notice.
pub const MISUSES: &[Misuse] = &[
    misuse("a frame, twice in a row", |system, cpu, _| {
        let frame = take(system, cpu, 0);
        free(system, cpu, frame, 0)?;
        free(system, cpu, frame, 0)
    }),
    misuse(
        "a frame, the second time by another CPU",
        |system, cpu, other| {
            let frame = take(system, cpu, 0);
            free(system, cpu, frame, 0)?;
            free(system, other, frame, 0)
        },
    ),
    misuse("a block of order 3, twice in a row", |system, cpu, _| {
        let start = take(system, cpu, 3);
        free(system, cpu, start, 3)?;
        free(system, cpu, start, 3)
    }),
    misuse("a part of a run, twice in a row", |system, cpu, _| {
        let start = system
            .allocate(cpu, Request::frames(13))
            .expect("free memory");
        let part = Release::frames(Index(start.0 + 4), 3);
        system.free(cpu, part)?;
        system.free(cpu, part)
    }),
    misuse("a frame that was never allocated", |system, cpu, _| {
        let _ = take(system, cpu, 0);
        free(system, cpu, Index(3000), 0)
    }),
    misuse("a frame inside a block of order 3", |system, cpu, _| {
        let start = take(system, cpu, 3);
        free(system, cpu, Index(start.0 + 1), 0)
    }),
    misuse("the first frame of a block of order 3", |system, cpu, _| {
        let start = take(system, cpu, 3);
        free(system, cpu, start, 0)
    }),
    misuse("a half of a block of order 3", |system, cpu, _| {
        let start = take(system, cpu, 3);
        free(system, cpu, start, 2)
    }),
    misuse(
        "a block and its free buddy, as one block",
        |system, cpu, _| {
            let start = take(system, cpu, 2);
            free(system, cpu, Index(start.0 & !7), 3)
        },
    ),
    misuse("two allocated buddies, as one block", |system, cpu, _| {
        let runs = [(); 2].map(|()| take(system, cpu, 2).0);
        // Two requests need not get buddies: these are.
        let start = Index(runs[0] & !7);
        for part in [start.0, start.0 + 4]
            .into_iter()
            .filter(|part| !runs.contains(part))
        {
            let range = FrameRange::new(system.span().physical(Index(part)), 4);
            system.allocate_at(cpu, range).expect("the buddy is free");
        }
        free(system, cpu, start, 3)
    }),
    misuse("a frame of a hole", |system, cpu, _| {
        free(system, cpu, Index(HOLE), 0)
    }),
    misuse("a reserved frame", |system, cpu, _| {
        let range = FrameRange::new(system.span().physical(Index(1000)), 1);
        system.reserve(cpu, range).expect("the frame is free");
        free(system, cpu, Index(1000), 0)
    }),
    misuse("a frame outside of the memory", |system, cpu, _| {
        free(system, cpu, Index(OUTSIDE), 0)
    }),
];

/// Returns the systems that accept each of [`MISUSES`], in its order. Each system is built once for each.
///
/// # Panics
/// If a system cannot be built, or refuses what is right.
pub fn accepted() -> Vec<Vec<&'static str>> {
    let accepts = |misuse: &Misuse, row: &'static Row| {
        any(&SystemSpec::of(row), &Setup::new(RANGES, 2), |system| {
            let cpus = NativeCpus::new(2);
            (misuse.done)(system, &mut claim(&cpus, 0), &mut claim(&cpus, 1)).is_ok()
        })
    };
    let of = |misuse| {
        let systems = ROWS.iter().filter(|row| accepts(misuse, row));
        systems.map(|row| row.name).collect()
    };
    MISUSES.iter().map(of).collect()
}
