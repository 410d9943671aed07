//! Machines that differ from another one in one number.
//!
//! Many numbers of a machine are assumed, or were published for a similar machine. A result that does not change if the
//! number is halved or doubled does not depend on it.
//!
//! # Invariants
//! A variation passes [`Hardware::check`]. Which cores there are never varies.

use everybuddy_sim::Hardware;
use toml::Value;

use crate::machines::number::{BACK_OFF, NUMBERS};

/// A machine that differs in one number.
#[derive(Clone, Debug, PartialEq)]
pub struct Variation {
    /// The key of the number.
    pub key: &'static str,
    /// The number of the original machine.
    pub from: String,
    /// The number of this machine.
    pub to: String,
    /// The machine.
    pub hardware: Hardware,
}

/// Numbers that say which cores there are, and sizes of sets. The clock rate only translates cycles into times.
#[rustfmt::skip]
const FIXED: [&str; 9] = [
    "installed", "sockets", "groups", "cores", "threads", "mhz", "l1.ways", "l2.ways", "llc.ways",
];
/// Waiters that back off instead of spinning: 64 pauses at most, as on the native platform, of 40 cycles each.
const BACKS_OFF: i64 = 2560;

/// Returns the machines in which one number is halved or doubled, or a choice is made differently. A number is missing
/// if [`Hardware::check`] rejects the changed machine: a cache that is as slow as memory, for instance.
pub fn variations(hardware: &Hardware) -> Vec<Variation> {
    let mut all = Vec::new();
    for number in NUMBERS.iter().filter(|number| !FIXED.contains(&number.key)) {
        let Some(value) = (number.get)(hardware) else {
            continue;
        };
        for other in others(&value) {
            let mut changed = *hardware;
            if (number.set)(&mut changed, &other).is_none() {
                continue;
            }
            if number.key == "work" {
                // A core that runs two threads is slower by the same factor.
                let shared = u64::from(hardware.work_shared) * u64::from(changed.work);
                changed.work_shared = (shared / u64::from(hardware.work.max(1))) as u32;
            }
            if changed != *hardware && changed.check().is_ok() {
                all.push(Variation {
                    key: number.key,
                    from: text(&value),
                    to: text(&other),
                    hardware: changed,
                });
            }
        }
    }
    all
}

/// Returns the machine with all times of transfers and memory halved, and with all of them doubled: between them lies
/// what the model says if it knows these times within a factor of two. The caches of a core stay as they are.
pub fn extremes(hardware: &Hardware) -> [Hardware; 2] {
    let changed = |scale: fn(u32) -> u32| {
        let mut own = *hardware;
        for to in [&mut own.near, &mut own.socket, &mut own.far] {
            to.clean = scale(to.clean);
            to.modified = scale(to.modified);
            to.upgrade = scale(to.upgrade);
        }
        // Memory is never faster than the last cache.
        own.memory = scale(own.memory).max(own.llc.cycles + 1);
        own.locked = scale(own.locked);
        own.read_interval = scale(own.read_interval);
        own
    };
    [changed(|cycles| cycles / 2), changed(|cycles| cycles * 2)]
}

fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Integer(number) => vec![Value::Integer(number / 2), Value::Integer(number * 2)],
        Value::Boolean(is_on) => vec![Value::Boolean(!is_on)],
        Value::String(text) if text == "spin" => vec![back_off(BACKS_OFF)],
        Value::String(text) => {
            let cycles = text.strip_prefix(BACK_OFF);
            let cycles = cycles.and_then(|cycles| cycles.parse::<i64>().ok());
            let changed = cycles.map(|cycles| [cycles / 2, cycles * 2].map(back_off));
            let spin = Value::String("spin".to_string());
            changed.into_iter().flatten().chain([spin]).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns waiters that back off for up to this many cycles.
fn back_off(cycles: i64) -> Value {
    Value::String(format!("{BACK_OFF}{cycles}"))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn extremes_are_machines_with_other_times() {
        for machine in crate::machines::all_machines().unwrap() {
            let [fast, slow] = extremes(&machine.hardware);
            for (own, far) in [
                (fast, machine.hardware.far.modified / 2),
                (slow, machine.hardware.far.modified * 2),
            ] {
                assert_eq!(own.check(), Ok(()), "{}", machine.name);
                assert_eq!((own.far.modified, own.l1), (far, machine.hardware.l1));
            }
        }
    }

    use everybuddy_sim::Waiters;

    use super::*;
    use crate::machines::by_name_or_path;

    #[test]
    fn each_number_is_halved_and_doubled_alone() {
        let machine = by_name_or_path("epyc-7763").unwrap();
        let all = variations(&machine.hardware);
        let of =
            |key: &str| -> Vec<&Variation> { all.iter().filter(|own| own.key == key).collect() };
        for number in NUMBERS {
            let expected = match number.key {
                key if FIXED.contains(&key) => 0,
                // A core that runs two threads is not faster than one that runs one.
                "adjacent_line" | "waiters" | "work_shared" => 1,
                _ => 2,
            };
            assert_eq!(of(number.key).len(), expected, "{}", number.key);
        }
        let memory = of("memory");
        assert_eq!(memory[0].from.as_str(), "299");
        assert_eq!(memory[0].to.as_str(), "149");
        assert_eq!(memory[1].hardware.memory, 598);
        let slow = of("work")[1].hardware;
        assert_eq!((slow.work, slow.work_shared), (430, 688));
        for own in &all {
            assert!(own.hardware.check().is_ok(), "{own:?}");
            let mut same = own.hardware;
            let number = NUMBERS.iter().find(|number| number.key == own.key).unwrap();
            (number.set)(&mut same, &(number.get)(&machine.hardware).unwrap()).unwrap();
            same.work_shared = machine.hardware.work_shared;
            assert_eq!(same, machine.hardware, "only {} differs", own.key);
        }
    }

    #[test]
    fn waiters_vary_by_their_number_and_their_kind() {
        let mut hardware = by_name_or_path("epyc-7763").unwrap().hardware;
        for (waiters, expected) in [
            (Waiters::Spin, &["back-off 2560"][..]),
            (
                Waiters::BackOff(300),
                &["back-off 150", "back-off 600", "spin"],
            ),
            (Waiters::BackOff(1), &["back-off 2", "spin"]),
        ] {
            hardware.waiters = waiters;
            let all = variations(&hardware);
            let own = all.iter().filter(|own| own.key == "waiters");
            let own: Vec<&str> = own.map(|own| own.to.as_str()).collect();
            assert_eq!(own, expected, "{waiters:?}");
        }
    }

    #[test]
    fn a_change_that_makes_no_machine_is_missing() {
        let mut hardware = by_name_or_path("epyc-7763").unwrap().hardware;
        hardware.llc.cycles = hardware.memory - 1;
        let slower = |own: &Variation| own.key == "llc.cycles" && own.hardware.llc.cycles > 300;
        assert!(!variations(&hardware).iter().any(slower));
    }
}
