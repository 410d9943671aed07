//! The conformance suite: what every system must do, on every platform.
//!
//! A test binary brings a [`Host`] (how to run code on the CPUs of its platform) and calls
//! [`conformance!`]: each property becomes a test that goes over all rows of the systems' table and their
//! variants.

#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod model;
pub mod properties;

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use everybuddy::systems::ROWS;
use everybuddy::{
    Block, FrameRange, Order, Pfn, Platform, Setup, SystemSpec, WithSystem, metadata_layout,
    with_system,
};

/// Runs code on the CPUs of a platform.
pub trait Host<P: Platform>: Sync {
    /// Runs `body` once on each of the CPUs 0 to `cpus - 1`, at the same time.
    fn run<F: Fn(&mut P::Cpu) + Sync>(&self, cpus: u16, body: F);
}

/// Returns what the suite runs over: all rows, and variants of those that have lists.
pub fn specs() -> Vec<SystemSpec> {
    let mut texts: Vec<String> = Vec::new();
    for row in ROWS {
        let takes = |key| row.options.contains(&key);
        // What delays coalescing refuses requests that could be served, as its paper has it, unless it is told
        // to coalesce first.
        if takes("reclaim") {
            let on = "reclaim=on";
            texts.push(format!("{}+{on}", row.name));
            texts.push(format!("{}+order=3+{on}", row.name));
            texts.push(format!("{}+order=3+zone=spaces+space=64KiB+{on}", row.name));
            if takes("debt") {
                texts.push(format!("{}+{on}+debt=on", row.name));
                texts.push(format!(
                    "{}+list=linux+batch=2+high=3+order=3+{on}+debt=on",
                    row.name
                ));
            }
            if takes("list") {
                for list in [
                    "linux+batch=2+high=3+order=3+zone=spaces+space=64KiB",
                    "linux+batch=31+high=186+hold=iteration",
                    "bypass+high=3",
                    "linux-6",
                    "spring+high=700",
                    "spring+high=3+order=3+zone=spaces+space=32KiB",
                ] {
                    texts.push(format!("{}+list={list}+{on}", row.name));
                }
            }
            continue;
        }
        texts.push(row.name.to_string());
        texts.push(format!("{}+order=3", row.name));
        if takes("percpu") {
            texts.push(format!("{}+percpu=locked", row.name));
        }
        if takes("check") {
            texts.push(format!("{}+check=off", row.name));
        }
        if takes("batch") {
            texts.push(format!("{}+batch=2+high=3", row.name));
            // The suite's memories are small, where the batch by memory is 1: so the real one too.
            texts.push(format!("{}+batch=31+high=186", row.name));
            if takes("percpu") {
                texts.push(format!("{}+batch=31+high=186+percpu=locked", row.name));
            }
        }
        if takes("high") && !takes("batch") {
            texts.push(format!("{}+high=3", row.name));
            texts.push(format!("{}+high=700", row.name));
        }
        if takes("zone") {
            // Memory in very many spaces, in few, and in one.
            texts.push(format!("{}+order=3+zone=spaces+space=32KiB", row.name));
            texts.push(format!("{}+zone=spaces+select=fresh", row.name));
            texts.push(format!("{}+zone=one", row.name));
        }
        if takes("lock") {
            let line = if takes("line") { "+line=beside" } else { "" };
            texts.push(format!("{}+lock=ticket{line}", row.name));
        }
        if takes("idle") {
            // Domains that are merged whenever one comes back, and after a while.
            texts.push(format!("{}+order=3+zone=domains+idle=1", row.name));
            texts.push(format!("{}+zone=domains", row.name));
        }
        if takes("idle") && takes("bulk") {
            texts.push(format!("{}+order=3+zone=domains+bulk=rows", row.name));
        }
        if takes("hold") {
            texts.push(format!("{}+hold=iteration", row.name));
            texts.push(format!("{}+lock=ticket+hold=when-contended", row.name));
        }
        if takes("batch") && takes("hold") && takes("zone") {
            let small = "order=3+zone=spaces+space=32KiB";
            texts.push(format!(
                "{}+{small}+batch=31+high=186+hold=iteration",
                row.name
            ));
        }
        if takes("queue") {
            // Queues that are always full, and such as never are; each way to join the services.
            texts.push(format!("{}+queue=1", row.name));
            texts.push(format!("{}+order=3+queue=2+sync=semaphore", row.name));
            texts.push(format!("{}+queue=4096+manager=thread", row.name));
            texts.push(format!("{}+separate=off", row.name));
            texts.push(format!("{}+order=3+queue=64+remnants=first", row.name));
            texts.push(format!("{}+order=3+structure=list", row.name));
            texts.push(format!("{}+structure=bitmap", row.name));
            texts.push(format!(
                "{}+order=3+structure=bitmap+separate=off",
                row.name
            ));
        }
        if takes("bulk") {
            texts.push(format!("{}+bulk=rows", row.name));
        }
        if takes("bulk") && takes("zone") {
            texts.push(format!(
                "{}+order=3+zone=spaces+space=64KiB+bulk=rows",
                row.name
            ));
        }
    }
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Runs `visitor` on a system built in memory of its own.
pub fn build<P: Platform, V: WithSystem<P>>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    visitor: V,
) -> V::Output {
    let layout = metadata_layout::<P>(spec, setup).unwrap_or_else(|e| panic!("{spec}: {e}"));
    let mut memory = vec![MaybeUninit::uninit(); layout.size() + layout.align()];
    with_system(spec, setup, &mut memory, visitor).unwrap_or_else(|e| panic!("{spec}: {e}"))
}

/// Who has which frame: catches a frame that is given twice the moment it is.
pub struct Shadow(Vec<AtomicU32>);

impl Shadow {
    pub fn new(frames: u32) -> Self {
        Self((0..frames).map(|_| AtomicU32::new(0)).collect())
    }

    pub fn take(&self, start: Pfn, frames: u32, owner: u32) {
        for frame in start.0..start.0 + frames {
            let before = self.0[frame as usize].swap(owner + 1, Ordering::Relaxed);
            assert_eq!(
                before,
                0,
                "frame {frame:#x} was given to {owner}, but {} has it",
                before - 1
            );
        }
    }

    pub fn give(&self, start: Pfn, frames: u32, owner: u32) {
        for frame in start.0..start.0 + frames {
            let before = self.0[frame as usize].swap(0, Ordering::Relaxed);
            assert_eq!(before, owner + 1, "frame {frame:#x} was not {owner}'s");
        }
    }

    pub fn taken(&self) -> usize {
        self.0
            .iter()
            .filter(|owner| owner.load(Ordering::Relaxed) != 0)
            .count()
    }
}

/// A small generator (splitmix64): tests need the same numbers everywhere.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Memory of every shape: the start, the holes, sizes that are no power of two.
pub const MEMORIES: &[&[FrameRange]] = &[
    &[FrameRange::new(0, 64)],
    &[FrameRange::new(0, 1)],
    &[FrameRange::new(3, 1000)],
    &[
        FrameRange::new(0x12345, 777),
        FrameRange::new(0x12700, 1),
        FrameRange::new(0x13000, 2048),
    ],
    &[FrameRange::new(0x7ffff, 2), FrameRange::new(0x80001, 4095)],
];

pub fn frames_of(ranges: &[FrameRange]) -> u64 {
    ranges.iter().map(|range| range.frames).sum()
}

pub fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

pub fn block(start: u32, order: u8) -> Block {
    Block::new(Pfn(start), self::order(order))
}

/// Goes over all specs: `property(spec)` runs for each, and a failure names the spec.
pub fn for_each_spec(property: impl Fn(&SystemSpec)) {
    for spec in specs() {
        struct Name<'a>(&'a SystemSpec);
        impl Drop for Name<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    eprintln!("the system was {}", self.0);
                }
            }
        }
        let _name = Name(&spec);
        property(&spec);
    }
}

/// Makes a test of each property, over all systems, for a platform and its host.
#[macro_export]
macro_rules! conformance {
    ($platform:ty, $host:expr, [$($property:ident),* $(,)?]) => {
        $(
            #[test]
            fn $property() {
                suite::for_each_spec(|spec| {
                    suite::properties::$property::<$platform, _>(&$host, spec)
                });
            }
        )*
    };
    ($platform:ty, $host:expr) => {
        $crate::conformance!($platform, $host, [
            all_memory_can_be_had_and_comes_back,
            blocks_are_aligned_and_disjoint,
            random_requests_agree_with_the_model,
            frames_in_other_lists_are_found,
            a_request_fails_only_when_all_is_held,
            many_cpus_never_share_a_frame,
            misuse_is_an_error_and_changes_nothing,
            ranges_come_and_go,
            nested_and_bulk,
        ]);
    };
}

/// Builds a system and runs `body` on it. (A closure can't be a visitor: it would have to be generic.) The
/// body sees the host and what is captured, under the same names.
#[macro_export]
macro_rules! visit {
    (
        $host:ident, $spec:expr, $setup:expr,
        [$($captured:ident : $type:ty),*], |$system:ident| $body:block
    ) => {{
        struct Visitor<'v, P: Platform, H: Host<P>> {
            $host: &'v H,
            $($captured: $type,)*
            platform: std::marker::PhantomData<fn() -> P>,
        }
        impl<'v, P: Platform, H: Host<P>> WithSystem<P> for Visitor<'v, P, H> {
            type Output = ();
            fn call<A: FrameAllocator<P>>(self, _name: &'static str, $system: &A) {
                let Self { $host, $($captured,)* .. } = self;
                $body
            }
        }
        let platform = std::marker::PhantomData;
        build::<P, _>($spec, $setup, Visitor::<P, H> { $host, $($captured,)* platform })
    }};
}
