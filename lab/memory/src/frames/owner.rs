//! The functions that hold pages, from `/sys/kernel/debug/page_owner`.
//!
//! # Invariants
//! A record begins with `Page allocated via order`, and its second line names the frame. Both forms of stacks are
//! read: `[<address>] function+offset/size`, and the function alone. A line of any other kind is counted and
//! skipped, and so is a record without a frame. Memory does not grow with the file.
//!
//! # Design decisions
//! The function of a record is the first one of its stack that is not part of the allocators. For a slab page this
//! is the function whose request made the slab grow: other functions may hold objects in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};

use everybuddy_text::Lines;

use super::blocks::Blocks;
use super::flags::Kind;
use super::snapshot::Snapshot;

/// A longer line is not part of a record.
const LONGEST_LINE: usize = 1 << 16;
/// No kernel allocates larger blocks.
const LARGEST_ORDER: u32 = 20;

/// How the names of functions inside of the allocators begin.
#[rustfmt::skip]
const ALLOCATORS: &[&str] = &[
    "__alloc_contig", "__alloc_frozen_pages", "__alloc_pages", "__do_kmalloc", "__folio_alloc", "__get_free_page",
    "__kmalloc", "__kmem_cache_alloc", "__kvmalloc", "__page_cache_alloc", "__rmqueue", "__set_page_owner",
    "__slab_alloc", "___kmalloc", "___slab_alloc", "__vmalloc", "__vzalloc", "alloc_contig", "alloc_frozen_pages",
    "alloc_page", "alloc_slab_page", "allocate_slab", "cache_alloc_refill", "cache_grow", "fallback_alloc",
    "folio_alloc", "get_page_from_freelist", "get_zeroed_page", "kmalloc", "kmem_alloc_pages", "kmem_cache_alloc",
    "kmem_getpages", "kmemdup", "krealloc", "kstrdup", "kvmalloc", "kvrealloc", "kzalloc", "new_slab",
    "post_alloc_hook", "prep_new_page", "refill_objects", "refill_sheaf", "save_stack", "slab_alloc",
    "vma_alloc_folio", "vmalloc", "vzalloc",
];

/// Returns `true` if a function belongs to the page or slab allocator, or only passes its caller's request on to them.
#[must_use]
pub fn is_allocator(function: &str) -> bool {
    ALLOCATORS.iter().any(|start| function.starts_with(start))
}

/// A block that was allocated.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Record {
    /// The first frame.
    pub frame: u64,
    /// The block has 2^order frames.
    pub order: u32,
    /// The mobility that the allocation asked for, such as `Movable`; empty if the record does not name it.
    pub mobility: String,
    /// The function; empty if the record has no stack.
    pub function: String,
}

/// What a file contained.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// The records with a frame.
    pub records: u64,
    /// Their frames.
    pub frames: u64,
    /// The frames of records whose allocation asked for movable memory.
    pub movable_frames: u64,
    /// The records without a frame, or with one that is out of range.
    pub incomplete: u64,
    /// The lines that belong to no record, or are of an unknown kind.
    pub unknown_lines: u64,
}

/// Reads all records, one after the other.
///
/// # Errors
///
/// The reader's own errors. No content is an error.
pub fn read(reader: impl BufRead, mut each: impl FnMut(&Record)) -> io::Result<Totals> {
    let mut totals = Totals::default();
    let mut open: Option<Open> = None;
    let mut lines = Lines::new(reader, LONGEST_LINE);
    while let Some(line) = lines.read()? {
        let text = line.text.trim();
        if let Some(rest) = text.strip_prefix("Page allocated via order ") {
            close(open.take(), &mut totals, &mut each);
            open = Some(Open {
                order: leading_number(rest),
                ..Open::default()
            });
        } else if text.is_empty() {
            // Every record ends with an empty line.
            close(open.take(), &mut totals, &mut each);
        } else if !open.as_mut().is_some_and(|open| open.accept(text)) {
            totals.unknown_lines += 1;
        }
    }
    close(open, &mut totals, &mut each);
    Ok(totals)
}

/// A record that has not ended.
#[derive(Default)]
struct Open {
    order: Option<u64>,
    frame: Option<u64>,
    record: Record,
    /// The function is outside of the allocators.
    is_settled: bool,
}

impl Open {
    /// Takes a line of the record; returns `false` if its kind is unknown.
    fn accept(&mut self, line: &str) -> bool {
        if let Some(rest) = line.strip_prefix("PFN ") {
            let mut words = rest.split_whitespace();
            self.frame = words.next().and_then(number);
            let mut words = words.skip_while(|word| *word != "type");
            if let Some(mobility) = words.nth(1) {
                self.record.mobility = mobility.to_owned();
            }
            return self.frame.is_some();
        }
        if line.starts_with("Page has been migrated") || line.starts_with("Charged ") {
            return true;
        }
        let Some(function) = function(line) else {
            return false;
        };
        if !self.is_settled {
            self.is_settled = !is_allocator(function);
            self.record.function = function.to_owned();
        }
        true
    }
}

/// Counts the record and hands it on.
fn close(open: Option<Open>, totals: &mut Totals, each: &mut impl FnMut(&Record)) {
    let Some(open) = open else {
        return;
    };
    let order = open.order.and_then(|order| u32::try_from(order).ok());
    let (Some(frame), Some(order)) = (open.frame, order.filter(|order| *order <= LARGEST_ORDER))
    else {
        totals.incomplete += 1;
        return;
    };
    if frame.checked_add(1 << order).is_none() {
        totals.incomplete += 1;
        return;
    }
    let record = Record {
        frame,
        order,
        ..open.record
    };
    totals.records += 1;
    totals.frames += 1 << order;
    totals.movable_frames += if record.mobility == "Movable" {
        1 << order
    } else {
        0
    };
    each(&record);
}

/// Returns the function of a line of a stack, without its address, its offset, and suffixes of the compiler.
fn function(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let mut word = words.next()?;
    if word.starts_with("[<") && word.ends_with(">]") {
        word = words.next()?;
    }
    // An uncertain entry of an old stack.
    if word == "?" {
        word = words.next()?;
    }
    let (name, offset) = word.split_once('+')?;
    let is_offset = offset.starts_with("0x") && offset.contains('/');
    let name = name.split('.').next().unwrap_or_default();
    (is_offset && !name.is_empty()).then_some(name)
}

fn leading_number(text: &str) -> Option<u64> {
    number(
        text.split(|letter: char| !letter.is_ascii_alphanumeric())
            .next()?,
    )
}

/// Parses a decimal number, or a hexadecimal one with `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A function that holds frames of blocks which are not obtainable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Function {
    /// Its name; empty for records without a stack.
    pub name: String,
    /// Its frames in these blocks that are pinned or without flags.
    pub frames: u64,
    /// The blocks in which it holds such frames.
    pub blocks: u64,
    /// The blocks in which no other function was found.
    pub alone: u64,
}

/// What holds blocks, by function.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Holders {
    /// The functions, the worst first: alone in most blocks, then in most blocks.
    pub functions: Vec<Function>,
    /// The content of the file.
    pub totals: Totals,
}

/// Names the functions that hold the blocks which are not obtainable.
///
/// The snapshot and the file are of different moments, so that a record may describe what the frame held a moment
/// later. A record does not prove that a frame without flags was allocated when the snapshot was taken.
///
/// # Errors
///
/// The reader's own errors.
pub fn holders(reader: impl BufRead, snapshot: &Snapshot, blocks: &Blocks) -> io::Result<Holders> {
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    let mut frames: BTreeMap<u32, u64> = BTreeMap::new();
    let mut places: BTreeSet<(usize, usize, u32)> = BTreeSet::new();
    let totals = read(reader, |record| {
        for frame in record.frame..record.frame + (1 << record.order) {
            let Some((zone, kind)) = snapshot.find(frame) else {
                continue;
            };
            // A movable page in a frame without flags was allocated from a CPU's list since.
            let is_later = kind == Kind::Unknown && record.mobility == "Movable";
            if is_later || !kind.is_pinned() && kind != Kind::Unknown {
                continue;
            }
            let Some(at) = blocks.position(zone, frame) else {
                continue;
            };
            if blocks.zones[zone].blocks[at].is_blocked() {
                let next = names.len() as u32;
                let name = match names.get(&record.function) {
                    Some(name) => *name,
                    None => *names.entry(record.function.clone()).or_insert(next),
                };
                *frames.entry(name).or_default() += 1;
                places.insert((zone, at, name));
            }
        }
    })?;
    Ok(Holders {
        functions: functions(&names, &frames, &places),
        totals,
    })
}

fn functions(
    names: &BTreeMap<String, u32>,
    frames: &BTreeMap<u32, u64>,
    places: &BTreeSet<(usize, usize, u32)>,
) -> Vec<Function> {
    let mut blocks: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut places = places.iter().peekable();
    while let Some((zone, at, name)) = places.next() {
        // The functions of a block follow each other.
        let mut found = vec![*name];
        while let Some((_, _, name)) = places.next_if(|next| (next.0, next.1) == (*zone, *at)) {
            found.push(*name);
        }
        for name in &found {
            let counts = blocks.entry(*name).or_default();
            counts.0 += 1;
            counts.1 += u64::from(found.len() == 1);
        }
    }
    let mut functions: Vec<Function> = names
        .iter()
        .map(|(name, at)| {
            let (blocks, alone) = blocks.get(at).copied().unwrap_or_default();
            Function {
                name: name.clone(),
                frames: frames.get(at).copied().unwrap_or_default(),
                blocks,
                alone,
            }
        })
        .collect();
    functions.sort_by(|one, other| {
        let key = |function: &Function| (function.alone, function.blocks, function.frames);
        key(other)
            .cmp(&key(one))
            .then_with(|| one.name.cmp(&other.name))
    });
    functions
}
