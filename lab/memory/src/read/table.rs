//! Tables of free blocks in logs: `1*4kB (U) 0*8kB ... = 13312kB`.
//!
//! Mail wraps these lines, quotes mark them, and other CPUs print between their parts. A [`Table`] is assembled from
//! whatever parts arrive.
//!
//! # Invariants
//! The sizes double from part to part, and the sum that the kernel prints must equal the sum of the parts. Only then
//! is a table accepted, so a wrong repair is rejected.

use everybuddy_text::proc::digits;

use super::fields::number_of;
use crate::state::{Blocks, Count, MAX_ORDERS, MigrateType, Place, Types};

/// A table, while its parts arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub node: Option<u32>,
    pub zone: String,
    pub place: Place,
    pub caller: Option<Vec<u8>>,
    /// The number of the last line that contributed.
    pub last_line: u64,
    /// The report to which the table belongs.
    pub report: u64,
    blocks: Vec<Blocks>,
    /// The size of the first order in KiB.
    first_kib: Option<u64>,
    /// The beginning of a part that a line break cut.
    partial: Vec<u8>,
    has_equal: bool,
    /// Whether something that may be a damaged part is between the parts.
    has_damage: bool,
    /// The sum, as printed.
    printed_kib: Option<u64>,
}

/// One part of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Item(u64, u64),
    Letters(Vec<MigrateType>),
    Equal,
    Size(u64),
    /// The text ends within a part.
    Cut,
    Foreign,
}

/// A table whose sum is right.
pub(crate) struct Finished {
    pub blocks: Vec<Blocks>,
    pub frame_kib: Option<u64>,
    /// Whether the last orders may be missing: they are usually 0, so the sum does not show it.
    pub may_be_short: bool,
}

impl Table {
    pub(crate) fn new(node: Option<u32>, zone: &str, place: Place, report: u64) -> Table {
        Table {
            node,
            zone: zone.to_owned(),
            last_line: place.line,
            place,
            report,
            ..Table::default()
        }
    }

    /// Returns `true` if no part has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns `true` if the sum has arrived.
    pub(crate) fn has_sum(&self) -> bool {
        self.printed_kib.is_some()
    }

    fn expected_kib(&self) -> Option<u64> {
        let first = self.first_kib?;
        first.checked_shl(u32::try_from(self.blocks.len()).ok()?)
    }

    /// Returns the sum of the parts in KiB.
    fn sum_kib(&self) -> u64 {
        let first = self.first_kib.unwrap_or(0);
        let sizes = self.blocks.iter().enumerate();
        let size =
            |(order, blocks): (usize, &Blocks)| blocks.count.value.saturating_mul(first << order);
        sizes.map(size).fold(0, u64::saturating_add)
    }

    /// Returns the table with the parts of a further line, or `None` if the line does not continue it.
    pub(crate) fn continued(&self, text: &[u8]) -> Option<Table> {
        if self.has_sum() {
            return None;
        }
        let mut longer = self.clone();
        let (fed, is_pure) = longer.feed(text);
        let has_grown = longer.blocks.len() > self.blocks.len() || longer.is_right();
        let is_next =
            fed > 0 && (has_grown || (is_pure && (!longer.has_sum() || longer.is_right())));
        // A wrong sum ends the table if nothing else is in the line. Then it is rejected.
        let is_end = is_pure && longer.has_sum() && fed > 0;
        (is_next || is_end).then_some(longer)
    }

    /// Reads the parts in a text. Returns the number of parts that belong to this table, and whether the text contains
    /// nothing else.
    pub(crate) fn feed(&mut self, text: &[u8]) -> (usize, bool) {
        let joined;
        let is_start = self.is_empty();
        let mut rest = if self.partial.is_empty() {
            text
        } else {
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(text.trim_ascii_start());
            joined = whole;
            &joined
        };
        let (mut fed, mut is_pure, mut is_after_own) = (0, true, is_start);
        while !self.has_sum() {
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                break;
            }
            let (part, length) = next_part(rest);
            let is_own = match part {
                Part::Item(count, kib) => self.item(count, kib),
                Part::Letters(types) => self.letters(types),
                Part::Equal if !self.is_empty() => {
                    self.has_equal = true;
                    true
                }
                Part::Size(kib) if self.has_equal => {
                    self.printed_kib = Some(kib);
                    true
                }
                Part::Cut if is_after_own => {
                    // A soft break of quoted-printable text does not belong to the table.
                    self.partial = rest.strip_suffix(b"=").unwrap_or(rest).to_vec();
                    break;
                }
                _ => false,
            };
            fed += usize::from(is_own);
            is_pure &= is_own;
            let word = &rest[..length.max(1).min(rest.len())];
            self.has_damage |= !is_own && (word.contains(&b'*') || word.ends_with(b"kB"));
            is_after_own = is_own;
            rest = &rest[length.max(1)..];
        }
        (fed, is_pure)
    }

    fn item(&mut self, count: u64, kib: u64) -> bool {
        let is_first =
            self.first_kib.is_none() && matches!(kib, 1 | 2 | 4 | 8 | 16 | 32 | 64 | 128 | 256);
        if is_first {
            self.first_kib = Some(kib);
        } else if self.expected_kib() != Some(kib) || self.blocks.len() >= MAX_ORDERS {
            return false;
        }
        // What looked like the sign before the sum was a soft break.
        self.has_equal = false;
        let types = if count == 0 {
            Types::Present(Vec::new())
        } else {
            Types::Unknown
        };
        self.blocks.push(Blocks {
            count: Count::exact(count),
            types,
        });
        true
    }

    fn letters(&mut self, types: Vec<MigrateType>) -> bool {
        match self.blocks.last_mut() {
            Some(last)
                if last.types == Types::Unknown && last.count.value >= types.len() as u64 =>
            {
                last.types = Types::Present(types);
                true
            }
            _ => false,
        }
    }

    fn is_right(&self) -> bool {
        self.printed_kib == Some(self.sum_kib())
    }

    /// Checks the sum.
    ///
    /// # Errors
    ///
    /// Fails if the table is incomplete, or if its sum differs.
    pub(crate) fn finish(self) -> Result<Finished, String> {
        let (place, zone) = (&self.place, &self.zone);
        let Some(printed) = self.printed_kib else {
            return Err(format!(
                "{place}: the table of zone {zone} is cut: it is ignored"
            ));
        };
        let sum = self.sum_kib();
        if sum != printed {
            return Err(format!(
                "{place}: the table of zone {zone} adds up to {sum} kB, but it states {printed} kB: it is ignored"
            ));
        }
        // Kernels before 3.8 print no letters.
        let mut blocks = self.blocks;
        let has_letters =
            |blocks: &Blocks| matches!(&blocks.types, Types::Present(types) if !types.is_empty());
        if !blocks.iter().any(has_letters) {
            for blocks in &mut blocks {
                blocks.types = Types::Unknown;
            }
        }
        Ok(Finished {
            blocks,
            frame_kib: self.first_kib,
            may_be_short: self.has_damage,
        })
    }
}

/// Reads the first part of a text, and returns its length.
fn next_part(text: &[u8]) -> (Part, usize) {
    match text[0] {
        b'0'..=b'9' => number(text),
        b'(' => {
            let is_letter = |byte: &&u8| byte.is_ascii_uppercase();
            let letters = text[1..].iter().take_while(is_letter).count();
            match text.get(1 + letters) {
                Some(b')') if letters > 0 => {
                    let types = text[1..=letters]
                        .iter()
                        .filter_map(|letter| MigrateType::of_letter(*letter));
                    (Part::Letters(types.collect()), letters + 2)
                }
                None => (Part::Cut, text.len()),
                Some(b'=') if text.len() == letters + 2 => (Part::Cut, text.len()),
                Some(_) => (Part::Foreign, 1),
            }
        }
        b'=' if text.starts_with(b"=3D") => (Part::Equal, 3),
        b'=' => (Part::Equal, 1),
        _ => (Part::Foreign, word(text)),
    }
}

/// Returns the length of the first word.
fn word(text: &[u8]) -> usize {
    let end = text.iter().position(|byte| matches!(byte, b' ' | b'\t'));
    end.unwrap_or(text.len())
}

/// Reads `COUNT*SIZEkB` or `SIZEkB`.
fn number(text: &[u8]) -> (Part, usize) {
    let is_end = |rest: &[u8]| rest.is_empty() || rest == b"=";
    let (first, rest) = digits(text);
    let star = rest.strip_prefix(b"*").map(digits);
    let (second, unit) = star.unwrap_or((first, rest));
    if is_end(unit) || is_end(unit.strip_prefix(b"k").unwrap_or(unit)) {
        return (Part::Cut, text.len());
    }
    // Without blanks the next part follows directly.
    let Some(after) = unit.strip_prefix(b"kB").filter(|after| {
        let letter = |next: &u8| next.is_ascii_alphabetic();
        !after.first().is_some_and(letter)
    }) else {
        return (Part::Foreign, word(text));
    };
    let part = match (star, number_of(first), number_of(second)) {
        (Some(_), Some(count), Some(size)) => Part::Item(count, size),
        (None, _, Some(size)) => Part::Size(size),
        _ => Part::Foreign,
    };
    (part, text.len() - after.len())
}
