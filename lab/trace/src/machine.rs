//! The machine on which a trace was recorded.
//!
//! The number of frames that the list of a CPU keeps and moves depends on the machine's memory, and not on what the
//! traced program used. A replay needs both.
//!
//! # Invariants
//! The metadata of a file contain this under the key `machine`, as JSON. What is missing or unreadable there is
//! unknown, and never an error: older traces have none of it.

use everybuddy_text::proc::{zone_field, zone_row};
use serde_json::{Map, Value, json};

use crate::model::Trace;

/// The key of the machine in the metadata of a file.
const KEY: &str = "machine";

/// A machine, as far as its page allocator depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The version of its kernel.
    pub kernel: String,
    /// The number of its CPUs; 0 if unknown.
    pub cpus: u16,
    /// Its memory in KiB: `MemTotal` of `/proc/meminfo`.
    pub total_kib: u64,
    /// The free memory in KiB when the recording started: `MemFree`; `None` if unknown.
    pub free_kib: Option<u64>,
    /// The zones that have memory; empty if unknown.
    pub zones: Vec<MachineZone>,
    /// Settings of the kernel by their names.
    pub settings: Vec<(String, String)>,
}

/// A zone, as `/proc/zoneinfo` describes it. Sizes are in pages of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineZone {
    /// The number of its node.
    pub node: u64,
    /// Its name.
    pub name: String,
    /// Pages that the page allocator manages.
    pub managed: u64,
    /// Pages that were free.
    pub free: u64,
    /// Its low watermark.
    pub low: u64,
    /// The batch of each CPU's list.
    pub batch: u64,
    /// The smallest high watermark of each CPU's list; on kernels before 6.7, the only one.
    pub high_min: u64,
    /// The largest high watermark of each CPU's list; on kernels before 6.7, the only one.
    pub high_max: u64,
    /// The CPUs that share the zone: those of its node, or all if the node has none.
    pub cpus: u16,
    /// The number of free blocks of each order, as `/proc/buddyinfo` has them; empty if unknown.
    pub blocks: Vec<u64>,
}

impl MachineZone {
    /// Returns the frames in its free blocks; 0 if they are unknown.
    pub fn free_frames(&self) -> u64 {
        let frames = |(count, order): (&u64, u32)| count.saturating_mul(1 << order);
        let sum = self.blocks.iter().zip(0..).map(frames);
        sum.fold(0, u64::saturating_add)
    }
}

/// The most orders of a table. Linux has at most 17.
const ORDERS: usize = 24;

/// The numbers of a zone, with their names in the metadata.
type Field = (&'static str, fn(&mut MachineZone) -> &mut u64);
const FIELDS: [Field; 7] = [
    ("node", |zone| &mut zone.node),
    ("managed", |zone| &mut zone.managed),
    ("free", |zone| &mut zone.free),
    ("low", |zone| &mut zone.low),
    ("batch", |zone| &mut zone.batch),
    ("high_min", |zone| &mut zone.high_min),
    ("high_max", |zone| &mut zone.high_max),
];

impl Machine {
    /// Returns the machine of a trace; `None` if the metadata do not state its memory.
    pub fn of(trace: &Trace) -> Option<Machine> {
        let (_, text) = trace.metadata.iter().find(|(key, _)| key == KEY)?;
        let value: Value = serde_json::from_str(text).ok()?;
        let cpus = |value: &Value| u16::try_from(value["cpus"].as_u64().unwrap_or(0)).unwrap_or(0);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        // One number that is not one makes all of them useless.
        let counts = |value: &Value| -> Vec<u64> {
            let counts = value.as_array().filter(|counts| counts.len() <= ORDERS);
            let counts = counts.map(|counts| counts.iter().map(Value::as_u64).collect());
            counts.flatten().unwrap_or_default()
        };
        let zone = |value: &Value| {
            let mut zone = MachineZone {
                name: text(&value["name"]),
                cpus: cpus(value),
                blocks: counts(&value["blocks"]),
                ..MachineZone::default()
            };
            for (key, field) in FIELDS {
                *field(&mut zone) = value[key].as_u64().unwrap_or(0);
            }
            zone
        };
        let settings = value["settings"].as_object().into_iter().flatten();
        Some(Machine {
            kernel: text(&value["kernel"]),
            cpus: cpus(&value),
            total_kib: value["total_kib"].as_u64().filter(|kib| *kib > 0)?,
            free_kib: value["free_kib"].as_u64(),
            zones: value["zones"]
                .as_array()
                .into_iter()
                .flatten()
                .map(zone)
                .collect(),
            settings: settings
                .map(|(key, value)| (key.clone(), text(value)))
                .collect(),
        })
    }

    /// Returns the machine as an entry of a trace's metadata.
    pub fn entry(&self) -> (String, String) {
        let zone = |zone: &MachineZone| {
            let mut own = zone.clone();
            let mut value = json!({ "name": zone.name, "cpus": zone.cpus });
            for (key, field) in FIELDS {
                value[key] = (*field(&mut own)).into();
            }
            if !zone.blocks.is_empty() {
                value["blocks"] = zone.blocks.as_slice().into();
            }
            value
        };
        let settings = self.settings.iter();
        let settings: Map<String, Value> = settings
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect();
        let mut value = json!({
            "kernel": self.kernel,
            "cpus": self.cpus,
            "total_kib": self.total_kib,
            "zones": self.zones.iter().map(zone).collect::<Vec<_>>(),
            "settings": settings,
        });
        if let Some(free) = self.free_kib {
            value["free_kib"] = free.into();
        }
        (KEY.to_string(), value.to_string())
    }

    /// Returns a setting of the kernel.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let mut settings = self.settings.iter();
        settings
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the largest zone. Linux allocates from zone `Normal` first, even where it is smaller.
    pub fn largest_zone(&self) -> Option<&MachineZone> {
        self.zones.iter().max_by_key(|zone| zone.managed)
    }
}

/// Parses `/proc/zoneinfo`: the zones that have memory. `cpus_of` returns the number of CPUs of a node, if it is known;
/// otherwise the CPUs of a zone are those that the text lists for it.
pub fn zones(text: &str, cpus_of: impl Fn(u64) -> Option<u16>) -> Vec<MachineZone> {
    let mut zones: Vec<MachineZone> = Vec::new();
    for line in text.lines() {
        if let Some(row) = zone_row(line.as_bytes()) {
            zones.push(MachineZone {
                node: row.node.into(),
                name: String::from_utf8_lossy(row.zone).into_owned(),
                ..MachineZone::default()
            });
            continue;
        }
        let (Some(zone), Some((name, number))) = (zones.last_mut(), zone_field(line)) else {
            continue;
        };
        match name {
            "free" => zone.free = number,
            "managed" => zone.managed = number,
            "low" => zone.low = number,
            "cpu:" => zone.cpus = zone.cpus.saturating_add(1),
            "batch:" => zone.batch = number,
            "high_min:" => zone.high_min = number,
            "high_max:" => zone.high_max = number,
            // Kernels before 6.7 have one high watermark.
            "high:" => (zone.high_min, zone.high_max) = (number, number),
            _ => {}
        }
    }
    zones.retain(|zone| zone.managed > 0);
    for zone in &mut zones {
        if let Some(cpus) = cpus_of(zone.node).filter(|cpus| *cpus > 0) {
            zone.cpus = cpus;
        }
    }
    zones
}

/// Adds the free blocks in a text such as `/proc/buddyinfo` to the zones that it names.
pub fn add_blocks(zones: &mut [MachineZone], buddyinfo: &str) {
    for line in buddyinfo.lines() {
        let Some(row) = zone_row(line.as_bytes()) else {
            continue;
        };
        let words = str::from_utf8(row.rest).unwrap_or("?").split_whitespace();
        let counts: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
        let counts = counts.filter(|counts| counts.len() <= ORDERS);
        let is_own = |zone: &&mut MachineZone| {
            zone.node == u64::from(row.node) && zone.name.as_bytes() == row.zone
        };
        if let (Some(zone), Some(counts)) = (zones.iter_mut().find(is_own), counts) {
            zone.blocks = counts;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with one high watermark, and one with two.
    const OLD: &str = "Node 0, zone    DMA32\n  pages free     21173\n        min      12698\n        low      15872\n \
        high     19046\n        managed  758582\n  pagesets\n    cpu: 0\n              count: 113\n \
        high:  378\n              batch: 63\n    cpu: 1\n              high:  378\n              batch: 63\n\
        Node 0, zone  Movable\n  pages free     0\n        managed  0\n";
    const NEW: &str = "Node 1, zone   Normal\n  per-node stats\n      nr_free_pages 5\n  pages free     1856560\n \
        min      13493\n        low      16866\n        high     20239\n        managed  3080192\n  pagesets\n \
        cpu: 0\n              count:    64\n              high:     9000\n              batch:    63\n \
        high_min: 8433\n              high_max: 192512\n    cpu: 1\n              high:     8433\n \
        batch:    63\n              high_min: 8433\n              high_max: 192512\n";

    fn numbers(zone: &MachineZone) -> [u64; 7] {
        let mut zone = zone.clone();
        FIELDS.map(|(_, field)| *field(&mut zone))
    }

    #[test]
    fn zones_are_read_as_kernels_print_them() {
        let old = zones(OLD, |_| None);
        assert_eq!(old.len(), 1);
        assert_eq!((old[0].name.as_str(), old[0].cpus), ("DMA32", 2));
        assert_eq!(numbers(&old[0]), [0, 758_582, 21_173, 15_872, 63, 378, 378]);
        let new = zones(NEW, |node| (node == 1).then_some(8));
        assert_eq!((new[0].name.as_str(), new[0].cpus), ("Normal", 8));
        assert_eq!(
            numbers(&new[0]),
            [1, 3_080_192, 1_856_560, 16_866, 63, 8433, 192_512]
        );
        // Whatever the text is, there is an answer.
        for text in [
            "",
            "Node",
            "pages free 1\nNode x, zone\nmanaged -1",
            "Node 0, zone\nlow",
        ] {
            assert!(zones(text, |_| None).is_empty());
        }
    }

    #[test]
    fn a_machine_is_read_as_it_is_written() {
        let mut own = zones(&[OLD, NEW].concat(), |_| None);
        let text =
            "Node 1, zone   Normal  5  0 7 \nNode 0, zone  Normal 9\nNode 0, zone DMA32 x\nNode 1,";
        add_blocks(&mut own, text);
        assert_eq!(
            (&own[0].blocks[..], &own[1].blocks[..]),
            (&[][..], &[5, 0, 7][..])
        );
        assert_eq!([own[0].free_frames(), own[1].free_frames()], [0, 33]);
        let machine = Machine {
            kernel: "6.12.0".to_string(),
            cpus: 2,
            total_kib: 24_684_092,
            free_kib: Some(11_601_040),
            zones: own,
            settings: vec![("min_free_kbytes".to_string(), "67584".to_string())],
        };
        let of = |text: &str| {
            Machine::of(&Trace {
                metadata: vec![(KEY.to_string(), text.to_string())],
                ..Trace::default()
            })
        };
        assert_eq!(of(&machine.entry().1), Some(machine.clone()));
        assert_eq!(
            machine.largest_zone().map(|zone| zone.managed),
            Some(3_080_192)
        );
        assert_eq!(machine.setting("min_free_kbytes"), Some("67584"));
        assert_eq!(Machine::of(&Trace::default()), None);
        for text in [
            "",
            "[]",
            "{}",
            "{\"total_kib\": 0}",
            "{\"total_kib\": \"x\"}",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
        let zone = "{\"blocks\": [1, -1]}";
        let text = "{\"total_kib\": 5, \"cpus\": 70000, \"zones\": [ZONE], \"settings\": 4}";
        let least = of(&text.replace("ZONE", zone));
        assert!(least.clone().unwrap().zones[0].blocks.is_empty());
        let least = least.unwrap();
        assert_eq!(least.cpus, 0);
        assert_eq!(least.zones.len(), 1);
        assert_eq!(least.settings.len(), 0);
    }
}
