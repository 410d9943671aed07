//! Errors as numbers, and their texts.
//!
//! # Invariants
//! Each error has one code, and a code leads back to its error: the texts are those of the crate `everybuddy`.

use core::fmt;

use everybuddy::{AllocateError, FreeError, Order};

/// No block of that size is free.
pub(crate) const EXHAUSTED: i32 = 1;
/// The request is larger than the largest block; the largest order is in the bits from 8 on.
pub(crate) const TOO_LARGE: i32 = 2;
/// The system was not set up for this CPU.
pub(crate) const NO_SUCH_CPU: i32 = 3;
/// Another CPU holds what would serve: try again after all CPUs have drained.
pub(crate) const BUSY: i32 = 4;
/// The order is above the limit of all systems.
pub(crate) const BAD_ORDER: i32 = 5;
/// The frame lies outside the managed memory.
pub(crate) const FOREIGN: i32 = 6;
/// The frame lies in a hole.
pub(crate) const HOLE: i32 = 7;
/// The frame is reserved.
pub(crate) const RESERVED: i32 = 8;
/// The frame is free.
pub(crate) const NOT_ALLOCATED: i32 = 9;
/// The frame lies inside a block; the order of the block is in the bits from 8 on.
pub(crate) const INSIDE_BLOCK: i32 = 10;
/// A block of another order starts here; its order is in the bits from 8 on.
pub(crate) const WRONG_ORDER: i32 = 11;

/// The bit from which on a code stores an order.
const ORDER_SHIFT: u32 = 8;

const fn with(code: i32, order: Order) -> i32 {
    code | (order.get() as i32) << ORDER_SHIFT
}

/// Returns the code of an error, a positive number.
pub(crate) const fn of_allocate(error: AllocateError) -> i32 {
    match error {
        AllocateError::Exhausted => EXHAUSTED,
        AllocateError::TooLarge { largest } => with(TOO_LARGE, largest),
        AllocateError::NoSuchCpu => NO_SUCH_CPU,
        AllocateError::Busy => BUSY,
        // Requests are made by order, so none is for zero frames.
        AllocateError::ZeroFrames => BAD_ORDER,
    }
}

/// Returns the code of an error, a positive number.
pub(crate) const fn of_free(error: FreeError) -> i32 {
    match error {
        FreeError::Foreign => FOREIGN,
        FreeError::Hole => HOLE,
        FreeError::Reserved => RESERVED,
        FreeError::NotAllocated => NOT_ALLOCATED,
        FreeError::InsideBlock { order } => with(INSIDE_BLOCK, order),
        FreeError::WrongOrder { allocated } => with(WRONG_ORDER, allocated),
        FreeError::NoSuchCpu => NO_SUCH_CPU,
        FreeError::Busy => BUSY,
        // Frees are made by order, so none is of zero frames.
        FreeError::ZeroFrames => BAD_ORDER,
    }
}

/// Writes the text of a code.
pub(crate) fn write(code: i32, out: &mut dyn fmt::Write) -> fmt::Result {
    let order = u8::try_from(code >> ORDER_SHIFT).ok().and_then(Order::new);
    let order = order.unwrap_or(Order::ZERO);
    match code & 0xff {
        EXHAUSTED => write!(out, "{}", AllocateError::Exhausted),
        TOO_LARGE => write!(out, "{}", AllocateError::TooLarge { largest: order }),
        NO_SUCH_CPU => write!(out, "{}", AllocateError::NoSuchCpu),
        BUSY => write!(out, "{}", AllocateError::Busy),
        BAD_ORDER => write!(out, "the order is above {}", Order::LIMIT),
        FOREIGN => write!(out, "{}", FreeError::Foreign),
        HOLE => write!(out, "{}", FreeError::Hole),
        RESERVED => write!(out, "{}", FreeError::Reserved),
        NOT_ALLOCATED => write!(out, "{}", FreeError::NotAllocated),
        INSIDE_BLOCK => write!(out, "{}", FreeError::InsideBlock { order }),
        WRONG_ORDER => write!(out, "{}", FreeError::WrongOrder { allocated: order }),
        _ => write!(out, "no error has the code {code}"),
    }
}

/// A text in memory of the caller, cut to its size, with a zero at its end.
pub(crate) struct Text<'b> {
    bytes: &'b mut [u8],
    length: usize,
}

impl<'b> Text<'b> {
    /// Creates an empty text.
    pub(crate) fn new(bytes: &'b mut [u8]) -> Self {
        if let Some(first) = bytes.first_mut() {
            *first = 0;
        }
        Self { bytes, length: 0 }
    }

    /// Returns the number of bytes without the zero.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte stays for the zero.
        let room = self.bytes.get_mut(self.length..).unwrap_or_default();
        let bytes = text.bytes().take(room.len().saturating_sub(1));
        let mut places = room.iter_mut();
        for (place, byte) in places.by_ref().zip(bytes) {
            *place = byte;
            self.length += 1;
        }
        if let Some(end) = self.bytes.get_mut(self.length) {
            *end = 0;
        }
        Ok(())
    }
}
