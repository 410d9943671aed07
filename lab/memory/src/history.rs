//! A machine over time: `--every 60s -o FILE` appends lines, and `memory FILE` reads them.
//!
//! Large blocks go in hours or weeks. Users must know since when, and what grew meanwhile.
//!
//! # Invariants
//! A line is written as a whole, and only tables are read: the flags of all frames would take more than a thousandth of
//! a CPU. At most two files of the given size exist. A line that is torn or no [`Moment`] changes no other one.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::answer;
use crate::request::Request;
use crate::state::{
    Blocks, Count, FrameSize, Kind, MAX_CLASSES, MAX_ORDERS, MAX_ZONES, MigrateType, Place, State,
    Types, Zone,
};

/// What may hold blocks, by the names of `/proc/meminfo`.
const HOLDERS: &str =
    "AnonPages Cached Hugetlb KernelStack PageTables Percpu SReclaimable SUnreclaim Shmem";

/// The first bytes of each line, by which [`is_history`] recognises a file of any name.
const START: &[u8] = b"{\"time\":";

/// The beginning of the year 2000 in Unix time: an earlier clock has not been set.
const CLOCK_SET: u64 = 946_684_800;

/// The end of the year 9999 in Unix time.
const LATEST: u64 = 253_402_300_799;

/// The state of a machine at one time: a line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Unix time in seconds.
    pub time: u64,
    /// The bytes of a frame.
    pub frame_bytes: u64,
    /// The zones that have a table.
    pub zones: Vec<ZoneMoment>,
    /// What holds memory in KiB, by the names of `/proc/meminfo`.
    pub held_kib: BTreeMap<String, u64>,
}

/// The blocks of a zone, and what the zone keeps from requests. Lists of numbers begin with order 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneMoment {
    /// The node, if the kernel has nodes.
    pub node: Option<u32>,
    /// The name of the zone.
    pub zone: String,
    /// The free blocks of each order.
    pub blocks: Vec<u64>,
    /// At least this many blocks of each size serve an ordinary request, parts of larger ones included.
    pub usable: Vec<u64>,
    /// The free blocks of each order by class, if they are known.
    pub classes: BTreeMap<String, Vec<u64>>,
    /// Whether the kernel stopped counting, so that the blocks of classes are lower bounds.
    #[serde(default)]
    pub at_least: bool,
    /// The frames that the zone manages. This and all below are in frames.
    #[serde(default)]
    pub managed: Option<u64>,
    /// The counter of free frames.
    #[serde(default)]
    pub free: Option<u64>,
    /// The watermark.
    #[serde(default)]
    pub min: Option<u64>,
    /// Withheld from requests that could use a higher zone, by the index of that zone.
    #[serde(default)]
    pub lowmem_reserve: Vec<u64>,
    /// Free frames of the class CMA.
    #[serde(default)]
    pub free_cma: Option<u64>,
    /// Free frames of the class HighAtomic.
    #[serde(default)]
    pub free_highatomic: Option<u64>,
}

impl ZoneMoment {
    fn of(state: &State, zone: &Zone) -> Option<ZoneMoment> {
        let blocks = zone.blocks.as_ref()?;
        let answer = answer::of_zone(state, zone, Request::shown(zone))?;
        let usable = answer.rows.iter().take(blocks.len());
        let mut classes: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut at_least = false;
        for (order, blocks) in blocks.iter().enumerate() {
            at_least |= blocks.count.at_least;
            if let Types::Counts(types) = &blocks.types {
                for (name, count) in types {
                    at_least |= count.at_least;
                    let counts = classes.entry(name.name().to_owned()).or_default();
                    counts.resize(order, 0);
                    counts.push(count.value);
                }
            }
        }
        Some(ZoneMoment {
            node: zone.extent.node,
            zone: zone.extent.name.clone(),
            blocks: blocks.iter().map(|blocks| blocks.count.value).collect(),
            usable: usable.map(|row| row.usable.low).collect(),
            classes,
            at_least,
            managed: zone.extent.managed,
            free: zone.free,
            min: zone.min,
            lowmem_reserve: zone.lowmem_reserve.clone(),
            free_cma: zone.free_cma,
            free_highatomic: zone.free_high_atomic,
        })
    }

    fn restored(&self, place: Place) -> Zone {
        let count = |value: u64| Count {
            value,
            at_least: self.at_least,
        };
        let types = |order: usize| {
            let class = |(name, counts): (&String, &Vec<u64>)| {
                let own = counts.get(order).copied().unwrap_or(0);
                (MigrateType::of_name(name), count(own))
            };
            if self.classes.is_empty() {
                return Types::Unknown;
            }
            Types::Counts(self.classes.iter().map(class).collect())
        };
        let blocks = self.blocks.iter().enumerate().map(|(order, own)| Blocks {
            count: count(*own),
            types: types(order),
        });
        let mut zone = Zone::new(self.node, &self.zone, place);
        zone.blocks = Some(blocks.collect());
        zone.extent.managed = self.managed;
        zone.free = self.free;
        zone.min = self.min;
        zone.lowmem_reserve.clone_from(&self.lowmem_reserve);
        zone.free_cma = self.free_cma;
        zone.free_high_atomic = self.free_highatomic;
        zone
    }
}

impl Moment {
    /// Returns the moment of a state, `time` seconds after the beginning of 1970.
    #[must_use]
    pub fn of(state: &State, time: u64) -> Moment {
        let zones = state.zones.iter();
        let held = HOLDERS.split(' ');
        let held = held.filter_map(|name| Some((name.to_owned(), *state.meminfo.get(name)?)));
        Moment {
            time,
            frame_bytes: state.frame.bytes,
            zones: zones
                .filter_map(|zone| ZoneMoment::of(state, zone))
                .collect(),
            held_kib: held.collect(),
        }
    }

    /// Reads a line. Returns `None` if it is torn, or if a value is impossible.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Moment> {
        let moment: Moment = serde_json::from_slice(line).ok()?;
        let is_table = |zone: &ZoneMoment| {
            (1..=MAX_ORDERS).contains(&zone.blocks.len()) && zone.classes.len() <= MAX_CLASSES
        };
        let is_possible = moment.time <= LATEST
            && moment.frame_bytes.is_power_of_two()
            && (1024..=1 << 20).contains(&moment.frame_bytes)
            && (1..=MAX_ZONES).contains(&moment.zones.len())
            && moment.zones.iter().all(is_table);
        is_possible.then_some(moment)
    }

    /// Writes the line.
    #[must_use]
    pub fn line(&self) -> String {
        // Maps with keys of text are always JSON.
        let line = serde_json::to_string(self).unwrap_or_default();
        format!("{line}\n")
    }

    /// Returns the number of free blocks of a size in bytes, parts of larger ones included.
    #[must_use]
    pub fn free_blocks(&self, bytes: u64) -> u64 {
        let order = (bytes / self.frame_bytes).checked_ilog2().unwrap_or(0) as usize;
        let of_zone = |zone: &ZoneMoment| {
            let larger = zone.blocks.iter().skip(order).enumerate();
            larger.fold(0u64, |sum, (above, blocks)| {
                sum.saturating_add(blocks.saturating_mul(1 << above))
            })
        };
        let zones = self.zones.iter().map(of_zone);
        zones.fold(0, u64::saturating_add)
    }

    /// Returns the state, as far as the line has it.
    #[must_use]
    pub fn state(&self, file: &str, line: u64) -> State {
        let place = Place {
            file: file.to_owned(),
            line,
        };
        let zones = self.zones.iter().map(|zone| zone.restored(place.clone()));
        State {
            zones: zones.collect(),
            parts: vec![(Kind::History, place)],
            time: Some(shown(self.time)),
            frame: FrameSize::known(self.frame_bytes),
            meminfo: self.held_kib.clone(),
            ..State::default()
        }
    }
}

/// The moments of one or more files, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The moments.
    pub moments: Vec<Moment>,
    /// The lines that were left out, since they are torn or no moments.
    pub left_out: u64,
    /// The number of the line of the last moment in its file.
    pub last_line: u64,
}

impl History {
    /// Adds the lines of a file. Takes time in proportion to its length.
    pub fn read(&mut self, text: &[u8]) {
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let line = line.trim_ascii();
            match Moment::parse(line) {
                Some(moment) => {
                    self.moments.push(moment);
                    self.last_line = number;
                }
                None => self.left_out += u64::from(!line.is_empty()),
            }
        }
    }

    /// Returns the moments that a chart shows: those with a set clock, or all if none has one. A machine without a
    /// battery begins in 1970, and such a moment would leave no room for the others.
    #[must_use]
    pub fn dated(&self) -> Vec<&Moment> {
        let is_set = |moment: &&Moment| moment.time >= CLOCK_SET;
        let set: Vec<&Moment> = self.moments.iter().filter(is_set).collect();
        if set.is_empty() {
            return self.moments.iter().collect();
        }
        set
    }

    /// Says what is left out.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let lines = |count: u64, (one, several): (&str, &str)| match count {
            0 => None,
            1 => Some(format!("1 line {one}")),
            count => Some(format!("{count} lines {several}")),
        };
        let torn = "left out: torn, or not of a history";
        let torn = (&*format!("is {torn}"), &*format!("are {torn}"));
        let unset = self.moments.len() - self.dated().len();
        let early = "not drawn: from before the clock was set";
        let early = (&*format!("is {early}"), &*format!("are {early}"));
        let notes = [lines(self.left_out, torn), lines(unset as u64, early)];
        notes.into_iter().flatten().collect()
    }
}

/// Returns `true` for a file of moments: by its name, or by its first bytes. Pipes and devices are not read.
#[must_use]
pub fn is_history(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".jsonl") || name.ends_with(".jsonl.1") {
        return true;
    }
    let mut head = [0; START.len()];
    fs::metadata(path).is_ok_and(|about| about.is_file())
        && File::open(path)
            .and_then(|mut file| file.read_exact(&mut head))
            .is_ok()
        && head == START
}

/// Appends a line. A file that would grow beyond the limit gets the suffix `.1`, instead of the one that has it.
///
/// A new file is readable by its owner and group, since the kernel shows classes of blocks to root alone. If the last
/// write was interrupted, as by a full disk, a line end separates what it left.
///
/// # Errors
///
/// Returns any error that prevents writing.
pub fn append(path: &Path, line: &str, limit: u64) -> io::Result<()> {
    let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if length > 0 && length + line.len() as u64 > limit {
        let mut former = path.as_os_str().to_owned();
        former.push(".1");
        fs::rename(path, former)?;
    }
    let text = match is_torn(path) {
        Ok(true) => format!("\n{line}"),
        Ok(false) => line.to_owned(),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => line.to_owned(),
        Err(cause) => return Err(cause),
    };
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    options.open(path)?.write_all(text.as_bytes())
}

/// Returns `true` if a file ends within a line.
fn is_torn(path: &Path) -> io::Result<bool> {
    let about = fs::metadata(path)?;
    if !about.is_file() || about.len() == 0 {
        return Ok(false);
    }
    let (mut file, mut last) = (File::open(path)?, [0]);
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// Writes a time: `2026-11-30 16:19 UTC`.
#[must_use]
pub fn shown(seconds: u64) -> String {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let seconds = seconds.min(LATEST);
    let (mut days, mut year) = (seconds / 86_400, 1970);
    loop {
        let own = 365 + u64::from(is_leap(year));
        if days < own {
            break;
        }
        (days, year) = (days - own, year + 1);
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for own in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < own {
            break;
        }
        (days, month) = (days - own, month + 1);
    }
    let (day, hour, minute) = (days + 1, seconds / 3600 % 24, seconds / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn times_are_written_as_dates() {
        for (seconds, date) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_799, "2000-02-29 23:59 UTC"),
            (1_796_141_952, "2026-12-01 16:19 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
            (u64::MAX, "9999-12-31 23:59 UTC"),
        ] {
            assert_eq!(shown(seconds), date);
        }
    }
}
