//! The code and the message of each error.
//!
//! # Invariants
//!
//! 1. Every variant of every error of `everybuddy` has a code: the conversions match without a wildcard.
//! 2. A code keeps its number for ever.

use core::ffi::{CStr, c_char};
use core::fmt;

use everybuddy::systems::SpecError;
use everybuddy::{AllocateError, BuildError, FreeError, RegionError};

/// The outcome of a call: 0, or the reason why it failed. A call that failed changed nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum eb_status {
    /// The call succeeded.
    EB_OK = 0,

    /// A pointer is NULL that must not be.
    EB_ERROR_NULL = 1,
    /// The memory, the system or the token does not lie at a multiple of `EB_ALIGNMENT`.
    EB_ERROR_MISALIGNED = 2,
    /// The setup, the system or the token is of another version of this interface.
    EB_ERROR_VERSION = 3,
    /// The pointer leads to something else than a system or a token.
    EB_ERROR_NOT_A_HANDLE = 4,
    /// The system was destroyed.
    EB_ERROR_DESTROYED = 5,
    /// The CPU's token is claimed already.
    EB_ERROR_CLAIMED = 6,
    /// The token is not claimed: it was released.
    EB_ERROR_NOT_CLAIMED = 7,
    /// Another call with this token has not returned: from another thread, or from code that this one interrupted.
    EB_ERROR_IN_CALL = 8,
    /// The system cannot be destroyed while a token is claimed.
    EB_ERROR_TOKENS_CLAIMED = 9,
    /// An order is larger than `EB_ORDER_LIMIT`.
    EB_ERROR_ORDER = 10,
    /// An argument, or a field of a structure, has a value that means nothing.
    EB_ERROR_ARGUMENT = 11,
    /// The system has no service with this number.
    EB_ERROR_NO_SUCH_SERVICE = 12,
    /// An invariant of the metadata does not hold; the value is the frame where it was detected.
    EB_ERROR_VIOLATION = 13,

    /// No block of that size is free, neither in the zone nor in any CPU's list.
    EB_ERROR_EXHAUSTED = 20,
    /// The request is larger than the largest block of this system; the value is the largest order.
    EB_ERROR_TOO_LARGE = 21,
    /// The request or the release is of zero frames.
    EB_ERROR_ZERO_FRAMES = 22,
    /// The system was not set up for a CPU with this number.
    EB_ERROR_NO_SUCH_CPU = 23,
    /// A lock, or another CPU's list, was not available in time. A later attempt can succeed.
    EB_ERROR_BUSY = 24,

    /// The frame lies outside the managed memory.
    EB_ERROR_FOREIGN = 30,
    /// The frame lies in a hole: no memory was added there.
    EB_ERROR_HOLE = 31,
    /// The frame is reserved.
    EB_ERROR_RESERVED = 32,
    /// The frame is free: it was freed twice, or never allocated.
    EB_ERROR_NOT_ALLOCATED = 33,
    /// The frame is inside an allocated block; the value is the order of that block.
    EB_ERROR_INSIDE_BLOCK = 34,
    /// A block of another order starts here; the value is its order.
    EB_ERROR_WRONG_ORDER = 35,

    /// The range has no frames.
    EB_ERROR_EMPTY_RANGE = 40,
    /// The range reaches outside the span that the system was built for.
    EB_ERROR_OUTSIDE_SPAN = 41,
    /// The range contains managed memory; the value is the first such frame.
    EB_ERROR_ALREADY_MANAGED = 42,
    /// The range contains a frame that is not free; the value is that frame.
    EB_ERROR_NOT_FREE = 43,
    /// The range contains a frame that is not reserved; the value is that frame.
    EB_ERROR_NOT_RESERVED = 44,

    /// The memory map has no frames.
    EB_ERROR_NO_MEMORY = 50,
    /// Two ranges overlap, or are not in ascending order; the value is the position of the second one.
    EB_ERROR_UNORDERED_RANGES = 51,
    /// A range lies outside the reach; the value is its position.
    EB_ERROR_OUTSIDE_REACH = 52,
    /// The memory map spans more frames than can be managed.
    EB_ERROR_SPAN_TOO_LARGE = 53,
    /// The number of CPUs is 0 or above 65,534.
    EB_ERROR_CPU_COUNT = 54,
    /// The metadata is larger than this target can address.
    EB_ERROR_METADATA_TOO_LARGE = 55,
    /// The memory is too small; the value is the number of bytes that are needed.
    EB_ERROR_METADATA_TOO_SMALL = 56,
    /// The system does not take this option, or not with this value.
    EB_ERROR_OPTION = 57,
    /// An option contradicts another one, or the machine.
    EB_ERROR_CONTRADICTION = 58,

    /// No system has this name.
    EB_ERROR_UNKNOWN_SYSTEM = 60,
    /// There is no such option; the value is its position in the text, from 1.
    EB_ERROR_UNKNOWN_OPTION = 61,
    /// The system does not take this option.
    EB_ERROR_OPTION_NOT_TAKEN = 62,
    /// An option is not written `key=value`; the value is its position in the text, from 1.
    EB_ERROR_OPTION_MALFORMED = 63,
    /// An option cannot have this value.
    EB_ERROR_OPTION_VALUE = 64,
    /// The same option is given twice.
    EB_ERROR_OPTION_REPEATED = 65,
}

use eb_status::*;

/// The codes in the order of their numbers, with their messages: what failed, and what to do.
const MESSAGES: &[(eb_status, &CStr)] = &[
    (EB_OK, c"the call succeeded"),
    (EB_ERROR_NULL, c"a pointer is NULL: pass the address of a value, and the system or the token that a call returned"),
    (EB_ERROR_MISALIGNED, c"not a multiple of EB_ALIGNMENT: align the memory, and pass systems and tokens as they were returned"),
    (EB_ERROR_VERSION, c"another version of the interface: compile with the header of this library, and set the setup's version to EB_ABI_VERSION"),
    (EB_ERROR_NOT_A_HANDLE, c"not a system or a token: pass what eb_build or eb_cpu_claim returned, and do not write to its memory"),
    (EB_ERROR_DESTROYED, c"the system was destroyed: build another one"),
    (EB_ERROR_CLAIMED, c"the CPU's token is claimed already: use another number, or wait until its holder releases it"),
    (EB_ERROR_NOT_CLAIMED, c"the token was released: claim the CPU again"),
    (EB_ERROR_IN_CALL, c"another call with this token has not returned: use a token in one thread, and nested calls in handlers"),
    (EB_ERROR_TOKENS_CLAIMED, c"a token is still claimed: release all tokens before the system is destroyed"),
    (EB_ERROR_ORDER, c"the order is larger than EB_ORDER_LIMIT"),
    (EB_ERROR_ARGUMENT, c"a value means nothing: use the constants of the header, and start from its functions that initialise structures"),
    (EB_ERROR_NO_SUCH_SERVICE, c"the system has no such service: eb_service_count returns their number"),
    (EB_ERROR_VIOLATION, c"the metadata is damaged: look for code that writes to it, and for threads that share a token"),
    (EB_ERROR_EXHAUSTED, c"no block of that size is free: free some, or ask for less; eb_shortage explains why"),
    (EB_ERROR_TOO_LARGE, c"larger than the largest block of this system: eb_max_order returns its order"),
    (EB_ERROR_ZERO_FRAMES, c"zero frames: ask for one or more"),
    (EB_ERROR_NO_SUCH_CPU, c"the system was not set up for a CPU with this number: raise the setup's number of CPUs"),
    (EB_ERROR_BUSY, c"a lock or another CPU's list was not available in time: try again"),
    (EB_ERROR_FOREIGN, c"the frame lies outside the managed memory: free what was allocated here"),
    (EB_ERROR_HOLE, c"the frame lies in a hole of the managed memory: free what was allocated here"),
    (EB_ERROR_RESERVED, c"the frame is reserved: eb_unreserve makes it free"),
    (EB_ERROR_NOT_ALLOCATED, c"the frame is free already: look for a double free"),
    (EB_ERROR_INSIDE_BLOCK, c"the frame lies inside an allocated block: free the whole block, or a part of it by frames"),
    (EB_ERROR_WRONG_ORDER, c"a block of another order starts here: free it by the order of its allocation"),
    (EB_ERROR_EMPTY_RANGE, c"the range is empty: name one frame or more"),
    (EB_ERROR_OUTSIDE_SPAN, c"the range reaches outside the system's span: set the reach of the setup to what will be added"),
    (EB_ERROR_ALREADY_MANAGED, c"a frame of the range is managed already: add each frame once"),
    (EB_ERROR_NOT_FREE, c"a frame of the range is not free: name free frames, and wait until others are freed"),
    (EB_ERROR_NOT_RESERVED, c"a frame of the range is not reserved: name reserved frames only"),
    (EB_ERROR_NO_MEMORY, c"the memory map has no frames: pass a range with frames"),
    (EB_ERROR_UNORDERED_RANGES, c"a range overlaps or precedes the one before it: sort the memory map"),
    (EB_ERROR_OUTSIDE_REACH, c"a range lies outside the reach: enlarge the reach, or set its frames to 0"),
    (EB_ERROR_SPAN_TOO_LARGE, c"the memory map spans more frames than can be managed: use larger frames or several systems"),
    (EB_ERROR_CPU_COUNT, c"the number of CPUs must be 1 to 65,534"),
    (EB_ERROR_METADATA_TOO_LARGE, c"the metadata is larger than this target can address: set up fewer CPUs or less memory"),
    (EB_ERROR_METADATA_TOO_SMALL, c"the memory is too small: eb_metadata_size returns the bytes that are needed"),
    (EB_ERROR_OPTION, c"the system does not take an option, or not with this value: see SYSTEMS.md"),
    (EB_ERROR_CONTRADICTION, c"an option contradicts another one, or the machine: see SYSTEMS.md"),
    (EB_ERROR_UNKNOWN_SYSTEM, c"no system has this name: eb_system_name lists them"),
    (EB_ERROR_UNKNOWN_OPTION, c"there is no such option: see SYSTEMS.md"),
    (EB_ERROR_OPTION_NOT_TAKEN, c"the system does not take this option: see SYSTEMS.md"),
    (EB_ERROR_OPTION_MALFORMED, c"an option is not written key=value: write NAME+key=value"),
    (EB_ERROR_OPTION_VALUE, c"an option cannot have this value: see SYSTEMS.md"),
    (EB_ERROR_OPTION_REPEATED, c"an option is given twice: give it once"),
];

/// Returns a message for people: what failed, and what to do. Never NULL; also for a number that is no code.
#[unsafe(no_mangle)]
pub extern "C" fn eb_error_message(status: i32) -> *const c_char {
    let row = MESSAGES.iter().find(|(code, _)| *code as i32 == status);
    row.map_or(c"no status has this number", |(_, message)| message)
        .as_ptr()
}

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

/// A code with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: eb_status,
    pub(crate) value: u32,
}

impl From<eb_status> for Failure {
    fn from(status: eb_status) -> Self {
        Self { status, value: 0 }
    }
}

impl Failure {
    const fn new(status: eb_status, value: u32) -> Self {
        Self { status, value }
    }

    /// Returns code and value in one word.
    pub(crate) const fn to_bits(self) -> u64 {
        (self.status as u64) << 32 | self.value as u64
    }

    /// Returns what `to_bits` stored.
    pub(crate) fn from_bits(bits: u64) -> Self {
        let code = (bits >> 32) as i32;
        let row = MESSAGES.iter().find(|(status, _)| *status as i32 == code);
        Self::new(row.map_or(EB_OK, |(status, _)| *status), bits as u32)
    }
}

impl From<AllocateError> for Failure {
    #[cold]
    fn from(error: AllocateError) -> Self {
        match error {
            AllocateError::Exhausted => EB_ERROR_EXHAUSTED.into(),
            AllocateError::TooLarge { largest } => {
                Self::new(EB_ERROR_TOO_LARGE, u32::from(largest.get()))
            }
            AllocateError::ZeroFrames => EB_ERROR_ZERO_FRAMES.into(),
            AllocateError::NoSuchCpu => EB_ERROR_NO_SUCH_CPU.into(),
            AllocateError::Busy => EB_ERROR_BUSY.into(),
        }
    }
}

impl From<FreeError> for Failure {
    #[cold]
    fn from(error: FreeError) -> Self {
        match error {
            FreeError::Foreign => EB_ERROR_FOREIGN.into(),
            FreeError::Hole => EB_ERROR_HOLE.into(),
            FreeError::Reserved => EB_ERROR_RESERVED.into(),
            FreeError::NotAllocated => EB_ERROR_NOT_ALLOCATED.into(),
            FreeError::InsideBlock { order } => {
                Self::new(EB_ERROR_INSIDE_BLOCK, u32::from(order.get()))
            }
            FreeError::WrongOrder { allocated } => {
                Self::new(EB_ERROR_WRONG_ORDER, u32::from(allocated.get()))
            }
            FreeError::ZeroFrames => EB_ERROR_ZERO_FRAMES.into(),
            FreeError::NoSuchCpu => EB_ERROR_NO_SUCH_CPU.into(),
            FreeError::Busy => EB_ERROR_BUSY.into(),
        }
    }
}

impl From<RegionError> for Failure {
    #[cold]
    fn from(error: RegionError) -> Self {
        match error {
            RegionError::Empty => EB_ERROR_EMPTY_RANGE.into(),
            RegionError::OutsideSpan => EB_ERROR_OUTSIDE_SPAN.into(),
            RegionError::AlreadyManaged(pfn) => Self::new(EB_ERROR_ALREADY_MANAGED, pfn.0),
            RegionError::NotFree(pfn) => Self::new(EB_ERROR_NOT_FREE, pfn.0),
            RegionError::NotReserved(pfn) => Self::new(EB_ERROR_NOT_RESERVED, pfn.0),
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
                SpecError::UnknownSystem => (EB_ERROR_UNKNOWN_SYSTEM, 0),
                SpecError::UnknownOption { part } => (EB_ERROR_UNKNOWN_OPTION, *part as u64),
                SpecError::NotTaken { .. } => (EB_ERROR_OPTION_NOT_TAKEN, 0),
                SpecError::Malformed { part } => (EB_ERROR_OPTION_MALFORMED, *part as u64),
                SpecError::BadValue { .. } => (EB_ERROR_OPTION_VALUE, 0),
                SpecError::Repeated { .. } => (EB_ERROR_OPTION_REPEATED, 0),
            },
            Self::Build(error) => match error {
                BuildError::NoMemory => (EB_ERROR_NO_MEMORY, 0),
                BuildError::UnorderedRanges { index } => (EB_ERROR_UNORDERED_RANGES, *index as u64),
                BuildError::OutsideReach { index } => (EB_ERROR_OUTSIDE_REACH, *index as u64),
                BuildError::SpanTooLarge => (EB_ERROR_SPAN_TOO_LARGE, 0),
                BuildError::BadCpuCount => (EB_ERROR_CPU_COUNT, 0),
                BuildError::MetadataTooLarge => (EB_ERROR_METADATA_TOO_LARGE, 0),
                BuildError::MetadataTooSmall { needed, .. } => {
                    (EB_ERROR_METADATA_TOO_SMALL, *needed as u64)
                }
                BuildError::BadOption(_) => (EB_ERROR_OPTION, 0),
                BuildError::Contradiction { .. } => (EB_ERROR_CONTRADICTION, 0),
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
            EB_ERROR_ALREADY_MANAGED
            | EB_ERROR_NOT_FREE
            | EB_ERROR_NOT_RESERVED
            | EB_ERROR_VIOLATION => write!(f, " (frame {})", self.value),
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
        // A text that is too long is cut, which is no error.
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
        Self::new(failure.status, u64::from(failure.value), &failure)
    }
}

/// A text for C that is written piece by piece. What does not fit is left out; the last byte stays NUL.
pub(crate) struct Text<const BYTES: usize> {
    pub(crate) bytes: [c_char; BYTES],
    pub(crate) used: usize,
}

impl<const BYTES: usize> fmt::Write for Text<BYTES> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let free = self.bytes.get_mut(self.used..BYTES - 1).unwrap_or_default();
        for (place, byte) in free.iter_mut().zip(text.bytes()) {
            *place = byte as c_char;
            self.used += 1;
        }
        Ok(())
    }
}
