//! The classes of single words, and of folios.

use everybuddy_memory::frames::Kind;
use everybuddy_memory::frames::flags::{Folios, classify};

const DIRTY: u64 = 1 << 4;
const UPTODATE: u64 = 1 << 3;
const LRU: u64 = 1 << 5;
const SLAB: u64 = 1 << 7;
const BUDDY: u64 = 1 << 10;
const MMAP: u64 = 1 << 11;
const ANON: u64 = 1 << 12;
const SWAPBACKED: u64 = 1 << 14;
const HEAD: u64 = 1 << 15;
const TAIL: u64 = 1 << 16;
const HUGE: u64 = 1 << 17;
const UNEVICTABLE: u64 = 1 << 18;
const HWPOISON: u64 = 1 << 19;
const NOPAGE: u64 = 1 << 20;
const KSM: u64 = 1 << 21;
const THP: u64 = 1 << 22;
const OFFLINE: u64 = 1 << 23;
const ZERO: u64 = 1 << 24;
const IDLE: u64 = 1 << 25;
const PGTABLE: u64 = 1 << 26;
const RESERVED: u64 = 1 << 32;
const MLOCKED: u64 = 1 << 33;

#[test]
fn bits_of_earlier_uses_do_not_change_a_class() {
    let words = [
        (0, Kind::Unknown),
        (BUDDY, Kind::Free),
        (BUDDY | UPTODATE, Kind::Free),
        (SLAB | ANON | KSM, Kind::Slab),
        (SLAB | ANON | TAIL | KSM, Kind::Slab),
        (RESERVED | MMAP, Kind::Reserved),
        (RESERVED | ZERO, Kind::Reserved),
        (ZERO, Kind::Reserved),
        (OFFLINE, Kind::Offline),
        (NOPAGE, Kind::Hole),
        (HWPOISON | LRU | ANON, Kind::Poisoned),
        (PGTABLE | MMAP, Kind::PageTable),
        (HUGE | HEAD | MMAP, Kind::HugePool),
        (HUGE | TAIL, Kind::HugePool),
        (LRU | ANON | SWAPBACKED | MMAP | KSM, Kind::Anonymous),
        (ANON | SWAPBACKED, Kind::Anonymous),
        (LRU | SWAPBACKED, Kind::Anonymous),
        (LRU | UNEVICTABLE | MLOCKED | ANON, Kind::Unevictable),
        (LRU | UPTODATE | IDLE, Kind::Cache),
        (LRU | UPTODATE | DIRTY, Kind::FileHeld),
        (LRU | UPTODATE | MMAP, Kind::FileHeld),
        (HEAD, Kind::Compound),
        (TAIL, Kind::Compound),
        (UPTODATE, Kind::Kernel),
        (1 << 60, Kind::Kernel),
    ];
    for (word, kind) in words {
        assert_eq!(classify(word), kind, "{word:#x}");
    }
}

fn kinds(words: &[u64]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Hole; words.len()];
    Folios::default().extend(words.iter().copied(), &mut kinds, 0);
    kinds
}

#[test]
fn the_frames_of_a_folio_without_own_flags_take_the_class_of_the_first() {
    let words = [
        LRU | ANON | HEAD,
        TAIL | THP,
        TAIL | THP,
        0,
        TAIL,
        SLAB | HEAD,
        TAIL,
    ];
    let expected = [
        Kind::Anonymous,
        Kind::Anonymous,
        Kind::Anonymous,
        Kind::Unknown,
        // No first frame is known.
        Kind::Compound,
        Kind::Slab,
        Kind::Slab,
    ];
    assert_eq!(kinds(&words), expected);
    assert_eq!(kinds(&[HEAD, TAIL]), [Kind::Compound; 2]);
}

#[test]
fn a_folio_with_one_mapped_page_is_held_as_a_whole() {
    let clean = LRU | THP;
    let words = [
        clean | HEAD,
        clean | TAIL,
        clean | TAIL | MMAP,
        clean | TAIL,
        LRU,
    ];
    let held = Kind::FileHeld;
    assert_eq!(kinds(&words), [held, held, held, held, Kind::Cache]);
    assert_eq!(kinds(&[clean | MMAP | HEAD, clean | TAIL]), [held; 2]);
    assert_eq!(kinds(&[clean | HEAD, clean | TAIL]), [Kind::Cache; 2]);
}

#[test]
fn a_folio_continues_in_the_next_piece() {
    let words = [LRU | ANON | HEAD, TAIL, TAIL, TAIL, SLAB | HEAD, TAIL, 0];
    for cut in 0..=words.len() {
        let mut pieces = vec![Kind::Hole; words.len()];
        let mut folios = Folios::default();
        folios.extend(words[..cut].iter().copied(), &mut pieces, 0);
        folios.extend(words[cut..].iter().copied(), &mut pieces, cut);
        assert_eq!(pieces, kinds(&words), "cut at {cut}");
    }
}

#[test]
fn every_word_has_a_class() {
    for low in 0..64 {
        for high in 0..64 {
            let kind = classify(1 << low | 1 << high);
            assert!(Kind::ALL.contains(&kind));
            let groups = [kind.is_movable(), kind.is_pinned(), kind.is_absent()];
            let others = matches!(kind, Kind::Free | Kind::Unknown | Kind::OnList);
            let count = groups.into_iter().filter(|is| *is).count();
            assert_eq!(count, usize::from(!others), "{kind:?}");
        }
    }
}
