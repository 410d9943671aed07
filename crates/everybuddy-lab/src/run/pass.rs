//! One pass: a script on a freshly built system.
//!
//! Exists so that comparisons and experiments perform a script in the same way, whatever they watch and
//! whatever probe listens.
//!
//! Invariant: a release that is refused, or metadata that contradicts itself, is an error and never a result.

use std::sync::Mutex;

use everybuddy::platform::NativeCpus;
use everybuddy::{CpuId, FrameAllocator, Order, Snapshot, SystemSpec, WithSystem};

use crate::Error;
use crate::run::host::{self, Arena, Machine, Reading, SystemPort};
use crate::run::memory::Memory;
use crate::run::observe::Observer;
use crate::run::play::{Played, play};
use crate::run::script::{Lane, Script};

/// What a pass gives.
pub(crate) struct Done<B, O> {
    /// The observers, and what went wrong.
    pub(crate) played: Played<O>,
    /// The probe of each CPU, in no order.
    pub(crate) probes: Vec<B>,
    /// Free memory at the end, when the end was audited.
    pub(crate) end: Option<Snapshot>,
    /// The frames that lists kept then.
    pub(crate) listed: Vec<u32>,
    /// Free memory after the lists were brought home.
    pub(crate) home: Option<Snapshot>,
    /// The largest order that the system gives.
    pub(crate) max_order: Order,
    /// Bytes of metadata.
    pub(crate) metadata_bytes: usize,
}

/// How far threads may run ahead of each other: half of the spare memory, within reason.
pub(crate) fn window(script: &Script, memory: &Memory) -> u32 {
    let spare = (memory.frames - memory.taken).saturating_sub(script.peak_frames);
    (spare / 2).clamp(512, 4096) as u32
}

/// Performs one pass on a fresh system; `audit` has the end checked.
///
/// # Errors
/// A usage error when the system can't be set up so; [`Error::Broken`] when it broke its contract.
pub(crate) fn perform<B: Reading, O: Observer>(
    script: &Script,
    memory: &Memory,
    arena: &mut Arena,
    spec: &SystemSpec,
    audit: bool,
    observer: impl Fn(&Lane) -> O + Sync,
) -> Result<Done<B, O>, Error> {
    let pass = Pass {
        script,
        memory: *memory,
        window: window(script, memory),
        audit,
        observer,
    };
    let explain = |error| match error {
        Error::Broken(what) => {
            Error::Broken(format!("system {spec} on trace {}: {what}", script.name))
        }
        other => other,
    };
    let built = arena.build::<B, _>(spec, memory, script.cpus, pass);
    built.and_then(|done| done).map_err(explain)
}

/// One pass, as what runs on a system of any composition.
struct Pass<'s, F> {
    script: &'s Script,
    memory: Memory,
    window: u32,
    audit: bool,
    observer: F,
}

impl<B: Reading, O: Observer, F: Fn(&Lane) -> O + Sync> WithSystem<Machine<B>> for Pass<'_, F> {
    type Output = Result<Done<B, O>, Error>;

    fn call<A: FrameAllocator<Machine<B>>>(self, _: &'static str, system: &A) -> Self::Output {
        let cpus = NativeCpus::new(self.script.cpus);
        let broken = |what: String| Error::Broken(what);
        let busy = || broken("the first CPU's token is taken".to_string());
        let mut first = cpus.claim::<B>(CpuId(0)).ok_or_else(busy)?;
        self.memory.age(system, &mut first)?;
        system.park(&mut first);
        cpus.surrender(first);

        let probes = Mutex::new(Vec::new());
        let open = |lane: &Lane| SystemPort::<A, B>::claim(system, &cpus, lane);
        let close = |port: SystemPort<'_, A, B>| {
            let own = port.surrender();
            if let Ok(mut probes) = probes.lock() {
                probes.extend(own);
            }
        };
        let played = play(self.script, self.window, open, close, self.observer)?;
        if played.trouble.failed > 0 {
            let failed = played.trouble.failed;
            return Err(broken(format!(
                "{failed} frees of allocated blocks were refused"
            )));
        }
        let (mut end, mut listed, mut home) = (None, Vec::new(), None);
        if self.audit {
            let mut first = cpus.claim::<B>(CpuId(0)).ok_or_else(busy)?;
            end = Some(system.snapshot(&mut first));
            listed = host::listed(system);
            system
                .quiesce(&mut first)
                .map_err(|error| broken(error.to_string()))?;
            home = Some(system.snapshot(&mut first));
            let census = system
                .check(&mut first)
                .map_err(|error| broken(error.to_string()))?;
            let live = self.script.final_frames + self.memory.taken;
            if played.trouble.refused == 0 && census.allocated != live {
                let counted = census.allocated;
                return Err(broken(format!(
                    "{counted} frames are allocated at the end, not {live}"
                )));
            }
        }
        Ok(Done {
            played,
            probes: probes.into_inner().unwrap_or_default(),
            end,
            listed,
            home,
            max_order: system.max_order(),
            metadata_bytes: system.metadata_bytes(),
        })
    }
}
