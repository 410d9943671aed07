//! Reads a trace from its files and checks it.
//!
//! # Purpose
//!
//! This is the only way from files to a [`Trace`]. Every result has passed the rules of [`crate::check`], so no later
//! code needs to check again.
//!
//! # Invariants
//!
//! Strict reading changes nothing. Lenient reading changes nothing in a trace that strict reading accepts.

use std::path::Path;

use crate::check::{self, Broken};
use crate::columns::{Sieve, Table};
use crate::companions::{Regions, read_acquisitions, read_faults};
use crate::error::{Problem, TraceError};
use crate::model::{Event, EventFlags, Op, Trace};
use crate::repair::{Leniency, Repairs};
use crate::repair_events::{self, Repaired, repair_events};
use crate::schema::{FOREIGN_METADATA, NEEDED_OF_EVENTS};
use crate::source::{Embedded, Source};

/// Reads and checks the trace `NAME.parquet` and, if they exist, its companion files `NAME.faults.parquet`,
/// `NAME.vmas.parquet` and `NAME.locks.parquet`.
///
/// With [`Leniency::Lenient`], a trace that does not replay by itself is repaired. The report lists the repairs, and
/// is empty if there were none.
///
/// # Complexity
///
/// Linear in the number of events: about 0.1 us and 40 bytes each, plus as much memory again while reading.
///
/// # Errors
///
/// Returns a [`TraceError`] with the file and the row for files that are missing, damaged or lack columns, for traces
/// without rows and, if strict, for the first row that breaks a rule.
pub fn read(path: &Path, leniency: Leniency) -> Result<(Trace, Repairs), TraceError> {
    read_sources(&Source::of_path(path), leniency)
}

/// Reads and checks a trace that is part of the program, like [`read`].
///
/// # Errors
///
/// Like [`read`].
pub fn read_embedded(trace: &Embedded, leniency: Leniency) -> Result<(Trace, Repairs), TraceError> {
    read_sources(&Source::of_embedded(trace), leniency)
}

fn read_sources(
    (trace, companions): &(Source, [Option<Source>; 3]),
    leniency: Leniency,
) -> Result<(Trace, Repairs), TraceError> {
    let [faults, regions, acquisitions] = companions.each_ref().map(Option::as_ref);
    let mut repairs = Repairs::default();
    let table = Table::open(trace, &NEEDED_OF_EVENTS)?;
    if table.rows() == 0 {
        return Err(table.error(None, Problem::NoRows));
    }
    let mut sieve = Sieve::new(leniency);
    let events = read_events(&table, &mut sieve)?;
    let broken = |(row, problem): Broken| table.error(Some(row), problem);
    let mut legal = sifted(events, &sieve, leniency, &mut repairs).map_err(broken)?;
    if legal.events.is_empty() {
        return Err(table.error(None, Problem::NoRows));
    }

    let identity = table.identity();
    let identity = identity.as_deref();
    let mut regions = Regions::read(regions, identity, leniency, &mut repairs)?;
    let faults = read_faults(
        faults,
        identity,
        &legal.events,
        &legal.rows,
        &mut regions,
        leniency,
        &mut repairs,
    )?;
    for fault in &faults {
        legal.events[fault.row as usize].region = fault.region;
    }
    legal.spread_regions();
    let acquisitions = read_acquisitions(acquisitions, identity, leniency, &mut repairs)?;

    let mut metadata = table.metadata();
    metadata.retain(|(key, _)| !FOREIGN_METADATA.contains(&key.as_str()));
    let name = name_of(&trace.path);
    Ok((
        Trace {
            name,
            events: legal.events,
            regions: regions.list,
            faults,
            acquisitions,
            metadata,
        },
        repairs,
    ))
}

/// Events that satisfy all rules.
#[derive(Clone, Debug)]
pub struct Legal {
    /// The events.
    pub events: Vec<Event>,
    /// For each row of the file, the position of its event, or [`Legal::DROPPED`].
    pub rows: Vec<u32>,
    /// For each event, the position of the allocation of its block.
    pub allocations: Vec<u32>,
}

impl Legal {
    /// Marks a dropped row.
    pub const DROPPED: u32 = repair_events::DROPPED;

    /// Copies the region of each allocation to its frees.
    pub fn spread_regions(&mut self) {
        // An allocation precedes its frees, so its region is already known.
        for (row, allocation) in self.allocations.iter().enumerate() {
            self.events[row].region = self.events[*allocation as usize].region;
        }
    }
}

/// Checks events or, if lenient, repairs them.
///
/// # Errors
///
/// Returns the first broken rule.
pub fn legalize(
    events: Vec<Event>,
    leniency: Leniency,
    repairs: &mut Repairs,
) -> Result<Legal, Broken> {
    sifted(events, &Sieve::new(leniency), leniency, repairs)
}

/// Like [`legalize`], without the rows that a sieve drops.
fn sifted(
    events: Vec<Event>,
    sieve: &Sieve,
    leniency: Leniency,
    repairs: &mut Repairs,
) -> Result<Legal, Broken> {
    match check::check(&events) {
        Ok(allocations) if sieve.is_empty() => {
            let rows = (0..events.len() as u32).collect();
            Ok(Legal {
                events,
                rows,
                allocations,
            })
        }
        Err(fault) if leniency == Leniency::Strict => Err(fault),
        _ => {
            let Repaired { events, rows } = repair_events(events, sieve, repairs);
            let allocations = check::check(&events)?;
            Ok(Legal {
                events,
                rows,
                allocations,
            })
        }
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(".parquet").unwrap_or(&name).to_string()
}

fn read_events(table: &Table, sieve: &mut Sieve) -> Result<Vec<Event>, TraceError> {
    let time_ns = table.column::<u64>("time_ns", 0, sieve)?;
    let cpu = table.column::<u16>("cpu", 0, sieve)?;
    let pid = table.column::<u32>("pid", 0, sieve)?;
    let op = table.column::<u8>("op", 0, sieve)?;
    let pfn = table.column::<u64>("pfn", 0, sieve)?;
    let order = table.column::<u8>("order", 0, sieve)?;
    let migratetype = table.column::<i8>("migratetype", -1, sieve)?;
    let gfp = table.column::<u32>("gfp", 0, sieve)?;
    let context = table.column::<u8>("ctx", 0, sieve)?;
    let sysno = table.column::<u16>("sysno", Event::NO_SYSTEM_CALL, sieve)?;
    let flags = table.column::<u8>("flags", 0, sieve)?;

    let mut events = Vec::with_capacity(table.rows());
    for row in 0..table.rows() {
        let op = match op[row] {
            0 => Op::Allocate,
            1 => Op::Free,
            other => {
                let problem = Problem::UnknownOp(i128::from(other));
                sieve
                    .reject(row, problem)
                    .map_err(|problem| table.error(Some(row), problem))?;
                Op::Free
            }
        };
        events.push(Event {
            time_ns: time_ns[row],
            pfn: pfn[row],
            pid: pid[row],
            gfp: gfp[row],
            region: None,
            cpu: cpu[row],
            sysno: sysno[row],
            op,
            order: order[row],
            migratetype: migratetype[row],
            context: context[row],
            flags: EventFlags(flags[row]),
        });
    }
    Ok(events)
}
