//! A system, described.
//!
//! # Purpose
//! SYSTEMS.md, `everybuddy systems`, the conformance suite and the laboratory go over these descriptions.
//!
//! # Invariants
//! What a row's layers are is said by its preset alone; the text about them is made from it.

use core::fmt;

use super::options::{OPTIONS, OptionRow, Options};
use super::values::{ListKind, ZoneKind};
use crate::coalesce::delay::Rule;
use crate::structure::StructureKind;

/// A system, described.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub summary: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// What is as in the source.
    pub faithful: &'static str,
    /// What differs from the source, or was decided where it is silent.
    pub deviates: &'static str,
    /// The options that make this row what it is.
    pub preset: Options,
    /// When buddies are coalesced.
    pub rule: Rule,
}

impl Row {
    /// A row without texts: a bare system of free blocks, coalesced at each free.
    pub(super) const BLANK: Row = Row {
        name: "",
        summary: "",
        source: "",
        faithful: "",
        deviates: "",
        preset: Options::NONE,
        rule: Rule::AT_ONCE,
    };

    /// Returns the layers, from the request downwards, as text.
    pub fn composition(&self) -> impl fmt::Display {
        Layers(self.preset, self.rule)
    }

    /// Returns the options that the system takes.
    pub fn options(&self) -> impl Iterator<Item = &'static OptionRow> {
        OPTIONS.iter().filter(|option| option.applies(self))
    }

    /// Returns `true` if the system takes this option.
    pub fn takes(&self, key: &str) -> bool {
        self.options().any(|option| option.key == key)
    }

    /// Returns the list that each CPU keeps, unless an option chooses another.
    pub fn list(&self) -> ListKind {
        self.preset.list.unwrap_or_default()
    }

    /// Returns who owns free frames, unless an option chooses something else.
    pub fn zone(&self) -> ZoneKind {
        self.preset.zone.unwrap_or_default()
    }

    /// Returns how free memory is kept, unless an option chooses something else.
    pub fn structure(&self) -> StructureKind {
        self.preset.structure.unwrap_or_default()
    }
}

/// The layers that a preset and a rule stand for.
struct Layers(Options, Rule);

impl fmt::Display for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options {
            list,
            batch,
            high,
            zone,
            structure,
            ..
        } = self.0;
        f.write_str(match list.unwrap_or_default() {
            ListKind::None => "no per-CPU list",
            ListKind::Linux => "one list per CPU, refilled and drained by batches",
            ListKind::Bypass => "one list per CPU, bypassed at its watermarks",
            ListKind::Linux6 => {
                "lists per CPU for orders 0 to 3 and huge pages, high watermark tunes itself"
            }
            ListKind::Predictive => "one list per CPU, its length predicted",
        })?;
        if let Some(high) = high {
            write!(f, ", high watermark {}", high.get())?;
        }
        if let Some(batch) = batch {
            write!(f, ", batch {}", batch.get())?;
        }
        f.write_str(match zone.unwrap_or_default() {
            ZoneKind::One => " > one zone, one lock",
            ZoneKind::Spaces => " > buddy spaces, a lock for each",
            ZoneKind::Domains => " > elastic domains in a spring",
            ZoneKind::Separated => " > one zone, one lock, dividing and linking queues",
        })?;
        let is_elastic = zone == Some(ZoneKind::Domains);
        f.write_str(match structure.unwrap_or_default() {
            StructureKind::Lists if is_elastic => " > free lists and a domain tag per frame",
            StructureKind::Lists => " > free lists and bitmap",
            StructureKind::Trees => " > balanced trees by address and bitmap",
            StructureKind::Bits => " > bitmaps with summaries",
            StructureKind::Frames => return f.write_str(" > single frames by level and bitmap"),
            StructureKind::LocalLists => " > lists of locally and globally free blocks",
        })?;
        match zone {
            Some(ZoneKind::Separated) => f.write_str(", coalesced by a service"),
            _ => write!(f, ", coalesced {}", self.1.describe()),
        }
    }
}
