//! The CPUs of a session: one thread, which takes turns.
//!
//! A step of a script is one call on one CPU, and no other CPU works meanwhile. Every event is recorded. Two places can
//! be made to interrupt a call: the first lock that it acquires, and its first wait. So a script can let a CPU call
//! while another one holds a lock or a domain.
//!
//! # Invariants
//! What is recorded and what interrupts belongs to the thread, so sessions of several threads do not meet.

use std::cell::{Cell, RefCell};
use std::mem;

use everybuddy::platform::{Bare, CpuToken, ProbeOf, Waiting};
use everybuddy::{CpuId, Event, Probe};

/// The CPUs of each session.
pub(crate) const CPUS: u16 = 2;

/// The platform of sessions.
pub(crate) type Turns = Bare<Cpu, Turn, InCpu>;

/// What runs in the middle of a call.
type Interruption = Box<dyn FnOnce()>;

thread_local! {
    static EVENTS: RefCell<Vec<(CpuId, Event)>> = const { RefCell::new(Vec::new()) };
    static SILENT: Cell<bool> = const { Cell::new(false) };
    static ON_LOCK: RefCell<Option<Interruption>> = const { RefCell::new(None) };
    static ON_WAIT: RefCell<Option<Interruption>> = const { RefCell::new(None) };
    static WORKS: RefCell<[bool; CPUS as usize]> = const { RefCell::new([false; CPUS as usize]) };
}

/// The token of a CPU.
pub(crate) struct Cpu {
    id: CpuId,
    recorder: Recorder,
}

impl Cpu {
    /// Runs a call on a CPU. Another CPU can exclude it before and afterwards.
    pub(crate) fn run<R>(id: CpuId, call: impl FnOnce(&mut Cpu) -> R) -> R {
        let was = set_works(id, true);
        let result = call(&mut Cpu {
            id,
            recorder: Recorder { cpu: id },
        });
        set_works(id, was);
        result
    }
}

fn set_works(id: CpuId, works: bool) -> bool {
    WORKS.with_borrow_mut(|all| match all.get_mut(id.index()) {
        Some(one) => mem::replace(one, works),
        None => false,
    })
}

impl CpuToken for Cpu {
    fn id(&self) -> CpuId {
        self.id
    }

    /// A CPU between two of its calls lends its token, as by an interrupt.
    fn exclude(&self, cpu: CpuId) -> Option<Self> {
        let works = WORKS.with_borrow(|all| all.get(cpu.index()).copied());
        (works == Some(false)).then_some(Cpu {
            id: cpu,
            recorder: Recorder { cpu },
        })
    }
}

/// Records the events of a CPU.
pub(crate) struct Recorder {
    cpu: CpuId,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { cpu: CpuId(0) }
    }
}

impl Probe for Recorder {
    fn record(&mut self, event: Event) {
        if !SILENT.get() {
            EVENTS.with_borrow_mut(|events| events.push((self.cpu, event)));
        }
        if matches!(event, Event::Lock { .. }) {
            interrupt(&ON_LOCK);
        }
    }
}

/// The probe is in the token.
pub(crate) struct InCpu;

impl ProbeOf<Cpu> for InCpu {
    type Probe = Recorder;

    fn probe(cpu: &mut Cpu) -> &mut Recorder {
        &mut cpu.recorder
    }
}

/// How a CPU waits: another one has its turn.
pub(crate) struct Turn;

impl Waiting for Turn {
    fn pause(_: u32) {
        interrupt(&ON_WAIT);
    }
}

fn interrupt(place: &'static std::thread::LocalKey<RefCell<Option<Interruption>>>) {
    if let Some(run) = place.take() {
        run();
    }
}

/// Runs `work` when a call acquires its first lock, or a domain.
pub(crate) fn on_lock(work: impl FnOnce() + 'static) {
    ON_LOCK.set(Some(Box::new(work)));
}

/// Runs `work` when a call waits for the first time.
pub(crate) fn on_wait(work: impl FnOnce() + 'static) {
    ON_WAIT.set(Some(Box::new(work)));
}

/// Removes what waits for a lock. Returns `true` if there was any.
pub(crate) fn forget_lock() -> bool {
    ON_LOCK.take().is_some()
}

/// Removes what waits for a wait. Returns `true` if there was any.
pub(crate) fn forget_wait() -> bool {
    ON_WAIT.take().is_some()
}

/// Stops recording, or goes on with it.
pub(crate) fn set_silent(silent: bool) {
    SILENT.set(silent);
}

/// Returns the events that were recorded since the last call.
pub(crate) fn take_events() -> Vec<(CpuId, Event)> {
    EVENTS.take()
}
