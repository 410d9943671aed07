//! A machine, with the sources of its numbers.
//!
//! The source of a number distinguishes published and measured numbers from assumed ones.
//!
//! # Invariants
//! A [`Machine`] has a source for every number that it has, and for no other.

use everybuddy_sim::Hardware;

use crate::machines::number::NUMBERS;

/// A machine, with the sources of its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name on the command line.
    pub name: String,
    /// A one-line description.
    pub title: String,
    /// What a reader of results must know about it.
    pub text: String,
    /// The numbers.
    pub hardware: Hardware,
    /// Parallel to [`NUMBERS`]; empty where the machine has no such number.
    pub(crate) sources: Vec<String>,
}

/// How well a number is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It was published, or measured on the host.
    Known,
    /// Nothing was published; the source contains the reason for the value.
    Assumed,
    /// The machine has no such access: the value does not matter.
    Unused,
}

impl Source {
    /// The words that begin the sources of each kind.
    pub(crate) const WORDS: [(Source, &'static str); 2] =
        [(Source::Assumed, "assumed:"), (Source::Unused, "unused:")];

    /// Returns the kind of a source.
    pub fn of(text: &str) -> Source {
        let found = Source::WORDS.iter().find(|own| text.starts_with(own.1));
        found.map_or(Source::Known, |own| own.0)
    }
}

impl Machine {
    /// Returns the source of the number with this key; `None` if the machine has no such number.
    pub fn source(&self, key: &str) -> Option<&str> {
        let at = NUMBERS.iter().position(|number| number.key == key)?;
        Some(self.sources[at].as_str()).filter(|source| !source.is_empty())
    }

    /// Returns the keys of the numbers that are assumed.
    pub fn assumed(&self) -> Vec<&'static str> {
        let all = NUMBERS.iter().zip(&self.sources);
        let assumed = all.filter(|(_, source)| Source::of(source) == Source::Assumed);
        assumed.map(|(number, _)| number.key).collect()
    }
}
