//! Files of `page_owner`: real and synthetic ones.

use std::io::BufReader;

use everybuddy_memory::frames::owner::{self, Record, Totals, is_allocator};
use everybuddy_memory::frames::{Blocks, Kind, Snapshot};

use crate::common::of_kinds;

fn records(text: &[u8]) -> (Vec<Record>, Totals) {
    let mut records = Vec::new();
    // A small buffer, so that lines cross its end.
    let reader = BufReader::with_capacity(7, text);
    let totals = owner::read(reader, |record| records.push(record.clone())).expect("memory");
    (records, totals)
}

#[test]
fn old_stacks_have_addresses() {
    let (records, totals) = records(include_bytes!("../data/page_owner-4.5.txt"));
    let short = |record: &Record| {
        (
            record.frame,
            record.order,
            record.mobility.clone(),
            record.function.clone(),
        )
    };
    #[rustfmt::skip]
    let expected = [
        (628_753, 0, "Movable".into(), "shmem_alloc_page".into()),
        (674_308, 0, "Movable".into(), "__do_page_cache_readahead".into()),
    ];
    assert_eq!(records.iter().map(short).collect::<Vec<_>>(), expected);
    let expected = Totals {
        records: 2,
        frames: 2,
        movable_frames: 2,
        ..Totals::default()
    };
    assert_eq!(totals, expected);
}

/// Synthetic, in the form of new kernels.
const NEW: &str = "\
Page allocated via order 2, migratetype Unmovable, gfp_mask 0xdc0(GFP_KERNEL|__GFP_ZERO), pid 1, tgid 1 (init), ts 5 ns
PFN 0x10 type Unmovable Block 0 type Unmovable Flags 0xffffc0000000000(node=0|zone=1)
 post_alloc_hook+0xb5/0xf0
 get_page_from_freelist+0x1a/0x2b
 __alloc_frozen_pages_noprof+0x1/0x2
 alloc_thread_stack_node.isra.0+0x4d/0x90
 copy_process+0x1/0x2 [a module]
Charged to memcg session-1.scope

Page allocated via order 0, migratetype Unmovable, gfp_mask 0x0(), pid 2, tgid 2 (slab), ts 6 ns, free_ts 1 ns
PFN 0x20 type Unmovable Block 0 type Movable Flags 0x0(slab)
 new_slab+0x1/0x2
 ___slab_alloc+0x1/0x2
 kmem_cache_alloc_noprof+0x1/0x2
 alloc_inode+0x1/0x2

Page allocated via order 0, migratetype Movable, gfp_mask 0x0(), pid 3, tgid 3 (program), ts 7 ns
PFN 0x21 type Movable Block 0 type Movable Flags 0x0()
 vma_alloc_folio_noprof+0x1/0x2
 do_anonymous_page+0x1/0x2

";

#[test]
fn new_stacks_have_names_only() {
    let (records, totals) = records(NEW.as_bytes());
    let functions: Vec<&str> = records.iter().map(|record| &*record.function).collect();
    assert_eq!(
        functions,
        [
            "alloc_thread_stack_node",
            "alloc_inode",
            "do_anonymous_page"
        ]
    );
    assert_eq!((records[0].frame, records[0].order), (16, 2));
    assert_eq!(totals.records, 3);
    assert_eq!(totals.frames, 6);
    assert_eq!(totals.movable_frames, 1);
    assert_eq!(totals.unknown_lines, 0);
}

#[test]
fn unknown_lines_and_damage_are_counted() {
    let text = b"nonsense\n\
        Page allocated via order 0, mask 0x0\nPFN 5 type Movable Block\n a+0x1/0x2\n\xff\xfe strange\n\n\
        Page allocated via order 0, mask 0x0\n alloc_pages+0x1/0x2\n\n\
        Page allocated via order 99, mask 0x0\nPFN 6 Block 0\n\n\
        Page allocated via order x\nPFN 0xzz type\n\n\
        Page allocated via order 1\nPFN 18446744073709551615 type\n\n\
        Page allocated via order 1, mask 0x0\nPFN 8 Block 0 type 2 Flags\n alloc_pages+0x1/0x2\n \
        [<ffffffff811682c4>] ? kmalloc_order+0x1/0x2\nPage allocated via order 0\nPFN 7";
    let (records, totals) = records(text);
    let functions: Vec<(u64, &str)> = records
        .iter()
        .map(|record| (record.frame, &*record.function))
        .collect();
    // If all functions are the allocators' own, it is the outermost one; the last record has no stack.
    assert_eq!(functions, [(5, "a"), (8, "kmalloc_order"), (7, "")]);
    assert_eq!(totals.incomplete, 4);
    assert_eq!(totals.unknown_lines, 3);

    let mut long = b"Page allocated via order 0\nPFN 1 type\n ".to_vec();
    long.extend(vec![b'x'; 1 << 20]);
    long.extend(b"\n function+0x1/0x2\n");
    let (records, totals) = self::records(&long);
    assert_eq!(
        (&*records[0].function, totals.unknown_lines),
        ("function", 1)
    );
}

#[test]
fn names_of_allocators_are_skipped() {
    for name in [
        "__alloc_pages_nodemask",
        "alloc_pages_vma",
        "__kmalloc_node_track_caller",
        "new_slab_objects",
    ] {
        assert!(is_allocator(name), "{name}");
    }
    for name in [
        "shmem_alloc_page",
        "pte_alloc_one",
        "alloc_inode",
        "slabinfo_show",
        "vfs_fallocate",
    ] {
        assert!(!is_allocator(name), "{name}");
    }
}

#[test]
fn functions_hold_the_blocks_that_are_not_obtainable() {
    // Blocks of 16 frames: the first is free, the second has a stack of the kernel, the third slab and movable pages.
    let mut kinds = vec![Kind::Free; 64];
    kinds[16..20].fill(Kind::Unknown);
    kinds[32] = Kind::Slab;
    kinds[33] = Kind::Anonymous;
    kinds[34] = Kind::Slab;
    let snapshot = Snapshot::of(vec![of_kinds(0, kinds)], 4096);
    let blocks = Blocks::of(&snapshot, 4);
    let other = "Page allocated via order 0\nPFN 34 type Unmovable\n __kmalloc+0x1/0x2\n load_module+0x1/0x2\n\n\
                 Page allocated via order 0\nPFN 19 type Movable\n do_anonymous_page+0x1/0x2\n\n\
                 Page allocated via order 10\nPFN 4096 type Unmovable\n elsewhere+0x1/0x2\n";
    let text = format!("{NEW}{other}");
    let holders = owner::holders(text.as_bytes(), &snapshot, &blocks).expect("memory");
    let short = |function: &owner::Function| {
        (
            function.name.clone(),
            function.frames,
            function.blocks,
            function.alone,
        )
    };
    let expected = [
        ("alloc_thread_stack_node".into(), 4, 1, 1),
        ("alloc_inode".into(), 1, 1, 0),
        ("load_module".into(), 1, 1, 0),
    ];
    assert_eq!(
        holders.functions.iter().map(short).collect::<Vec<_>>(),
        expected
    );
    assert_eq!(holders.totals.records, 6);
}
