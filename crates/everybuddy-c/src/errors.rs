//! The errors of `everybuddy` as codes, and an error in full.
//!
//! # Invariants
//! Every variant of every error has a code: the conversions match without a wildcard.

use core::ffi::c_char;
use core::fmt;

use everybuddy::systems::SpecError;
use everybuddy::{AllocateError, BuildError, FreeError, Index, Pfn, RegionError};

use crate::status::{MESSAGES, eb_status, eb_status::*};

/// The bytes of the text of an `eb_error`, with the NUL at its end.
pub const EB_ERROR_TEXT: usize = 256;

/// An error in full. A call that takes a pointer to one writes it only if it fails.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct eb_error {
    /// The code.
    pub status: eb_status,
    /// The number that the documentation of the code names, such as an order or a frame; otherwise 0.
    pub value: u64,
    /// The message with its values, for people; ends with NUL.
    pub text: [c_char; EB_ERROR_TEXT],
}

/// The bits of a value in the word of a failure.
const VALUE_BITS: u32 = 52;
const VALUE: u64 = (1 << VALUE_BITS) - 1;

/// A code with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: eb_status,
    pub(crate) value: u64,
}

impl From<eb_status> for Failure {
    fn from(status: eb_status) -> Self {
        Self { status, value: 0 }
    }
}

impl Failure {
    const fn new(status: eb_status, value: u64) -> Self {
        Self { status, value }
    }

    /// Returns code and value in one word. Physical frame numbers have at most 52 bits.
    pub(crate) const fn to_bits(self) -> u64 {
        (self.status as u64) << VALUE_BITS | self.value & VALUE
    }

    /// Returns what `to_bits` stored.
    pub(crate) fn from_bits(bits: u64) -> Self {
        let code = (bits >> VALUE_BITS) as i32;
        let row = MESSAGES.iter().find(|(status, _)| *status as i32 == code);
        Self::new(row.map_or(EB_OK, |(status, _)| *status), bits & VALUE)
    }
}

// Not inlined: a call that succeeds would otherwise jump through the table of the codes.
impl From<AllocateError> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: AllocateError) -> Self {
        match error {
            AllocateError::Exhausted => EB_ERROR_EXHAUSTED.into(),
            AllocateError::TooLarge { largest } => {
                Self::new(EB_ERROR_TOO_LARGE, largest.get().into())
            }
            AllocateError::ZeroFrames => EB_ERROR_ZERO_FRAMES.into(),
            AllocateError::NoSuchCpu => EB_ERROR_NO_SUCH_CPU.into(),
            AllocateError::Busy => EB_ERROR_BUSY.into(),
        }
    }
}

impl From<FreeError> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: FreeError) -> Self {
        match error {
            FreeError::Foreign => EB_ERROR_FOREIGN.into(),
            FreeError::Hole => EB_ERROR_HOLE.into(),
            FreeError::Reserved => EB_ERROR_RESERVED.into(),
            FreeError::NotAllocated => EB_ERROR_NOT_ALLOCATED.into(),
            FreeError::InsideBlock { order } => {
                Self::new(EB_ERROR_INSIDE_BLOCK, order.get().into())
            }
            FreeError::WrongOrder { allocated } => {
                Self::new(EB_ERROR_WRONG_ORDER, allocated.get().into())
            }
            FreeError::ZeroFrames => EB_ERROR_ZERO_FRAMES.into(),
            FreeError::NoSuchCpu => EB_ERROR_NO_SUCH_CPU.into(),
            FreeError::Busy => EB_ERROR_BUSY.into(),
        }
    }
}

impl From<RegionError> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: RegionError) -> Self {
        match error {
            RegionError::Empty => EB_ERROR_EMPTY_RANGE.into(),
            RegionError::OutsideSpan => EB_ERROR_OUTSIDE_SPAN.into(),
            RegionError::AlreadyManaged(frame) => Self::new(EB_ERROR_ALREADY_MANAGED, frame.0),
            RegionError::NotFree(frame) => Self::new(EB_ERROR_NOT_FREE, frame.0),
            RegionError::NotReserved(frame) => Self::new(EB_ERROR_NOT_RESERVED, frame.0),
            RegionError::NoSuchCpu => EB_ERROR_NO_SUCH_CPU.into(),
            RegionError::Busy => EB_ERROR_BUSY.into(),
        }
    }
}

/// Why a system could not be built, in full.
pub(crate) enum SetupError<'t> {
    /// An error that only C programs make.
    Use(eb_status),
    /// The text names no system. The second value is the part of the text that is wrong.
    Spec(SpecError, &'t str),
    /// The system cannot be built.
    Build(BuildError),
}

impl From<eb_status> for SetupError<'_> {
    fn from(status: eb_status) -> Self {
        Self::Use(status)
    }
}

impl From<BuildError> for SetupError<'_> {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl SetupError<'_> {
    /// Returns code and value.
    fn code(&self) -> (eb_status, u64) {
        match self {
            Self::Use(status) => (*status, 0),
            Self::Spec(error, _) => match error {
                SpecError::UnknownSystem { .. } => (EB_ERROR_UNKNOWN_SYSTEM, 0),
                SpecError::UnknownOption { part, .. } => (EB_ERROR_UNKNOWN_OPTION, *part as u64),
                SpecError::NotTaken { .. } => (EB_ERROR_OPTION_NOT_TAKEN, 0),
                SpecError::Malformed { part } => (EB_ERROR_OPTION_MALFORMED, *part as u64),
                SpecError::BadValue { .. } => (EB_ERROR_OPTION_VALUE, 0),
                SpecError::Repeated { .. } => (EB_ERROR_OPTION_REPEATED, 0),
            },
            Self::Build(error) => match error {
                BuildError::NoMemory => (EB_ERROR_NO_MEMORY, 0),
                BuildError::UnorderedRanges { index } => (EB_ERROR_UNORDERED_RANGES, *index as u64),
                // No C function takes such ranges.
                BuildError::TakenRange { index } => (EB_ERROR_UNORDERED_RANGES, *index as u64),
                BuildError::SpanTooLarge { .. } => (EB_ERROR_SPAN_TOO_LARGE, 0),
                BuildError::BadCpuCount { .. } => (EB_ERROR_CPU_COUNT, 0),
                BuildError::MetadataTooLarge => (EB_ERROR_METADATA_TOO_LARGE, 0),
                BuildError::MetadataTooSmall { needed, .. } => {
                    (EB_ERROR_METADATA_TOO_SMALL, *needed as u64)
                }
                BuildError::BadOption(_) => (EB_ERROR_OPTION, 0),
                BuildError::Contradiction { .. } => (EB_ERROR_CONTRADICTION, 0),
                BuildError::NotCompiled => (EB_ERROR_UNKNOWN_SYSTEM, 0),
            },
        }
    }
}

impl fmt::Display for SetupError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Use(status) => Failure::from(*status).fmt(f),
            Self::Spec(error, part) => write!(f, "`{part}`: {error}"),
            Self::Build(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = MESSAGES.iter().find(|(status, _)| *status == self.status);
        let message = row.and_then(|(_, message)| message.to_str().ok());
        f.write_str(message.unwrap_or_default())?;
        match self.status {
            EB_ERROR_TOO_LARGE | EB_ERROR_INSIDE_BLOCK | EB_ERROR_WRONG_ORDER => {
                write!(f, " (order {})", self.value)
            }
            EB_ERROR_ALREADY_MANAGED | EB_ERROR_NOT_FREE | EB_ERROR_NOT_RESERVED => {
                write!(f, " ({})", Pfn(self.value))
            }
            EB_ERROR_VIOLATION => write!(f, " ({})", Index(self.value as u32)),
            _ => Ok(()),
        }
    }
}

impl eb_error {
    /// Creates an error with the text of `message`, cut to length.
    pub(crate) fn new(status: eb_status, value: u64, message: &dyn fmt::Display) -> Self {
        let mut text = Text {
            bytes: [0; EB_ERROR_TEXT],
            used: 0,
        };
        // A text that is too long is cut.
        let _ = fmt::write(&mut text, format_args!("{message}"));
        Self {
            status,
            value,
            text: text.bytes,
        }
    }
}

impl From<&SetupError<'_>> for eb_error {
    fn from(error: &SetupError<'_>) -> Self {
        let (status, value) = error.code();
        Self::new(status, value, error)
    }
}

impl From<Failure> for eb_error {
    fn from(failure: Failure) -> Self {
        Self::new(failure.status, failure.value, &failure)
    }
}

/// A text for C that is written piece by piece. It ends before the first letter that does not fit, which is an
/// error. The last byte stays NUL.
pub(crate) struct Text<const BYTES: usize> {
    pub(crate) bytes: [c_char; BYTES],
    pub(crate) used: usize,
}

impl<const BYTES: usize> fmt::Write for Text<BYTES> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let free = self.bytes.get_mut(self.used..BYTES - 1).unwrap_or_default();
        let mut fits = text.len().min(free.len());
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        for (place, byte) in free.iter_mut().zip(text.bytes().take(fits)) {
            *place = byte as c_char;
        }
        self.used += fits;
        if fits == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}
