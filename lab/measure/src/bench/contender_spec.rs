//! Contenders by name.
//!
//! Our systems and third-party allocators are selected, listed and built in the same way.
//!
//! # Invariants
//! Each call of [`ContenderSpec::with`] builds a new allocator.

use std::fmt;
use std::path::PathBuf;

use everybuddy::{NoProbe, SystemSpec};
use everybuddy_peers::{FLOOR, FLOOR_TABLE, PEERS, PeerRow};

use super::contender::{Contender, OfSystem, Visitor};
use crate::Error;
use crate::choice;
use crate::replay::host::Arena;
use crate::replay::memory::Memory;

/// Frames of the memory of a start that is timed: one million, 4 GiB.
pub const START_FRAMES: u32 = 1 << 20;

/// Returns the memory of a start that is timed.
pub fn start_memory() -> Memory {
    Memory::fresh(u64::from(START_FRAMES))
}

/// An allocator that can be selected for the benchmark.
#[derive(Clone, Copy)]
pub enum ContenderSpec {
    /// One of our systems.
    System(SystemSpec),
    /// A third-party allocator, or one in a shared library.
    Peer(&'static PeerRow),
}

/// The name: it is part of the identity of cells, and addresses of functions differ.
impl fmt::Debug for ContenderSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name())
    }
}

impl ContenderSpec {
    /// Returns the peers, the floor first.
    ///
    /// # Errors
    /// Returns a usage error if the program was built without peers.
    pub fn peers() -> Result<Vec<ContenderSpec>, Error> {
        #[cfg(feature = "peers")]
        {
            let mut rows: Vec<_> = PEERS.iter().collect();
            rows.sort_by_key(|row| !row.is_floor);
            Ok(rows.into_iter().map(ContenderSpec::Peer).collect())
        }
        #[cfg(not(feature = "peers"))]
        Err(Error::usage(
            "this program was built without third-party allocators\nhelp: run \
             `cargo run --release --features peers -- bench --peers`",
        ))
    }

    /// Returns the floors that every program has: the second is behind the table of functions of shared libraries.
    pub fn floors() -> [ContenderSpec; 2] {
        [&FLOOR, &FLOOR_TABLE].map(ContenderSpec::Peer)
    }

    /// Loads allocators from shared libraries.
    ///
    /// # Errors
    /// Returns a usage error if a file has no valid table, or if its name belongs to another contender.
    pub fn load(files: &[PathBuf]) -> Result<Vec<ContenderSpec>, Error> {
        let mut loaded: Vec<ContenderSpec> = Vec::new();
        for file in files {
            let row = everybuddy_peers::load(file).map_err(|e| Error::usage(e.to_string()))?;
            let is_known = choice::one(row.name).is_ok()
                || PEERS.iter().any(|peer| peer.name == row.name)
                || loaded.iter().any(|other| other.name() == row.name);
            if is_known {
                return Err(Error::usage(format!(
                    "--peer {}: the name `{}` belongs to another contender\nhelp: change the name in the table",
                    row.package, row.name
                )));
            }
            loaded.push(ContenderSpec::Peer(row));
        }
        Ok(loaded)
    }

    /// Returns the shared library from which it was loaded.
    pub fn file(&self) -> Option<&'static str> {
        match self {
            ContenderSpec::Peer(row) if row.is_loaded() => Some(row.package),
            _ => None,
        }
    }

    /// Returns the full name, options included.
    pub fn name(&self) -> String {
        match self {
            ContenderSpec::System(spec) => spec.to_string(),
            ContenderSpec::Peer(row) => row.name.to_string(),
        }
    }

    /// Returns the name and the options separately.
    pub fn parts(&self) -> (String, String) {
        match self {
            ContenderSpec::System(spec) => (spec.name().to_string(), choice::options(spec)),
            ContenderSpec::Peer(row) => (row.name.to_string(), String::new()),
        }
    }

    /// Returns `true` if it is the floor, the lower bound for all allocators.
    pub fn is_floor(&self) -> bool {
        match self {
            ContenderSpec::System(_) => false,
            ContenderSpec::Peer(row) => row.is_floor,
        }
    }

    /// Builds it for a memory and a number of threads, and runs `visitor` on it.
    ///
    /// # Errors
    /// Returns a usage error if it cannot be built for these.
    pub fn with<T>(
        &self,
        memory: &Memory,
        threads: u16,
        arena: &mut Arena,
        visitor: impl FnOnce(&dyn Contender) -> T,
    ) -> Result<T, Error> {
        let (mut visitor, mut came) = (Some(visitor), None);
        self.visit(memory, threads, arena, &mut |contender| {
            came = visitor.take().map(|visitor| visitor(contender));
        })?;
        came.ok_or_else(|| {
            Error::Broken(format!(
                "{} was built, but the visitor was not called",
                self.name()
            ))
        })
    }

    /// Like [`with`](Self::with), but not generic: the loops of all systems are compiled into this crate only.
    fn visit(
        &self,
        memory: &Memory,
        threads: u16,
        arena: &mut Arena,
        visitor: Visitor<'_>,
    ) -> Result<(), Error> {
        match self {
            ContenderSpec::System(spec) => {
                let visitor = OfSystem { threads, visitor };
                arena.build::<NoProbe, _>(spec, memory, threads, visitor)
            }
            ContenderSpec::Peer(row) => {
                if memory.taken > 0 {
                    return Err(Error::usage(format!(
                        "{}: a third-party allocator cannot start with memory in use\nhelp: leave it out, or --start",
                        self.name()
                    )));
                }
                let frames = memory.frames as u32;
                let visited = super::peer::with(row, frames, threads, visitor);
                visited.ok_or_else(|| {
                    let name = self.name();
                    Error::usage(format!(
                        "{name} cannot manage {frames} frames for {threads} threads\nhelp: choose another --memory or \
                         --threads; the time of a start is measured with {} frames",
                        START_FRAMES
                    ))
                })
            }
        }
    }
}
