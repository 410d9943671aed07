//! A machine of virtual CPUs for the buddy systems of `everybuddy`: one host thread, any number of CPUs,
//! the same run every time.
//!
//! Why it exists: how a buddy system behaves on many CPUs can be neither measured on a host with two nor
//! repeated on any host. Here the very same allocator source runs on the platform [`Sim`]: every access to
//! shared metadata is noticed, costs virtual cycles, and may hand the host to another virtual CPU.
//!
//! | module | what it holds |
//! |---|---|
//! | `machine` | [`Machine`]: how many CPUs, what costs what; runs closures on them |
//! | `engine` | virtual CPUs as coroutines; the only unsafe code |
//! | `schedule` | clocks, who runs next, who waits for what, counts |
//! | `cost` | [`CostModel`]: cycles of an access; [`Flat`] |
//! | `region` | [`Region`], [`Line`]: cache lines numbered by offset |
//! | `platform` | [`Sim`] and its cells, atomics and tokens |
//! | `report` | [`Report`], [`SimError`] |
//!
//! Invariant: at every access to shared memory the CPU that makes it has the smallest clock of all CPUs
//! that can run (ties go to the smaller number). So a run is one interleaving, ordered by virtual time, and
//! depends only on the code, the number of CPUs, the cost model, the seed and the jitter: not on the host,
//! and not on where memory lies.
//!
//! # What is not modelled
//!
//! - Caches, coherence, bandwidth, memory latency: [`Flat`] charges every access the same. [`CostModel`] is
//!   the place where a better model goes.
//! - Weak memory: the simulation is sequentially consistent, orderings have no effect. It finds races of
//!   logic, not missing barriers; model checkers do that.
//! - All schedules: one run is one schedule. [`Machine::jitter`] and [`Machine::seed`] give others.
//! - Instructions, beyond what [`Platform::work`](everybuddy::Platform::work) is told; memory that does not
//!   lie in the platform's cells and atomics, and so everything that only one CPU can see.
//! - The traffic of waiters: who waits is parked and looks again when it is woken.
//! - Preemption, interrupts, threads that share a CPU, hyperthreads, sockets.
//!
//! # Example
//!
//! ```
//! use everybuddy::prelude::*;
//! use everybuddy_sim::{Flat, Machine, Region, Sim, SimCpu};
//!
//! struct Demo(Region);
//! impl WithSystem<Sim> for Demo {
//!     type Output = u64;
//!     fn call<A: FrameAllocator<Sim>>(self, _name: &'static str, system: &A) -> u64 {
//!         let mut machine = Machine::new(4).cost(Flat::new(10));
//!         let report = machine
//!             .run(self.0, |cpu: &mut SimCpu| {
//!                 for _ in 0..100 {
//!                     let frame = system.allocate(cpu, Request::FRAME).unwrap();
//!                     system.free(cpu, Release::frame(frame)).unwrap();
//!                 }
//!                 // A CPU that leaves says so: others don't wait for it then.
//!                 system.park(cpu);
//!             })
//!             .unwrap();
//!         report.cycles()
//!     }
//! }
//!
//! let ranges = [FrameRange::new(0, 4096)];
//! let setup = Setup::new(&ranges, 4);
//! let spec: SystemSpec = "lbs-31".parse().unwrap();
//! let bytes = metadata_layout::<Sim>(&spec, &setup).unwrap().size() + 64;
//! let mut memory = vec![core::mem::MaybeUninit::uninit(); bytes];
//! let region = Region::of(&memory);
//! let cycles = with_system(&spec, &setup, &mut memory, Demo(region)).unwrap();
//! assert!(cycles > 0);
//! ```

mod cost;
mod engine;
mod machine;
mod platform;
mod region;
mod report;
mod schedule;

pub use cost::{Access, AccessKind, CostModel, Flat};
pub use machine::Machine;
pub use platform::{Sim, SimAtomicU32, SimAtomicU64, SimCell, SimCpu};
pub use region::{Line, Region};
pub use report::{CpuReport, Report, SimError, Waiting};
