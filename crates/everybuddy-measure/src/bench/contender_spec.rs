//! Contenders by name.
//!
//! # Purpose
//!
//! Our systems and third-party allocators are selected, listed and built in the same way.
//!
//! # Invariants
//!
//! Each call of [`ContenderSpec::with`] builds a new allocator.

use everybuddy::{NoProbe, SystemSpec};

use super::contender::{Contender, OfSystem};
use crate::Error;
use crate::choice;
use crate::replay::host::Arena;
use crate::replay::memory::Memory;

/// An allocator that can be selected for the benchmark.
#[derive(Clone, Copy, Debug)]
pub enum ContenderSpec {
    /// One of our systems.
    System(SystemSpec),
    /// A third-party allocator.
    #[cfg(feature = "peers")]
    Peer(&'static everybuddy_peers::PeerRow),
}

impl ContenderSpec {
    /// Returns the peers, the floor first.
    ///
    /// # Errors
    /// Returns a usage error if the program was built without peers.
    pub fn peers() -> Result<Vec<ContenderSpec>, Error> {
        #[cfg(feature = "peers")]
        {
            let mut rows: Vec<_> = everybuddy_peers::PEERS.iter().collect();
            rows.sort_by_key(|row| !row.is_floor);
            Ok(rows.into_iter().map(ContenderSpec::Peer).collect())
        }
        #[cfg(not(feature = "peers"))]
        Err(Error::usage(
            "this program was built without third-party allocators\nhelp: run \
             `cargo run --release --features peers -- bench --peers`",
        ))
    }

    /// Returns the full name, options included.
    pub fn name(&self) -> String {
        match self {
            ContenderSpec::System(spec) => spec.to_string(),
            #[cfg(feature = "peers")]
            ContenderSpec::Peer(row) => row.name.to_string(),
        }
    }

    /// Returns the name and the options separately.
    pub fn parts(&self) -> (String, String) {
        match self {
            ContenderSpec::System(spec) => (spec.name().to_string(), choice::options(spec)),
            #[cfg(feature = "peers")]
            ContenderSpec::Peer(row) => (row.name.to_string(), String::new()),
        }
    }

    /// Returns `true` if it is the floor, the lower bound for all allocators.
    pub fn is_floor(&self) -> bool {
        match self {
            ContenderSpec::System(_) => false,
            #[cfg(feature = "peers")]
            ContenderSpec::Peer(row) => row.is_floor,
        }
    }

    /// Returns `true` if it is a third-party allocator.
    pub fn is_peer(&self) -> bool {
        !matches!(self, ContenderSpec::System(_))
    }

    /// Returns the columns of its description: name, package and version, summary, missing features.
    pub fn description(&self) -> [String; 4] {
        match self {
            ContenderSpec::System(spec) => {
                let row = spec.row();
                let version = env!("CARGO_PKG_VERSION");
                [
                    spec.to_string(),
                    format!("everybuddy {version}"),
                    row.summary.to_string(),
                    String::new(),
                ]
            }
            #[cfg(feature = "peers")]
            ContenderSpec::Peer(row) => [
                row.name.to_string(),
                format!("{} {}", row.package, row.version),
                row.summary.to_string(),
                row.cannot.join("; "),
            ],
        }
    }

    /// Builds it for the given numbers of frames and threads, and runs `visitor` on it.
    ///
    /// # Errors
    /// Returns a usage error if it cannot be built for these numbers.
    pub fn with<T>(
        &self,
        frames: u32,
        threads: u16,
        arena: &mut Arena,
        visitor: impl FnOnce(&dyn Contender) -> T,
    ) -> Result<T, Error> {
        let (mut visitor, mut came) = (Some(visitor), None);
        let visit = &mut |contender: &dyn Contender| {
            came = visitor.take().map(|visitor| visitor(contender));
        };
        match self {
            ContenderSpec::System(spec) => {
                let memory = Memory::fresh(u64::from(frames));
                let visitor = visit;
                let visitor = OfSystem { threads, visitor };
                arena.build::<NoProbe, _>(spec, &memory, threads, visitor)?;
            }
            #[cfg(feature = "peers")]
            ContenderSpec::Peer(row) => {
                let visitor = super::peer::OfPeer(visit);
                everybuddy_peers::with_peer(row.name, frames, threads, visitor).ok_or_else(
                    || Error::usage(format!("unknown third-party allocator {}", row.name)),
                )?;
            }
        }
        came.ok_or_else(|| {
            Error::Broken(format!(
                "{} was built, but the visitor was not called",
                self.name()
            ))
        })
    }
}
