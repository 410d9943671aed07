//! A machine of virtual CPUs for the buddy systems of `everybuddy`: one host thread, any number of CPUs, and the same
//! run every time.
//!
//! The behaviour of a buddy system on many CPUs cannot be measured on a host with two CPUs, and no measurement
//! repeats exactly. Here the same allocator source runs on the platform [`Sim`]: every access to shared metadata is
//! observed, costs virtual cycles, and may switch to another virtual CPU.
//!
//! | module | contents |
//! |---|---|
//! | `machine` | [`Machine`]: the number of CPUs and the costs; runs closures on the CPUs |
//! | `engine` | virtual CPUs as coroutines; the only unsafe code |
//! | `schedule` | clocks, the order in which CPUs run, waiters, counters |
//! | `ready` | the queue of CPUs that can run |
//! | `faults` | CPUs that are stopped or interrupted at chosen accesses |
//! | `cores` | [`Cores`]: more virtual CPUs than run at the same time |
//! | `cost` | [`CostModel`]: the cycles of an access; [`Flat`] |
//! | `models` | [`Hardware`]: a machine in numbers; [`Caches`]: coherent caches as a cost model |
//! | `random` | pseudo-random numbers |
//! | `region` | [`Region`], [`Line`]: cache lines numbered by offset |
//! | `platform` | [`Sim`] and its cells, atomics and tokens |
//! | `report` | [`Report`], [`SimError`] |
//! | `tape` | [`Tape`]: a probe that keeps events with their times |
//! | `watchdog` | runs that make no progress |
//!
//! # Invariants
//! At every access to shared memory, the CPU that makes it has the smallest clock of all CPUs that can run (ties go to
//! the smaller CPU number). A run is therefore one interleaving, ordered by virtual time. It depends only on the code,
//! the number of CPUs, the cost model, the seed and the jitter: not on the host, and not on where memory is placed.
//!
//! # Not modelled
//! - Caches and coherence by [`Flat`], which charges every access the same. [`Caches`] models them, and states what it
//!   leaves out.
//! - Weak memory: the simulation is sequentially consistent, and orderings have no effect. It finds logical races,
//!   not missing barriers; the model checkers do that.
//! - All schedules: one run is one schedule. [`Machine::jitter`] and [`Machine::seed`] select others.
//! - Instructions, except those reported to [`Platform::work`](everybuddy::Platform::work), and those that accesses
//!   [stand for](SimCpu::path). Memory outside the
//!   platform's cells and atomics, and therefore everything that only one CPU can see.
//! - Preemption other than by the [`Cores`] that CPUs share, and interrupts other than those that
//!   [`Machine::interrupt`] plans.
//!
//! # Example
//! ```
//! use everybuddy::prelude::*;
//! use everybuddy_sim::{Flat, Machine, Region, Sim, SimCpu, build_any};
//!
//! let ranges = [FrameRange::new(Pfn(0), 4096)];
//! let setup = Setup::new(&ranges, 4);
//! let spec: SystemSpec = "lbs-31".parse().unwrap();
//! let bytes = metadata_layout::<Sim>(&spec, &setup).unwrap().size() + 64;
//! let mut memory = vec![core::mem::MaybeUninit::uninit(); bytes];
//! let region = Region::of(&memory);
//! let system = build_any(&spec, &setup, Memory::new(&mut memory)).unwrap();
//! let mut machine = Machine::new(4).cost(Flat::new(10));
//! let report = machine
//!     .run(region, |cpu: &mut SimCpu| {
//!         for _ in 0..100 {
//!             let frame = system.allocate(cpu, Request::FRAME).unwrap();
//!             system.free(cpu, Release::frame(frame)).unwrap();
//!         }
//!         // A CPU that leaves says so: others don't wait for it then.
//!         system.park(cpu);
//!     })
//!     .unwrap();
//! assert!(report.cycles() > 0);
//! ```

mod cores;
mod cost;
mod engine;
mod faults;
mod machine;
mod models;
mod platform;
mod random;
mod ready;
mod region;
mod report;
mod schedule;
mod tape;
mod watchdog;

pub use cores::Cores;
pub use cost::{Access, AccessKind, Charge, CostModel, Flat, Instructions, Park, Wake};
pub use machine::{DEFAULT_LIMIT, DEFAULT_STACK, LARGEST_LIMIT, Machine};
pub use models::{Cache, Caches, Hardware, HardwareError, Place, Traffic, Transfer, Waiters};
pub use platform::{Sim, SimAtomicU32, SimAtomicU64, SimCell, SimCpu, build_any};
pub use region::{Line, Records, Region};
pub use report::{CpuReport, LastAccess, Report, Running, SimError, Stopped, Waiting, Write};
pub use tape::{Tape, Taped};
