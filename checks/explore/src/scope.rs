//! What is explored: a system, its memory, and how far the search goes.
//!
//! # Invariants
//!
//! A scope is one line of text: `SYSTEM frames=N [hole=F] [cpus=N] [regions] [no-misuse] [states=N]`.

use core::fmt;
use core::str::FromStr;

use everybuddy::{FrameRange, SystemSpec};

/// A scope.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The system.
    pub(crate) spec: SystemSpec,
    /// Its memory.
    pub(crate) ranges: Vec<FrameRange>,
    /// Its CPUs, which one thread runs in turn.
    pub(crate) cpus: u16,
    /// Whether memory comes and goes.
    pub(crate) regions: bool,
    /// Whether misuse is tried.
    pub(crate) misuse: bool,
    /// The most states.
    pub(crate) states: usize,
    /// How many random walks follow.
    pub(crate) walks: usize,
    /// The steps of each walk.
    pub(crate) length: usize,
    text: String,
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let name = words.next().ok_or("no system is named")?;
        let mut scope = Scope {
            spec: name.parse().map_err(|error| format!("{name}: {error}"))?,
            ranges: Vec::new(),
            cpus: 1,
            regions: false,
            misuse: true,
            states: 10_000_000,
            walks: 100,
            length: 200,
            text: text.to_owned(),
        };
        let (mut frames, mut hole) = (4, None);
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, "1"));
            let number: u64 = value.parse().map_err(|_| format!("{word}: not a number"))?;
            match key {
                "frames" => frames = number,
                "hole" => hole = Some(number),
                "cpus" => scope.cpus = number as u16,
                "regions" => scope.regions = true,
                "no-misuse" => scope.misuse = false,
                "states" => scope.states = number as usize,
                "walks" => scope.walks = number as usize,
                "length" => scope.length = number as usize,
                _ => return Err(format!("{word}: unknown")),
            }
        }
        scope.ranges = match hole {
            None => vec![FrameRange::new(0, frames)],
            Some(hole) => {
                let after = FrameRange::new(hole + 1, frames - hole - 1);
                vec![FrameRange::new(0, hole), after]
            }
        };
        Ok(scope)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
