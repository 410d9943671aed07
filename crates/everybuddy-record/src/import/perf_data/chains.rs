//! Call chains of waits for locks: lists of addresses.
//!
//! # Purpose
//!
//! A chain shows whose lock it is. A list of the recorded kernel's symbols tells the functions of its addresses.
//!
//! # Invariants
//!
//! Only addresses of the kernel count. Symbols of a kernel that was elsewhere are moved to where it was recorded, and
//! those of another kernel are refused.

use linux_perf_event_reader::RawDataU64;

use super::super::error::Fault;
use super::bytes::Bytes;
use crate::functions::{Function, Functions, is_allocator};
use crate::kernel::What;

/// The smallest number in a chain that is not an address, but says where the next addresses belong.
const CONTEXTS: u64 = -4095i64 as u64;
/// The next addresses belong to the kernel.
const KERNEL: u64 = -128i64 as u64;

/// Interprets chains.
pub(super) struct Chains<'f> {
    functions: &'f Functions,
    has_functions: bool,
    /// The distance of the recorded kernel from the addresses of `functions`.
    offset: u64,
    /// Chains with addresses of the kernel.
    count: u64,
    /// Those of waits for spin locks whose innermost function is not part of locks, and those whose is.
    spins: [u64; 2],
}

impl<'f> Chains<'f> {
    /// Starts; without functions, chains are only counted.
    pub(super) fn new(functions: &'f Functions) -> Chains<'f> {
        Chains {
            functions,
            has_functions: !functions.is_empty(),
            offset: 0,
            count: 0,
            spins: [0; 2],
        }
    }

    /// Follows a record of memory that was mapped, with the inode or without. A kernel may start at another address
    /// each time, and perf writes in such a record where it found `_text` or `_stext`.
    pub(super) fn locate(&mut self, has_inode: bool, body: &[u8]) {
        let offset = || {
            let mut bytes = Bytes(body);
            bytes.take(24)?;
            let address = bytes.u64()?;
            bytes.take(if has_inode { 32 } else { 0 })?;
            let name = bytes.text()?.strip_prefix("[kernel.kallsyms]")?;
            Some(address.wrapping_sub(self.functions.reference(name)?))
        };
        self.offset = offset().unwrap_or(self.offset);
    }

    /// Returns what the chain of a wait says.
    pub(super) fn caller(&mut self, chain: &RawDataU64<'_>, wait: &What) -> Option<What> {
        let mut is_kernel = false;
        let functions = (0..chain.len()).filter_map(|at| {
            let address = chain.get(at)?;
            if address >= CONTEXTS {
                is_kernel = address == KERNEL;
                return None;
            }
            is_kernel.then(|| self.functions.at(address.wrapping_sub(self.offset)))
        });
        let mut functions = functions.peekable();
        let first = *functions.peek()?;
        let is_allocator = is_allocator(functions);
        self.count += 1;
        if !self.has_functions {
            return None;
        }
        if let What::ContentionBegin { is_spin: true, .. } = wait {
            self.spins[usize::from(first == Function::Lock)] += 1;
        }
        is_allocator.map(|is_allocator| What::LockCaller { is_allocator })
    }

    /// Returns the number of chains.
    pub(super) fn finish(self) -> Result<u64, Fault> {
        match self.spins {
            [spins, 0] if spins > 0 => Err(Fault::refuse(
                "",
                format!(
                    "the symbols are of another kernel: none of {spins} waits for a spin lock is in a function of locks"
                ),
                "pass symbols of the recorded kernel, such as a copy of its /proc/kallsyms",
            )),
            _ => Ok(self.count),
        }
    }
}
