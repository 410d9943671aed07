//! The instructions of an allocator's paths.
//!
//! The machine sees only accesses to shared memory. What a CPU executes around them differs from system to system, and
//! from path to path: each access of a call stands for the instructions that were counted on the paths of its operation
//! and order.
//!
//! # Source
//! `work.tsv`, which `ci/work.sh` writes: the instructions of native paths, counted by callgrind, and the accesses of
//! the same calls on the virtual machine, with a digest of these calls.
//!
//! # Invariants
//! A call that makes as many accesses as the shortest counted path executes the instructions that were counted. A
//! longer call executes more.

use everybuddy::{Order, Release, Request, Size, SystemSpec};
use everybuddy_sim::Instructions;

/// The counts.
const COUNTS: &str = include_str!("work.tsv");

/// The orders of the counted paths, and of the smallest blocks that take them. Lists keep single frames, or orders up
/// to 3 as well, and some of them blocks of 2 MiB.
pub const ORDERS: [(u8, u8); 4] = [(0, 0), (3, 1), (5, 4), (9, 9)];

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
    /// Returns the same number of instructions for each access.
    fn each(self) -> Instructions {
        Instructions::each(thousandths(self.instructions / self.accesses))
    }
}

fn thousandths(instructions: f64) -> u32 {
    (instructions * 1000.0).round() as u32
}

/// Returns the name under which a system was counted. If its options were not counted together, the last ones are left
/// out until what remains was counted.
fn counted(name: &str) -> Option<&str> {
    let is_counted = |system: &&str| Counted { system }.path("next 0").is_some();
    let mut names = std::iter::successors(Some(name), |name| {
        name.rsplit_once('+').map(|(before, _)| before)
    });
    names.find(is_counted)
}

/// Returns the requests and frees of [`ORDERS`] whose shortest path is not in the table. The mean of many calls stands
/// for it.
pub(crate) fn means(spec: &SystemSpec) -> impl Iterator<Item = usize> {
    let system = counted(&spec.to_string()).map(str::to_owned);
    let paths = BLOCKS
        .into_iter()
        .flat_map(|kinds| ORDERS.map(|(order, _)| (kinds, order)));
    paths.enumerate().filter_map(move |(at, (kinds, order))| {
        let counted = Counted {
            system: system.as_deref()?,
        };
        counted.by_length(kinds, order)?.1.then_some(at)
    })
}

/// Returns the lines of the table that are about a system, without its name.
pub(crate) fn lines(spec: &SystemSpec) -> impl Iterator<Item = &'static str> {
    let system = counted(&spec.to_string()).map(str::to_owned);
    let lines = COUNTS.lines().filter_map(|line| line.split_once('\t'));
    lines.filter_map(move |(own, rest)| (system.as_deref() == Some(own)).then_some(rest))
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

    /// Returns the counts of the paths of a call, the shortest one first, and whether that is the mean.
    fn by_length(&self, kinds: [&str; 3], order: u8) -> Option<(Vec<Count>, bool)> {
        let paths = kinds.map(|kind| self.path(&format!("{kind} {order}")));
        let mut counts = paths.into_iter().collect::<Option<Vec<Count>>>()?;
        counts[..2].sort_by(|one, other| one.accesses.total_cmp(&other.accesses));
        // The last one is the mean of many calls, some of which take the shortest path. Where it is less than the
        // others by a fifth, none of those is the shortest: `everybuddy` fills a list only after some requests, and the
        // single frees of iBuddy's spaces change what the pool knows of them.
        let is_mean = counts[2].accesses < counts[0].accesses * 0.8;
        if is_mean {
            counts.swap(0, 2);
        }
        Some((counts, is_mean))
    }

    /// Returns the instructions of a call whose counted paths are given. The shortest one is charged exactly. What an
    /// access beyond it stands for is a fit over the paths that are longer by a quarter, by least squares of the
    /// relative error.
    fn call(&self, kinds: [&str; 3], order: u8) -> Option<Instructions> {
        let (counts, _) = self.by_length(kinds, order)?;
        let (short, longer) = counts.split_first()?;
        let (mut product, mut square) = (0.0, 0.0);
        for long in longer {
            if long.accesses < short.accesses * 1.25 {
                continue;
            }
            let further = (long.accesses - short.accesses) / long.instructions;
            product += further * (1.0 - short.instructions / long.instructions);
            square += further * further;
        }
        let each = short.each();
        let further = product / square;
        Some(if further > 0.0 {
            Instructions {
                shortest: short.accesses.ceil() as u32,
                per_further: thousandths(further),
                ..each
            }
        } else {
            // No path is longer, or none takes more instructions.
            each
        })
    }
}

/// The instructions of a system's paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Requests and frees of blocks, by the orders of [`ORDERS`].
    pub blocks: [[Instructions; ORDERS.len()]; 2],
    /// Requests for exact numbers of frames, and their frees, also in parts.
    pub runs: [Instructions; 2],
    /// Everything else: services, and CPUs that park.
    pub other: Instructions,
}

impl Work {
    /// Returns the instructions of a system's paths. O(length of the table).
    ///
    /// # Panics
    /// If the table lacks the system, which a test excludes.
    pub fn of(spec: &SystemSpec) -> Self {
        let name = spec.to_string();
        let system = counted(&name).expect("the counts of all systems are in work.tsv");
        let counted = Counted { system };
        let block = |kinds: [&str; 3]| {
            ORDERS.map(|(order, _)| {
                let block = counted.call(kinds, order);
                block.expect("these paths are in work.tsv")
            })
        };
        let mean = |paths: &[&str]| {
            let counts: Vec<Count> = paths.iter().filter_map(|path| counted.path(path)).collect();
            let sum = |of: fn(&Count) -> f64| counts.iter().map(of).sum::<f64>();
            let all = Count {
                accesses: sum(|count| count.accesses),
                instructions: sum(|count| count.instructions),
            };
            (all.accesses > 0.0).then(|| all.each())
        };
        let run = |paths| mean(paths).expect("these paths are in work.tsv");
        let services = mean(&["serve compress", "serve dividing", "serve linking"]);
        Self {
            blocks: [block(BLOCKS[0]), block(BLOCKS[1])],
            runs: [
                run(&["run 260"]),
                run(&["free-run 260", "free-part 100", "free-rest 160"]),
            ],
            other: services.unwrap_or_else(|| run(&["free-many 0"])),
        }
    }

    /// Returns the counted instructions of an allocation and a free of a frame that both are hits.
    pub(crate) fn hits(system: &'static str) -> f64 {
        let counted = Counted { system };
        let paths = ["next 0", "free-next 0"].map(|path| counted.path(path));
        paths
            .into_iter()
            .flatten()
            .map(|own| own.instructions)
            .sum()
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
    let later = ORDERS.partition_point(|(_, least)| *least <= order.get());
    later.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy::systems::ROWS;
    use everybuddy::{Block, Index};

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
                for (class, (order, _)) in ORDERS.into_iter().enumerate() {
                    let counts =
                        names.map(|name| counted.path(&format!("{name} {order}")).unwrap());
                    let error = |count: &Count| {
                        let charged = instructions(work.blocks[kind][class], count.accesses);
                        (charged / count.instructions - 1.0).abs()
                    };
                    let short = counted.by_length(names, order).map(|(own, _)| own[0]);
                    let name = format!("{} {} {order}", row.name, names[0]);
                    assert!(short.as_ref().map(error).unwrap() < 0.01, "{name}");
                    errors.extend(counts.iter().map(|count| (error(count), name.clone())));
                }
            }
        }
        errors.sort_by(|one, other| one.0.total_cmp(&other.0));
        let at = |percent: usize| &errors[errors.len() * percent / 100];
        assert!(at(50).0 < 0.01, "{:?}, {:?}", at(50), at(90));
        assert!(at(90).0 < 0.1, "{:?}, {:?}", at(50), at(90));
        let worst = errors.last().unwrap();
        assert!(worst.0 < 0.3, "{worst:?}");
    }

    /// Where the two columns are of different calls, the first call after a trial has a multiple of the instructions.
    #[test]
    fn the_first_call_has_about_as_many_instructions_per_access_as_later_ones() {
        let mut systems: Vec<&str> = COUNTS.lines().skip(1).map(first_column).collect();
        systems.dedup();
        assert!(systems.len() > ROWS.len());
        let mut worst = 0.0_f64;
        for system in systems {
            let each = |kind: &str, order| {
                let count = Counted { system }.path(&format!("{kind} {order}")).unwrap();
                count.instructions / count.accesses
            };
            for (order, _) in ORDERS {
                for [next, first, many] in BLOCKS {
                    let ratio = each(first, order) / each(next, order).max(each(many, order));
                    assert!(ratio <= 3.0, "{system}, {first} {order}: {ratio:.1} times");
                    worst = worst.max(ratio);
                }
            }
        }
        assert!(worst > 1.0, "{worst}");
    }

    fn first_column(line: &str) -> &str {
        line.split('\t').next().unwrap()
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
    fn orders_take_the_paths_of_one_that_lists_treat_alike() {
        let orders = [0, 1, 2, 3, 4, 5, 8, 9, 10, 18];
        let classes = orders.map(|order| class(Order::new(order).unwrap()));
        assert_eq!(classes, [0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
    }

    #[test]
    fn a_request_and_a_free_take_their_own_paths() {
        for name in ["bs", "lis-31", "serewa"] {
            let work = work(name);
            let order = Order::new(3).unwrap();
            let block = Block::new(Index(8), order);
            let calls = [
                (work.allocate(&Request::FRAME), work.blocks[0][0]),
                (work.allocate(&Request::order(order)), work.blocks[0][1]),
                (work.allocate(&Request::frames(5)), work.runs[0]),
                (work.free(&Release::frame(Index(8))), work.blocks[1][0]),
                (work.free(&Release::block(block)), work.blocks[1][1]),
                (work.free(&Release::frames(Index(8), 5)), work.runs[1]),
            ];
            for (index, (taken, own)) in calls.iter().enumerate() {
                assert_eq!(taken, own, "{name}, {index}");
                let others = calls.iter().enumerate().filter(|other| other.0 != index);
                for (other, (_, path)) in others {
                    assert_ne!(taken, path, "{name}: {index} and {other}");
                }
            }
        }
        let services = Counted { system: "serewa" };
        let all = ["serve dividing", "serve linking"].map(|path| services.path(path).unwrap());
        let mean =
            (all[0].instructions + all[1].instructions) / (all[0].accesses + all[1].accesses);
        assert_eq!(work("serewa").other, Instructions::each(thousandths(mean)));
    }

    #[test]
    fn options_that_were_not_counted_together_are_left_out_from_the_last() {
        assert_ne!(work("bs+zone=spaces"), work("bs"));
        let spec: SystemSpec = "bs+zone=spaces+select=fresh".parse().unwrap();
        assert_eq!(spec.to_string(), "bs+zone=spaces+select=fresh");
        assert_eq!(Work::of(&spec), work("bs+zone=spaces"));
        assert_eq!(work("bs+lock=ticket+line=beside"), work("bs+lock=ticket"));
    }

    #[test]
    fn names_in_the_table_are_written_as_specs_are() {
        for line in COUNTS.lines().skip(1) {
            let (name, _) = line.split_once('\t').unwrap();
            assert_eq!(name.parse::<SystemSpec>().unwrap().to_string(), name);
        }
    }
}
