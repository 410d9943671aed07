//! The companion files of a trace: faults, address regions, and acquisitions of a zone's lock.
//!
//! Only the faults reveal what memory an allocation was for, and only the acquisitions how long the recorded kernel
//! waited. All files are optional: without faults no region is known, and without a table of regions each region is
//! known by number alone.
//!
//! # Invariants
//! Files of another trace are not read. The faults are sorted by row, each belongs to an allocation, and their regions
//! exist. Acquisitions are sorted by time, and those of one CPU do not overlap.

use std::collections::HashMap;

use crate::acquisitions::OnCpus;
use crate::columns::{COMPANIONS_PER_BYTE, ParquetTable, Sieve};
use crate::error::{Problem, TraceError};
use crate::model::{Acquisition, AddressRegion, Event, Fault, Op, RegionId, RegionKind};
use crate::repair::{Leniency, Repair, Repairs};
use crate::repair_events::DROPPED;
use crate::schema::{
    FAULTS, LOCKS, NEEDED_OF_FAULTS, NEEDED_OF_LOCKS, NEEDED_OF_REGIONS, REGIONS, names,
};
use crate::source::Source;

/// Opens a companion file that belongs to the trace with this identity. Returns `None` if there is no file, or if a
/// file of another trace was dropped.
fn open(
    source: Option<&Source>,
    needed: &[&'static str],
    identity: Option<&str>,
    leniency: Leniency,
    repairs: &mut Repairs,
) -> Result<Option<ParquetTable>, TraceError> {
    let Some(source) = source else {
        return Ok(None);
    };
    let table = ParquetTable::open(source, needed, COMPANIONS_PER_BYTE)?;
    if table.identity().as_deref() == identity {
        return Ok(Some(table));
    }
    match leniency {
        Leniency::Strict => Err(table.error(None, Problem::OtherTrace)),
        Leniency::Lenient => {
            repairs.add(Repair::OtherTrace, 1);
            Ok(None)
        }
    }
}

/// The address regions of a trace, by position and by number.
#[derive(Default)]
pub(crate) struct Regions {
    pub(crate) list: Vec<AddressRegion>,
    by_number: HashMap<u64, RegionId>,
    /// Whether a table described the regions: then a number outside the table is an error.
    described: bool,
}

impl Regions {
    /// Reads the table of regions of a trace, if there is one.
    pub(crate) fn read(
        source: Option<&Source>,
        identity: Option<&str>,
        leniency: Leniency,
        repairs: &mut Repairs,
    ) -> Result<Regions, TraceError> {
        let mut regions = Regions::default();
        let table = open(source, &NEEDED_OF_REGIONS, identity, leniency, repairs)?;
        let Some(table) = table else {
            return Ok(regions);
        };
        regions.described = true;
        let mut sieve = Sieve::new(leniency);
        table.scan(names(&REGIONS), |row| {
            let region = AddressRegion {
                number: row.value(0, 0, &mut sieve)?,
                tgid: row.value(1, 0, &mut sieve)?,
                start: row.value(2, 0, &mut sieve)?,
                len: row.value(3, 0, &mut sieve)?,
                prot: row.value(4, 0, &mut sieve)?,
                flags: row.value(5, 0, &mut sieve)?,
                fd: row.value(6, -1, &mut sieve)?,
                kind: RegionKind::from_value(row.value(7, RegionKind::Other as u8, &mut sieve)?),
                created_ns: row.value(8, 0, &mut sieve)?,
            };
            let number = region.number;
            let fits = number != 0 && !regions.by_number.contains_key(&number);
            if sieve.drops(row.row) || (!fits && leniency == Leniency::Lenient) {
                repairs.add(Repair::RegionDropped, 1);
            } else if !fits || regions.add(region).is_none() {
                return Err(table.error(Some(row.row), Problem::RegionNumber { number }));
            }
            Ok(())
        })?;
        Ok(regions)
    }

    fn add(&mut self, region: AddressRegion) -> Option<RegionId> {
        let id = RegionId::from_index(self.list.len())?;
        self.by_number.insert(region.number, id);
        self.list.push(region);
        Some(id)
    }

    /// Finds the region of a fault; number 0 means no region.
    fn of_fault(&mut self, number: u64) -> Result<Option<RegionId>, Problem> {
        match self.by_number.get(&number) {
            Some(id) => Ok(Some(*id)),
            None if number == 0 => Ok(None),
            None if self.described => Err(Problem::UnknownRegion { number }),
            None => Ok(self.add(AddressRegion::unknown(number))),
        }
    }
}

/// Reads the faults of a trace, if there are any.
///
/// `rows` contains, for each row of the trace's file, the position of its event, or [`DROPPED`].
pub(crate) fn read_faults(
    source: Option<&Source>,
    identity: Option<&str>,
    events: &[Event],
    rows: &[u32],
    regions: &mut Regions,
    leniency: Leniency,
    repairs: &mut Repairs,
) -> Result<Vec<Fault>, TraceError> {
    let table = open(source, &NEEDED_OF_FAULTS, identity, leniency, repairs)?;
    let Some(table) = table else {
        return Ok(Vec::new());
    };
    let mut sieve = Sieve::new(leniency);
    // Each allocation has at most one fault.
    let mut faults = Vec::with_capacity(table.rows().min(events.len()));
    let mut taken = vec![false; events.len()];
    table.scan(names(&FAULTS), |own| {
        let row = own.value(0, 0, &mut sieve)?;
        let vpn = own.value(1, 0, &mut sieve)?;
        let vma = own.value(2, 0, &mut sieve)?;
        let sequence = own.value(3, 0, &mut sieve)?;
        if sieve.drops(own.row) {
            return Ok(());
        }
        let event = match find_allocation(row, events, rows, &mut taken) {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(()),
            Err(_) if leniency == Leniency::Lenient => {
                repairs.add(Repair::FaultDropped, 1);
                return Ok(());
            }
            Err(problem) => return Err(table.error(Some(own.row), problem)),
        };
        let region = match regions.of_fault(vma) {
            Ok(region) => region,
            Err(_) if leniency == Leniency::Lenient => {
                repairs.add(Repair::UnknownRegion, 1);
                None
            }
            Err(problem) => return Err(table.error(Some(own.row), problem)),
        };
        faults.push(Fault {
            row: event,
            vpn,
            region,
            sequence,
        });
        Ok(())
    })?;
    sieve.report(repairs);
    faults.sort_by_key(|fault| fault.row);
    Ok(faults)
}

/// Finds the allocation of a fault. Returns `None` if its row was dropped, and the fault with it.
fn find_allocation(
    row: u64,
    events: &[Event],
    rows: &[u32],
    taken: &mut [bool],
) -> Result<Option<u32>, Problem> {
    let place = usize::try_from(row)
        .ok()
        .and_then(|row| rows.get(row))
        .copied();
    let Some(place) = place else {
        return Err(Problem::FaultBeyondEnd {
            row,
            events: rows.len() as u64,
        });
    };
    if place == DROPPED {
        return Ok(None);
    }
    if events[place as usize].op == Op::Free {
        return Err(Problem::FaultOfFree { row });
    }
    if std::mem::replace(&mut taken[place as usize], true) {
        return Err(Problem::FaultTwice { row });
    }
    Ok(Some(place))
}

/// Reads the acquisitions of a zone's lock, if there are any.
pub(crate) fn read_acquisitions(
    source: Option<&Source>,
    identity: Option<&str>,
    leniency: Leniency,
    repairs: &mut Repairs,
) -> Result<Vec<Acquisition>, TraceError> {
    let table = open(source, &NEEDED_OF_LOCKS, identity, leniency, repairs)?;
    let Some(table) = table else {
        return Ok(Vec::new());
    };
    let mut sieve = Sieve::new(leniency);
    let mut acquisitions = Vec::new();
    let mut cpus = OnCpus::default();
    table.scan(names(&LOCKS), |row| {
        let own = Acquisition {
            time_ns: row.value(0, 0, &mut sieve)?,
            cpu: row.value(1, 0, &mut sieve)?,
            pid: row.value(2, 0, &mut sieve)?,
            wait_ns: row.value(3, 0, &mut sieve)?,
            hold_ns: row.value(4, 0, &mut sieve)?,
            batch: row.value(5, 0, &mut sieve)?,
            source: row.value(6, 0, &mut sieve)?,
        };
        if sieve.drops(row.row) {
            return Ok(());
        }
        match cpus.admit(&own) {
            Ok(()) => acquisitions.push(own),
            Err(_) if leniency == Leniency::Lenient => {
                repairs.add(Repair::AcquisitionDropped, 1);
            }
            Err(problem) => return Err(table.error(Some(row.row), problem)),
        }
        Ok(())
    })?;
    sieve.report(repairs);
    Ok(acquisitions)
}
