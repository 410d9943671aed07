//! Call chains of waits for locks: lists of addresses.
//!
//! A chain shows whose lock it is. A symbol list of the recorded kernel maps these addresses to functions.
//!
//! # Invariants
//! Only addresses of the kernel count. Symbols are relocated to the address at which the kernel was recorded. Symbols
//! of another kernel are rejected.

use linux_perf_event_reader::RawDataU64;

use super::super::error::Fault;
use super::bytes::Bytes;
use super::{MMAP, MMAP_2};
use crate::functions::{Function, Functions, waiting};
use crate::kernel::What;

/// The smallest number in a chain that is not an address, but a marker of the context of the addresses that follow.
const CONTEXTS: u64 = -4095i64 as u64;
/// The next addresses belong to the kernel.
const KERNEL: u64 = -128i64 as u64;

/// Interprets chains.
pub(super) struct Chains<'f> {
    functions: &'f Functions,
    has_functions: bool,
    /// The distance of the recorded kernel from the addresses of `functions`; `None` before it is known.
    offset: Option<u64>,
    /// Chains with addresses of the kernel.
    count: u64,
    /// Spin-lock waits whose innermost function is not a lock function, and those whose innermost function is.
    spins: [u64; 2],
}

impl<'f> Chains<'f> {
    /// Creates a new interpreter. Without functions, it only counts chains.
    pub(super) fn new(functions: &'f Functions) -> Chains<'f> {
        Chains {
            functions,
            has_functions: !functions.is_empty(),
            offset: None,
            count: 0,
            spins: [0; 2],
        }
    }

    /// Returns `true` if the kernel's load address is needed, and was in none of the records so far.
    pub(super) fn needs_location(&self) -> bool {
        self.has_functions && self.offset.is_none()
    }

    /// Reads an `MMAP` or `MMAP2` record, and ignores others. The kernel's record contains the address of `_text` or
    /// `_stext`, which may change at each boot.
    pub(super) fn locate(&mut self, kind: u32, body: &[u8]) {
        let offset = || {
            let mut bytes = Bytes(body);
            bytes.take(24)?;
            let address = bytes.u64()?;
            bytes.take(if kind == MMAP_2 { 32 } else { 0 })?;
            let name = bytes.text()?.strip_prefix("[kernel.kallsyms]")?;
            Some(address.wrapping_sub(self.functions.reference(name)?))
        };
        if matches!(kind, MMAP | MMAP_2) {
            self.offset = self.offset.or_else(offset);
        }
    }

    /// Returns whether the page allocator made the wait, according to its call chain. Returns `None` if the chain does
    /// not show it.
    pub(super) fn caller(&mut self, chain: &RawDataU64<'_>, wait: &What) -> Option<What> {
        let offset = self.offset.unwrap_or(0);
        let mut is_kernel = false;
        let functions = (0..chain.len()).filter_map(|at| {
            let address = chain.get(at)?;
            if address >= CONTEXTS {
                is_kernel = address == KERNEL;
                return None;
            }
            is_kernel.then(|| self.functions.at(address.wrapping_sub(offset)))
        });
        let mut functions = functions.peekable();
        let first = *functions.peek()?;
        let waiting = waiting(functions);
        self.count += 1;
        if !self.has_functions {
            return None;
        }
        if let What::ContentionBegin { is_spin: true, .. } = wait {
            self.spins[usize::from(first == Function::Lock)] += 1;
        }
        waiting.map(|function| What::LockCaller {
            allocator: function.allocator(),
        })
    }

    /// Returns the number of chains.
    pub(super) fn finish(self) -> Result<u64, Fault> {
        let [others, locks] = self.spins;
        if others <= locks {
            return Ok(self.count);
        }
        let (reason, help) = match self.offset {
            Some(_) => (
                "the symbols are from another kernel",
                "pass symbols of the recorded kernel, or omit --kallsyms",
            ),
            None => (
                "without the kernel's load address, the symbols must be from the recorded boot",
                "pass a copy of /proc/kallsyms from before the machine restarted, or omit --kallsyms",
            ),
        };
        let what = format!(
            "{reason}: in {others} of {} waits for a spin lock, the innermost function is not a lock function",
            others + locks
        );
        Err(Fault::refuse("", what, help))
    }
}
