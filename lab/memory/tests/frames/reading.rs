//! Reading words: from files and streams, with holes, and with errors that name the frame.

use std::io::{self, Cursor, Read};

use everybuddy_memory::frames::snapshot::{Seekable, SnapshotError, Stream, Words, system_ram};
use everybuddy_memory::frames::{Kind, Snapshot};

use crate::common::{bytes, layout, plain, read, snapshot, zone};

const BUDDY: u64 = 1 << 10;
const SLAB: u64 = 1 << 7;

/// A reader that returns a few bytes per call, and is interrupted.
struct Slow<R>(R, usize);

impl<R: Read> Read for Slow<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let few = buffer.len().min(4093);
        self.0.read(&mut buffer[..few])
    }
}

#[test]
fn files_and_streams_give_the_same_zones() {
    // Two zones, a hole in the second one, and more frames than a piece of 1 MiB has.
    let frames = 300_000;
    let data = bytes((0..frames).map(|frame| [BUDDY, 0, SLAB][frame as usize % 3]));
    let zones = vec![plain(5, 1000), zone(1005, 298_995, 198_995, 198_995)];
    let layout = layout(zones, vec![5..1500, 101_500..300_000]);
    let seekable = read(&layout, &mut Seekable(Cursor::new(&data))).expect("complete");
    let stream = read(&layout, &mut Stream::new(Slow(&data[..], 0))).expect("complete");
    for (zone, (one, other)) in seekable.zones.iter().zip(&stream.zones).enumerate() {
        assert_eq!(one.kinds, other.kinds, "zone {zone}");
    }
    assert_eq!(seekable.zones[1].count(Kind::Hole), 100_000);
    for (frame, kind) in [(5, Kind::Slab), (6, Kind::Free), (1498, Kind::Unknown)] {
        assert_eq!(
            seekable.find(frame).map(|found| found.1),
            Some(kind),
            "frame {frame}"
        );
    }
    assert_eq!(seekable.find(4), None);
    assert_eq!(seekable.find(1500), None);
    assert_eq!(seekable.find(101_500).map(|found| found.0), Some(1));
    assert_eq!(seekable.find(u64::MAX), None);
}

#[test]
fn a_source_that_ends_early_names_the_frame() {
    let layout = layout(vec![plain(10, 100)], Vec::new());
    for missing in [1, 8, 9, 300] {
        let mut data = bytes(vec![BUDDY; 110]);
        data.truncate(110 * 8 - missing);
        let frame = (data.len() / 8) as u64;
        for error in [
            read(&layout, &mut Seekable(Cursor::new(&data))).err(),
            read(&layout, &mut Stream::new(&data[..])).err(),
        ] {
            let error = error.expect("incomplete");
            assert!(
                matches!(error, SnapshotError::Short { frame: at, end: 110 } if at == frame),
                "{error}"
            );
            assert!(error.to_string().contains(&format!("frame {frame}")));
        }
    }
}

#[test]
fn other_errors_are_reported_with_their_reason() {
    struct Denied;
    impl Words for Denied {
        fn fill(&mut self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
    let one = layout(vec![plain(10, 100)], Vec::new());
    let error = read(&one, &mut Denied).expect_err("denied").to_string();
    assert!(error.contains("frame 10"), "{error}");
    assert!(error.contains("root"), "{error}");
    // A damaged table of zones.
    for (start, spanned) in [(0, u64::MAX), (u64::MAX - 5, u64::MAX), (1, 1 << 62)] {
        let huge = layout(
            vec![zone(start, spanned, 1, 1), zone(0, u64::MAX, 1, 1)],
            Vec::new(),
        );
        let error = read(&huge, &mut Stream::new(&[][..])).expect_err("too large");
        assert!(matches!(error, SnapshotError::TooLarge { .. }), "{error}");
    }
}

#[test]
fn holes_without_known_places_are_counted() {
    let data = bytes(vec![0; 100]);
    let snapshot = snapshot(zone(0, 100, 60, 60), &data);
    assert_eq!(snapshot.zones[0].holes_elsewhere, 40);
    assert_eq!(snapshot.zones[0].count(Kind::Unknown), 100);
    let known = layout(vec![zone(0, 100, 60, 60)], vec![0..30, 70..100]);
    let snapshot = read(&known, &mut Stream::new(&data[..])).expect("complete");
    assert_eq!(snapshot.zones[0].holes_elsewhere, 0);
    assert_eq!(snapshot.zones[0].count(Kind::Hole), 40);
}

#[test]
fn memory_that_is_not_initialised_lies_at_the_end() {
    // 100 reserved frames, 300 on lists, 50 free ones, then 2000 frames without flags of which 1900 are not managed.
    let words = [(1 << 32, 100), (0, 300), (BUDDY, 50), (0, 2000)];
    let data = bytes(
        words
            .into_iter()
            .flat_map(|(word, count)| vec![word; count]),
    );
    let of = |managed| {
        snapshot(zone(0, 2450, 2450, managed), &data)
            .zones
            .remove(0)
    };
    let late = of(450);
    assert_eq!(late.count(Kind::NotStarted), 1900);
    assert_eq!(late.count(Kind::Unknown), 400);
    assert_eq!(late.kinds[2449], Kind::NotStarted);
    // A small difference has other reasons.
    assert_eq!(of(2350 - 511).count(Kind::NotStarted), 0);
}

#[test]
fn frames_of_two_nodes_belong_to_the_zone_in_which_they_exist() {
    let data = bytes(vec![BUDDY; 40]);
    let mut zones = vec![plain(0, 40), plain(20, 10)];
    zones[1].node = Some(1);
    let snapshot = read(&layout(zones, Vec::new()), &mut Stream::new(&data[..])).expect("complete");
    assert_eq!(snapshot.zones[1].count(Kind::Free), 10);
    assert_eq!(snapshot.find(25), Some((0, Kind::Free)));
}

#[test]
fn the_memory_map_gives_whole_frames() {
    let text = "00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n  00002000-00002fff : Kernel code\n\
                100000000-1ffffffff : System RAM (kmem)\n00100000-bfffffff : System RAM\nnonsense\nx-y : System RAM\n";
    assert_eq!(
        system_ram(text, 4096),
        [1..0x9f, 0x100..0xc0000, 0x10_0000..0x20_0000]
    );
    assert_eq!(
        system_ram(text, 65536),
        [1..9, 0x10..0xc000, 0x1_0000..0x2_0000]
    );
    // Users other than root see zeros.
    assert!(system_ram("00000000-00000000 : System RAM\n", 4096).is_empty());
    let ends = "ffffffffffff0000-ffffffffffffffff : System RAM\n";
    assert_eq!(system_ram(ends, 0).len(), 1);
}

#[test]
fn orders_reach_blocks_of_one_gibibyte() {
    for (frame_bytes, order) in [(4096, 18), (16384, 16), (65536, 14), (0, 30), (1 << 40, 0)] {
        assert_eq!(Snapshot::of(Vec::new(), frame_bytes).largest_order(), order);
    }
}
