//! The part of Perfetto's published schema (`perfetto_trace.proto`) that timelines use.
//!
//! The messages are declared by hand: the whole schema has thousands of fields. They are written by hand, too: that
//! takes less time than to compile a library for it. Tests read them with one, `prost`.
//!
//! # Invariants
//! Names and numbers of fields are those of the schema. `ci/timeline.sh` decodes timelines with the schema itself.

pub(super) const TYPE_SLICE_BEGIN: i32 = 1;
pub(super) const TYPE_SLICE_END: i32 = 2;
pub(super) const TYPE_INSTANT: i32 = 3;
pub(super) const TYPE_COUNTER: i32 = 4;
pub(super) const UNIT_COUNT: i32 = 2;

/// Something that is written with the number of its field; nothing, if it is absent.
trait Field {
    fn write(&self, number: u32, into: &mut Vec<u8>);
}

/// A message of the schema.
pub(super) trait Encode {
    /// Appends the fields that are present.
    fn write(&self, into: &mut Vec<u8>);
}

/// What follows the number of a field.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Length = 2,
}

fn varint(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn key(number: u32, wire: Wire, into: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | wire as u64, into);
}

fn bytes(number: u32, bytes: &[u8], into: &mut Vec<u8>) {
    key(number, Wire::Length, into);
    varint(bytes.len() as u64, into);
    into.extend_from_slice(bytes);
}

/// Fields that are numbers. Negative ones are written as 64 bits.
macro_rules! numbers {
    ($($type:ty),+) => {
        $(impl Field for Option<$type> {
            fn write(&self, number: u32, into: &mut Vec<u8>) {
                if let Some(value) = *self {
                    key(number, Wire::Varint, into);
                    varint(value as u64, into);
                }
            }
        })+
    };
}

numbers!(u64, u32, i64, i32);

impl Field for Option<String> {
    fn write(&self, number: u32, into: &mut Vec<u8>) {
        if let Some(text) = self {
            bytes(number, text.as_bytes(), into);
        }
    }
}

impl<M: Encode> Field for Option<M> {
    fn write(&self, number: u32, into: &mut Vec<u8>) {
        if let Some(message) = self {
            let mut inner = Vec::new();
            message.write(&mut inner);
            bytes(number, &inner, into);
        }
    }
}

impl<M: Encode> Field for Vec<M> {
    fn write(&self, number: u32, into: &mut Vec<u8>) {
        for message in self {
            let mut inner = Vec::new();
            message.write(&mut inner);
            bytes(number, &inner, into);
        }
    }
}

/// Identifiers of flows are `fixed64` in the schema, and not packed.
impl Field for Vec<u64> {
    fn write(&self, number: u32, into: &mut Vec<u8>) {
        for value in self {
            key(number, Wire::Fixed64, into);
            into.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Declares messages: of each field its type, its number, and in brackets how `prost` names it.
macro_rules! messages {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$of_field:meta])* $field:ident: $type:ty = $number:literal ($($kind:ident $(= $value:tt)?),+);)+
    })+) => {
        $($(#[$about])*
        #[derive(Clone, PartialEq)]
        #[cfg_attr(not(test), derive(Default))]
        #[cfg_attr(test, derive(prost::Message))]
        pub(super) struct $name {
            $($(#[$of_field])*
            #[cfg_attr(test, prost($($kind $(= $value)?),+, tag = $number))]
            pub(super) $field: $type,)+
        }

        impl Encode for $name {
            fn write(&self, into: &mut Vec<u8>) {
                $(Field::write(&self.$field, $number, into);)+
            }
        })+
    };
}

messages! {
    Trace {
        packet: Vec<TracePacket> = 1 (message, repeated);
    }
    TracePacket {
        timestamp: Option<u64> = 8 (uint64, optional);
        trusted_packet_sequence_id: Option<u32> = 10 (uint32, optional);
        track_event: Option<TrackEvent> = 11 (message, optional);
        track_descriptor: Option<TrackDescriptor> = 60 (message, optional);
    }
    TrackDescriptor {
        uuid: Option<u64> = 1 (uint64, optional);
        name: Option<String> = 2 (string, optional);
        process: Option<ProcessDescriptor> = 3 (message, optional);
        thread: Option<ThreadDescriptor> = 4 (message, optional);
        parent_uuid: Option<u64> = 5 (uint64, optional);
        counter: Option<CounterDescriptor> = 8 (message, optional);
    }
    ProcessDescriptor {
        pid: Option<i32> = 1 (int32, optional);
        process_name: Option<String> = 6 (string, optional);
    }
    ThreadDescriptor {
        pid: Option<i32> = 1 (int32, optional);
        tid: Option<i32> = 2 (int32, optional);
        thread_name: Option<String> = 5 (string, optional);
    }
    CounterDescriptor {
        unit: Option<i32> = 3 (int32, optional);
    }
    DebugAnnotation {
        uint_value: Option<u64> = 3 (uint64, optional);
        name: Option<String> = 10 (string, optional);
    }
    TrackEvent {
        debug_annotations: Vec<DebugAnnotation> = 4 (message, repeated);
        r#type: Option<i32> = 9 (int32, optional);
        track_uuid: Option<u64> = 11 (uint64, optional);
        name: Option<String> = 23 (string, optional);
        counter_value: Option<i64> = 30 (int64, optional);
        flow_ids: Vec<u64> = 47 (fixed64, repeated, packed = "false");
        terminating_flow_ids: Vec<u64> = 48 (fixed64, repeated, packed = "false");
    }
}
