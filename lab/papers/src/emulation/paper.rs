//! Listings 2 and 3: the paper's profiles.
//!
//! # Source
//! \[Serewa\] section 3; on a Pentium II at 350 MHz.
//!
//! The counts can be compared with it.
//!
//! # Invariants
//! Numbers are as printed.

use crate::emulation::function::Function;
use crate::emulation::manager::Case;

/// A line of a profile.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The function.
    pub function: Function,
    /// Calls.
    pub calls: u64,
    /// Seconds in the function itself.
    pub seconds: f64,
}

const fn line(function: Function, calls: u64, seconds: f64) -> Line {
    Line {
        function,
        calls,
        seconds,
    }
}

/// Listing 2: case 1.
const SPLIT_FIRST: [Line; Function::COUNT] = [
    line(Function::AddChunk, 11_503_124, 472.67),
    line(Function::Merge, 426, 112.59),
    line(Function::RemoveTheChunk, 11_497_604, 2.12),
    line(Function::ZerosRight, 5_999_011, 1.80),
    line(Function::Arrange, 999_092, 0.70),
    line(Function::Test, 1, 0.42),
    line(Function::Free, 499_759, 0.21),
    line(Function::Allocate, 500_241, 0.17),
    line(Function::ZerosLeft, 500_241, 0.14),
    line(Function::RemoveAny, 503_862, 0.07),
];

/// Listing 3: case 2.
const MERGE_FIRST: [Line; Function::COUNT] = [
    line(Function::AddChunk, 11_493_826, 265.29),
    line(Function::Merge, 7_465, 93.80),
    line(Function::RemoveTheChunk, 11_490_198, 1.72),
    line(Function::ZerosRight, 5_998_205, 1.67),
    line(Function::Arrange, 999_166, 0.73),
    line(Function::Test, 1, 0.35),
    line(Function::Free, 499_742, 0.12),
    line(Function::Allocate, 500_258, 0.17),
    line(Function::ZerosLeft, 500_258, 0.10),
    line(Function::RemoveAny, 500_692, 0.03),
];

/// Returns the profile of a case.
pub const fn profile(case: Case) -> &'static [Line; Function::COUNT] {
    match case {
        Case::SplitFirst => &SPLIT_FIRST,
        Case::MergeFirst => &MERGE_FIRST,
    }
}

/// Returns the splits and the merges of pairs that a profile's calls add up to.
pub fn splits_and_pairs(case: Case) -> [u64; 2] {
    let calls = |function: Function| {
        let of = |line: &&Line| line.function == function;
        profile(case).iter().find(of).map_or(0, |line| line.calls)
    };
    let any = calls(Function::RemoveAny);
    let splits = any - calls(Function::Allocate);
    [splits, (calls(Function::RemoveTheChunk) - any) / 2]
}

/// Returns the seconds of a case, from beginning to end.
pub const fn seconds(case: Case) -> f64 {
    match case {
        Case::SplitFirst => 590.90,
        Case::MergeFirst => 364.01,
    }
}
