//! What the boot loader says: the memory map and the command line.
//!
//! # Invariants
//! Everything is copied out of the boot loader's memory before the first frame is allocated.

use everybuddy::SystemSpec;
use everybuddy_adapters::map::Region;

use crate::conformance::Extent;

const MAX_REGIONS: usize = 64;
const MAX_COMMAND_LINE: usize = 512;

/// A copy of what the boot loader says.
pub(crate) struct BootInfo {
    regions: [Region; MAX_REGIONS],
    count: usize,
    text: [u8; MAX_COMMAND_LINE],
    text_bytes: usize,
}

/// The command line.
pub(crate) struct Words {
    /// `system=`, by default `everybuddy`.
    pub(crate) spec: SystemSpec,
    /// `cpus=`, by default 5.
    pub(crate) cpus: u16,
    /// `operations=` of each CPU in the random test.
    pub(crate) operations: u32,
    /// `suite=`: the properties run for the system, also for its `variants`, or not at all (`off`).
    pub(crate) suite: Option<Extent>,
}

impl BootInfo {
    /// Copies the regions of the memory map and the command line.
    pub(crate) fn new(map: impl Iterator<Item = Region> + Clone, line: &[u8]) -> Self {
        let empty = Region {
            start: 0,
            end: 0,
            is_usable: false,
        };
        let count = map.clone().count();
        assert!(count <= MAX_REGIONS, "the memory map has {count} regions");
        let mut regions = [empty; MAX_REGIONS];
        regions
            .iter_mut()
            .zip(map)
            .for_each(|(place, region)| *place = region);
        let mut text = [0; MAX_COMMAND_LINE];
        let text_bytes = line.len();
        assert!(
            text_bytes <= MAX_COMMAND_LINE,
            "the command line is too long"
        );
        text[..text_bytes].copy_from_slice(line);
        Self {
            regions,
            count,
            text,
            text_bytes,
        }
    }

    /// Returns the regions of the memory map.
    pub(crate) fn regions(&self) -> &[Region] {
        &self.regions[..self.count]
    }

    /// Returns the words of the command line.
    pub(crate) fn command_line(&self) -> Words {
        let text = core::str::from_utf8(&self.text[..self.text_bytes]);
        let text = text.expect("the command line is text");
        let mut words = Words {
            spec: "everybuddy".parse().expect("a system has this name"),
            cpus: 5,
            operations: 50_000,
            suite: Some(Extent::System),
        };
        for word in text.split_ascii_whitespace() {
            let number = |value: &str| {
                value
                    .parse()
                    .unwrap_or_else(|_| panic!("{word}: not a number"))
            };
            match word.split_once('=') {
                Some(("system", spec)) => {
                    words.spec = spec
                        .parse()
                        .unwrap_or_else(|error| panic!("{word}: {error}"));
                }
                Some(("cpus", value)) => {
                    words.cpus = u16::try_from(number(value)).unwrap_or(u16::MAX)
                }
                Some(("operations", value)) => words.operations = number(value),
                Some(("suite", "system")) => words.suite = Some(Extent::System),
                Some(("suite", "variants")) => words.suite = Some(Extent::Variants),
                Some(("suite", "off")) => words.suite = None,
                // QEMU puts the name of the file first.
                None if !word.contains('=') => {}
                _ => panic!(
                    "{word}: pass system=SPEC, cpus=N, operations=N, suite=system|variants|off"
                ),
            }
        }
        words
    }
}
