//! Where systems stop scaling under many loads, and why, side by side.
//!
//! Each load of a simulation has a table of its own. Readers who compare loads want one with all limits.
//!
//! # Invariants
//! The limits and causes are those of the tables of each load. A system that was simulated on one number of CPUs, or
//! not under a load, has none there.

use std::collections::{BTreeMap, BTreeSet};

use everybuddy_page::document::{Block, Cell, Grid, Section, Table};
use everybuddy_simulate::Scaling;

use super::simulated::texts;

/// What both forms say below the limits.
const NOTE: &str = "A limit is the number of CPUs beyond which twice as many bring less than 1.2 times the calls. The \
                    cause is the part of the metadata on which calls spend most of their time with memory there. The \
                    tasks of a trace can limit every system.";
/// The title of both forms.
const TITLE: &str = "Where each system stops scaling, and why, simulated";
/// What stands for the cause where rows do not have it.
const UNKNOWN: &str = "cause not recorded";

/// Where each system stops under each load.
pub struct Limits<'s> {
    loads: Vec<&'s str>,
    systems: Vec<&'s str>,
    of: BTreeMap<(&'s str, &'s str), &'s Scaling>,
}

impl<'s> Limits<'s> {
    /// Collects the limits of systems with at least two numbers of CPUs. Loads and systems are in the order of their
    /// first results.
    pub fn new(scalings: &'s [Scaling]) -> Limits<'s> {
        let mut own = Limits {
            loads: Vec::new(),
            systems: Vec::new(),
            of: BTreeMap::new(),
        };
        for scaling in scalings.iter().filter(|own| own.rates.len() > 1) {
            let (load, system) = (scaling.load.as_str(), scaling.system.as_str());
            if !own.loads.contains(&load) {
                own.loads.push(load);
            }
            if !own.systems.contains(&system) {
                own.systems.push(system);
            }
            own.of.insert((load, system), scaling);
        }
        own
    }

    /// Returns how many loads there are.
    pub fn loads(&self) -> usize {
        self.loads.len()
    }

    /// Returns the limits as a section of a page.
    pub fn section(&self) -> Vec<Block> {
        let section = Section {
            name: "limits".to_string(),
            title: TITLE.to_string(),
            source: String::new(),
        };
        vec![
            Block::Section(section),
            Block::Grid(self.grid()),
            Block::Table(self.table()),
        ]
    }

    /// Returns for each load the systems by their limits, the largest one first, and by their causes: what a terminal
    /// has room for.
    pub fn list(&self) -> Vec<Block> {
        let mut blocks = vec![Block::title(TITLE, "")];
        for load in &self.loads {
            blocks.extend([Block::Space, Block::title(*load, "")]);
            let of = |system: &&str| self.of.get(&(*load, *system)).copied();
            let own: Vec<&Scaling> = self.systems.iter().filter_map(of).collect();
            let limits: BTreeSet<u16> = own.iter().map(|own| reached(own)).collect();
            for limit in limits.into_iter().rev() {
                let at = own.iter().filter(|own| reached(own) == limit);
                let mut causes: Vec<(&str, Vec<&str>)> = Vec::new();
                for own in at {
                    let cause = cause(own);
                    match causes.iter_mut().find(|known| known.0 == cause) {
                        Some((_, systems)) => systems.push(&own.system),
                        None => causes.push((cause, vec![&own.system])),
                    }
                }
                let causes = causes.iter().map(|(cause, systems)| match *cause {
                    "" => systems.join(", "),
                    cause => format!("{cause}: {}", systems.join(", ")),
                });
                let causes: Vec<String> = causes.collect();
                let head = match limit {
                    u16::MAX => "   all".to_string(),
                    limit => format!("{limit:>6}"),
                };
                blocks.push(Block::entry(head, 8, causes.join("; ")));
            }
        }
        blocks.push(Block::Space);
        blocks.push(Block::text(format!(
            "{NOTE} Each line begins with a limit; `all`: these systems have not stopped scaling."
        )));
        blocks.into_iter().map(Block::in_terminal).collect()
    }

    /// Returns a grid of all limits, with the causes in the titles of its cells.
    fn grid(&self) -> Grid {
        let most = self.of.values().filter_map(|own| own.rates.last());
        let most = most.map(|(cpus, _)| *cpus).max().unwrap_or(1);
        let cell = |load: &str, system: &str| {
            let Some(own) = self.of.get(&(load, system)) else {
                return Cell::default();
            };
            let last = own.rates.last().map_or(1, |(cpus, _)| *cpus);
            let share = own
                .hottest
                .as_ref()
                .map(|(_, share)| format!(", {:.0}%", share * 100.0));
            let (text, title) = match own.limit {
                None => (format!("> {last}"), "it has not stopped".to_string()),
                Some(limit) => (
                    limit.to_string(),
                    cause(own).to_string() + &share.unwrap_or_default(),
                ),
            };
            let doublings = f64::from(own.limit.unwrap_or(last)).log2();
            Cell {
                text,
                title: format!("{system}, {load}: {title}"),
                shade: doublings / f64::from(most).log2().max(1.0),
            }
        };
        let line = |load: &&str| {
            let cells = self.systems.iter().map(|system| cell(load, system));
            (load.to_string(), cells.collect())
        };
        Grid {
            title: String::new(),
            note: NOTE.to_string(),
            heads: self.systems.iter().map(ToString::to_string).collect(),
            lines: self.loads.iter().map(line).collect(),
        }
    }

    /// Returns the table of what stops systems.
    fn table(&self) -> Table {
        Table {
            title: "What stops each system, with the number of loads, simulated".to_string(),
            note: "The part of the metadata on which calls spend most of their time with memory, on the first number \
                   of CPUs beyond the limit."
                .to_string(),
            ..texts(
                &["system", "loads without a limit", "stopped by (loads)"],
                self.causes(),
            )
        }
    }

    /// Returns for each system how many loads each part of its metadata has stopped, the most frequent first.
    fn causes(&self) -> Vec<Vec<String>> {
        let line = |system: &&str| {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            let own = self
                .loads
                .iter()
                .filter_map(|load| self.of.get(&(*load, *system)));
            let (stopped, others): (Vec<&Scaling>, Vec<&Scaling>) =
                own.partition(|own| own.limit.is_some());
            stopped
                .iter()
                .for_each(|own| *counts.entry(cause(own)).or_default() += 1);
            let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
            counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let causes = counts
                .iter()
                .map(|(cause, count)| format!("{cause} {count}"));
            let causes: Vec<String> = causes.collect();
            vec![
                system.to_string(),
                others.len().to_string(),
                causes.join(", "),
            ]
        };
        self.systems.iter().map(line).collect()
    }
}

/// Returns the limit; `u16::MAX` if there is none.
fn reached(own: &Scaling) -> u16 {
    own.limit.unwrap_or(u16::MAX)
}

/// Returns why a system has stopped: empty if it has not.
fn cause(own: &Scaling) -> &str {
    let part = own.hottest.as_ref().map_or(UNKNOWN, |(part, _)| part);
    own.limit.map_or("", |_| part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::output::Style;

    fn scaling(load: &str, system: &str, limit: Option<u16>, part: &str) -> Scaling {
        let last = limit.map_or(256, |limit| limit * 2);
        Scaling {
            load: load.to_string(),
            system: system.to_string(),
            rates: vec![(1, 1.0), (last, 2.0)],
            limit,
            hottest: Some((part.to_string(), 0.456)),
        }
    }

    fn scalings() -> [Scaling; 8] {
        let unknown = Scaling {
            hottest: None,
            ..scaling("steady", "never", Some(8), "")
        };
        let on_one = Scaling {
            rates: vec![(64, 1.0)],
            ..scaling("alone", "bs", None, "")
        };
        let to_64 = Scaling {
            rates: vec![(1, 1.0), (64, 40.0)],
            ..scaling("trace", "bs", None, "")
        };
        [
            scaling("burst", "bs", Some(2), "zone lock"),
            scaling("burst", "spring", None, "domain"),
            scaling("burst", "never", Some(2), "zone lock"),
            scaling("steady", "bs", Some(4), "frame record"),
            scaling("steady", "spring", Some(64), "head of the spring"),
            unknown,
            on_one,
            to_64,
        ]
    }

    #[test]
    fn systems_are_grouped_by_limit_and_cause() {
        let all = scalings();
        let blocks = Limits::new(&all).list();
        let text = crate::show::document::text(&blocks, &Style::PLAIN);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let expected = [
            "burst",
            "   all  spring",
            "     2  zone lock: bs, never",
            "",
            "steady",
            "    64  head of the spring: spring",
            "     8  cause not recorded: never",
            "     4  frame record: bs",
        ];
        assert_eq!(lines[2..10], expected, "{text}");
    }

    #[test]
    fn a_grid_has_a_cell_for_each_load_and_system() {
        let all = scalings();
        let limits = Limits::new(&all);
        let grid = limits.grid();
        assert_eq!(grid.heads, ["bs", "spring", "never"]);
        let texts = grid.lines.iter().map(|(load, cells)| {
            let texts = cells.iter().map(|cell| cell.text.as_str());
            (load.as_str(), texts.collect::<Vec<_>>())
        });
        let expected = [
            ("burst", vec!["2", "> 256", "2"]),
            ("steady", vec!["4", "64", "8"]),
            ("trace", vec!["> 64", "", ""]),
        ];
        assert!(texts.eq(expected));
        let [burst, steady] = [0, 1].map(|at| &grid.lines[at].1);
        assert_eq!(burst[0].title, "bs, burst: zone lock, 46%");
        assert_eq!(steady[2].title, "never, steady: cause not recorded");
        assert_eq!(grid.lines[2].1[0].shade, 0.75, "six of eight doublings");
        // One of eight doublings, all of them, and two of eight.
        assert_eq!(
            [burst[0].shade, burst[1].shade, steady[0].shade],
            [0.125, 1.0, 0.25]
        );
        let expected = [
            ["bs", "1", "frame record 1, zone lock 1"],
            ["spring", "1", "head of the spring 1"],
            ["never", "0", "cause not recorded 1, zone lock 1"],
        ];
        assert_eq!(limits.causes(), expected);
    }
}
