//! Formats numbers as text, and derives anchors from names.
//!
//! Every table and sentence formats the same number in the same way.
//!
//! # Invariants
//! A missing number is an empty text, never a zero.

use crate::report::Machine;

pub(crate) use everybuddy_metrics::count;

/// Formats about three digits: `0.95`, `12.3`, `110`, `1,240`.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => String::new(),
        v if v < 9.95 => format!("{:.2}", value + 0.0),
        v if v < 99.5 => format!("{:.1}", value + 0.0),
        _ => signed(value.round() as i64),
    }
}

/// Formats three significant digits: `0.00123`, `0.95`, `12.3`, `1,240`.
pub(crate) fn few(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if !v.is_finite() => String::new(),
        v if v < 0.000_095 => format!("{value:.1e}"),
        v if v < 0.095 => {
            let places = 2 - v.log10().floor() as i32;
            format!("{value:.*}", places as usize)
        }
        v if (9.95..1000.0).contains(&v) && (v - v.round()).abs() < 1e-9 => format!("{value:.0}"),
        _ => short(value),
    }
}

/// Formats a share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        v if !v.is_finite() => String::new(),
        0.0 => "0".into(),
        v if v.abs() < 0.005 => "<0.01".into(),
        v if v.abs() < 0.095 => format!("{v:.2}"),
        v => format!("{v:.1}"),
    }
}

/// Returns equal neighbours once, each with how many there are.
pub(crate) fn groups<'n>(names: impl Iterator<Item = &'n str>) -> Vec<(&'n str, usize)> {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match groups.last_mut() {
            Some((known, wide)) if *known == name => *wide += 1,
            _ => groups.push((name, 1)),
        }
    }
    groups
}

/// Returns a noun in the form that goes with a number.
pub(crate) fn noun(number: u32, one: &str) -> String {
    match number {
        1 => one.to_string(),
        _ => format!("{one}s"),
    }
}

/// Returns what is known of a machine: its processor, its CPUs and its kernel.
pub(crate) fn known(machine: &Machine) -> Vec<String> {
    let cpus = match machine.cores {
        0 => String::new(),
        cores => format!("{cores} {}", noun(cores, "CPU")),
    };
    let mut parts = vec![machine.processor.clone(), cpus, machine.kernel.clone()];
    parts.retain(|part| !part.is_empty());
    parts
}

fn signed(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", count(value.unsigned_abs()))
}

/// Formats a number of frames of 4 KiB as memory: `76 MiB`.
pub(crate) fn memory(frames: u64) -> String {
    let kib = frames as f64 * 4.0;
    match kib {
        v if v < 1024.0 => format!("{v:.0} KiB"),
        v if v < 1024.0 * 1024.0 => format!("{:.0} MiB", v / 1024.0),
        v => format!("{:.1} GiB", v / 1024.0 / 1024.0),
    }
}

/// Formats a time in a suitable unit.
pub(crate) fn duration(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        v if v < 1e3 => (v, "ns"),
        v if v < 1e6 => (v / 1e3, "µs"),
        v if v < 1e9 => (v / 1e6, "ms"),
        v => (v / 1e9, "s"),
    };
    match value {
        v if v < 9.95 && unit != "ns" => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

/// Returns distinct anchors for names: the characters that an address may contain.
pub(crate) fn anchors<'n>(kind: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for name in names {
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        };
        let base: String = name.chars().map(safe).take(60).collect();
        let mut anchor = format!("{kind}-{base}");
        let mut times = 1;
        while anchors.contains(&anchor) {
            times += 1;
            anchor = format!("{kind}-{base}-{times}");
        }
        anchors.push(anchor);
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(short(9.34), "9.34");
        assert_eq!(short(1974.6), "1,975");
        assert_eq!(short(-0.0), "0.00");
        assert_eq!(short(f64::NAN), "");
        assert_eq!(few(0.001_234), "0.00123");
        assert_eq!(few(0.000_012), "1.2e-5");
        assert_eq!(
            (few(0.0), few(42.0), few(f64::NAN)),
            ("0".into(), "42".into(), String::new())
        );
        assert_eq!(
            (few(0.42), few(-3.0), few(1974.6)),
            ("0.42".into(), "-3.00".into(), "1,975".into())
        );
        assert_eq!(percent(0.0003), "0.03");
        assert_eq!(percent(0.000_01), "<0.01");
        assert_eq!(percent(-0.026), "-2.6");
        assert_eq!(count(431_168), "431,168");
        assert_eq!(memory(19_456), "76 MiB");
        assert_eq!(duration(44_000_000), "44 ms");
        assert_eq!(duration(2_100_000_000), "2.1 s");
    }

    #[test]
    fn anchors_differ_and_hold_no_markup() {
        let anchors = anchors("trace", ["a\"><b>", "a\"><b>", "", "gcc_build"].into_iter());
        assert_eq!(
            anchors,
            [
                "trace-a---b-",
                "trace-a---b--2",
                "trace-",
                "trace-gcc_build"
            ]
        );
    }
}
