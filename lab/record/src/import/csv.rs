//! Tables of comma-separated numbers: the columns of a trace as text.
//!
//! Any program that can write a table can produce a trace, and any program that can edit one can change it.
//! `traces/README.md` describes the columns; `vpn`, `vma` and `fault` belong to faults, and are empty for calls
//! without one.
//!
//! # Invariants
//! The result satisfies the rules of a trace, as if it had been read from its files.

use std::collections::HashMap;
use std::io::BufRead;

use everybuddy_text::Lines;
use everybuddy_trace::{
    AddressRegion, Broken, CSV_COLUMNS, Event, EventFlags, Fault as PageFault, Legal, Leniency, Op,
    RegionId, Repairs, Trace, legalize, shown,
};

use super::Source;
use super::error::Fault;
use super::import_log::ImportLog;

/// The maximum number of bytes of a line that are read; an event needs a few hundred.
pub(super) const LONGEST_LINE: usize = 16 << 10;

/// The number of required columns.
const NEEDED: usize = 6;

/// A parsed table.
pub(crate) struct CsvTable {
    events: Vec<Event>,
    /// Faults by row: page, number of the region, number of the fault.
    faults: Vec<(u32, u64, u64, u32)>,
    /// The line of each event.
    lines: Vec<u64>,
}

/// Parses a table.
pub(crate) fn read(input: impl BufRead) -> Result<(CsvTable, ImportLog), Fault> {
    let mut lines = Lines::new(input, LONGEST_LINE);
    let places = loop {
        let Some(line) = lines.read()? else {
            return Err(Fault::refuse("", "there is no table", needs()));
        };
        if !line.text.trim().is_empty() && !line.text.starts_with('#') {
            break columns(line.number, &line.text)?;
        }
    };
    let mut table = CsvTable {
        events: Vec::new(),
        faults: Vec::new(),
        lines: Vec::new(),
    };
    let mut values = [None; CSV_COLUMNS.len()];
    while let Some(line) = lines.read()? {
        if line.text.trim().is_empty() {
            continue;
        }
        let place = format!("line {}", line.number);
        if line.is_cut {
            let what = format!("the line is longer than {LONGEST_LINE} bytes");
            return Err(Fault::refuse(place, what, needs()));
        }
        values.fill(None);
        let mut fields = line.text.split(',');
        for column in &places {
            let Some(text) = fields.next() else {
                let few = format!("fewer values than the {} columns", places.len());
                let (what, help) = if line.is_unended {
                    (
                        format!("the file ends in a row with {few}"),
                        "obtain the file again, since its end is missing, or delete the row",
                    )
                } else {
                    (format!("the row has {few}"), "add the missing values")
                };
                return Err(Fault::refuse(place, what, help));
            };
            if let (Some(column), false) = (column, text.trim().is_empty()) {
                let value: i128 = text.trim().parse().map_err(|_| {
                    let what = format!(
                        "`{}` in column {} is not an integer",
                        beginning(text),
                        CSV_COLUMNS[*column]
                    );
                    Fault::refuse(place.clone(), what, "write decimal integers")
                })?;
                values[*column] = Some(value);
            }
        }
        if fields.next().is_some() {
            let what = format!("the row has more values than the {} columns", places.len());
            return Err(Fault::refuse(
                place,
                what,
                "list all columns in the first line",
            ));
        }
        table.add(&values, &place)?;
        table.lines.push(line.number);
    }
    let mut log = ImportLog::new(Source::Csv);
    log.read = lines.count();
    log.understood = table.events.len() as u64;
    Ok((table, log))
}

fn needs() -> String {
    format!(
        "start with a header line with the columns {}, separated by commas (traces/README.md describes them)",
        CSV_COLUMNS[..NEEDED].join(",")
    )
}

fn beginning(text: &str) -> String {
    let text: String = text.trim().chars().take(30).collect();
    shown(text)
}

/// Parses the header: for each column of the file, its index in [`CSV_COLUMNS`].
pub(crate) fn columns(number: u64, line: &str) -> Result<Vec<Option<usize>>, Fault> {
    let line = line.trim_start_matches('\u{feff}');
    let names = line.split(',').map(|name| name.trim().trim_matches('"'));
    let places: Vec<Option<usize>> = names
        .map(|name| CSV_COLUMNS.iter().position(|column| *column == name))
        .collect();
    let missing: Vec<&str> = (0..NEEDED)
        .filter(|column| !places.contains(&Some(*column)))
        .map(|column| CSV_COLUMNS[column])
        .collect();
    if !missing.is_empty() {
        let what = format!("the table lacks the columns {}", missing.join(", "));
        return Err(Fault::refuse(format!("line {number}"), what, needs()));
    }
    for (column, name) in CSV_COLUMNS.iter().enumerate() {
        let count = places
            .iter()
            .filter(|place| **place == Some(column))
            .count();
        if count <= 1 {
            continue;
        }
        let what = format!("column {name} occurs {count} times");
        return Err(Fault::refuse(format!("line {number}"), what, needs()));
    }
    Ok(places)
}

impl CsvTable {
    fn add(
        &mut self,
        values: &[Option<i128>; CSV_COLUMNS.len()],
        place: &str,
    ) -> Result<(), Fault> {
        let place = CsvRow { values, place };
        let op = match place.needed::<u8>(3)? {
            0 => Op::Allocate,
            1 => Op::Free,
            other => {
                let what = format!("op is {other}");
                return Err(Fault::refuse(
                    place.place,
                    what,
                    "use 0 for an allocation and 1 for a free",
                ));
            }
        };
        let row = self.events.len() as u32;
        self.events.push(Event {
            time_ns: place.needed(0)?,
            cpu: place.needed(1)?,
            pid: place.needed(2)?,
            op,
            pfn: place.needed(4)?,
            order: place.needed(5)?,
            migratetype: place.value(6)?.unwrap_or(-1),
            gfp: place.value(7)?.unwrap_or(0),
            context: place.value(8)?.unwrap_or(0),
            sysno: place.value(9)?.unwrap_or(Event::NO_SYSTEM_CALL),
            flags: EventFlags(place.value(10)?.unwrap_or(0)),
            region: None,
        });
        let (vma, fault) = (place.value(12)?.unwrap_or(0), place.value(13)?.unwrap_or(0));
        // A free may specify the region of its allocation; that region is already known.
        if let (Some(vpn), Op::Allocate) = (place.value(11)?, op) {
            self.faults.push((row, vpn, vma, fault));
        }
        Ok(())
    }

    /// Converts the table to a trace.
    pub(crate) fn into_trace(
        self,
        name: &str,
        leniency: Leniency,
        repairs: &mut Repairs,
    ) -> Result<Trace, Fault> {
        let broken = |(row, problem): Broken| {
            let place = format!("line {}", self.lines.get(row).copied().unwrap_or(0));
            Fault::refuse(place, problem.to_string(), problem.help())
        };
        let nothing = || {
            Fault::refuse(
                "",
                "the table has no rows",
                "record a program that allocates memory",
            )
        };
        if self.events.is_empty() {
            return Err(nothing());
        }
        let mut legal = legalize(self.events, leniency, repairs).map_err(broken)?;
        if legal.events.is_empty() {
            return Err(nothing());
        }
        let mut regions: Vec<AddressRegion> = Vec::new();
        let mut numbers: HashMap<u64, RegionId> = HashMap::new();
        let mut faults = Vec::with_capacity(self.faults.len());
        for (row, vpn, vma, sequence) in self.faults {
            let row = legal.rows[row as usize];
            if row == Legal::DROPPED {
                continue;
            }
            let mut region = numbers.get(&vma).copied();
            if region.is_none() && vma != 0 {
                region = RegionId::from_index(regions.len());
                regions.push(AddressRegion::unknown(vma));
                numbers.extend(region.map(|id| (vma, id)));
            }
            legal.events[row as usize].region = region;
            faults.push(PageFault {
                row,
                vpn,
                region,
                sequence,
            });
        }
        faults.sort_by_key(|fault| fault.row);
        legal.spread_regions();
        Ok(Trace {
            name: name.to_string(),
            events: legal.events,
            regions,
            faults,
            acquisitions: Vec::new(),
            metadata: Vec::new(),
        })
    }
}

/// The values of a row.
struct CsvRow<'a> {
    values: &'a [Option<i128>; CSV_COLUMNS.len()],
    place: &'a str,
}

impl CsvRow<'_> {
    fn value<T: TryFrom<i128>>(&self, column: usize) -> Result<Option<T>, Fault> {
        let Some(value) = self.values[column] else {
            return Ok(None);
        };
        let name = CSV_COLUMNS[column];
        let fitting = T::try_from(value).map_err(|_| {
            let what = format!("{value} is outside the range of column {name}");
            Fault::refuse(self.place, what, "see the ranges in traces/README.md")
        });
        fitting.map(Some)
    }

    fn needed<T: TryFrom<i128>>(&self, column: usize) -> Result<T, Fault> {
        self.value(column)?.ok_or_else(|| {
            let what = format!("missing value in column {}", CSV_COLUMNS[column]);
            Fault::refuse(self.place, what, "add the value")
        })
    }
}
