//! A simulated run as a timeline in Perfetto's format.
//!
//! # Purpose
//!
//! A table says that a lock is waited for; a timeline shows by whom, when, and what the holder did meanwhile. The file
//! opens in Perfetto's viewer, offline or at ui.perfetto.dev.
//!
//! # Format
//!
//! One track for each CPU: slices for calls, and inside them for waiting and for holding a lock; instants for what
//! happened (refills, drains, extensions, ...). Three counters for each CPU: calls, contended calls and acquisitions of
//! locks. Their last values add up to the rows of the run. Times are nanoseconds of the simulated machine.
//!
//! A lock is named by its part of the metadata. If it was waited for, a flow leads from its release by another CPU to its
//! acquisition, which also names that CPU. A flow also leads from a CPU that hands over a domain, or a part of one, to the
//! CPU that waited for it.
//!
//! # Invariants
//!
//! Slices nest, and each of them ends. In a track, time never decreases. A flow has two ends, on different CPUs. It begins
//! where a slice of its lock ends, or at an instant if the release is in no slice: a CPU that looks for a free domain
//! acquires locks without events, and the CPU may not be recorded yet.

use std::collections::VecDeque;

use everybuddy::platform::CpuToken;
use everybuddy::{Event, LINE, MetadataPart};
use everybuddy_sim::{LastAccess, Line, SimCpu, Taped, Write};
use prost::Message;

/// What happened on a CPU, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A call begins.
    Begin {
        /// The virtual time, in cycles.
        at: u64,
        /// The name of the call.
        call: &'static str,
        /// Whether the rows of the run count the call: requests and frees, and not a CPU that parks.
        is_counted: bool,
    },
    /// Something happened inside the call.
    Inside(Taped),
    /// The call ends.
    End {
        /// The virtual time, in cycles.
        at: u64,
    },
}

/// Adds what a CPU has recorded since the last call as a call that has just ended. Without events, an `optional` call is
/// left out.
pub(crate) fn note(
    moments: &mut Vec<Moment>,
    cpu: &mut SimCpu,
    (call, begin): (&'static str, u64),
    (is_counted, is_optional): (bool, bool),
) {
    let inside = cpu.probe().take();
    if is_optional && inside.is_empty() {
        return;
    }
    moments.push(Moment::Begin {
        at: begin,
        call,
        is_counted,
    });
    moments.extend(inside.into_iter().map(Moment::Inside));
    moments.push(Moment::End { at: cpu.now() });
}

/// Encodes the timeline of a run: the moments of each CPU, by number. `mhz` is the clock rate of the machine, and
/// `name` stands above all tracks. `parts` are those of the metadata, by address: they name locks.
pub fn encode(name: &str, mhz: u32, cpus: &[Vec<Moment>], parts: &[MetadataPart]) -> Vec<u8> {
    let mut file = File {
        bytes: Vec::new(),
        mhz: u64::from(mhz.max(1)),
        parts,
    };
    file.push(packet(Data::Track(TrackDescriptor {
        uuid: Some(PROCESS),
        process: Some(ProcessDescriptor {
            pid: Some(1),
            process_name: Some(name.to_string()),
        }),
        ..TrackDescriptor::default()
    })));
    let mut departures = departures(cpus);
    let mut flows = 0;
    for (cpu, moments) in (0..).zip(cpus) {
        let departures = departures.get_mut(cpu as usize).map(std::mem::take);
        let mut track = Track::new(cpu, &mut file, departures.unwrap_or_default(), flows);
        for moment in moments {
            track.add(moment);
        }
        track.end_all();
        flows = track.flows;
    }
    file.bytes
}

/// What a CPU hands over to another one.
#[derive(Clone, Copy)]
struct Departure {
    /// When it writes the word for which the other one waits, in cycles.
    at: u64,
    /// The number of the flow.
    flow: u64,
    /// The lock, if it is one.
    lock: Option<Line>,
}

/// Returns what an event received from another CPU: a lock that was waited for, or a domain.
fn received(taped: &Taped) -> Option<(Write, LastAccess)> {
    let waited = match taped.event {
        Event::Lock { contended, waits } => contended && waits > 0,
        // A CPU that found a free domain itself has accessed another word last.
        Event::Ghost { .. } => true,
        _ => false,
    };
    let access = taped.access.filter(|_| waited)?;
    Some((access.before?, access))
}

/// Returns what each CPU hands over, in the order of time. Flows are numbered from 1 in the order of the CPUs that they
/// lead to, and of time.
fn departures(cpus: &[Vec<Moment>]) -> Vec<VecDeque<Departure>> {
    let mut all: Vec<Vec<Departure>> = vec![Vec::new(); cpus.len()];
    let mut flow = 0;
    for moment in cpus.iter().flatten() {
        if let Moment::Inside(taped) = moment
            && let Some((from, access)) = received(taped)
        {
            flow += 1;
            let is_lock = matches!(taped.event, Event::Lock { .. });
            if let Some(own) = all.get_mut(from.cpu.index()) {
                own.push(Departure {
                    at: from.at,
                    flow,
                    lock: is_lock.then_some(access.line),
                });
            }
        }
    }
    for own in &mut all {
        own.sort_by_key(|departure| departure.at);
    }
    all.into_iter().map(VecDeque::from).collect()
}

/// The file, to which packets are appended.
struct File<'p> {
    bytes: Vec<u8>,
    mhz: u64,
    parts: &'p [MetadataPart],
}

impl File<'_> {
    fn push(&mut self, packet: TracePacket) {
        let packet = Trace {
            packet: vec![packet],
        };
        // A vector grows as needed.
        let _ = packet.encode(&mut self.bytes);
    }

    fn nanoseconds(&self, cycles: u64) -> u64 {
        (u128::from(cycles) * 1000 / u128::from(self.mhz)) as u64
    }

    /// Returns what something does with the lock in a line, as `waiting: buddy space 3`.
    fn with_lock(&self, what: &str, line: Option<Line>) -> String {
        let part = line.and_then(|line| Some((line, part_at(self.parts, line)?)));
        match part {
            Some((line, part)) if part.length > 1 => {
                let number = (line.0 as usize * LINE - part.start) / part.size.max(1);
                format!("{what}: {} {number}", part.what)
            }
            Some((_, part)) => format!("{what}: {}", part.what),
            None => what.to_string(),
        }
    }
}

/// Returns the part of the metadata that a line is in.
pub(crate) fn part_at(parts: &[MetadataPart], line: Line) -> Option<&MetadataPart> {
    if line == Line::OUTSIDE {
        return None;
    }
    let start = line.0 as usize * LINE;
    let after = parts.partition_point(|part| part.start <= start);
    parts.get(after.checked_sub(1)?)
}

/// The most moments of a timeline: a file of about 200 MB.
pub const MOST_MOMENTS: usize = 4_000_000;

/// The track above all others.
const PROCESS: u64 = 1;
/// The counters of a CPU.
const COUNTERS: [&str; 3] = ["calls", "contended calls", "lock acquisitions"];
/// The track of slices and one for each counter.
const TRACKS: u64 = 1 + COUNTERS.len() as u64;
/// The argument that names the CPU from which something was received.
const FROM: &str = "from CPU";

/// The packets of one CPU.
struct Track<'f, 'p> {
    file: &'f mut File<'p>,
    slices: u64,
    /// What it hands over from now on.
    departures: VecDeque<Departure>,
    /// The flows that lead to this CPU and to those before it.
    flows: u64,
    /// The counters, in the order of [`COUNTERS`].
    counts: [i64; COUNTERS.len()],
    /// Whether the call had to wait.
    is_contended: bool,
    /// When the lock was wanted that is not held yet.
    wanted: Option<u64>,
    /// Locks that are held.
    held: u32,
    /// The call, and whether it is counted.
    call: Option<bool>,
    last: u64,
}

impl<'f, 'p> Track<'f, 'p> {
    fn new(cpu: u64, file: &'f mut File<'p>, departures: VecDeque<Departure>, flows: u64) -> Self {
        let slices = PROCESS + 1 + cpu * TRACKS;
        file.push(packet(Data::Track(TrackDescriptor {
            uuid: Some(slices),
            parent_uuid: Some(PROCESS),
            thread: Some(ThreadDescriptor {
                pid: Some(1),
                tid: Some(cpu as i32 + 2),
                thread_name: Some(format!("CPU {cpu}")),
            }),
            ..TrackDescriptor::default()
        })));
        for (uuid, name) in (slices + 1..).zip(COUNTERS) {
            file.push(packet(Data::Track(TrackDescriptor {
                uuid: Some(uuid),
                parent_uuid: Some(slices),
                name: Some(format!("{name}, CPU {cpu}")),
                counter: Some(CounterDescriptor {
                    unit: Some(UNIT_COUNT),
                }),
                ..TrackDescriptor::default()
            })));
        }
        Self {
            file,
            slices,
            departures,
            flows,
            counts: [0; COUNTERS.len()],
            is_contended: false,
            wanted: None,
            held: 0,
            call: None,
            last: 0,
        }
    }

    fn add(&mut self, moment: &Moment) {
        match *moment {
            Moment::Begin {
                at,
                call,
                is_counted,
            } => {
                self.depart_before(at);
                self.close(at);
                self.call = Some(is_counted);
                self.begin(at, call.to_string());
            }
            Moment::Inside(taped) => {
                // A wait is shown from its beginning.
                let begin = match (taped.event, self.wanted) {
                    (
                        Event::Lock {
                            contended: true, ..
                        },
                        Some(wanted),
                    ) => wanted,
                    _ => taped.at,
                };
                self.depart_before(begin);
                self.inside(&taped);
            }
            Moment::End { at } => {
                self.depart_before(at + 1);
                self.close(at);
            }
        }
    }

    fn inside(&mut self, taped: &Taped) {
        let Taped { at, event, access } = *taped;
        match event {
            Event::LockWanted => self.wanted = Some(at),
            Event::Lock { contended, waits } => {
                // A CPU that searched for a domain has accessed other words since it found one.
                let searched = contended && waits == 0;
                let lock = access.filter(|_| !searched).map(|access| access.line);
                if contended {
                    let name = self.file.with_lock("wait for a lock", lock);
                    self.begin(self.wanted.unwrap_or(at), name);
                    self.depart_before(at);
                    self.end(at);
                    self.is_contended = true;
                }
                self.wanted = None;
                self.held += 1;
                let name = self.file.with_lock("lock held", lock);
                let event = self.named(TYPE_SLICE_BEGIN, name);
                let event = self.receiving(taped, event);
                self.push(at, event);
                if self.call == Some(true) {
                    self.count(at, 2);
                }
            }
            Event::Unlock if self.held > 0 => {
                self.held -= 1;
                let departure = self.take_departure(|next| next.at == at);
                let flow_ids = departure.map(|own| own.flow).into_iter().collect();
                let end = self.track_event(TYPE_SLICE_END);
                self.push(at, TrackEvent { flow_ids, ..end });
            }
            other => {
                self.is_contended |= matches!(other, Event::Ghost { .. });
                if let Some(name) = instant(other) {
                    let event = self.named(TYPE_INSTANT, name);
                    let event = self.receiving(taped, event);
                    self.push(at, event);
                }
            }
        }
    }

    /// Adds to an event from which CPU something was received, if it was.
    fn receiving(&mut self, taped: &Taped, event: TrackEvent) -> TrackEvent {
        let Some((from, _)) = received(taped) else {
            return event;
        };
        self.flows += 1;
        TrackEvent {
            terminating_flow_ids: vec![self.flows],
            debug_annotations: vec![DebugAnnotation {
                name: Some(FROM.to_string()),
                uint_value: Some(from.cpu.0.into()),
            }],
            ..event
        }
    }

    fn take_departure(&mut self, is_due: impl Fn(&Departure) -> bool) -> Option<Departure> {
        let next = *self.departures.front().filter(|next| is_due(next))?;
        self.departures.pop_front();
        Some(next)
    }

    /// Adds instants for what was handed over before a time, outside of the slices of locks.
    fn depart_before(&mut self, time: u64) {
        while let Some(next) = self.take_departure(|next| next.at < time) {
            let name = match next.lock {
                Some(_) => self.file.with_lock("lock released", next.lock),
                None => "domain handed over".to_string(),
            };
            let event = self.named(TYPE_INSTANT, name);
            let flow_ids = vec![next.flow];
            // A CPU that shares its core may have lost it since.
            let at = next.at.max(self.last);
            self.push(at, TrackEvent { flow_ids, ..event });
        }
    }

    /// Ends all slices, and adds what is handed over later.
    fn end_all(&mut self) {
        self.close(self.last);
        self.depart_before(u64::MAX);
    }

    /// Ends all slices.
    fn close(&mut self, at: u64) {
        for _ in 0..std::mem::take(&mut self.held) {
            self.end(at);
        }
        if let Some(is_counted) = self.call.take() {
            self.end(at);
            if is_counted {
                self.count(at, 0);
                if self.is_contended {
                    self.count(at, 1);
                }
            }
        }
        self.is_contended = false;
    }

    fn begin(&mut self, at: u64, name: String) {
        let event = self.named(TYPE_SLICE_BEGIN, name);
        self.push(at, event);
    }

    fn end(&mut self, at: u64) {
        let event = self.track_event(TYPE_SLICE_END);
        self.push(at, event);
    }

    /// Returns an event of the track of slices.
    fn track_event(&self, kind: i32) -> TrackEvent {
        TrackEvent {
            r#type: Some(kind),
            track_uuid: Some(self.slices),
            ..TrackEvent::default()
        }
    }

    fn named(&self, kind: i32, name: String) -> TrackEvent {
        TrackEvent {
            name: Some(name),
            ..self.track_event(kind)
        }
    }

    /// Adds one to a counter.
    fn count(&mut self, at: u64, counter: usize) {
        self.counts[counter] += 1;
        self.push(
            at,
            TrackEvent {
                r#type: Some(TYPE_COUNTER),
                track_uuid: Some(self.slices + 1 + counter as u64),
                counter_value: Some(self.counts[counter]),
                ..TrackEvent::default()
            },
        );
    }

    fn push(&mut self, at: u64, event: TrackEvent) {
        self.last = at;
        let packet = TracePacket {
            timestamp: Some(self.file.nanoseconds(at)),
            ..packet(Data::Event(event))
        };
        self.file.push(packet);
    }
}

/// Returns the name of an event that is shown as an instant.
fn instant(event: Event) -> Option<String> {
    let name = match event {
        Event::Refill { frames } => return Some(format!("refill of {frames}")),
        Event::Drain { frames } => return Some(format!("drain of {frames}")),
        Event::Ghost { waits } => return Some(format!("ghost, {waits} polls")),
        Event::Bypass(order) => return Some(format!("bypass, order {}", order.get())),
        Event::Coalesce(order) => return Some(format!("coalesce, order {}", order.get())),
        Event::Split(order) => return Some(format!("split, order {}", order.get())),
        Event::Reclaim => "reclaim",
        Event::Extend => "extension",
        Event::Merge => "merge of domains",
        Event::Exchange => "exchange of spaces",
        Event::Share => "share of a space",
        Event::QueueFull(_) => "queue full",
        _ => return None,
    };
    Some(name.to_string())
}

enum Data {
    Track(TrackDescriptor),
    Event(TrackEvent),
}

fn packet(data: Data) -> TracePacket {
    let (track_descriptor, track_event) = match data {
        Data::Track(track) => (Some(track), None),
        Data::Event(event) => (None, Some(event)),
    };
    TracePacket {
        timestamp: None,
        track_event,
        track_descriptor,
        trusted_packet_sequence_id: Some(1),
    }
}

// The part of Perfetto's published schema (perfetto_trace.proto) that is used here.

const TYPE_SLICE_BEGIN: i32 = 1;
const TYPE_SLICE_END: i32 = 2;
const TYPE_INSTANT: i32 = 3;
const TYPE_COUNTER: i32 = 4;
const UNIT_COUNT: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    tid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    thread_name: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    unit: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZero;

    use everybuddy::CpuId;
    use everybuddy_measure::choice;
    use everybuddy_measure::rows::Row;

    use super::*;
    use crate::Services;
    use crate::workload::{Frees, Phases};
    use crate::{Load, Plan};

    /// What a timeline contains.
    struct Seen {
        /// The slices by name, without the names of locks.
        slices: BTreeMap<String, u64>,
        /// For each counter, its name and last value.
        counters: Vec<(String, i64)>,
        /// For each flow, the names of the slice or instant where it begins and where it ends, and the call in which
        /// it ends.
        flows: Vec<[String; 3]>,
    }

    /// An end of a flow: its track and time, what ends or begins there, the call, and the CPU that is named.
    type FlowEnd = (u64, u64, [String; 2], Option<u64>);

    /// Decodes a timeline and checks that slices nest and end, and that time never decreases in a track. Checks that
    /// each flow begins on one CPU, and ends on another one, which names the first one, and not earlier.
    fn checked(bytes: &[u8]) -> Seen {
        let trace = Trace::decode(bytes).unwrap();
        let mut ends: [BTreeMap<u64, FlowEnd>; 2] = Default::default();
        let mut names: BTreeMap<u64, String> = BTreeMap::new();
        let mut open: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        let mut slices: BTreeMap<String, u64> = BTreeMap::new();
        let mut counters: BTreeMap<u64, i64> = BTreeMap::new();
        for packet in trace.packet {
            if let Some(track) = packet.track_descriptor {
                let parent = track.parent_uuid;
                assert!(parent.is_none_or(|parent| names.contains_key(&parent)));
                let name = track
                    .name
                    .or(track.thread.and_then(|t| t.thread_name))
                    .or(track.process.and_then(|process| process.process_name));
                let known = names.insert(track.uuid.unwrap(), name.unwrap());
                assert_eq!(known, None, "a track is described once");
            }
            let Some(event) = packet.track_event else {
                continue;
            };
            let (track, at) = (event.track_uuid.unwrap(), packet.timestamp.unwrap());
            assert!(names.contains_key(&track), "a track is described first");
            let before = last.insert(track, at).unwrap_or(0);
            assert!(before <= at, "{}: {before} > {at}", names[&track]);
            let kind = event.r#type.unwrap();
            let name = match kind {
                TYPE_SLICE_END => open.entry(track).or_default().pop(),
                _ => event.name.clone(),
            };
            for (end, ids) in [&event.flow_ids, &event.terminating_flow_ids]
                .into_iter()
                .enumerate()
            {
                for id in ids {
                    let from = event.debug_annotations.first();
                    let from = from.map(|own| own.uint_value.unwrap());
                    let call = open.get(&track).and_then(|slices| slices.first());
                    let call = call.cloned().unwrap_or_default();
                    let own = (track, at, [name.clone().unwrap(), call], from);
                    assert_eq!(ends[end].insert(*id, own), None, "a flow has two ends");
                }
            }
            match kind {
                TYPE_SLICE_BEGIN => open.entry(track).or_default().push(name.unwrap()),
                TYPE_SLICE_END => {
                    let name = name.expect("a slice has begun");
                    let name = name.split(':').next().unwrap().to_string();
                    *slices.entry(name).or_default() += 1;
                }
                TYPE_INSTANT => assert!(event.name.is_some()),
                TYPE_COUNTER => {
                    let before = counters.insert(track, event.counter_value.unwrap());
                    assert!(before < event.counter_value, "a counter rises");
                }
                other => panic!("type {other}"),
            }
        }
        assert!(open.values().all(Vec::is_empty), "every slice ends");
        let counters = counters.into_iter();
        let counters = counters.map(|(track, value)| (names[&track].clone(), value));
        let [begins, ends] = ends;
        assert!(begins.keys().eq(ends.keys()), "{begins:?} {ends:?}");
        let flows = begins.into_values().zip(ends.into_values());
        let flows = flows.map(|(begin, end)| {
            let (from, released, [last, _], _) = begin;
            let (to, acquired, [next, call], named) = end;
            assert_ne!(from, to, "{last}");
            assert!(released <= acquired, "{last}: {released} > {acquired}");
            let cpu = named.expect("the end of a flow names the CPU where it begins");
            assert_eq!(names[&from], format!("CPU {cpu}"));
            [last, next, call]
        });
        Seen {
            slices,
            counters: counters.collect(),
            flows: flows.collect(),
        }
    }

    fn begin(at: u64, call: &'static str) -> Moment {
        Moment::Begin {
            at,
            call,
            is_counted: call != "park",
        }
    }

    fn inside(at: u64, event: Event) -> Moment {
        let access = None;
        Moment::Inside(Taped { at, event, access })
    }

    /// An event after an access to a word that another CPU has written before.
    fn handed(at: u64, event: Event, line: u64, before: (u16, u64)) -> Moment {
        let before = Write {
            cpu: CpuId(before.0),
            at: before.1,
        };
        let access = LastAccess {
            line: Line(line),
            at,
            before: Some(before),
        };
        let access = Some(access);
        Moment::Inside(Taped { at, event, access })
    }

    #[test]
    fn flows_lead_from_a_release_to_the_acquisition_that_waited_for_it() {
        let lock = |waits| Event::Lock {
            contended: true,
            waits,
        };
        let free = Event::Lock {
            contended: false,
            waits: 0,
        };
        let ghost = Event::Ghost { waits: 2 };
        let part = |what, start, length| MetadataPart {
            what,
            start,
            size: 128,
            length,
        };
        let parts = [part("zone lock", 64, 1), part("space", 192, 4)];
        let first = vec![
            begin(10, "allocate"),
            // A lock that was free has no flow, and neither has a domain that was searched for.
            handed(11, free, 1, (1, 9)),
            handed(12, lock(0), 1, (1, 9)),
            inside(30, Event::Unlock),
            inside(40, Event::Unlock),
            // From an acquisition without events, and from before the first call.
            handed(60, lock(1), 5, (1, 55)),
            inside(70, Event::Unlock),
            handed(80, ghost, 9, (1, 5)),
            Moment::End { at: 90 },
        ];
        let second = vec![
            begin(20, "free"),
            handed(50, lock(3), 1, (0, 40)),
            inside(52, Event::Unlock),
            Moment::End { at: 58 },
        ];
        let bytes = encode("test", 1000, &[first, second], &parts);
        let seen = checked(&bytes);
        let expected = [
            ["lock released: space 1", "lock held: space 1", "allocate"],
            ["domain handed over", "ghost, 2 polls", "allocate"],
            ["lock held: zone lock", "lock held: zone lock", "free"],
        ];
        assert_eq!(seen.flows, expected.map(|own| own.map(str::to_string)));
        assert_eq!(seen.slices["lock held"], 4);
        assert_eq!(seen.slices["wait for a lock"], 3);
    }

    #[test]
    fn slices_nest_and_counters_rise() {
        let lock = |contended| Event::Lock {
            contended,
            waits: 3,
        };
        let moments = vec![
            begin(10, "allocate"),
            inside(12, Event::LockWanted),
            inside(30, lock(true)),
            inside(40, Event::LockWanted),
            inside(40, lock(false)),
            inside(50, Event::Unlock),
            inside(60, Event::Unlock),
            inside(61, Event::Refill { frames: 31 }),
            Moment::End { at: 70 },
            begin(70, "free"),
            // A lock that is not released ends with its call.
            inside(72, lock(false)),
            Moment::End { at: 80 },
            // The wait began with the call if nothing says when the lock was wanted.
            begin(82, "free"),
            inside(84, lock(true)),
            Moment::End { at: 86 },
            // A ghost is a wait too; a lock that was acquired before the run is released.
            begin(87, "free"),
            inside(88, Event::Ghost { waits: 1 }),
            inside(88, Event::Unlock),
            Moment::End { at: 89 },
            begin(90, "park"),
            inside(92, lock(false)),
            inside(93, Event::Unlock),
            // A call that does not end ends with the next one, or with the run.
            begin(95, "park"),
        ];
        let bytes = encode("test", 2000, &[moments, vec![begin(5, "free")]], &[]);
        let Seen {
            slices,
            counters,
            flows,
        } = checked(&bytes);
        assert_eq!(flows.len(), 0, "no CPU is known that released a lock");
        let slice = |name: &str| slices.get(name).copied().unwrap_or(0);
        assert_eq!((slice("allocate"), slice("free"), slice("park")), (1, 4, 2));
        assert_eq!((slice("lock held"), slice("wait for a lock")), (5, 2));
        let expected = [
            ("calls, CPU 0", 4),
            ("contended calls, CPU 0", 3),
            ("lock acquisitions, CPU 0", 4),
            ("calls, CPU 1", 1),
        ];
        assert_eq!(
            counters,
            expected.map(|(name, value)| (name.to_string(), value))
        );
        // 2 GHz: the lock was wanted after 12 cycles and acquired after 30.
        let trace = Trace::decode(&bytes[..]).unwrap();
        for (time, name) in [(6, "wait for a lock"), (15, "lock held")] {
            let begins = trace.packet.iter().any(|packet| {
                packet.timestamp == Some(time)
                    && packet.track_event.as_ref().is_some_and(|e| {
                        e.name.as_deref() == Some(name) && e.r#type == Some(TYPE_SLICE_BEGIN)
                    })
            });
            assert!(begins, "{name}");
        }
    }

    #[test]
    fn a_timeline_without_cpus_is_a_name() {
        let seen = checked(&encode("nothing", 0, &[], &[]));
        assert!(seen.slices.is_empty() && seen.counters.is_empty());
    }

    #[test]
    fn a_timeline_agrees_with_the_rows_of_its_run() {
        let names =
            |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
        let machine = everybuddy_machines::by_name_or_path("x5570").unwrap();
        let variants = choice::workloads(&names(&["burst:random"])).unwrap();
        let calls_of = ["allocate", "free"];
        for (system, services, least) in [
            ("bs", Services::Callers, 100),
            ("bs+lock=ticket", Services::Callers, 100),
            ("lbs-31", Services::Callers, 100),
            ("lis-31", Services::Callers, 0),
            ("spring-core", Services::Callers, 10),
            ("serewa", Services::Own, 100),
        ] {
            let plan = Plan {
                machine: machine.name.clone(),
                hardware: machine.hardware,
                loads: variants.iter().copied().map(Load::Workload).collect(),
                specs: choice::parse(&names(&[system])).unwrap(),
                cpus: vec![16],
                frames: 8192,
                think: 400,
                shrink: 64,
                phases: Phases::Together,
                frees: Frees::Own,
                slice: 10_000,
                services,
                stops: false,
                seeds: vec![1],
            };
            let (rows, _) = plan
                .run(NonZero::<usize>::MIN, vec![None], &mut |_, _| Ok(()))
                .unwrap();
            let row = |metric: &str, statistic: &str| -> f64 {
                let same = |row: &&Row| (row.metric, row.statistic) == (metric, statistic);
                rows.iter().filter(same).map(|row| row.value).sum()
            };
            let Seen {
                slices,
                counters,
                flows,
            } = checked(&plan.timeline(&plan.cells()[0]).unwrap());
            let last = |name: &str| -> i64 {
                let of = |(counter, _): &&(String, i64)| counter.starts_with(name);
                counters.iter().filter(of).map(|(_, value)| value).sum()
            };
            let calls = last("calls") as f64;
            assert!(calls > 1000.0);
            assert_eq!(calls, row("latency", "count"), "{system}");
            let of_all = |row: &&Row| row.metric == "contention_rate" && row.operation == "all";
            let contended = rows.iter().find(of_all).unwrap().value * calls;
            assert_eq!(
                last("contended calls"),
                contended.round() as i64,
                "{system}"
            );
            let locks = row("lock_acquisitions", "count");
            assert_eq!(last("lock acquisitions") as f64, locks, "{system}");
            let both = slices["allocate"] + slices["free"];
            assert_eq!(both as f64, calls, "{system}");
            let waits = row("contended_wait", "count");
            let in_calls = flows
                .iter()
                .filter(|[.., call]| calls_of.contains(&&call[..]));
            let in_calls = in_calls.count();
            // A CPU that finds its domain held takes another one: it waits, but no CPU hands anything over.
            let is_all = if system.starts_with("spring") {
                in_calls as f64 <= waits
            } else {
                in_calls as f64 == waits
            };
            assert!(is_all, "{system}: {in_calls} flows, {waits} waits");
            assert!(in_calls >= least, "{system}: {in_calls} flows");
            // Services are on CPUs of their own, and wait for locks, too.
            assert_eq!(
                flows.len() > in_calls,
                services == Services::Own,
                "{system}"
            );
            let mut slices = 0;
            for [from, to, _] in &flows {
                slices += usize::from(from == to);
                let is_same = match from.split_once(": ") {
                    Some(("lock released", lock)) => *to == format!("lock held: {lock}"),
                    Some(("lock held", _)) => from == to,
                    _ => from == "domain handed over" && to.starts_with("ghost, "),
                };
                assert!(is_same, "{from}, {to}");
            }
            assert!(
                slices * 10 >= flows.len() * 8,
                "{system}: most begin at slices"
            );
        }
    }
}
