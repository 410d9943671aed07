//! The companion files of a trace: faults, address regions, and acquisitions of a zone's lock.
//!
//! # Purpose
//!
//! Only the faults reveal what memory an allocation was for, and only the acquisitions how long the recorded kernel
//! waited. All files are optional: without faults no region is known, and without a table of regions each region is
//! known by number alone.
//!
//! # Invariants
//!
//! Files of another trace are not read. The faults are sorted by row, each belongs to an allocation, and their regions
//! exist. Acquisitions are sorted by time, and those of one CPU do not overlap.

use std::collections::HashMap;

use crate::acquisitions::OnCpus;
use crate::columns::{Sieve, Table};
use crate::error::{Problem, TraceError};
use crate::model::{Acquisition, AddressRegion, Event, Fault, Op, RegionId, RegionKind};
use crate::repair::{Leniency, Repair, Repairs};
use crate::repair_events::DROPPED;
use crate::schema::{NEEDED_OF_FAULTS, NEEDED_OF_LOCKS, NEEDED_OF_REGIONS};
use crate::source::Source;

/// Opens a companion file that belongs to the trace with this identity. Returns `None` if there is no file, or if a
/// file of another trace was dropped.
fn open(
    source: Option<&Source>,
    needed: &[&'static str],
    identity: Option<&str>,
    leniency: Leniency,
    repairs: &mut Repairs,
) -> Result<Option<Table>, TraceError> {
    let Some(source) = source else {
        return Ok(None);
    };
    let table = Table::open(source, needed)?;
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
        let number = table.column::<u64>("vma", 0, &mut sieve)?;
        let tgid = table.column::<u32>("tgid", 0, &mut sieve)?;
        let start = table.column::<u64>("start", 0, &mut sieve)?;
        let len = table.column::<u64>("len", 0, &mut sieve)?;
        let prot = table.column::<u32>("prot", 0, &mut sieve)?;
        let flags = table.column::<u32>("flags", 0, &mut sieve)?;
        let fd = table.column::<i32>("fd", -1, &mut sieve)?;
        let kind = table.column::<u8>("kind", RegionKind::Other as u8, &mut sieve)?;
        let created_ns = table.column::<u64>("created_ns", 0, &mut sieve)?;
        for row in 0..table.rows() {
            let region = AddressRegion {
                number: number[row],
                tgid: tgid[row],
                start: start[row],
                len: len[row],
                kind: RegionKind::from_value(kind[row]),
                created_ns: created_ns[row],
                prot: prot[row],
                flags: flags[row],
                fd: fd[row],
            };
            let number = region.number;
            let fits = number != 0 && !regions.by_number.contains_key(&number);
            if sieve.drops(row) || (!fits && leniency == Leniency::Lenient) {
                repairs.add(Repair::RegionDropped, 1);
            } else if !fits || regions.add(region).is_none() {
                return Err(table.error(Some(row), Problem::RegionNumber { number }));
            }
        }
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
    let row = table.column::<u64>("row", 0, &mut sieve)?;
    let vpn = table.column::<u64>("vpn", 0, &mut sieve)?;
    let vma = table.column::<u64>("vma", 0, &mut sieve)?;
    let sequence = table.column::<u32>("fault", 0, &mut sieve)?;
    sieve.report(repairs);

    let mut faults = Vec::with_capacity(table.rows());
    let mut taken = vec![false; events.len()];
    for index in (0..table.rows()).filter(|index| !sieve.drops(*index)) {
        let event = match find_allocation(row[index], events, rows, &mut taken) {
            Ok(Some(event)) => event,
            Ok(None) => continue,
            Err(_) if leniency == Leniency::Lenient => {
                repairs.add(Repair::FaultDropped, 1);
                continue;
            }
            Err(problem) => return Err(table.error(Some(index), problem)),
        };
        let region = match regions.of_fault(vma[index]) {
            Ok(region) => region,
            Err(_) if leniency == Leniency::Lenient => {
                repairs.add(Repair::UnknownRegion, 1);
                None
            }
            Err(problem) => return Err(table.error(Some(index), problem)),
        };
        faults.push(Fault {
            row: event,
            vpn: vpn[index],
            region,
            sequence: sequence[index],
        });
    }
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
    let time_ns = table.column::<u64>("time_ns", 0, &mut sieve)?;
    let cpu = table.column::<u16>("cpu", 0, &mut sieve)?;
    let pid = table.column::<u32>("pid", 0, &mut sieve)?;
    let wait_ns = table.column::<u64>("wait_ns", 0, &mut sieve)?;
    let hold_ns = table.column::<u64>("hold_ns", 0, &mut sieve)?;
    let batch = table.column::<u32>("batch", 0, &mut sieve)?;
    let source = table.column::<u8>("source", 0, &mut sieve)?;
    sieve.report(repairs);

    let mut acquisitions = Vec::with_capacity(table.rows());
    let mut cpus = OnCpus::default();
    for row in (0..table.rows()).filter(|row| !sieve.drops(*row)) {
        let own = Acquisition {
            time_ns: time_ns[row],
            wait_ns: wait_ns[row],
            hold_ns: hold_ns[row],
            pid: pid[row],
            batch: batch[row],
            cpu: cpu[row],
            source: source[row],
        };
        match cpus.admit(&own) {
            Ok(()) => acquisitions.push(own),
            Err(_) if leniency == Leniency::Lenient => {
                repairs.add(Repair::AcquisitionDropped, 1);
            }
            Err(problem) => return Err(table.error(Some(row), problem)),
        }
    }
    Ok(acquisitions)
}
