//! Counts of references, from a synthetic memory of a kernel.

use std::io::Cursor;

use everybuddy_memory::frames::Kind;
use everybuddy_memory::frames::counts::{Settled, settle};
use everybuddy_memory::frames::kcore::{Descriptors, Kcore, KcoreError};
use everybuddy_memory::frames::snapshot::Stream;

use crate::common::{bytes, plain, snapshot};

/// Where the synthetic kernel has its array, and the variable with the array's address.
const ARRAY: u64 = 0xffff_ea00_0000_0000;
const VARIABLE: u64 = 0xffff_ffff_8200_0040;
const KALLSYMS: &str = "ffffffff82000000 D other\nffffffff82000040 D vmemmap_base\n";
const FACTS: &str =
    "OSRELEASE=6.12\nSIZE(page)=64\nOFFSET(page._refcount)=52\nOFFSET(page._mapcount)=48\n";

/// Returns a core file with a note, a segment with the variable, and a segment with the array.
fn core(facts: &str, array: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    for (name, text) in [("CORE", "an odd text"), ("VMCOREINFO", facts)] {
        let name = format!("{name}\0");
        for number in [name.len(), text.len(), 0] {
            note.extend((number as u32).to_le_bytes());
        }
        for text in [name.as_str(), text] {
            note.extend(text.as_bytes());
            note.resize(note.len().next_multiple_of(4), 0);
        }
    }
    let mut data = vec![0; 0x40];
    data.extend(ARRAY.to_le_bytes());
    let contents = [
        (4u32, 0, note),
        (1, VARIABLE - 0x40, data),
        (1, ARRAY, array.to_vec()),
    ];
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(64, 0);
    file[18] = 62;
    file[32] = 64;
    file[54] = 56;
    file[56] = contents.len() as u8;
    let mut offset = 64 + 56 * contents.len();
    for (kind, address, content) in &contents {
        file.extend(kind.to_le_bytes());
        file.extend([0; 4]);
        for number in [
            offset as u64,
            *address,
            0,
            content.len() as u64,
            content.len() as u64,
            0,
        ] {
            file.extend(number.to_le_bytes());
        }
        offset += content.len();
    }
    contents
        .iter()
        .for_each(|(_, _, content)| file.extend(content));
    file
}

fn descriptors(file: Vec<u8>, kallsyms: &str) -> Result<Descriptors<Cursor<Vec<u8>>>, KcoreError> {
    Descriptors::find(Kcore::open(Cursor::new(file))?, kallsyms.as_bytes())
}

fn array(counts: &[(i32, i32)]) -> Vec<u8> {
    let pages = counts.iter().map(|(references, mappings)| {
        let mut page = [0; 64];
        page[48..52].copy_from_slice(&mappings.to_le_bytes());
        page[52..56].copy_from_slice(&references.to_le_bytes());
        page
    });
    pages.collect::<Vec<_>>().concat()
}

#[test]
fn counts_decide_what_flags_do_not_show() {
    const LRU: u64 = 1 << 5;
    const BUDDY: u64 = 1 << 10;
    const MMAP: u64 = 1 << 11;
    const ANON: u64 = 1 << 12;
    const SWAPCACHE: u64 = 1 << 13;
    const HEAD: u64 = 1 << 15;
    const TAIL: u64 = 1 << 16;
    const PRIVATE: u64 = 1 << 35;
    // The flags, references and mappings minus one of each frame, and its class afterwards.
    let frames = [
        (0, 0, -1, Kind::OnList),
        (0, 1, -1, Kind::Kernel),
        // A page with a type and without references.
        (0, 0, i32::MIN, Kind::Kernel),
        (BUDDY, 0, -1, Kind::Free),
        (LRU | ANON | MMAP, 1, 0, Kind::Anonymous),
        (LRU | ANON | MMAP, 2, 0, Kind::Pinned),
        (LRU | ANON | MMAP | SWAPCACHE, 2, 0, Kind::Anonymous),
        (LRU | ANON | MMAP, 1025, 0, Kind::Pinned),
        (LRU, 1, -1, Kind::Cache),
        (LRU | PRIVATE, 2, -1, Kind::Cache),
        (LRU, 2, -1, Kind::Pinned),
        (LRU | PRIVATE | MMAP, 4, 1, Kind::FileHeld),
        (LRU | PRIVATE | MMAP, 5, 1, Kind::Pinned),
        (LRU | ANON | HEAD, 600, 3, Kind::Anonymous),
        (LRU | ANON | TAIL, 0, 3, Kind::Anonymous),
        // Both change after the snapshot: into a page of the kernel, and into page cache.
        (LRU | ANON | MMAP, 2, 0, Kind::Kernel),
        (0, 1, -1, Kind::Cache),
        // Its descriptor cannot be read.
        (0, 0, -1, Kind::Unknown),
    ];
    // The frames of the table come after more free ones than are read together.
    let mut words = vec![BUDDY; 4096 - 17];
    words.extend(frames.map(|frame| frame.0));
    words.extend([BUDDY; 17]);
    let mut counts = vec![(0, -1); 4096 - 17];
    counts.extend(frames.map(|frame| (frame.1, frame.2)));
    let zone = plain(0, 4096 + frames.len() as u64);
    let mut snapshot = snapshot(zone, &bytes(words.iter().copied()));
    words[4096 - 17 + 15] = 0;
    words[4096 - 17 + 16] = LRU;
    // The last frame's group of descriptors is not complete.
    counts.truncate(4096);
    let core = core(FACTS, &array(&counts));
    let mut descriptors = descriptors(core, KALLSYMS).expect("a complete core");
    let words = bytes(words);
    let settled = settle(
        &mut snapshot,
        &mut Stream::new(&words[..]),
        &mut descriptors,
    );
    for (at, frame) in frames.iter().enumerate() {
        assert_eq!(
            snapshot.zones[0].kinds[4096 - 17 + at],
            frame.3,
            "frame {at}"
        );
    }
    let expected = Settled {
        on_lists: 1,
        kernel: 3,
        pinned: 4,
        changed: 2,
        undecided: 1,
    };
    assert_eq!(settled.expect("complete"), expected);
    assert_eq!(snapshot.zones[0].count(Kind::OnList), 1);
    assert_eq!(snapshot.zones[0].count(Kind::Pinned), 4);
}

#[test]
fn what_a_kernel_does_not_state_is_named() {
    let error = |file: Vec<u8>, kallsyms: &str| {
        descriptors(file, kallsyms)
            .err()
            .map(|error| error.to_string())
    };
    let core = |facts: &str| core(facts, &[]);
    assert!(error(core(FACTS), KALLSYMS).is_none());
    #[rustfmt::skip]
    let cases = [
        ("SIZE(page)=64\n", KALLSYMS, "OFFSET(page._refcount)"),
        (FACTS, "0000000000000000 D vmemmap_base\n", "address of `vmemmap_base`"),
        (FACTS, "ffffffff92000040 D vmemmap_base\n", "value of `vmemmap_base`"),
        (FACTS, "\u{fffd}", "address of `vmemmap_base`"),
        (&FACTS.replace("=52", "=61"), KALLSYMS, "contradict"),
        (&FACTS.replace("=64", "=99999999999"), KALLSYMS, "contradict"),
        (&FACTS.replace("=64", "=0x40"), KALLSYMS, "SIZE(page)"),
    ];
    for (facts, kallsyms, what) in cases {
        let error = error(core(facts), kallsyms).expect("not complete");
        assert!(error.contains(what), "{error}");
    }
    let mut arm64 = core(FACTS);
    arm64[18] = 183;
    for (file, what) in [
        (arm64, "architecture"),
        (b"\x7fELF".to_vec(), "cannot read"),
        (vec![0; 64], "ELF"),
    ] {
        let error = error(file, KALLSYMS).expect("another file");
        assert!(error.contains(what), "{error}");
    }
    // No damage of a byte is fatal.
    let file = core(FACTS);
    for at in 0..file.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut file = file.clone();
            file[at] = value;
            if let Ok(mut descriptors) = descriptors(file, KALLSYMS) {
                let _ = descriptors.read(0, 1, &mut Vec::new());
                let _ = descriptors.read(u64::MAX, 1, &mut Vec::new());
            }
        }
    }
}
