//! The owner of each block of a trace: its program, or the use of the memory.
//!
//! A memory map is informative only with a few owners with familiar names.
//!
//! # Invariants
//! Owners are numbered from 1 by decreasing share of the allocated frames; the last one may be
//! [`OTHERS`]. Every block has one.

use std::collections::HashMap;

use everybuddy_trace::{Context, Event, Op, RegionKind, Resolved, Trace, programs};

/// The name of all owners without their own colour.
pub(super) const OTHERS: &str = "others";
/// The maximum number of owners on a map, including [`OTHERS`].
const MOST: usize = 8;
/// From this number of programs on, the owning program is more informative than the use of the memory.
const PROGRAMS: usize = 3;

/// The owners of a trace's blocks.
pub(super) struct Owners {
    /// Whether the owners are programs; otherwise they are uses of memory.
    pub(super) are_programs: bool,
    /// The names; owner `n` has the name at `n - 1`.
    pub(super) names: Vec<String>,
    /// The owner of each block, by the number of the block.
    pub(super) of_block: Vec<u8>,
}

impl Owners {
    /// Determines the owners of all blocks.
    pub(super) fn of(trace: &Trace, resolved: &Resolved) -> Owners {
        let programs = programs(trace);
        let by_program = |event: &Event| {
            let name = programs.get(&event.pid).map(String::as_str);
            name.filter(|name| !name.is_empty()).unwrap_or("unknown")
        };
        let allocations = || trace.events.iter().filter(|event| event.op == Op::Allocate);
        let mut occurring: Vec<&str> = allocations().map(by_program).collect();
        occurring.sort_unstable();
        occurring.dedup();
        let are_programs = occurring.len() >= PROGRAMS;
        let names = allocations().map(|event| {
            if are_programs {
                by_program(event)
            } else {
                by_use(trace, event)
            }
        });
        let names: Vec<&str> = names.collect();
        let frames = allocations().map(Event::frames);
        let (names, of_block) = ranked(&names, frames);
        debug_assert_eq!(of_block.len(), resolved.blocks as usize);
        Owners {
            are_programs,
            names,
            of_block,
        }
    }
}

/// Ranks names by their number of frames, and returns the rank of each position's name.
fn ranked(names: &[&str], frames: impl Iterator<Item = u64>) -> (Vec<String>, Vec<u8>) {
    let mut weights: HashMap<&str, u64> = HashMap::new();
    for (name, frames) in names.iter().zip(frames) {
        *weights.entry(name).or_default() += frames;
    }
    let mut order: Vec<(&str, u64)> = weights.into_iter().collect();
    order.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let kept = if order.len() > MOST {
        MOST - 1
    } else {
        order.len()
    };
    let numbers: HashMap<&str, u8> = order[..kept]
        .iter()
        .zip(1..)
        .map(|((name, _), number)| (*name, number))
        .collect();
    let of_block = names
        .iter()
        .map(|name| numbers.get(name).copied().unwrap_or(kept as u8 + 1));
    let of_block = of_block.collect();
    let mut names: Vec<String> = order[..kept]
        .iter()
        .map(|(name, _)| (*name).to_string())
        .collect();
    if order.len() > kept {
        names.push(OTHERS.to_string());
    }
    (names, of_block)
}

/// Returns the use of an allocation's memory.
fn by_use(trace: &Trace, event: &Event) -> &'static str {
    /// The mobility of memory that a process can access, in contrast to page tables and other kernel memory.
    const MOVABLE: i8 = 1;
    let region = event.region.and_then(|id| trace.region(id));
    let context = Context::from_value(event.context);
    match (region.map(|region| region.kind), context) {
        (Some(_), _) if event.migratetype != MOVABLE && event.migratetype >= 0 => "page tables",
        (Some(_), _) if event.order >= 9 => "huge pages",
        (Some(RegionKind::Anonymous), _) => "anonymous",
        (Some(RegionKind::File), _) => "mapped files",
        (Some(RegionKind::Heap), _) => "heap",
        (Some(RegionKind::Stack), _) => "stack",
        (Some(RegionKind::Image | RegionKind::Other), _) => "program",
        (None, Context::SystemCall) if event.migratetype == MOVABLE => "page cache",
        (None, Context::SystemCall) => "kernel, in system calls",
        (None, Context::Interrupt) => "kernel, in interrupts",
        (None, _) => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy_trace::resolve;

    fn trace(processes: &str) -> Trace {
        let mut trace = Trace::default();
        for i in 0..60u64 {
            let pid = 1 + (i % 20) as u32;
            trace
                .events
                .push(Event::new(i, 0, pid, Op::Allocate, i * 16, (i % 3) as u8));
        }
        trace.metadata.push(("processes".into(), processes.into()));
        trace
    }

    #[test]
    fn many_programs_become_the_largest_and_others() {
        let rows: Vec<String> = (1..=20)
            .map(|pid| format!("[\"{pid}\",\"/bin/p{}\"]", pid.min(12)))
            .collect();
        let processes = format!(
            "{{\"cols\":[\"pid\",\"exe\"],\"rows\":[{}]}}",
            rows.join(",")
        );
        let trace = trace(&processes);
        let owners = Owners::of(&trace, &resolve(&trace).unwrap());
        assert!(owners.are_programs);
        assert_eq!(owners.names.len(), MOST);
        assert_eq!(owners.names[0].as_str(), "p12");
        assert_eq!(owners.names[7].as_str(), OTHERS);
        assert_eq!(owners.of_block.len(), 60);
        assert!(owners.of_block.iter().all(|owner| (1..=8).contains(owner)));
    }

    #[test]
    fn without_programs_it_is_the_use_that_counts() {
        for processes in ["", "{", "{\"cols\":[\"pid\"],\"rows\":[[1]]}", "[]"] {
            let trace = trace(processes);
            let owners = Owners::of(&trace, &resolve(&trace).unwrap());
            assert!(!owners.are_programs);
            assert_eq!(owners.names, ["unknown"]);
        }
    }
}
