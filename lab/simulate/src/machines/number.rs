//! The numbers of a machine.
//!
//! Files, lists and the measurement refer to the same table. A new field of [`Hardware`] is one line here.
//!
//! # Invariants
//! Keys are the paths of the fields: `l1.bytes` is `hardware.l1.bytes`, in the table `[hardware]` of a file.

use everybuddy_measure::choice::unknown;
use everybuddy_sim::{Cache, Hardware, Transfer, Waiters};
use toml::{Table, Value};

/// A number of a machine.
#[derive(Debug)]
pub struct Number {
    /// Its key in a file, such as `l1.bytes`.
    pub key: &'static str,
    /// The unit; empty for counts.
    pub unit: &'static str,
    /// A description in a few words.
    pub meaning: &'static str,
    /// What a file must contain.
    pub(crate) needs: &'static str,
    pub(crate) get: fn(&Hardware) -> Option<Value>,
    /// Returns `None` if the value has the wrong type, or is too large.
    pub(crate) set: fn(&mut Hardware, &Value) -> Option<()>,
}

const EMPTY: Cache = Cache {
    bytes: 0,
    ways: 0,
    cycles: 0,
};

const FREE: Transfer = Transfer {
    clean: 0,
    modified: 0,
    upgrade: 0,
};

/// A machine without numbers.
pub(crate) const BLANK: Hardware = Hardware {
    sockets: 0,
    groups: 0,
    cores: 0,
    threads: 0,
    l1: EMPTY,
    l2: None,
    llc: EMPTY,
    near: FREE,
    socket: FREE,
    far: FREE,
    memory: 0,
    read_interval: 0,
    locked: 0,
    window: 0,
    chains: 0,
    store_buffer: 0,
    fill_buffers: 0,
    waiters: Waiters::Spin,
    work: 0,
    work_shared: 0,
    adjacent_line: false,
    mhz: 0,
    installed: 0,
};

/// What precedes the cycles of waiters that back off.
pub(crate) const BACK_OFF: &str = "back-off ";

/// The key of the second cache, which a machine may lack.
pub(crate) const OPTIONAL: &str = "l2.";

fn whole<T: TryFrom<i64>>(value: &Value) -> Option<T> {
    T::try_from(value.as_integer()?).ok()
}

fn integer(number: impl Into<u64>) -> Option<Value> {
    i64::try_from(number.into()).ok().map(Value::Integer)
}

macro_rules! number {
    ($key:literal, $unit:literal, $meaning:literal, $type:ty, $($field:ident).+) => {
        Number {
            key: $key,
            unit: $unit,
            meaning: $meaning,
            needs: concat!("a whole number that fits `", stringify!($type), "`"),
            get: |hardware| integer(hardware.$($field).+),
            set: |hardware, value| {
                hardware.$($field).+ = whole::<$type>(value)?;
                Some(())
            },
        }
    };
    ($key:literal, $unit:literal, $meaning:literal, $type:ty, l2: $field:ident) => {
        Number {
            key: $key,
            unit: $unit,
            meaning: $meaning,
            needs: concat!("a whole number that fits `", stringify!($type), "`"),
            get: |hardware| integer(hardware.l2?.$field),
            set: |hardware, value| {
                hardware.l2.get_or_insert(EMPTY).$field = whole::<$type>(value)?;
                Some(())
            },
        }
    };
}

macro_rules! switch {
    ($key:literal, $meaning:literal, $field:ident) => {
        Number {
            key: $key,
            unit: "",
            meaning: $meaning,
            needs: "true or false",
            get: |hardware| Some(Value::Boolean(hardware.$field)),
            set: |hardware, value| {
                hardware.$field = value.as_bool()?;
                Some(())
            },
        }
    };
}

/// All numbers, in the order of files and lists.
#[rustfmt::skip]
pub const NUMBERS: &[Number] = &[
    number!("sockets", "", "sockets", u16, sockets),
    number!("groups", "", "last-level caches per socket", u16, groups),
    number!("cores", "", "cores per last-level cache", u16, cores),
    number!("threads", "", "hardware threads per core", u16, threads),
    number!("mhz", "MHz", "clock rate", u32, mhz),
    number!("l1.bytes", "bytes", "size of the first cache", u64, l1.bytes),
    number!("l1.ways", "", "lines per set", u16, l1.ways),
    number!("l1.cycles", "cycles", "load that hits", u32, l1.cycles),
    number!("l2.bytes", "bytes", "size of the second cache", u64, l2: bytes),
    number!("l2.ways", "", "lines per set", u16, l2: ways),
    number!("l2.cycles", "cycles", "load that hits", u32, l2: cycles),
    number!("llc.bytes", "bytes", "size of a last-level cache", u64, llc.bytes),
    number!("llc.ways", "", "lines per set", u16, llc.ways),
    number!("llc.cycles", "cycles", "load that hits", u32, llc.cycles),
    number!("near.clean", "cycles", "clean line, same last-level cache", u32, near.clean),
    number!("near.modified", "cycles", "modified line, same last-level cache", u32, near.modified),
    number!("near.upgrade", "cycles", "store to a shared line, same last-level cache", u32, near.upgrade),
    number!("socket.clean", "cycles", "clean line, same socket", u32, socket.clean),
    number!("socket.modified", "cycles", "modified line, same socket", u32, socket.modified),
    number!("socket.upgrade", "cycles", "store to a shared line, same socket", u32, socket.upgrade),
    number!("far.clean", "cycles", "clean line, other socket", u32, far.clean),
    number!("far.modified", "cycles", "modified line, other socket", u32, far.modified),
    number!("far.upgrade", "cycles", "store to a shared line, other socket", u32, far.upgrade),
    number!("installed", "MiB", "memory of the machine, which lengths of Linux's lists follow", u32, installed),
    number!("memory", "cycles", "load from memory", u32, memory),
    number!("read_interval", "cycles", "between two reads of a shared line", u32, read_interval),
    number!("locked", "cycles", "atomic read-modify-write of an own line", u32, locked),
    number!("window", "instructions", "executed past a load that misses", u32, window),
    number!("chains", "loads", "loads that miss and are under way", u16, chains),
    number!("store_buffer", "stores", "stores that are under way", u16, store_buffer),
    number!("fill_buffers", "lines", "lines that a core fetches at a time", u16, fill_buffers),
    Number {
        key: "waiters",
        unit: "",
        meaning: "what a CPU does that waits",
        needs: "\"spin\", or \"back-off N\" with at most N cycles between two polls",
        get: |hardware| match hardware.waiters {
            Waiters::Spin => Some(Value::String("spin".to_string())),
            Waiters::BackOff(cycles) => Some(Value::String(format!("{BACK_OFF}{cycles}"))),
        },
        set: |hardware, value| {
            hardware.waiters = match value.as_str()? {
                "spin" => Waiters::Spin,
                text => Waiters::BackOff(text.strip_prefix(BACK_OFF)?.parse().ok()?),
            };
            Some(())
        },
    },
    number!("work", "cycles", "1000 instructions without shared memory", u32, work),
    number!("work_shared", "cycles", "the same while the core's other thread runs", u32, work_shared),
    switch!("adjacent_line", "whether a miss fetches a pair of lines", adjacent_line),
];

/// Returns a machine with other values of some numbers, by their keys.
///
/// # Errors
/// A text that names what is wrong: a key that does not exist, or a value that is of another type or cannot be
/// simulated.
pub fn with(hardware: &Hardware, values: &Table) -> Result<Hardware, String> {
    let mut own = *hardware;
    for (key, value) in values {
        let number = NUMBERS.iter().find(|number| number.key == key);
        let number = number.ok_or_else(|| {
            let keys: Vec<&str> = NUMBERS.iter().map(|number| number.key).collect();
            unknown("key", key, &keys)
        })?;
        (number.set)(&mut own, value)
            .ok_or_else(|| format!("`{key}` is {value}, but must be {}", number.needs))?;
    }
    own.check().map_err(|error| error.to_string())?;
    Ok(own)
}

impl Number {
    /// Returns the value as text, or `None` if the machine lacks it: there may be no second cache.
    pub fn text(&self, hardware: &Hardware) -> Option<String> {
        Some(match (self.get)(hardware)? {
            Value::String(text) => text,
            value => value.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_written_and_read() {
        for (at, number) in NUMBERS.iter().enumerate() {
            let value = match number.key {
                "waiters" => Value::String(format!("{BACK_OFF}7")),
                "adjacent_line" => Value::Boolean(true),
                _ => Value::Integer(at as i64 + 1),
            };
            let mut own = BLANK;
            (number.set)(&mut own, &value).unwrap();
            assert_ne!(own, BLANK, "{}", number.key);
            assert_eq!((number.get)(&own), Some(value), "{}", number.key);
            assert_eq!((number.set)(&mut own, &Value::Float(0.5)), None);
            assert_eq!((number.set)(&mut own, &Value::Integer(-1)), None);
        }
        let mut keys: Vec<&str> = NUMBERS.iter().map(|number| number.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), NUMBERS.len());
    }
}
