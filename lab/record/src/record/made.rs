//! Hand-made pages and descriptions for tests.
//!
//! Every test of the ring buffer speaks of the same pages, bit for bit as the kernel lays them out.
//!
//! # Invariants
//! Nothing here uses the code that is tested, but to hold what it parsed.
#![cfg(test)]

use super::page::PageLayout;
use crate::format::Format;

/// Bits of the time since the previous record.
const DELTA_BITS: u32 = 27;

/// Creates a description with the common fields and others: name, offset, size, sign.
pub(super) fn description(id: u16, fields: &[(&str, usize, usize, u8)]) -> Format {
    let common = [
        ("common_type", 0, 2, 0),
        ("common_flags", 2, 1, 0),
        ("common_pid", 4, 4, 1),
    ];
    let mut text = format!("ID: {id}\n");
    for (name, offset, size, signed) in common.iter().chain(fields) {
        let line = format!("field:int {name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
        text.push_str(&line);
    }
    Format::parse(&text)
}

/// The description of an allocation on x86-64 kernels.
pub(super) fn allocation() -> Format {
    description(
        653,
        &[
            ("pfn", 8, 8, 0),
            ("order", 16, 4, 0),
            ("gfp_flags", 24, 8, 0),
            ("migratetype", 32, 4, 1),
        ],
    )
}

pub(super) const HEADER_PAGE: &str = "\
    \tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

pub(super) fn layout() -> PageLayout {
    PageLayout::new(&Format::parse(HEADER_PAGE)).unwrap()
}

pub(super) fn head(kind: u32, delta: u32) -> [u8; 4] {
    let packed = if cfg!(target_endian = "big") {
        kind << DELTA_BITS | delta
    } else {
        kind | delta << 5
    };
    packed.to_ne_bytes()
}

/// Creates a page that starts at 1000 ns.
pub(super) fn page(marks: u64, parts: &[&[u8]]) -> Vec<u8> {
    let records = parts.concat();
    let mut page = 1000u64.to_ne_bytes().to_vec();
    page.extend((records.len() as u64 | marks).to_ne_bytes());
    page.extend(records);
    page
}

pub(super) fn short(delta: u32, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len().is_multiple_of(4));
    [&head(bytes.len() as u32 / 4, delta)[..], bytes].concat()
}
