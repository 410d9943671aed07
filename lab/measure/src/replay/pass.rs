//! One pass: a script on a newly built system.
//!
//! Comparisons and experiments run a script in the same way, whatever they observe and whichever probe they use.
//!
//! A timed pass calls the loops that [`timed`](mod@timed) compiles for each composition, one indirect call for each
//! segment. A watched pass calls each operation indirectly.
//!
//! # Invariants
//! A failed free, or inconsistent metadata, is an error and never a result.

use std::cell::RefCell;
use std::sync::Mutex;

use everybuddy::platform::{NativeCpu, NativeCpus};
use everybuddy::{CpuId, NoProbe, Order, Snapshot, SystemSpec};

use crate::Error;
use crate::replay::adapter::{Adapter, Floor, Using};
use crate::replay::calls::Calls;
use crate::replay::clock::Timer;
use crate::replay::host::{self, AnySystem, Arena, SystemAdapter};
use crate::replay::memory::{Initial, Memory};
use crate::replay::observe::{Observer, Segments, Singles, Ticks, Timing, Whole};
use crate::replay::play::{Part, Played, Stretch, play};
use crate::replay::script::{Lane, Script};
use crate::replay::services::{self, Served};
use crate::replay::timed::{self, TimedSystem};
use crate::replay::watch::{ReadableProbe, Watch};
use crate::touched::Touched;

/// The results of a watched pass.
pub struct Done<O> {
    /// The observers and the failures.
    pub played: Played<O>,
    /// The probes of the CPUs, unordered.
    pub probes: Vec<Watch>,
    /// The work of services with their own threads.
    pub services: Vec<Served>,
    /// Their probes.
    pub background: Vec<Watch>,
    /// The state of free memory at the end, if the end was audited.
    pub end: Option<Snapshot>,
    /// The frames in lists at that time, if they are noted.
    pub listed: Vec<u32>,
    /// The state of free memory after the lists were drained.
    pub home: Option<Snapshot>,
    /// The largest order that the system allocates.
    pub max_order: Order,
    /// Bytes of metadata.
    pub metadata_bytes: usize,
}

/// The parameters of a watched pass.
#[derive(Clone, Copy)]
pub struct How<'h> {
    /// Creates the probe of each CPU.
    pub probe: &'h (dyn Fn() -> Watch + Sync),
    /// Whether the end is checked.
    pub audit: bool,
    /// Whether the frames in lists are noted at the end. O(frames of memory).
    pub listed: bool,
}

impl How<'_> {
    /// Counts events, and checks the end.
    pub const COUNTED: How<'static> = How {
        probe: &Watch::default,
        audit: true,
        listed: false,
    };
}

/// The quantity that a timed pass measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Sections of a few thousand operations: [`Whole`].
    Stretches,
    /// Segments.
    Segments,
    /// Each operation.
    Singles,
}

/// Returns how far threads may run ahead of each other: half of the spare memory, within limits.
fn window(script: &Script, memory: &Memory) -> u32 {
    let spare = memory.free().saturating_sub(script.peak_frames);
    (spare / 2).clamp(512, 4096) as u32
}

/// Runs one watched pass on a new system.
///
/// # Errors
/// Returns a usage error if the system cannot be set up, or [`Error::Broken`] if it broke its contract.
pub fn watch<O: Observer>(
    script: &Script,
    memory: &Memory,
    arena: &mut Arena,
    spec: &SystemSpec,
    how: How<'_>,
    observer: impl Fn(&Lane) -> O + Sync,
) -> Result<Done<O>, Error> {
    let pass = Pass { script, memory };
    let visit = |system: &AnySystem<'_, Watch>| {
        let cpus = pass.begin(system)?;
        let probes = Mutex::new(Vec::new());
        let (played, services, background) =
            services::alongside(system, script.cpus, &how.probe, || {
                play(script, window(script, memory), &|part| {
                    let observer = observer(part.lane);
                    let mut adapter = SystemAdapter::claim(system, &cpus, part.lane, &how.probe);
                    let own = adapter.as_mut().map(|own| own as &mut dyn Adapter);
                    let stretch = part.perform(own, observer)?;
                    if let (Ok(mut probes), Some(mut adapter)) = (probes.lock(), adapter) {
                        probes.extend(adapter.take_probes());
                    }
                    Some(stretch)
                })
            });
        let played = played?;
        sound(&played)?;
        let mut done = Done {
            played,
            probes: probes.into_inner().unwrap_or_default(),
            services,
            background,
            end: None,
            listed: Vec::new(),
            home: None,
            max_order: system.max_order(),
            metadata_bytes: system.metadata_bytes(),
        };
        if how.audit {
            pass.audit(system, &cpus, how.listed, &mut done)?;
        }
        Ok(done)
    };
    let built = arena.build_any(spec, memory, script.cpus, visit);
    built
        .and_then(|done| done)
        .map_err(|error| explained(error, script, spec))
}

/// Runs one timed pass on a new system, whose frames are used if there is memory behind them.
///
/// # Errors
/// Like [`watch`].
pub fn time(
    script: &Script,
    memory: &Memory,
    arena: &mut Arena,
    spec: &SystemSpec,
    timer: &Timer,
    times: Times,
    touched: Option<&Touched>,
) -> Result<Played<Ticks>, Error> {
    let pass = Pass { script, memory };
    let mut played = Err(Error::Broken("the visitor was not called".to_string()));
    let built = timed::with(arena, spec, memory, script.cpus, &mut |system| {
        played = pass.time(system, timer, times, touched);
    });
    built
        .and(played)
        .map_err(|error| explained(error, script, spec))
}

/// Runs a timed pass without an allocator behind the adapter.
///
/// # Errors
/// Returns [`Error::Broken`] if a thread failed.
pub fn time_floor(
    script: &Script,
    memory: &Memory,
    timer: &Timer,
    times: Times,
    touched: Option<&Touched>,
) -> Result<Played<Ticks>, Error> {
    play(script, window(script, memory), &|part| {
        using(part, Some(&mut Floor::default()), timer, times, touched)
    })
}

/// Runs a thread's part on an adapter, and uses the frames if there is memory behind them.
fn using(
    part: Part<'_>,
    adapter: Option<&mut dyn Adapter>,
    timer: &Timer,
    times: Times,
    touched: Option<&Touched>,
) -> Option<Stretch<Ticks>> {
    match (touched, adapter) {
        (Some(memory), Some(inner)) => {
            timed(part, Some(&mut Using { inner, memory }), timer, times)
        }
        (_, adapter) => timed(part, adapter, timer, times),
    }
}

/// Runs a thread's part on an adapter with the observer for these times.
fn timed(
    part: Part<'_>,
    adapter: Option<&mut dyn Adapter>,
    timer: &Timer,
    times: Times,
) -> Option<Stretch<Ticks>> {
    fn by<'t, O: Timing<'t>>(
        part: Part<'_>,
        adapter: Option<&mut dyn Adapter>,
        timer: &'t Timer,
    ) -> Option<Stretch<Ticks>> {
        let observer = O::new(timer, part.lane);
        Some(part.perform(adapter, observer)?.map(O::into))
    }
    match times {
        Times::Stretches => by::<Whole<'_>>(part, adapter, timer),
        Times::Segments => by::<Segments<'_>>(part, adapter, timer),
        Times::Singles => by::<Singles<'_>>(part, adapter, timer),
    }
}

/// The work before and after a script.
#[derive(Clone, Copy)]
struct Pass<'s> {
    script: &'s Script,
    memory: &'s Memory,
}

impl Pass<'_> {
    /// Times the script on a new system.
    fn time(
        &self,
        system: &dyn TimedSystem,
        timer: &Timer,
        times: Times,
        touched: Option<&Touched>,
    ) -> Result<Played<Ticks>, Error> {
        let cpus = self.begin(system)?;
        let (played, _, _) =
            services::alongside(system, self.script.cpus, &NoProbe::default, || {
                play(self.script, window(self.script, self.memory), &|part| {
                    let mut adapter = system.adapter(&cpus, part.lane);
                    let own = adapter.as_mut().map(|own| &mut **own as &mut dyn Adapter);
                    using(part, own, timer, times, touched)
                })
            });
        let played = played?;
        sound(&played)?;
        Ok(played)
    }

    /// Ages the memory of a new system if requested, and returns the CPUs.
    fn begin<A: Calls<B> + ?Sized, B: ReadableProbe>(
        &self,
        system: &A,
    ) -> Result<NativeCpus, Error> {
        let cpus = NativeCpus::new(self.script.cpus);
        let mut first = first::<B>(&cpus)?;
        if matches!(self.memory.initial, Initial::Aged(_)) {
            let cpu = RefCell::new(&mut first);
            let allocate = &mut |request| system.allocate(&mut cpu.borrow_mut(), request);
            let free = &mut |release| system.free(&mut cpu.borrow_mut(), release);
            self.memory.age(allocate, free)?;
            system
                .quiesce(&mut first)
                .map_err(|error| Error::Broken(format!("aging memory: {error}")))?;
        }
        system.park(&mut first);
        cpus.release(first);
        Ok(cpus)
    }

    /// Records the free memory at the end, drains all lists, and checks that no frame is lost.
    fn audit<O>(
        &self,
        system: &AnySystem<'_, Watch>,
        cpus: &NativeCpus,
        is_listed: bool,
        done: &mut Done<O>,
    ) -> Result<(), Error> {
        let mut first = first(cpus)?;
        let end = system.snapshot(&mut first);
        if is_listed {
            done.listed = host::listed(system, end.buffered_frames);
        }
        done.end = Some(end);
        system
            .quiesce(&mut first)
            .map_err(|error| Error::Broken(error.to_string()))?;
        done.home = Some(system.snapshot(&mut first));
        let census = system
            .check(&mut first)
            .map_err(|error| Error::Broken(error.to_string()))?;
        let live = self.script.final_frames + self.memory.allocated();
        if done.played.trouble.refused.total() == 0 && census.allocated != live {
            let counted = census.allocated;
            return Err(Error::Broken(format!(
                "{counted} frames are in use at the end instead of {live}"
            )));
        }
        Ok(())
    }
}

fn first<B: ReadableProbe>(cpus: &NativeCpus) -> Result<NativeCpu<B>, Error> {
    let claimed = cpus.claim_probed(CpuId(0));
    claimed.map_err(|error| Error::Broken(format!("the first CPU: {error}")))
}

/// Rejects the results of a pass in which a free failed.
fn sound<O>(played: &Played<O>) -> Result<(), Error> {
    match played.trouble.failed {
        0 => Ok(()),
        failed => Err(Error::Broken(format!(
            "{failed} frees of allocated blocks failed"
        ))),
    }
}

fn explained(error: Error, script: &Script, spec: &SystemSpec) -> Error {
    match error {
        Error::Broken(what) => {
            Error::Broken(format!("system {spec} on trace {}: {what}", script.name))
        }
        other => other,
    }
}
