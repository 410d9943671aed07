//! Cell values as words of 64 bits.
//!
//! The checkers provide atomics of fixed types, but a cell is generic over its value.
//!
//! # Invariants
//! `from_word(to_word(value)) == value` for every type that a cell may contain.

use core::any::Any;

use everybuddy::platform::CellValue;

/// Converts a value to a word.
pub(crate) fn to_word<T: CellValue>(value: T) -> u64 {
    let any: &dyn Any = &value;
    let narrow = any.downcast_ref::<u8>().map(|value| u64::from(*value));
    let narrow = narrow.or_else(|| any.downcast_ref::<u16>().map(|value| u64::from(*value)));
    let narrow = narrow.or_else(|| any.downcast_ref::<u32>().map(|value| u64::from(*value)));
    match narrow.or_else(|| any.downcast_ref::<u64>().copied()) {
        Some(word) => word,
        None => unreachable!("a cell holds an unsigned integer of at most 64 bits"),
    }
}

/// Converts a word back to a value.
pub(crate) fn from_word<T: CellValue>(word: u64) -> T {
    let mut value = T::default();
    let any: &mut dyn Any = &mut value;
    if let Some(place) = any.downcast_mut::<u8>() {
        *place = word as u8;
    } else if let Some(place) = any.downcast_mut::<u16>() {
        *place = word as u16;
    } else if let Some(place) = any.downcast_mut::<u32>() {
        *place = word as u32;
    } else if let Some(place) = any.downcast_mut::<u64>() {
        *place = word;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        assert_eq!(from_word::<u8>(to_word(u8::MAX)), u8::MAX);
        assert_eq!(from_word::<u16>(to_word(u16::MAX)), u16::MAX);
        assert_eq!(from_word::<u32>(to_word(u32::MAX)), u32::MAX);
        assert_eq!(from_word::<u64>(to_word(u64::MAX - 1)), u64::MAX - 1);
    }
}
