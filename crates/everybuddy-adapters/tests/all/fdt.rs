//! Device trees: recorded ones, constructed ones with everything that reserves memory, and damaged ones.

use everybuddy::{FrameRange, Pfn};
use everybuddy_adapters::fdt::{FdtError, Tree};
use everybuddy_adapters::map::{MapError, irregular, usable};
use proptest::prelude::*;

fn recorded(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/maps/{name}.dtb", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap()
}

fn ranges_of(tree: &Tree<'_>) -> Result<Vec<FrameRange>, MapError> {
    let mut room = [FrameRange::new(Pfn(0), 0); 32];
    usable(tree.regions(), &mut room).map(<[FrameRange]>::to_vec)
}

/// A tree that a test writes.
#[derive(Default)]
struct Writer {
    reservations: Vec<u8>,
    structure: Vec<u8>,
    strings: Vec<u8>,
}

impl Writer {
    /// Begins with a root whose children have addresses and sizes of 64 bits.
    fn new() -> Self {
        let mut writer = Self::default();
        writer.begin("");
        writer.cells(2, 2)
    }

    fn cells(mut self, address: u32, size: u32) -> Self {
        self.property("#address-cells", &[address]);
        self.property("#size-cells", &[size]);
        self
    }

    fn words(&mut self, words: &[u32]) {
        let bytes = words.iter().flat_map(|word| word.to_be_bytes());
        self.structure.extend(bytes);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.structure.extend(bytes);
        let whole = self.structure.len().next_multiple_of(4);
        self.structure.resize(whole, 0);
    }

    fn begin(&mut self, name: &str) {
        self.words(&[1]);
        self.bytes(format!("{name}\0").as_bytes());
    }

    fn text(&mut self, name: &str, value: &str) {
        self.words(&[3, value.len() as u32 + 1, self.strings.len() as u32]);
        self.bytes(format!("{value}\0").as_bytes());
        self.strings.extend(format!("{name}\0").as_bytes());
    }

    fn property(&mut self, name: &str, value: &[u32]) {
        self.words(&[3, value.len() as u32 * 4, self.strings.len() as u32]);
        self.words(value);
        self.strings.extend(format!("{name}\0").as_bytes());
    }

    /// Adds a node with `reg`, and with properties that have no value.
    fn node(mut self, name: &str, reg: &[u32], flags: &[&str]) -> Self {
        self.begin(name);
        if name.starts_with("memory") {
            self.text("device_type", "memory");
        }
        self.property("reg", reg);
        for flag in flags {
            match flag.split_once('=') {
                Some((name, value)) => self.text(name, value),
                None => self.property(flag, &[]),
            }
        }
        self.end()
    }

    fn end(mut self) -> Self {
        self.words(&[2]);
        self
    }

    fn reserve(mut self, start: u64, bytes: u64) -> Self {
        self.reservations.extend(start.to_be_bytes());
        self.reservations.extend(bytes.to_be_bytes());
        self
    }

    /// Ends the root, and returns the tree.
    fn finish(self) -> Vec<u8> {
        let mut this = self.end();
        this.words(&[9]);
        let mut this = this.reserve(0, 0);
        let structure = 40 + this.reservations.len();
        let strings = structure + this.structure.len();
        let total = strings + this.strings.len();
        let sizes = [this.strings.len(), this.structure.len()];
        let header = [
            0xd00d_feed,
            total,
            structure,
            strings,
            40,
            17,
            16,
            0,
            sizes[0],
            sizes[1],
        ];
        let header = header.iter().flat_map(|word| (*word as u32).to_be_bytes());
        let mut tree: Vec<u8> = header.collect();
        tree.append(&mut this.reservations);
        tree.append(&mut this.structure);
        tree.append(&mut this.strings);
        tree
    }
}

#[test]
fn recorded_trees_have_the_memory_of_their_machines() {
    // After OpenSBI, which reserves itself.
    let bytes = recorded("qemu-riscv64");
    let tree = Tree::new(&bytes).unwrap();
    assert_eq!(
        ranges_of(&tree),
        Ok(vec![FrameRange::new(Pfn(0x8_0080), 0x3f80)])
    );
    let firmware: Vec<_> = tree.reserved().collect();
    assert_eq!(firmware.len(), 1);
    assert_eq!(firmware[0].name, "mmode_resv0@80000000");
    assert_eq!(firmware[0].start, 0x8000_0000);
    assert_eq!(firmware[0].end, 0x8008_0000);
    let irregular = irregular(tree.regions());
    assert_eq!((irregular.regions, irregular.conflicts), (2, 1));
    let cpus = tree.find("/cpus").unwrap();
    assert_eq!(cpus.number("timebase-frequency"), Some(10_000_000));
    assert_eq!(
        cpus.children()
            .filter(|node| node.name().starts_with("cpu@"))
            .count(),
        5
    );
    let line = tree
        .find(tree.find("/chosen").unwrap().text("stdout-path").unwrap())
        .unwrap();
    assert_eq!(line.reg().next(), Some((0x1000_0000, 0x100)));

    // Two nodes of memory, the second one first, and memory of the firmware that is disabled.
    let bytes = recorded("qemu-aarch64");
    let tree = Tree::new(&bytes).unwrap();
    assert_eq!(
        ranges_of(&tree),
        Ok(vec![FrameRange::new(Pfn(0x4_0000), 0x1_0000)])
    );
    assert!(
        tree.find("/secram")
            .is_some_and(|node| !node.is_available())
    );
    assert_eq!(crate::maps::irregular_of(tree.regions()), (1, 0, 0));
    crate::maps::boots(&ranges_of(&tree).unwrap());
}

#[test]
fn nothing_that_is_reserved_is_used() {
    let mut writer = Writer::new()
        .reserve(0x8000_0000, 0x800)
        .reserve(0x8010_0000, 0x2000)
        .node(
            "memory@80000000",
            &[0, 0x8000_0000, 0, 0x800_0000, 1, 0, 0, 0x10_0000],
            &[],
        )
        .node(
            "memory@90000000",
            &[0, 0x9000_0000, 0, 0x10_0000],
            &["status=disabled"],
        );
    writer.begin("reserved-memory");
    let bytes = writer
        .cells(1, 1)
        .node("secure@81000000", &[0x8100_0000, 0x10_0000], &["no-map"])
        .node("camera@82000000", &[0x8200_0000, 0x40_0000], &["reusable"])
        .node(
            "none@83000000",
            &[0x8300_0000, 0x10_0000],
            &["status=disabled"],
        )
        .node("asks", &[], &["reusable"])
        .end()
        .finish();
    let tree = Tree::new(&bytes).unwrap();
    let expected = [
        FrameRange::new(Pfn(0x8_0001), 0xff),
        FrameRange::new(Pfn(0x8_0102), 0xefe),
        FrameRange::new(Pfn(0x8_1100), 0xf00),
        FrameRange::new(Pfn(0x8_2400), 0x5c00),
        FrameRange::new(Pfn(0x10_0000), 0x100),
    ];
    assert_eq!(ranges_of(&tree).unwrap(), expected);
    let kinds: Vec<_> = tree
        .reserved()
        .map(|reserved| (reserved.name, reserved.may_be_mapped, reserved.is_reusable))
        .collect();
    let expected = [
        ("", true, false),
        ("", true, false),
        ("secure@81000000", false, false),
        ("camera@82000000", true, true),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_kernel_that_another_one_starts_has_the_memory_that_it_leaves() {
    let mut writer = Writer::new();
    writer.begin("memory@0");
    writer.text("device_type", "memory");
    writer.property("linux,usable-memory", &[0, 0x100_0000, 0, 0x100_0000]);
    writer.property("reg", &[0, 0, 0, 0x1000_0000]);
    let bytes = writer.end().finish();
    let ranges = ranges_of(&Tree::new(&bytes).unwrap());
    assert_eq!(ranges, Ok(vec![FrameRange::new(Pfn(0x1000), 0x1000)]));
}

/// Linux's tree of the RK3588 has such names.
#[test]
fn names_may_be_long() {
    let name = "snps,dis-tx-ipgap-linecheck-quirk";
    let bytes = Writer::new()
        .node("memory@0", &[0, 0, 0, 0x1000], &[])
        .node(
            "a-node-with-a-name-of-more-than-31-bytes@fc400000",
            &[],
            &[name],
        )
        .finish();
    let tree = Tree::new(&bytes).unwrap();
    let node = tree
        .find("/a-node-with-a-name-of-more-than-31-bytes")
        .unwrap();
    assert_eq!(node.property(name), Some(&[][..]));
    assert_eq!(node.property("no-map"), None);
}

#[test]
fn a_damaged_tree_is_an_error_that_says_where() {
    let tree = || {
        Writer::new()
            .node("memory@0", &[0, 0, 0, 0x1000], &[])
            .finish()
    };
    let error = |bytes: &[u8]| Tree::new(bytes).unwrap_err();
    assert_eq!(
        error(b"MZ"),
        FdtError::TooShort {
            needed: 40,
            given: 2
        }
    );
    assert_eq!(error(&[0; 64]), FdtError::NoTree { found: 0 });
    let bytes = tree();
    let needed = bytes.len() as u64;
    let given = bytes.len() - 1;
    assert_eq!(error(&bytes[..given]), FdtError::TooShort { needed, given });
    let changed = |at: usize, word: u32| {
        let mut bytes = tree();
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        error(&bytes)
    };
    assert_eq!(
        changed(20, 3),
        FdtError::Version {
            version: 3,
            compatible: 16
        }
    );
    assert_eq!(
        changed(24, 18),
        FdtError::Version {
            version: 17,
            compatible: 18
        }
    );
    let text = changed(8, 1 << 20).to_string();
    assert_eq!(
        text,
        "the device tree is damaged at byte 8: the structure does not lie in the tree"
    );
    // The root begins after the header and the reservations.
    let root = 40 + 16;
    let text = |at: usize, word| changed(root + at, word).to_string();
    assert!(text(0, 5).contains("at byte 0: unknown token"));
    assert!(text(12, 1 << 30).contains("at byte 8: a property has no value"));
    assert!(text(16, 1 << 30).contains("at byte 8: a property has no name"));
    let without_end = changed(16, u32::MAX);
    assert!(
        matches!(without_end, FdtError::Damaged { .. }),
        "{without_end}"
    );

    let addresses = |reg: &[u32]| {
        let bytes = Writer::new().node("memory@0", reg, &[]).finish();
        Tree::new(&bytes).map(|tree| ranges_of(&tree))
    };
    assert_eq!(
        addresses(&[0, 0, 0, 0x1000]),
        Ok(Ok(vec![FrameRange::new(Pfn(0), 1)]))
    );
    assert!(matches!(
        addresses(&[0, 0, 0x1000]),
        Err(FdtError::Addresses { .. })
    ));
    for (address, size) in [(3, 1), (u32::MAX, 1), (1, u32::MAX)] {
        let mut writer = Writer::new();
        writer.begin("reserved-memory");
        let bytes = writer
            .cells(address, size)
            .node("a@0", &[0, 0, 0, 1], &[])
            .end()
            .finish();
        assert!(matches!(error(&bytes), FdtError::Addresses { .. }));
    }
    assert_eq!(
        ranges_of(&Tree::new(&Writer::new().finish()).unwrap()),
        Err(MapError::NoMemory)
    );
}

/// What reserves memory is checked where it is read: in `reg`, whatever else the node has.
#[test]
fn a_reservation_is_not_lost_by_a_second_list() {
    let mut writer = Writer::new().node("memory@0", &[0, 0, 0, 0x10_0000], &[]);
    writer.begin("reserved-memory");
    let mut writer = writer.cells(2, 2);
    writer.begin("a@1000");
    writer.property("linux,usable-memory", &[0, 0, 0, 0x1000]);
    writer.property("reg", &[0, 0x1000, 0x1000]);
    let bytes = writer.end().end().finish();
    let error = Tree::new(&bytes).map(|tree| ranges_of(&tree));
    assert!(
        matches!(error, Err(FdtError::Addresses { .. })),
        "{error:?}"
    );
}

#[test]
fn memory_that_wraps_or_that_no_address_reaches_is_not_used() {
    let all = u32::MAX;
    let bytes = Writer::new()
        .node("memory@0", &[0, 0, 0, 0x2000], &[])
        .node("memory@1000", &[0, 0x1000, all, all], &[])
        .node("memory@far", &[1 << 20, 0, 0, 0x2000], &[])
        .node("memory@last", &[(1 << 20) - 1, all << 12, 0, 0x3000], &[])
        .reserve(u64::MAX << 12, u64::MAX)
        .finish();
    let tree = Tree::new(&bytes).unwrap();
    let last = FrameRange::new(Pfn((1 << 40) - 1), 1);
    let expected = vec![FrameRange::new(Pfn(0), 2), last];
    assert_eq!(ranges_of(&tree), Ok(expected));
    let found = irregular(tree.regions());
    assert_eq!((found.regions, found.beyond, found.empty), (5, 2, 1));
    let text = found.to_string();
    assert!(text.contains("2 beyond 52 bits, 1 empty"), "{text}");
}

/// A tree that ends anywhere is refused, also if its header agrees with where it ends.
#[test]
fn a_tree_that_ends_too_early_is_an_error() {
    for name in ["qemu-aarch64", "qemu-riscv64"] {
        let whole = recorded(name);
        let field = |at: usize| u32::from_be_bytes(whole[at..at + 4].try_into().unwrap()) as usize;
        let (structure, bytes) = (field(8), field(36));
        for end in 0..field(4) {
            let mut bytes = whole[..end].to_vec();
            assert!(Tree::new(&bytes).is_err(), "{name}, {end}");
            if let Some(total) = bytes.get_mut(4..8) {
                total.copy_from_slice(&(end as u32).to_be_bytes());
                // The strings are last; a name at their end may be unused.
                let needed = field(12) + field(32);
                assert_eq!(Tree::new(&bytes).is_ok(), end >= needed, "{name}, {end}");
            }
        }
        for end in (0..bytes).step_by(4) {
            let mut cut = whole.clone();
            cut[36..40].copy_from_slice(&(end as u32).to_be_bytes());
            assert!(Tree::new(&cut).is_err(), "{name}, {structure} + {end}");
        }
    }
}

proptest! {
    /// A tree with any bytes changed is refused, or read without a panic.
    #[test]
    fn damage_does_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        is_header in any::<bool>(),
    ) {
        let mut bytes = recorded("qemu-riscv64");
        // Half of the damage is in the header and the first nodes.
        let end = if is_header { 256 } else { bytes.len() };
        for (index, byte) in changes {
            bytes[index.index(end)] = byte;
        }
        if let Ok(tree) = Tree::new(&bytes) {
            let _ = ranges_of(&tree);
            let _ = tree.reserved().count();
            let _ = irregular(tree.regions()).to_string();
            let cpus = tree.find("/cpus").into_iter().flat_map(|node| node.children());
            let _ = cpus.filter_map(|node| node.reg().next()).count();
        }
    }
}
