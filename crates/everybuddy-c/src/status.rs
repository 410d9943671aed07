//! The code of each call's outcome, with its message.
//!
//! # Invariants
//! 1. A code keeps its number for ever.
//! 2. A message states what failed and what to do, and differs from all others. A code without a message would have the
//!    text of an unknown one; `tests/c/misuse.c` finds it.

use core::ffi::{CStr, c_char};

/// The outcome of a call: 0, or the reason why it failed. After an error the same frames are allocated, reserved and
/// managed as before, and no result is written; `eb_free_bulk` and `eb_visit_free` state what they do instead, and an
/// array for results may be overwritten.
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
    /// Another call with this token has not returned: on another thread, or in code that this one interrupted.
    EB_ERROR_IN_CALL = 8,
    /// The system cannot be destroyed while a token is claimed.
    EB_ERROR_TOKENS_CLAIMED = 9,
    /// An order is larger than `EB_ORDER_LIMIT`.
    EB_ERROR_ORDER = 10,
    /// An argument, or a field of a structure, has a value that means nothing.
    EB_ERROR_ARGUMENT = 11,
    /// The system has no service with this number.
    EB_ERROR_NO_SUCH_SERVICE = 12,
    /// An invariant of the metadata does not hold; the value is the number of the frame where it was detected.
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
    /// The range contains managed memory; the value is the physical number of the first such frame.
    EB_ERROR_ALREADY_MANAGED = 42,
    /// The range contains a frame that is not free; the value is its physical number.
    EB_ERROR_NOT_FREE = 43,
    /// The range contains a frame that is not reserved; the value is its physical number.
    EB_ERROR_NOT_RESERVED = 44,

    /// The memory map has no frames, and no reach says where memory will be added.
    EB_ERROR_NO_MEMORY = 50,
    /// Two ranges overlap, or are not in ascending order; the value is the position of the second one.
    EB_ERROR_UNORDERED_RANGES = 51,
    /// The memory map and the reach have more frames than can be managed: 16 TiB of 4 KiB frames.
    EB_ERROR_SPAN_TOO_LARGE = 53,
    /// The number of CPUs is 0 or above the limit of the system: 65,534, or 16,383 for `magazines`.
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
    /// No option has this name; the value is its position in the text, from 1.
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

/// The codes in the order of their numbers, with their messages.
#[rustfmt::skip]
pub(crate) const MESSAGES: &[(eb_status, &CStr)] = &[
    (EB_OK, c"the call succeeded"),
    (EB_ERROR_NULL, c"a pointer is NULL: pass the address of a value, or what an earlier call returned"),
    (EB_ERROR_MISALIGNED, c"not a multiple of EB_ALIGNMENT: align the memory, and pass handles and tokens unchanged"),
    (EB_ERROR_VERSION, c"another version: compile with this library's header, and set version to EB_ABI_VERSION"),
    (EB_ERROR_NOT_A_HANDLE, c"not a system or a token: pass what eb_build or eb_cpu_claim returned"),
    (EB_ERROR_DESTROYED, c"the system was destroyed: build another one"),
    (EB_ERROR_CLAIMED, c"the CPU is claimed already: claim another one, or wait until its token is released"),
    (EB_ERROR_NOT_CLAIMED, c"the token was released: claim the CPU again"),
    (EB_ERROR_IN_CALL, c"another call with this token has not returned: in a handler, use nested calls"),
    (EB_ERROR_TOKENS_CLAIMED, c"a token is still claimed: release all tokens before eb_destroy"),
    (EB_ERROR_ORDER, c"the order is larger than EB_ORDER_LIMIT: ask for several blocks"),
    (EB_ERROR_ARGUMENT, c"a value means nothing: use the constants and the initialisers of the header"),
    (EB_ERROR_NO_SUCH_SERVICE, c"the system has no such service: eb_service_count returns their number"),
    (EB_ERROR_VIOLATION, c"the metadata is damaged: look for code that writes there, and for shared tokens"),
    (EB_ERROR_EXHAUSTED, c"no block of that size is free: free some, or ask for less; see eb_shortage"),
    (EB_ERROR_TOO_LARGE, c"larger than the largest block of this system: ask for several blocks"),
    (EB_ERROR_ZERO_FRAMES, c"zero frames: name one or more"),
    (EB_ERROR_NO_SUCH_CPU, c"no CPU has this number: raise the number of CPUs in the setup"),
    (EB_ERROR_BUSY, c"a lock or another CPU's list was not available in time: try again"),
    (EB_ERROR_FOREIGN, c"the frame lies outside the managed memory: free what was allocated here"),
    (EB_ERROR_HOLE, c"the frame lies in a hole of the memory map: free what was allocated here"),
    (EB_ERROR_RESERVED, c"the frame is reserved: eb_unreserve makes it free"),
    (EB_ERROR_NOT_ALLOCATED, c"the frame is free already: look for a double free"),
    (EB_ERROR_INSIDE_BLOCK, c"the frame lies inside an allocated block: free the block, or its frames as a run"),
    (EB_ERROR_WRONG_ORDER, c"a block of another order starts here: free it by the order of its allocation"),
    (EB_ERROR_EMPTY_RANGE, c"the range is empty: name one frame or more"),
    (EB_ERROR_OUTSIDE_SPAN, c"the range reaches outside the span: set the reach of the setup to what will be added"),
    (EB_ERROR_ALREADY_MANAGED, c"a frame of the range is managed already: add each frame once"),
    (EB_ERROR_NOT_FREE, c"a frame of the range is not free: name free frames"),
    (EB_ERROR_NOT_RESERVED, c"a frame of the range is not reserved: name reserved frames"),
    (EB_ERROR_NO_MEMORY, c"the memory map has no frames: pass a range with frames, or a reach"),
    (EB_ERROR_UNORDERED_RANGES, c"a range overlaps or precedes the one before it: sort the memory map"),
    (EB_ERROR_SPAN_TOO_LARGE, c"the memory map has more than 16 TiB of 4 KiB frames: build several systems"),
    (EB_ERROR_CPU_COUNT, c"the number of CPUs is not 1 to 65,534, or 16,383 for `magazines`: set it in the setup"),
    (EB_ERROR_METADATA_TOO_LARGE, c"the metadata is larger than this target can address: set up fewer CPUs"),
    (EB_ERROR_METADATA_TOO_SMALL, c"the memory is too small: eb_metadata_size returns the bytes that are needed"),
    (EB_ERROR_OPTION, c"the system does not take an option, or not with this value: see SYSTEMS.md"),
    (EB_ERROR_CONTRADICTION, c"an option contradicts another one, or the machine: see SYSTEMS.md"),
    (EB_ERROR_UNKNOWN_SYSTEM, c"no system has this name: eb_system_name lists them"),
    (EB_ERROR_UNKNOWN_OPTION, c"no option has this name: see SYSTEMS.md"),
    (EB_ERROR_OPTION_NOT_TAKEN, c"the system does not take this option: see SYSTEMS.md"),
    (EB_ERROR_OPTION_MALFORMED, c"an option is not written key=value: write NAME+key=value"),
    (EB_ERROR_OPTION_VALUE, c"an option cannot have this value: see SYSTEMS.md for its values"),
    (EB_ERROR_OPTION_REPEATED, c"an option is given twice: give it once"),
];

/// Returns a message for people: what failed, and what to do. Never NULL; also for a number that no code has.
#[unsafe(no_mangle)]
pub extern "C" fn eb_error_message(status: i32) -> *const c_char {
    let row = MESSAGES.iter().find(|(code, _)| *code as i32 == status);
    row.map_or(c"no status has this number", |(_, message)| message)
        .as_ptr()
}
