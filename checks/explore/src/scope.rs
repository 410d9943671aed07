//! What is explored: a system, its memory, and how far the search goes.
//!
//! # Invariants
//! A scope is one line of text: `SYSTEM frames=N [hole=F] [cpus=N] [regions] [bytes] [states=N]`.

use core::fmt;
use core::str::FromStr;

use everybuddy::{FrameRange, Pfn, SystemSpec};

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
    /// Whether states are the same only if their bytes are. Nothing is learned then, so steps cost less.
    pub(crate) bytes: bool,
    /// The most states.
    pub(crate) states: usize,
    /// How many random walks follow.
    pub(crate) walks: usize,
    /// The steps of each walk.
    pub(crate) length: usize,
    /// The most experiments that tell states apart.
    pub(crate) experiments: usize,
    /// From how many states pairs of operations are run at the same time; then no experiments are learned.
    pub(crate) pairs: usize,
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
            bytes: false,
            states: 10_000_000,
            walks: 20,
            length: 200,
            experiments: 150,
            pairs: 0,
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
                "bytes" => scope.bytes = true,
                "states" => scope.states = number as usize,
                "pairs" => scope.pairs = number as usize,
                "walks" => scope.walks = number as usize,
                "experiments" => scope.experiments = number as usize,
                "length" => scope.length = number as usize,
                _ => return Err(format!("{word}: unknown")),
            }
        }
        scope.ranges = match hole {
            None => vec![FrameRange::new(Pfn(0), frames)],
            Some(hole) => {
                let after = FrameRange::new(Pfn(hole + 1), frames - hole - 1);
                vec![FrameRange::new(Pfn(0), hole), after]
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

/// The names of all lists of scopes.
pub(crate) const LISTS: [&str; 5] = ["gate", "systems", "options", "larger", "pairs"];

/// Returns the scopes of a list, as text. Returns none for an unknown name.
pub(crate) fn listed(name: &str) -> impl Iterator<Item = &'static str> {
    let head = format!("\n[{name}]\n");
    let list = include_str!("scopes.txt").split_once(&head);
    let lines = list.map_or("", |(_, rest)| rest).lines();
    lines.take_while(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy::systems::{OPTIONS as KEYS, ROWS};

    fn texts() -> impl Iterator<Item = &'static str> {
        LISTS.into_iter().flat_map(listed)
    }

    #[test]
    fn every_system_and_every_value_of_an_option_is_explored() {
        assert!(LISTS.into_iter().all(|name| listed(name).next().is_some()));
        for text in texts() {
            let scope: Scope = text
                .parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            let explorer = crate::search::Explorer::new(&scope);
            assert!(explorer.is_ok(), "{text}: {:?}", explorer.err());
        }
        let names: Vec<&str> = texts()
            .filter_map(|text| text.split(['+', ' ']).next())
            .collect();
        for row in ROWS {
            assert!(names.contains(&row.name), "{}", row.name);
        }
        let words: Vec<&str> = texts().flat_map(|text| text.split(['+', ' '])).collect();
        for option in KEYS
            .iter()
            .filter(|option| ROWS.iter().any(|row| row.takes(option.key)))
        {
            // Names of values stand between backticks.
            let values: Vec<&str> = option.values.split('`').skip(1).step_by(2).collect();
            for value in &values {
                assert!(
                    words.contains(&format!("{}={value}", option.key).as_str()),
                    "{} {value}",
                    option.key
                );
            }
            let is_there = words
                .iter()
                .any(|word| word.starts_with(&format!("{}=", option.key)));
            assert!(is_there, "{}", option.key);
        }
    }
}
