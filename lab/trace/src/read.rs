//! Reads a trace from its files and checks it.
//!
//! This is the only way from files to a [`Trace`]. Every result has passed the rules of [`crate::check`], so no later
//! code needs to check again.
//!
//! # Invariants
//! Strict reading changes nothing. Lenient reading changes nothing in a trace that strict reading accepts.

use std::path::Path;

use crate::check::{self, Broken, Ledger, Span};
use crate::columns::{EVENTS_PER_BYTE, ParquetRow, ParquetTable, RESERVED_ROWS, Sieve};
use crate::companions::{Regions, read_acquisitions, read_faults};
use crate::error::{Problem, TraceError};
use crate::model::{Event, EventFlags, Op, Trace};
use crate::repair::{Leniency, Repairs};
use crate::repair_events::{self, Repaired, repair_events};
use crate::schema::{EVENTS, FOREIGN_METADATA, NEEDED_OF_EVENTS, names};
use crate::source::{Embedded, Source};
use crate::waits_only::WaitsOnly;

/// Reads and checks the trace `NAME.parquet` and, if they exist, its companion files `NAME.faults.parquet`,
/// `NAME.vmas.parquet` and `NAME.locks.parquet`.
///
/// With [`Leniency::Lenient`], a trace that does not replay by itself is repaired. The report lists the repairs, and
/// is empty if there were none.
///
/// # Complexity
///
/// Linear in the number of events: about 0.1 us and 60 bytes each. Strict reading reads the events up to the first
/// broken rule, so that the memory does not depend on the number of rows that a file claims. A file with more than 2^22
/// rows, and more rows than bytes, is rejected unless the environment variable `EVERYBUDDY_TRACE_ROWS` permits them.
///
/// # Errors
///
/// Returns a [`TraceError`] with the file and the row for files that are missing, damaged or lack columns, for traces
/// without rows that are not a recording of waits alone and, if strict, for the first row that breaks a rule.
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
    let table = ParquetTable::open(trace, &NEEDED_OF_EVENTS, EVENTS_PER_BYTE)?;
    let mut metadata = table.metadata();
    metadata.retain(|(key, _)| !FOREIGN_METADATA.contains(&key.as_str()));
    let has_only_waits = table.rows() == 0 && WaitsOnly::is_in(&metadata);
    if table.rows() == 0 && !has_only_waits {
        return Err(table.error(None, Problem::NoRows));
    }
    let mut legal = match leniency {
        _ if has_only_waits => Legal::unchanged(Vec::new(), Vec::new()),
        Leniency::Strict => read_strictly(&table)?,
        Leniency::Lenient => {
            let mut sieve = Sieve::new(leniency);
            let events = read_events(&table, &mut sieve)?;
            let broken = |(row, problem): Broken| table.error(Some(row), problem);
            sifted(events, &sieve, leniency, &mut repairs).map_err(broken)?
        }
    };
    if legal.events.is_empty() && !has_only_waits {
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

    /// Returns the events of all rows.
    fn unchanged(events: Vec<Event>, allocations: Vec<u32>) -> Legal {
        Legal {
            rows: (0..events.len() as u32).collect(),
            events,
            allocations,
        }
    }

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
        Ok(allocations) if sieve.is_empty() => Ok(Legal::unchanged(events, allocations)),
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

/// Reads events and checks them one after another, so that memory is needed only for those before the first broken
/// rule: a small file may claim any number of rows.
fn read_strictly(table: &ParquetTable) -> Result<Legal, TraceError> {
    let mut sieve = Sieve::new(Leniency::Strict);
    let mut span = Span::default();
    table.scan(["pfn", "order"], |row| {
        let (pfn, order) = (row.value(0, 0, &mut sieve)?, row.value(1, 0, &mut sieve)?);
        span.add(row.row, pfn, order);
        Ok(())
    })?;
    let broken = |(row, problem): Broken| table.error(Some(row), problem);
    let mut ledger = Ledger::in_span(table.rows(), &span).map_err(broken)?;
    let reserved = table.rows().min(RESERVED_ROWS);
    let mut events = Vec::with_capacity(reserved);
    let mut allocations = Vec::with_capacity(reserved);
    table.scan(names(&EVENTS), |row| {
        let event = event_of(&row, &mut sieve)?;
        let applied = ledger.apply(row.row, &event);
        let applied = applied.map_err(|problem| broken((row.row, problem)))?;
        allocations.push(ledger.blocks()[applied.block as usize].row);
        events.push(event);
        Ok(())
    })?;
    Ok(Legal::unchanged(events, allocations))
}

fn read_events(table: &ParquetTable, sieve: &mut Sieve) -> Result<Vec<Event>, TraceError> {
    let mut events = Vec::with_capacity(table.rows().min(RESERVED_ROWS));
    table.scan(names(&EVENTS), |row| {
        events.push(event_of(&row, sieve)?);
        Ok(())
    })?;
    Ok(events)
}

/// Creates the event of a row with all columns.
fn event_of(row: &ParquetRow<'_, 11>, sieve: &mut Sieve) -> Result<Event, TraceError> {
    Ok(Event {
        time_ns: row.value(0, 0, sieve)?,
        cpu: row.value(1, 0, sieve)?,
        pid: row.value(2, 0, sieve)?,
        op: match row.value::<u8>(3, 0, sieve)? {
            0 => Op::Allocate,
            1 => Op::Free,
            other => {
                row.reject(sieve, Problem::UnknownOp(i128::from(other)))?;
                Op::Free
            }
        },
        pfn: row.value(4, 0, sieve)?,
        order: row.value(5, 0, sieve)?,
        migratetype: row.value(6, -1, sieve)?,
        gfp: row.value(7, 0, sieve)?,
        context: row.value(8, 0, sieve)?,
        sysno: row.value(9, Event::NO_SYSTEM_CALL, sieve)?,
        flags: EventFlags(row.value(10, 0, sieve)?),
        region: None,
    })
}
