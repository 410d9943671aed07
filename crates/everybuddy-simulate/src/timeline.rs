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
//! # Invariants
//!
//! Slices nest, and each of them ends. In a track, time never decreases.

use everybuddy::Event;
use everybuddy_sim::Taped;
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

/// Encodes the timeline of a run: the moments of each CPU, by number. `mhz` is the clock rate of the machine, and
/// `name` stands above all tracks.
pub fn encode(name: &str, mhz: u32, cpus: &[Vec<Moment>]) -> Vec<u8> {
    let mut packets = vec![packet(Data::Track(TrackDescriptor {
        uuid: Some(PROCESS),
        process: Some(ProcessDescriptor {
            pid: Some(1),
            process_name: Some(name.to_string()),
        }),
        ..TrackDescriptor::default()
    }))];
    for (cpu, moments) in (0..).zip(cpus) {
        let mut track = Track::new(cpu, mhz, &mut packets);
        for moment in moments {
            track.add(moment);
        }
        track.close(track.last);
    }
    Trace { packet: packets }.encode_to_vec()
}

/// The most moments of a timeline: about 200 MB.
pub const MOST_MOMENTS: usize = 4_000_000;

/// The track above all others.
const PROCESS: u64 = 1;
/// The counters of a CPU.
const COUNTERS: [&str; 3] = ["calls", "contended calls", "lock acquisitions"];
/// The track of slices and one for each counter.
const TRACKS: u64 = 1 + COUNTERS.len() as u64;

/// The packets of one CPU.
struct Track<'p> {
    packets: &'p mut Vec<TracePacket>,
    mhz: u64,
    slices: u64,
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

impl<'p> Track<'p> {
    fn new(cpu: u64, mhz: u32, packets: &'p mut Vec<TracePacket>) -> Self {
        let slices = PROCESS + 1 + cpu * TRACKS;
        packets.push(packet(Data::Track(TrackDescriptor {
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
            packets.push(packet(Data::Track(TrackDescriptor {
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
            packets,
            mhz: u64::from(mhz.max(1)),
            slices,
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
                self.close(at);
                self.call = Some(is_counted);
                self.begin(at, call);
            }
            Moment::Inside(Taped { at, event }) => self.inside(at, event),
            Moment::End { at } => self.close(at),
        }
    }

    fn inside(&mut self, at: u64, event: Event) {
        match event {
            Event::LockWanted => self.wanted = Some(at),
            Event::Lock { contended, .. } => {
                if contended {
                    self.begin(self.wanted.unwrap_or(at), "wait for a lock");
                    self.end(at);
                    self.is_contended = true;
                }
                self.wanted = None;
                self.held += 1;
                self.begin(at, "lock held");
                if self.call == Some(true) {
                    self.count(at, 2);
                }
            }
            Event::Unlock if self.held > 0 => {
                self.held -= 1;
                self.end(at);
            }
            other => {
                self.is_contended |= matches!(other, Event::Ghost { .. });
                if let Some(name) = instant(other) {
                    self.event(at, TYPE_INSTANT, Some(name));
                }
            }
        }
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

    fn begin(&mut self, at: u64, name: &'static str) {
        self.event(at, TYPE_SLICE_BEGIN, Some(name.to_string()));
    }

    fn end(&mut self, at: u64) {
        self.event(at, TYPE_SLICE_END, None);
    }

    fn event(&mut self, at: u64, kind: i32, name: Option<String>) {
        self.last = at;
        self.push(
            at,
            TrackEvent {
                r#type: Some(kind),
                track_uuid: Some(self.slices),
                name,
                counter_value: None,
            },
        );
    }

    /// Adds one to a counter.
    fn count(&mut self, at: u64, counter: usize) {
        self.counts[counter] += 1;
        self.push(
            at,
            TrackEvent {
                r#type: Some(TYPE_COUNTER),
                track_uuid: Some(self.slices + 1 + counter as u64),
                name: None,
                counter_value: Some(self.counts[counter]),
            },
        );
    }

    fn push(&mut self, at: u64, event: TrackEvent) {
        let nanoseconds = u128::from(at) * 1000 / u128::from(self.mhz);
        self.packets.push(TracePacket {
            timestamp: Some(nanoseconds as u64),
            ..packet(Data::Event(event))
        });
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
struct TrackEvent {
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZero;

    use everybuddy_measure::choice;
    use everybuddy_measure::rows::Row;

    use super::*;
    use crate::Services;
    use crate::workload::{Frees, Phases};
    use crate::{Load, Plan};

    /// Decodes a timeline and checks that slices nest and end, and that time never decreases in a track. Returns the
    /// slices by name, and for each counter its name and last value.
    fn checked(bytes: &[u8]) -> (BTreeMap<String, u64>, Vec<(String, i64)>) {
        let trace = Trace::decode(bytes).unwrap();
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
            match event.r#type.unwrap() {
                TYPE_SLICE_BEGIN => open.entry(track).or_default().push(event.name.unwrap()),
                TYPE_SLICE_END => {
                    let name = open.entry(track).or_default().pop();
                    *slices.entry(name.expect("a slice has begun")).or_default() += 1;
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
        (slices, counters.collect())
    }

    fn begin(at: u64, call: &'static str) -> Moment {
        Moment::Begin {
            at,
            call,
            is_counted: call != "park",
        }
    }

    fn inside(at: u64, event: Event) -> Moment {
        Moment::Inside(Taped { at, event })
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
        let bytes = encode("test", 2000, &[moments, vec![begin(5, "free")]]);
        let (slices, counters) = checked(&bytes);
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
        let (slices, counters) = checked(&encode("nothing", 0, &[]));
        assert!(slices.is_empty() && counters.is_empty());
    }

    #[test]
    fn a_timeline_agrees_with_the_rows_of_its_run() {
        let names =
            |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
        let machine = everybuddy_machines::by_name_or_path("x5570").unwrap();
        let variants = choice::workloads(&names(&["burst:random"])).unwrap();
        for system in ["bs", "lis-31", "spring"] {
            let plan = Plan {
                machine: machine.name.clone(),
                hardware: machine.hardware,
                loads: variants.iter().copied().map(Load::Workload).collect(),
                specs: choice::parse(&names(&[system])).unwrap(),
                cpus: vec![4],
                frames: 8192,
                think: 100,
                shrink: 64,
                phases: Phases::Together,
                frees: Frees::Own,
                slice: 10_000,
                services: Services::Callers,
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
            let (slices, counters) = checked(&plan.timeline(&plan.cells()[0]).unwrap());
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
            assert!(system != "bs" || last("contended calls") > 0);
        }
    }
}
