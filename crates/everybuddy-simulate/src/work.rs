//! The instructions of an allocator's paths.
//!
//! # Purpose
//!
//! The machine sees only accesses to shared memory. What a CPU executes around them differs from system to system, and
//! from path to path: each access of a call stands for the instructions that were counted on the path which it takes.
//!
//! # Source
//!
//! `work.tsv`, which `ci/work.sh` writes: the instructions of native paths, counted by callgrind, and the accesses of
//! the same calls on the virtual machine.
//!
//! # Invariants
//!
//! A call with the accesses of the shortest counted path executes the counted instructions. A longer call executes
//! more, and never fewer.

use everybuddy::{Order, Release, Request, Size, SystemSpec};
use everybuddy_sim::Instructions;

/// The counts.
const COUNTS: &str = include_str!("work.tsv");

/// The orders of the counted paths: requests of other orders take the paths of the last one that is not larger.
pub const ORDERS: [u8; 3] = [0, 3, 9];

/// The counted paths of requests and frees of blocks.
const BLOCKS: [[&str; 3]; 2] = [
    ["next", "first", "many"],
    ["free-next", "free-first", "free-many"],
];

/// The counted paths of a system.
struct Counted<'c> {
    system: &'c str,
}

/// What a path takes: accesses and instructions of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// The accesses to shared memory.
    pub accesses: f64,
    /// The instructions.
    pub instructions: f64,
}

impl Count {
    /// Returns the instructions of each access, if all stand for the same number.
    fn each(self) -> Instructions {
        Instructions::each(thousandths(self.instructions / self.accesses))
    }
}

fn thousandths(instructions: f64) -> u32 {
    (instructions * 1000.0).round() as u32
}

impl Counted<'_> {
    /// Returns the counts of a path.
    fn path(&self, path: &str) -> Option<Count> {
        let mut lines = COUNTS.lines().map(|line| line.split('\t'));
        let mut found = lines.find_map(|mut columns| {
            let is_it = columns.next() == Some(self.system) && columns.next() == Some(path);
            is_it.then_some(columns)
        })?;
        let mut number = || found.next()?.parse::<f64>().ok();
        let (operations, instructions, accesses) = (number()?, number()?, number()?);
        Some(Count {
            accesses: accesses / operations,
            instructions: instructions / operations,
        })
    }

    /// Returns the instructions of a call, of which these paths were counted. The shortest one is charged exactly. What
    /// an access beyond it stands for is a fit over the longer paths, by least squares of the relative error.
    fn call(&self, paths: [&str; 3]) -> Option<Instructions> {
        let mut counts = paths
            .into_iter()
            .map(|path| self.path(path))
            .collect::<Option<Vec<Count>>>()?;
        // The last one is the mean of many calls, some of which take the shortest path.
        counts[..2].sort_by(|one, other| one.accesses.total_cmp(&other.accesses));
        let (short, longer) = counts.split_first()?;
        let (mut product, mut square) = (0.0, 0.0);
        for long in longer {
            let further = ((long.accesses - short.accesses) / long.instructions).max(0.0);
            product += further * (1.0 - short.instructions / long.instructions);
            square += further * further;
        }
        let each = short.each();
        let further = product / square;
        Some(match further > 0.0 {
            true => Instructions {
                shortest: short.accesses.round() as u32,
                per_further: thousandths(further),
                ..each
            },
            // All paths make as many accesses.
            false => each,
        })
    }
}

/// The instructions of a system's paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Requests and frees of blocks, by [`ORDERS`].
    pub blocks: [[Instructions; ORDERS.len()]; 2],
    /// Requests for exact numbers of frames, and their frees.
    pub runs: [Instructions; 2],
    /// Everything else: services, and CPUs that park.
    pub other: Instructions,
}

impl Work {
    /// Returns the instructions of a system's paths: of the same options if they were counted, otherwise of the system
    /// with its defaults. O(length of the table).
    ///
    /// # Panics
    /// If the table lacks the system, which a test excludes.
    pub fn of(spec: &SystemSpec) -> Self {
        let name = spec.to_string();
        let counted = |system| {
            let counted = Counted { system };
            counted.path("next 0").is_some().then_some(counted)
        };
        let counted = counted(&name).or_else(|| counted(spec.row().name));
        let counted = counted.expect("the counts of all systems are in work.tsv");
        let block = |kinds: [&str; 3]| {
            ORDERS.map(|order| {
                let paths = kinds.map(|kind| format!("{kind} {order}"));
                let block = counted.call(paths.each_ref().map(String::as_str));
                block.expect("these paths are in work.tsv")
            })
        };
        let each = |path| counted.path(path).map(Count::each);
        let run = |path| each(path).expect("this path is in work.tsv");
        // The services of a system are much alike.
        let other = ["serve compress", "serve dividing"];
        let other = other.into_iter().find_map(each);
        Self {
            blocks: [block(BLOCKS[0]), block(BLOCKS[1])],
            runs: [run("run 260"), run("free-run 260")],
            other: other.unwrap_or_else(|| run("free-many 0")),
        }
    }

    /// Returns the instructions of a request.
    pub fn allocate(&self, request: &Request) -> Instructions {
        self.call(0, request.size)
    }

    /// Returns the instructions of a free.
    pub fn free(&self, release: &Release) -> Instructions {
        self.call(1, release.size)
    }

    fn call(&self, kind: usize, size: Size) -> Instructions {
        match size {
            Size::Order(order) => self.blocks[kind][class(order)],
            Size::Frames(_) => self.runs[kind],
        }
    }
}

/// Returns the index in [`ORDERS`] of the paths that requests of an order take.
fn class(order: Order) -> usize {
    let larger = ORDERS.partition_point(|counted| *counted <= order.get());
    larger.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy::systems::ROWS;

    fn work(name: &str) -> Work {
        Work::of(&name.parse().unwrap())
    }

    /// Returns the instructions of a call with that many accesses.
    fn instructions(path: Instructions, accesses: f64) -> f64 {
        let short = accesses.min(f64::from(path.shortest));
        let sum =
            short * f64::from(path.per_access) + (accesses - short) * f64::from(path.per_further);
        sum / 1000.0
    }

    #[test]
    fn counted_paths_take_what_was_counted() {
        let mut errors = Vec::new();
        for row in ROWS {
            let (work, counted) = (work(row.name), Counted { system: row.name });
            for (kind, names) in BLOCKS.into_iter().enumerate() {
                for (class, order) in ORDERS.into_iter().enumerate() {
                    let counts =
                        names.map(|name| counted.path(&format!("{name} {order}")).unwrap());
                    let error = |count: &Count| {
                        let charged = instructions(work.blocks[kind][class], count.accesses);
                        (charged / count.instructions - 1.0).abs()
                    };
                    let short = counts[..2]
                        .iter()
                        .min_by(|one, other| one.accesses.total_cmp(&other.accesses));
                    let name = format!("{} {} {order}", row.name, names[0]);
                    assert!(short.map(error).unwrap() < 0.01, "{name}");
                    errors.extend(counts.iter().map(|count| (error(count), name.clone())));
                }
            }
        }
        errors.sort_by(|one, other| one.0.total_cmp(&other.0));
        let at = |percent: usize| &errors[errors.len() * percent / 100];
        assert!(
            at(50).0 < 0.01 && at(90).0 < 0.1,
            "{:?}, {:?}",
            at(50),
            at(90)
        );
        let worst = errors.last().unwrap();
        assert!(worst.0 < 0.5, "{worst:?}");
    }

    #[test]
    fn a_longer_path_never_takes_fewer_instructions() {
        for row in ROWS {
            let work = work(row.name);
            let calls = work.blocks.iter().flatten().chain(&work.runs);
            for path in calls.chain([&work.other]) {
                assert!(path.per_access > 0 && path.per_further > 0, "{}", row.name);
            }
        }
    }

    #[test]
    fn orders_between_the_counted_ones_take_the_paths_of_the_smaller() {
        let classes = [0, 1, 2, 3, 4, 8, 9, 10, 18].map(|order| class(Order::new(order).unwrap()));
        assert_eq!(classes, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn options_that_were_not_counted_take_the_paths_of_the_system() {
        assert_ne!(work("bs+zone=spaces"), work("bs"));
        assert_eq!(work("bs+zone=spaces+lock=ticket"), work("bs"));
    }
}
