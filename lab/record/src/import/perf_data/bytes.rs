//! Numbers from little-endian bytes.
//!
//! Nothing is read beyond an end.
//!
//! # Invariants
//! What is read is taken off the front; at the end there is `None`.

/// The remaining bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    /// Takes the given number of bytes.
    pub(crate) fn take(&mut self, size: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(size).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N as u64)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Removes a zero-terminated text.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(end as u64)?;
        self.u8();
        std::str::from_utf8(text).ok()
    }
}
