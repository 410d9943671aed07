//! Entry points for fuzzing: functions that accept arbitrary bytes and check rules that must always hold.
//!
//! A fuzzer and the property tests run the same code on the same bytes.
//!
//! # Invariants
//! A function here returns for every input, or panics with the broken rule.

pub mod readers;

use crate::assemble::{Assembly, KnownProcess, KnownRegion, Scope};
#[cfg(target_os = "linux")]
use crate::format::Format;
use crate::kernel::{KernelEvent, What};
use crate::record::{decode, page, tracepoints};
use everybuddy_trace::{Broken, Event, Legal, Leniency, Op, RegionKind, Repairs, legalize};

/// Checks that events replay by themselves.
fn legal(events: &[Event]) -> Result<Legal, Broken> {
    legalize(events.to_vec(), Leniency::Strict, &mut Repairs::default())
}

/// Reads numbers from bytes; past the end, all numbers are 0.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn whole(&mut self) -> u64 {
        (0..8).fold(0, |value, _| value << 8 | u64::from(self.byte()))
    }

    /// Returns a number that is mostly small, so that frames and tasks repeat, and sometimes absurd.
    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => self.whole(),
            254 => u64::MAX - u64::from(self.byte()),
            253 => (1 << 40) + u64::from(self.byte()),
            small => u64::from(small) % 64,
        }
    }

    fn order(&mut self) -> u32 {
        match self.byte() {
            255 => self.whole() as u32,
            small => [0, 0, 1, 2, 3, 0, 1, 9, 18, 19][usize::from(small) % 10],
        }
    }

    /// Returns an address in one of a few pages of each part of a process.
    fn address(&mut self) -> u64 {
        const PARTS: [u64; 6] = [
            0,
            0x5555_0000_0000,
            0x7f00_0000_0000,
            0x7fff_ff00_0000,
            !0xffff,
            1 << 47,
        ];
        let part = self.byte();
        match part {
            255 => self.whole(),
            part => {
                PARTS[usize::from(part) % PARTS.len()].wrapping_add(u64::from(self.byte()) << 12)
            }
        }
    }

    fn call(&mut self) -> (u64, [u64; 6]) {
        let number = [9, 11, 12, 25, 1, 60, 231, 9][usize::from(self.byte()) % 8];
        let (address, bytes) = (self.address(), u64::from(self.byte()) << 10);
        match number {
            25 => (
                number,
                [address, bytes, u64::from(self.byte()) << 10, 1, 0, 0],
            ),
            _ => (
                number,
                [address, bytes, u64::from(self.byte()) % 4, 0x22, 3, 0],
            ),
        }
    }

    fn what(&mut self) -> What {
        match self.byte() % 16 {
            0..=4 => What::Allocate {
                pfn: self.number(),
                order: self.order(),
                gfp: 8,
                migratetype: self.byte() as i8,
            },
            5..=7 => What::Free {
                pfn: self.number(),
                order: self.order(),
            },
            8 => What::Refuse { order: 0 },
            9 | 10 => What::Fault {
                address: self.address(),
                is_user: self.byte() < 128,
            },
            11 => {
                let (number, arguments) = self.call();
                What::SystemCall { number, arguments }
            }
            12 => What::SystemCallEnd {
                number: self.call().0,
                result: self.address() as i64,
            },
            13 => What::NewTask {
                tid: self.number() as u32 % 8,
                clone_flags: [0, 0x100, What::CLONE_THREAD, What::CLONE_THREAD | 0x100]
                    [usize::from(self.byte()) % 4],
                name: String::new(),
            },
            14 => What::Exec {
                program: ["", "/bin/true", "make"][usize::from(self.byte()) % 3].to_string(),
            },
            _ => What::Exit,
        }
    }
}

/// Creates events from arbitrary bytes.
pub fn kernel_events(bytes: &[u8]) -> Vec<KernelEvent> {
    let mut bytes = Bytes(bytes);
    let mut events = Vec::new();
    let mut time_ns = 0u64;
    while !bytes.0.is_empty() {
        let (shape, tid) = (bytes.byte(), u32::from(bytes.byte()) % 6);
        time_ns = match shape {
            255 => bytes.whole(),
            step => time_ns.saturating_add(u64::from(step) % 8),
        };
        events.push(KernelEvent {
            time_ns,
            cpu: u16::from(shape) % 3,
            tid,
            tgid: (shape & 8 != 0).then_some(tid / 2),
            in_interrupt: shape & 0x30 == 0x30,
            what: bytes.what(),
        });
    }
    events
}

/// Assembles a trace from arbitrary bytes, and checks that it replays by itself.
///
/// # Panics
///
/// If it does not, or if the faults and regions do not belong to it.
pub fn assemble(bytes: &[u8]) {
    let (is_everything, bytes) = match bytes.split_first() {
        Some((first, rest)) => (first % 2 == 1, rest),
        None => return,
    };
    let scope = if is_everything {
        Scope::Everything
    } else {
        Scope::Tree { root: 1 }
    };
    let mut assembly = Assembly::new(scope);
    assembly.register_known(&KnownProcess {
        tgid: 1,
        threads: vec![2, 1, 3],
        regions: vec![KnownRegion {
            start: 0x5555_0000_0000,
            end: 0x5555_0000_3000,
            prot: 3,
            flags: 0x22,
            kind: RegionKind::Heap,
        }],
        ..KnownProcess::default()
    });
    let events = kernel_events(bytes);
    let pushed = events.len() as u64;
    for event in events {
        assembly.push(event);
    }
    let assembled = assembly.finish("trial");
    let (trace, accounts) = (assembled.trace, assembled.accounts);

    let checked = legal(&trace.events);
    assert!(
        checked.is_ok(),
        "the trace does not replay: {:?}",
        checked.err()
    );
    for fault in &trace.faults {
        let event = trace.events.get(fault.row as usize);
        assert!(event.is_some_and(|event| event.op == Op::Allocate));
        assert!(event.is_some_and(|event| event.region == fault.region));
    }
    let rising = trace
        .faults
        .windows(2)
        .all(|pair| pair[0].row < pair[1].row);
    assert!(rising, "faults are sorted by row");
    let of_events = trace.events.iter().filter_map(|event| event.region);
    for region in of_events {
        assert!(
            trace.region(region).is_some(),
            "a region that does not exist"
        );
    }
    let kept = accounts.allocations + accounts.frees - accounts.too_far;
    assert_eq!(
        kept,
        trace.events.len() as u64,
        "the count of kept events is wrong"
    );
    let seen: u64 = accounts
        .iter()
        .filter(|(field, ..)| field.ends_with("_seen"))
        .map(|(.., count)| count)
        .sum();
    assert_eq!(seen, pushed, "the count of seen events is wrong");
}

/// Descriptions of a page and of each tracepoint, as on x86-64 kernels.
#[cfg(target_os = "linux")]
const HEADER_PAGE: &str = "field: u64 timestamp;offset:0;size:8;signed:0;
field: local_t commit;offset:8;size:8;signed:1;
field: char data;offset:16;size:4080;signed:0;";
#[cfg(target_os = "linux")]
const COMMON: &str = "field:unsigned short common_type;offset:0;size:2;signed:0;
field:unsigned char common_flags;offset:2;size:1;signed:0;
field:int common_pid;offset:4;size:4;signed:1;";
#[cfg(target_os = "linux")]
const FIELDS: [&str; 9] = [
    "field:unsigned long pfn;offset:8;size:8;signed:0;
     field:unsigned int order;offset:16;size:4;signed:0;
     field:unsigned long gfp_flags;offset:24;size:8;signed:0;
     field:int migratetype;offset:32;size:4;signed:1;",
    "field:unsigned long pfn;offset:8;size:8;signed:0;
     field:unsigned int order;offset:16;size:4;signed:0;",
    "field:pid_t pid;offset:8;size:4;signed:1;
     field:char comm[16];offset:12;size:16;signed:0;
     field:u64 clone_flags;offset:32;size:8;signed:0;",
    "field:__data_loc char[] filename;offset:8;size:4;signed:0;",
    "",
    "field:unsigned long address;offset:8;size:8;signed:0;",
    "field:unsigned long address;offset:8;size:8;signed:0;",
    "field:long id;offset:8;size:8;signed:1;
     field:unsigned long args[6];offset:16;size:48;signed:0;",
    "field:long id;offset:8;size:8;signed:1;
     field:long ret;offset:16;size:8;signed:1;",
];

/// Interprets arbitrary bytes as a page of a ring buffer, then as the records of a page, and assembles the events.
///
/// Tracepoints have the numbers 1 to 9 in the order of `record/tracepoints.rs`.
///
/// # Panics
///
/// If a record is not inside the page, or the trace does not replay.
#[cfg(target_os = "linux")]
pub fn ring_buffer(bytes: &[u8]) {
    let Some(layout) = page::PageLayout::new(&Format::parse(HEADER_PAGE)) else {
        unreachable!("the description has every field");
    };
    let mut decoder = decode::Decoder::default();
    let tracepoints = tracepoints::MEMORY.iter().chain(&tracepoints::TASKS);
    for ((id, tracepoint), fields) in (1..).zip(tracepoints).zip(FIELDS) {
        let format = Format::parse(&format!("ID: {id}\n{COMMON}\n{fields}"));
        assert!(decoder.learn(tracepoint, &format), "{}", tracepoint.path);
    }
    let mut framed = 1u64.to_ne_bytes().to_vec();
    framed.extend((bytes.len() as u64 & 0xf_ffff).to_ne_bytes());
    framed.extend(bytes);
    for whole in [bytes, &framed] {
        assert!(layout.used(whole) <= whole.len());
        let mut assembly = Assembly::new(Scope::Everything);
        let mut records = page::Page::new(whole, &layout);
        let mut length = 0;
        for (time_ns, record) in records.by_ref() {
            length += record.len();
            if let Some(event) = decoder.decode(time_ns, 0, record) {
                assembly.push(event);
            }
        }
        assert!(length <= whole.len(), "records overlap");
        let events = assembly.finish("trial").trace.events;
        assert!(legal(&events).is_ok(), "the trace does not replay");
    }
}
