//! Tables that were quoted, wrapped, prefixed, split or interleaved are read exactly or rejected.

use everybuddy_memory::State;
use proptest::prelude::*;

use crate::common::{states, text};

/// A zone's table: the counts, and the letters of each.
type Table = Vec<(u64, String)>;

/// How the lines of a report are spoiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// No line is spoiled.
    Nothing,
    /// Mail breaks lines at blanks.
    Soft(usize),
    /// A terminal breaks lines anywhere.
    Hard(usize),
    /// The kernel prints each part on a line of its own.
    Split,
    /// Lines of another CPU follow each part.
    Interleaved,
    /// Quoted-printable text breaks lines with `=`.
    Printable(usize),
}

const ZONES: [&str; 3] = ["DMA", "DMA32", "Normal"];

fn tables() -> impl Strategy<Value = (u64, Vec<Table>)> {
    let count = prop_oneof![3 => Just(0u64), 4 => 1u64..30, 2 => 1u64..200_000];
    let letters = prop::sample::subsequence(vec!['U', 'M', 'E', 'H', 'C'], 1..4);
    let entry = (count, letters).prop_map(|(count, letters)| {
        let letters: String = letters.into_iter().take(count.min(5) as usize).collect();
        (count, letters)
    });
    let frame = prop::sample::select(vec![4u64, 16, 64]);
    (frame, 9usize..17).prop_flat_map(move |(frame, orders)| {
        let table = prop::collection::vec(entry.clone(), orders);
        (Just(frame), prop::collection::vec(table, 1..=3))
    })
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::Nothing),
        (60usize..90).prop_map(Damage::Soft),
        (40usize..120).prop_map(Damage::Hard),
        Just(Damage::Split),
        Just(Damage::Interleaved),
        (60usize..76).prop_map(Damage::Printable),
    ]
}

/// Prints the parts of a table as the kernel does.
fn parts(frame: u64, zone: &str, table: &Table) -> Vec<String> {
    let mut parts = vec![format!("Node 0 {zone}: ")];
    let mut sum = 0;
    for (order, (count, letters)) in table.iter().enumerate() {
        let size = frame << order;
        sum += count * size;
        parts.push(format!("{count}*{size}kB "));
        if *count > 0 {
            parts.push(format!("({letters}) "));
        }
    }
    parts.push(format!("= {sum}kB"));
    parts
}

/// Prints a report and spoils its lines.
fn report(frame: u64, tables: &[Table], prefix: &str, quote: &str, damage: Damage) -> String {
    let mut lines = vec![vec!["Mem-Info:".to_owned()]];
    lines.extend(
        tables
            .iter()
            .zip(ZONES)
            .map(|(table, zone)| parts(frame, zone, table)),
    );
    lines.push(vec!["35000 pages RAM".to_owned()]);
    let noise = [
        "[  246]     0   246    16404       66   159744",
        "RIP: 0033:0x7f5ba27c6d6f",
        "CPU: 1 PID: 12 Comm: x",
    ];
    let mut text = String::new();
    for (number, parts) in lines.iter().enumerate() {
        let whole = format!("{prefix}{}", parts.concat());
        match damage {
            Damage::Nothing => text.push_str(&format!("{quote}{whole}\n")),
            Damage::Split => parts
                .iter()
                .for_each(|part| text.push_str(&format!("{quote}{prefix}{part}\n"))),
            Damage::Interleaved => {
                for (at, part) in parts.iter().enumerate() {
                    text.push_str(&format!(
                        "{quote}{prefix}{part}\n{quote}{prefix}{}\n",
                        noise[(number + at) % 3]
                    ));
                }
            }
            Damage::Hard(width) => {
                for piece in whole.as_bytes().chunks(width) {
                    text.push_str(&format!("{quote}{}\n", String::from_utf8_lossy(piece)));
                }
            }
            Damage::Printable(width) => {
                let coded = whole.replace('=', "=3D");
                let pieces: Vec<&[u8]> = coded.as_bytes().chunks(width).collect();
                let pieces: Vec<_> = pieces.into_iter().map(String::from_utf8_lossy).collect();
                text.push_str(&format!("{}\n", pieces.join("=\n")));
            }
            Damage::Soft(width) => {
                let mut line = String::new();
                for word in whole.split(' ') {
                    if line.len() + word.len() > width && !line.trim().is_empty() {
                        text.push_str(&format!("{quote}{}\n", line.trim_end()));
                        line.clear();
                    }
                    line.push_str(word);
                    line.push(' ');
                }
                text.push_str(&format!("{quote}{}\n", line.trim_end()));
            }
        }
    }
    text
}

/// Returns the counts of each zone that was read.
fn read(text: &[u8]) -> Vec<(String, Vec<u64>)> {
    let counts = |state: &State| {
        let zones = state.zones.iter().filter_map(|zone| {
            let blocks = zone.blocks.as_ref()?;
            Some((
                zone.extent.name.clone(),
                blocks.iter().map(|blocks| blocks.count.value).collect(),
            ))
        });
        zones.collect::<Vec<_>>()
    };
    states(text).iter().flat_map(counts).collect()
}

/// Pieces of which texts for the readers are made.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "\n", "Mem-Info:\n", "Node 0 DMA: ", "Node 0, zone   Normal ", "1*4kB ", "0*8kB ", "(U", ") ", "= 4kB\n",
    "18446744073709551615*18446744073709551615kB ", " free:99999999999999999999kB", "Normal free:1kB min:",
    "lowmem_reserve[]: 1 2", ", type Movable >100000 1 2 3 4 5 6 7 8", "  pages free ", "MemTotal: ", "kB\n",
    "x invoked oom-killer: order=", "-1", "[  1.0][ C1] ", "Free pages count per migrate type at order ",
    "18446744073709551615 ", "pagesets\n cpu: 0\n count: ", "\\n", "protection: (1, 2", "=\n", "=3D",
    "nr_free_pages 1\n", "Page block order: 99\n", "vmalloc error", ": page allocation failure",
];

/// Two CPUs print their reports at the same time, and nothing names them.
#[test]
fn reports_whose_lines_alternate_are_read_like_those_that_follow_each_other() {
    let whole = String::from_utf8(text("s13-paf-4.4-two.txt")).unwrap();
    let is_part = |line: &&str| {
        let words = [
            "Mem-Info",
            "_anon:",
            "_file:",
            "unevictable:",
            "reclaimable:",
            "Node 0",
            "lowmem",
            "pages RAM",
        ];
        words.iter().any(|word| line.contains(word))
    };
    let lines = whole
        .lines()
        .map(|line| line.split_once("] ").unwrap_or_default().1);
    let lines: Vec<&str> = lines.filter(is_part).collect();
    let (one, other) = lines.split_at(lines.len() / 2);
    assert_eq!((one[0], other[0]), ("Mem-Info:", "Mem-Info:"));
    let pairs = one
        .iter()
        .zip(other)
        .flat_map(|(one, other)| [*one, *other]);
    let alternating: Vec<&str> = pairs.collect();
    let read = |lines: &[&str]| {
        let mut states = states(lines.join("\n").as_bytes());
        let places = states.iter_mut().flat_map(|state| &mut state.zones);
        places.for_each(|zone| zone.place.line = 0);
        states
            .into_iter()
            .map(|state| (state.zones, state.vmstat, state.ram, state.remarks))
            .collect::<Vec<_>>()
    };
    assert_eq!(read(&lines).len(), 2);
    assert_eq!(read(&alternating), read(&lines));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_report_is_read_exactly_or_rejected(
        (frame, tables) in tables(),
        prefix in prop::sample::select(vec![
            "",
            "[   81.429116] ",
            "[   81.429116][   T59] ",
            "Dec  8 01:56:31 host kernel: [106464.880319] ",
            "2026-01-02T03:04:05.123Z stdout F ",
            "[Fri Apr 17 19:55:54 2026] ",
        ]),
        quote in prop::sample::select(vec!["", "> ", ">> ", ">     "]),
        damage in damage(),
    ) {
        let text = report(frame, &tables, prefix, quote, damage);
        let expected: Vec<(String, Vec<u64>)> = tables
            .iter()
            .zip(ZONES)
            .map(|(table, zone)| (zone.to_owned(), table.iter().map(|(count, _)| *count).collect()))
            .collect();
        let found = read(text.as_bytes());
        for table in &found {
            prop_assert!(expected.contains(table), "{text}\n{table:?}");
        }
        if matches!(damage, Damage::Nothing | Damage::Soft(_) | Damage::Split | Damage::Interleaved) {
            prop_assert_eq!(found, expected, "{}", text);
        }
    }

    #[test]
    fn one_changed_byte_never_changes_a_number(
        (frame, tables) in tables(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut text = report(frame, &tables, "", "", Damage::Nothing).into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        let expected: Vec<Vec<u64>> =
            tables.iter().map(|table| table.iter().map(|(count, _)| *count).collect()).collect();
        for (_, counts) in read(&text) {
            prop_assert!(expected.contains(&counts), "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn a_wrapped_row_of_buddyinfo_is_read_exactly_or_rejected(
        rows in prop::collection::vec(prop::collection::vec(0u64..400_000, 11), 1..4),
        width in 40usize..130,
        is_trimmed in any::<bool>(),
        quote in prop::sample::select(vec!["", "> "]),
    ) {
        let mut text = String::new();
        for (row, zone) in rows.iter().zip(ZONES) {
            let counts: String = row.iter().map(|count| format!("{count:6} ")).collect();
            let line = format!("Node 0, zone {zone:>8} {counts}");
            for piece in line.as_bytes().chunks(width) {
                let piece = String::from_utf8_lossy(piece);
                let piece = if is_trimmed { piece.trim_end() } else { &piece };
                text.push_str(&format!("{quote}{piece}\n"));
            }
        }
        for (zone, counts) in read(text.as_bytes()) {
            let at = ZONES.iter().position(|name| *name == zone).unwrap();
            prop_assert_eq!(&counts, &rows[at], "{}", text);
        }
    }

    #[test]
    fn no_text_causes_a_panic(
        pieces in prop::collection::vec(
            prop_oneof![
                any::<Vec<u8>>(),
                prop::sample::select(PIECES.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
            ],
            0..60,
        )
    ) {
        everybuddy_memory::fuzz_checks::text(&pieces.concat());
    }
}
