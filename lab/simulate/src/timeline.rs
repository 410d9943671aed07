//! A simulated run as a timeline in Perfetto's format.
//!
//! A table says that a lock is waited for; a timeline shows by whom, when, and what the holder did meanwhile. The file
//! opens in Perfetto's viewer, offline or at ui.perfetto.dev.
//!
//! # Format
//! One track for each CPU: slices for calls, and inside them for waiting and for holding a lock; instants for what
//! happened (refills, drains, extensions, ...). Three counters for each CPU: calls, contended calls and acquisitions of
//! locks. Their last values add up to the rows of the run. Times are nanoseconds of the simulated machine.
//!
//! A lock is named by its part of the metadata. If it was waited for, a flow leads from its release by another CPU to
//! its acquisition, which also names that CPU. A flow also leads from a CPU that hands over a domain, or a part of one,
//! to the CPU that waited for it.
//!
//! # Invariants
//! Slices nest, and each of them ends. In a track, time never decreases. A flow has two ends, on different CPUs. It
//! begins where a slice of its lock ends, or at an instant if the release is in no slice: a CPU that looks for a free
//! domain acquires locks without events, and the CPU may not be recorded yet.

use std::collections::VecDeque;

use everybuddy::{Event, LINE, MetadataPart};
use everybuddy_sim::{LastAccess, Line, SimCpu, Taped, Write};

use self::schema::{
    CounterDescriptor, DebugAnnotation, Encode, ProcessDescriptor, TYPE_COUNTER, TYPE_INSTANT,
    TYPE_SLICE_BEGIN, TYPE_SLICE_END, ThreadDescriptor, Trace, TracePacket, TrackDescriptor,
    TrackEvent, UNIT_COUNT,
};

mod schema;

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

/// Adds what a CPU has recorded since the last call as a call that has just ended. Without events, an optional call is
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
        packet.write(&mut self.bytes);
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

#[cfg(test)]
mod tests;
