//! The functions of the paper's program, by the names of its profile.
//!
//! Calls, steps and shares of time are compared with listings 2 and 3.
//!
//! # Invariants
//! [`Function::ALL`] is in the order of the discriminants.

/// A function of the paper's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Function {
    /// Inserts a block into the class's store.
    AddChunk,
    /// Merges all mergeable blocks below a class.
    Merge,
    /// Removes a specific block from the class's store.
    RemoveTheChunk,
    /// Computes the size of the next piece.
    ZerosRight,
    /// Inserts memory of any size into the stores, in pieces of powers of two.
    Arrange,
    /// The main loop.
    Test,
    /// Frees a block.
    Free,
    /// Allocates, and splits.
    Allocate,
    /// Computes the class of a size.
    ZerosLeft,
    /// Removes any block from the class's store: lets the store choose, then calls `RemoveTheChunk`.
    RemoveAny,
}

impl Function {
    /// The number of functions.
    pub const COUNT: usize = 10;

    /// All functions, in the order of listing 2.
    pub const ALL: [Function; Self::COUNT] = [
        Self::AddChunk,
        Self::Merge,
        Self::RemoveTheChunk,
        Self::ZerosRight,
        Self::Arrange,
        Self::Test,
        Self::Free,
        Self::Allocate,
        Self::ZerosLeft,
        Self::RemoveAny,
    ];

    /// Returns the name in the paper's profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AddChunk => "MMM_AddChunk2BitBucket",
            Self::Merge => "MMM_BSMergeMemory",
            Self::RemoveTheChunk => "MMM_RemoveTheChunkFromBitBucket",
            Self::ZerosRight => "MMM_CountDownZerosRight",
            Self::Arrange => "MMM_ArrangeMemIntoBitBuckets",
            Self::Test => "MMM_TestBS",
            Self::Free => "MMM_BSDeAllocMemory",
            Self::Allocate => "MMM_BSAllocMemory",
            Self::ZerosLeft => "MMM_CountDownZerosLeft",
            Self::RemoveAny => "MMM_RemoveAnyChunkFromBitBucket",
        }
    }
}

/// A number for each function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table([u64; Function::COUNT]);

impl Table {
    /// Returns a function's number.
    #[inline]
    pub fn of(&self, function: Function) -> u64 {
        self.0[function as usize]
    }

    /// Adds to a function's number.
    #[inline]
    pub fn add(&mut self, function: Function, more: u64) {
        self.0[function as usize] += more;
    }

    /// Raises a function's number to at least another.
    #[inline]
    pub fn raise(&mut self, function: Function, least: u64) {
        let own = &mut self.0[function as usize];
        *own = least.max(*own);
    }

    /// Returns the sum over all functions.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_in_order() {
        let numbers = Function::ALL.map(|function| function as usize);
        assert_eq!(numbers.to_vec(), (0..Function::COUNT).collect::<Vec<_>>());
    }
}
