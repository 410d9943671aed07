//! The scripts: the papers' walk-throughs, and what allocators meet every day.
//!
//! They are text (`scripts.txt`), separated by empty lines: `= NAME FRAMES ORDER` with the two systems of a script, its
//! title, what it shows, the steps `before:`, and a line for each step with a remark or nothing. The last script has
//! the recorded steps, which ci/play.sh writes: those of every 1,500th block of up to order 3.
//!
//! # Invariants
//! Every line is a step, and every script works on every system: a system that has no such service, or no such block,
//! says so. The tests compare the walk-throughs with what the papers' text says.

use crate::step::Step;

/// All scripts.
const TEXT: &str = concat!(
    include_str!("scripts.txt"),
    include_str!("sysbench_mt_cut.txt")
);

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    /// A short name, for addresses.
    pub name: &'static str,
    /// What a list of scripts calls it.
    pub title: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The frames of the memory.
    pub frames: u32,
    /// The order of the largest block.
    pub order: u8,
    /// The two systems that show it best.
    pub pair: [&'static str; 2],
    /// Steps that happened before.
    pub before: Vec<&'static str>,
    /// The steps that are shown, each with a remark or nothing.
    pub lines: Vec<(&'static str, &'static str)>,
}

impl Script {
    /// Returns the steps that happened before.
    pub fn before(&self) -> impl Iterator<Item = Step> {
        self.before.iter().filter_map(|line| Step::parse(line))
    }

    /// Returns the steps that are shown.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        self.lines.iter().filter_map(|(line, _)| Step::parse(line))
    }

    /// Reads a script. Returns `None` if its head is incomplete.
    fn read(text: &'static str) -> Option<Script> {
        let mut lines = text.lines().peekable();
        let mut head = lines.next()?.strip_prefix("= ")?.split(' ');
        let before = |line: &&str| line.starts_with("before: ");
        let line = |line: &'static str| line.split_once(" | ").unwrap_or((line, ""));
        Some(Script {
            name: head.next()?,
            frames: head.next()?.parse().ok()?,
            order: head.next()?.parse().ok()?,
            pair: [head.next()?, head.next()?],
            title: lines.next()?,
            about: lines.next()?,
            before: match lines.next_if(before) {
                Some(before) => before["before: ".len()..].split(", ").collect(),
                None => Vec::new(),
            },
            lines: lines.map(line).collect(),
        })
    }
}

/// Returns all scripts.
pub fn scripts() -> impl Iterator<Item = Script> {
    TEXT.split("\n\n").filter_map(Script::read)
}
