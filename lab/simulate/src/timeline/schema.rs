//! The part of Perfetto's published schema (`perfetto_trace.proto`) that timelines use.
//!
//! The messages are declared by hand: the whole schema has thousands of fields.
//!
//! # Invariants
//! Names and numbers of fields are those of the schema. `ci/timeline.sh` decodes timelines with the schema itself.

use prost::Message;

pub(super) const TYPE_SLICE_BEGIN: i32 = 1;
pub(super) const TYPE_SLICE_END: i32 = 2;
pub(super) const TYPE_INSTANT: i32 = 3;
pub(super) const TYPE_COUNTER: i32 = 4;
pub(super) const UNIT_COUNT: i32 = 2;

/// Declares messages: the type of each field, as protocol buffers name it, and its number.
macro_rules! messages {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$of_field:meta])* $field:ident: $type:ty = $($kind:ident $(= $value:tt)?),+;)+
    })+) => {
        $($(#[$about])*
        #[derive(Clone, PartialEq, Message)]
        pub(super) struct $name {
            $($(#[$of_field])* #[prost($($kind $(= $value)?),+)] pub(super) $field: $type,)+
        })+
    };
}

messages! {
    Trace {
        packet: Vec<TracePacket> = message, repeated, tag = "1";
    }
    TracePacket {
        timestamp: Option<u64> = uint64, optional, tag = "8";
        trusted_packet_sequence_id: Option<u32> = uint32, optional, tag = "10";
        track_event: Option<TrackEvent> = message, optional, tag = "11";
        track_descriptor: Option<TrackDescriptor> = message, optional, tag = "60";
    }
    TrackDescriptor {
        uuid: Option<u64> = uint64, optional, tag = "1";
        name: Option<String> = string, optional, tag = "2";
        process: Option<ProcessDescriptor> = message, optional, tag = "3";
        thread: Option<ThreadDescriptor> = message, optional, tag = "4";
        parent_uuid: Option<u64> = uint64, optional, tag = "5";
        counter: Option<CounterDescriptor> = message, optional, tag = "8";
    }
    ProcessDescriptor {
        pid: Option<i32> = int32, optional, tag = "1";
        process_name: Option<String> = string, optional, tag = "6";
    }
    ThreadDescriptor {
        pid: Option<i32> = int32, optional, tag = "1";
        tid: Option<i32> = int32, optional, tag = "2";
        thread_name: Option<String> = string, optional, tag = "5";
    }
    CounterDescriptor {
        unit: Option<i32> = int32, optional, tag = "3";
    }
    DebugAnnotation {
        uint_value: Option<u64> = uint64, optional, tag = "3";
        name: Option<String> = string, optional, tag = "10";
    }
    TrackEvent {
        debug_annotations: Vec<DebugAnnotation> = message, repeated, tag = "4";
        r#type: Option<i32> = int32, optional, tag = "9";
        track_uuid: Option<u64> = uint64, optional, tag = "11";
        name: Option<String> = string, optional, tag = "23";
        counter_value: Option<i64> = int64, optional, tag = "30";
        flow_ids: Vec<u64> = fixed64, repeated, packed = "false", tag = "47";
        terminating_flow_ids: Vec<u64> = fixed64, repeated, packed = "false", tag = "48";
    }
}
