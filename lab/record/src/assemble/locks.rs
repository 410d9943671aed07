//! The acquisitions of the zone's lock: pairs the begin and the end of waits, and decides whose lock it was.
//!
//! `kmem:mm_zone_locked` and `zone_lock:*` are about the lock of a zone. `lock:contention_begin` and `contention_end`
//! are about any lock of the kernel and contain only its address. An address is a zone's lock if
//!
//! 1. the user says so; or
//! 2. more of its waits were called by functions of the page allocator than by others, according to the call chains
//!    that were recorded with some of them ([`Function`](crate::functions::Function)); or
//! 3. no call chain was recorded with its waits, and at least one in eight of them ended directly before an event that
//!    the kernel only reports while it holds a zone's lock (`kmem:mm_page_alloc_zone_locked`,
//!    `kmem:mm_page_pcpu_drain`).
//!
//! That a call of the allocator follows a wait proves nothing: the kernel also waits for the lock of its lists of used
//! pages (LRU) directly before it allocates or frees.
//!
//! # Invariants
//! Acquisitions are sorted by time, and those of one CPU do not overlap. Each begin and each end is part of one
//! acquisition, or is counted with the reason why not. After lost events nothing is paired across the gap.

use std::collections::{HashMap, HashSet};

use super::Accounts;
use crate::kernel::What;
use everybuddy_trace::{Acquisition, LockSource, OnCpus, WaitingCaller};

/// Waits of one CPU that can be open at the same time: a thread, and interrupts of three kinds.
const MAX_NESTED: usize = 4;

/// `zone_lock:*` reports every acquisition with two events. To record one takes about half a microsecond, so a shorter
/// time between them is not a wait.
const LEAST_WAIT_NS: u64 = 1_000;

/// One in this many waits for a zone's lock ends directly before an event under the lock, or more.
const HELD_SHARE: u64 = 8;

/// An event that may be about a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) time_ns: u64,
    pub(super) cpu: u16,
    pub(super) tid: u32,
    /// Whether the thread belongs to the trace.
    pub(super) is_own: bool,
}

/// A wait that has begun.
#[derive(Clone, Copy, Debug)]
struct Wait {
    lock: u64,
    tid: u32,
    begin_ns: u64,
    /// Whether a `lock:contention_end` lay between the begin and the end.
    has_queued: bool,
    /// The function of the page allocator that waits, if a call chain named it.
    caller: Option<&'static str>,
}

/// The last event of a lock on a CPU, if nothing happened since.
#[derive(Clone, Copy, Debug)]
struct Latest {
    lock: u64,
    tid: u32,
    /// The position of its acquisition, if it is the end of a wait.
    end: Option<usize>,
}

/// What a CPU is doing with locks.
#[derive(Debug, Default)]
struct OnCpu {
    /// Waits of `lock:contention_begin`, the outermost first.
    waits: Vec<Wait>,
    /// The wait of `zone_lock:zone_lock_start_locking`.
    wanted: Option<Wait>,
    /// The zone, and the position of its acquisition, whose release was not seen.
    held: Option<(u64, usize)>,
    latest: Option<Latest>,
}

impl OnCpu {
    /// Forgets everything, and returns the number of waits that never ended.
    fn forget(&mut self) -> u64 {
        let open = self.waits.len() + usize::from(self.wanted.is_some());
        *self = OnCpu::default();
        open as u64
    }
}

/// The evidence about the lock at one address.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    /// Chains that begin in the page allocator, and others.
    by_allocator: u64,
    by_others: u64,
    /// Ends, and ends directly before an event under a zone's lock.
    ends: u64,
    held: u64,
}

/// An acquisition, on the source's clock, and the address of its lock, if that is all that is known of it.
#[derive(Clone, Copy, Debug)]
struct FoundAcquisition {
    own: Acquisition,
    address: Option<u64>,
    is_own: bool,
    /// The function that waited, if it is known.
    caller: Option<&'static str>,
}

/// Everything that is known of locks.
#[derive(Debug, Default)]
pub(super) struct Locks {
    cpus: HashMap<u16, OnCpu>,
    /// Waits for locks at which threads sleep: thread and address. No zone's lock is among them.
    sleeping: HashSet<(u32, u64)>,
    evidence: HashMap<u64, Evidence>,
    found: Vec<FoundAcquisition>,
    /// Addresses that the user named.
    named: Vec<u64>,
    /// The time of the first event of a lock.
    begin_ns: Option<u64>,
}

impl Locks {
    /// Names the addresses of zones' locks.
    pub(super) fn name(&mut self, addresses: &[u64]) {
        self.named.extend(addresses);
    }

    /// Returns the time of the first event of a lock, on the source's clock; `None` if there was none.
    pub(super) fn begin_ns(&self) -> Option<u64> {
        self.begin_ns
    }

    /// Follows the next event of any kind.
    pub(super) fn push(&mut self, at: Moment, what: &What, accounts: &mut Accounts) {
        if let What::Lost { cpu } = *what {
            let lossy = self.cpus.iter_mut();
            let lossy = lossy.filter(|(own, _)| cpu.is_none_or(|cpu| cpu == **own));
            let open: u64 = lossy.map(|(_, on_cpu)| on_cpu.forget()).sum();
            accounts.waits_unfinished += open;
            return;
        }
        let is_of_lock = what.is_of_lock();
        if !is_of_lock && !self.cpus.contains_key(&at.cpu) {
            return;
        }
        let on_cpu = self.cpus.entry(at.cpu).or_default();
        let latest = on_cpu.latest.take().filter(|latest| latest.tid == at.tid);
        if !is_of_lock {
            return;
        }
        accounts.lock_events_seen += u64::from(what.is_event());
        self.begin_ns.get_or_insert(at.time_ns);
        match *what {
            What::ContentionBegin {
                lock,
                is_spin: false,
            } => {
                self.sleeping.insert((at.tid, lock));
            }
            What::ContentionBegin { lock, .. } => {
                // A CPU that spins runs nothing else but interrupts: the end of any other wait was not recorded.
                let before = on_cpu.waits.len();
                on_cpu
                    .waits
                    .retain(|wait| wait.tid == at.tid && wait.lock != lock);
                if on_cpu.waits.len() == MAX_NESTED {
                    on_cpu.waits.remove(0);
                }
                accounts.waits_unfinished += (before - on_cpu.waits.len()) as u64;
                on_cpu.waits.push(wait(lock, at));
                on_cpu.latest = Some(latest_of(lock, at, None));
            }
            What::ContentionEnd { lock, is_acquired } => {
                let waits = &mut on_cpu.waits;
                let place = waits
                    .iter()
                    .rposition(|wait| (wait.lock, wait.tid) == (lock, at.tid));
                let Some(place) = place else {
                    let was_sleeping = self.sleeping.remove(&(at.tid, lock));
                    accounts.ends_unmatched += u64::from(!was_sleeping);
                    return;
                };
                accounts.waits_unfinished += (waits.len() - place - 1) as u64;
                let Wait {
                    begin_ns, caller, ..
                } = waits[place];
                waits.truncate(place);
                if let Some(wanted) = &mut on_cpu.wanted {
                    wanted.has_queued |= wanted.tid == at.tid;
                }
                on_cpu.latest = Some(latest_of(lock, at, Some(self.found.len())));
                self.evidence.entry(lock).or_default().ends += 1;
                if is_acquired {
                    let wait_ns = (at.time_ns - begin_ns).max(1);
                    let own = acquisition(at, wait_ns, 0, LockSource::Contention);
                    self.found.push(FoundAcquisition {
                        caller,
                        ..found(own, Some(lock), at)
                    });
                }
            }
            What::LockCaller { allocator } => {
                on_cpu.latest = latest;
                if let Some(latest) = latest {
                    let evidence = self.evidence.entry(latest.lock).or_default();
                    evidence.by_allocator += u64::from(allocator.is_some());
                    evidence.by_others += u64::from(allocator.is_none());
                    // A wait that did not end with the lock has no acquisition: then the position is another one's.
                    let place = latest.end.and_then(|place| self.found.get_mut(place));
                    let ended = place.filter(|found| {
                        (found.address, found.own.pid) == (Some(latest.lock), latest.tid)
                    });
                    match (ended, on_cpu.waits.last_mut()) {
                        (Some(found), _) => found.caller = allocator.or(found.caller),
                        (None, Some(wait)) if latest.end.is_none() => wait.caller = allocator,
                        _ => {}
                    }
                }
            }
            What::ZoneLockHeld => {
                if let Some(latest) = latest.filter(|latest| latest.end.is_some()) {
                    self.evidence.entry(latest.lock).or_default().held += 1;
                }
            }
            What::ZoneLockWanted { zone } => {
                accounts.waits_unfinished += u64::from(on_cpu.wanted.is_some());
                on_cpu.wanted = Some(wait(zone, at));
            }
            What::ZoneLockGivenUp { zone } => {
                let wanted = on_cpu.wanted.take();
                let is_same = wanted.is_some_and(|wanted| wanted.lock == zone);
                accounts.ends_unmatched += u64::from(!is_same);
            }
            What::ZoneLockAcquired {
                zone,
                wait_ns,
                batch,
            } => {
                let (wait_ns, source) = match wait_ns {
                    Some(wait_ns) => (wait_ns, LockSource::ZoneLocked),
                    None => {
                        let wanted = on_cpu.wanted.take();
                        let wanted = wanted.filter(|own| (own.lock, own.tid) == (zone, at.tid));
                        let Some(wanted) = wanted else {
                            accounts.ends_unmatched += 1;
                            return;
                        };
                        let passed = at.time_ns - wanted.begin_ns;
                        let has_waited = wanted.has_queued || passed >= LEAST_WAIT_NS;
                        let wait_ns = if has_waited { passed.max(1) } else { 0 };
                        (wait_ns, LockSource::ZoneLock)
                    }
                };
                on_cpu.held = Some((zone, self.found.len()));
                let own = acquisition(at, wait_ns, batch, source);
                self.found.push(found(own, None, at));
            }
            What::ZoneLockReleased { zone } => {
                match on_cpu.held.take().filter(|(held, _)| *held == zone) {
                    Some((_, place)) => {
                        let own = &mut self.found[place].own;
                        own.hold_ns = (at.time_ns - own.time_ns).max(1);
                    }
                    None => accounts.ends_unmatched += 1,
                }
            }
            _ => {}
        }
    }

    /// Returns `true` if the lock at an address is a zone's, according to the user or to its waits; `None` if neither
    /// decides.
    fn is_of_zone(&self, address: u64, has_held: bool) -> Option<bool> {
        if self.named.contains(&address) {
            return Some(true);
        }
        let evidence = self.evidence.get(&address).copied().unwrap_or_default();
        if evidence.by_allocator + evidence.by_others > 0 {
            return Some(evidence.by_allocator > evidence.by_others);
        }
        if has_held {
            return Some(evidence.held > 0 && evidence.held * HELD_SHARE >= evidence.ends);
        }
        (!self.named.is_empty()).then_some(false)
    }

    /// Returns the acquisitions of zones' locks by threads of the trace, on the trace's clock, and the functions that
    /// waited.
    pub(super) fn finish(
        mut self,
        begin_ns: u64,
        accounts: &mut Accounts,
    ) -> (Vec<Acquisition>, Vec<WaitingCaller>) {
        let open: u64 = self.cpus.values_mut().map(OnCpu::forget).sum();
        accounts.waits_unfinished += open;
        // Events about zones' locks come first: `lock:contention_*` reports the same waits again.
        let best = self.found.iter().map(|found| found.own.source).min();
        let has_held = self.evidence.values().any(|evidence| evidence.held > 0);
        let mut decided: HashMap<u64, Option<bool>> = HashMap::new();
        let (mut acquisitions, mut cpus) = (Vec::new(), OnCpus::default());
        let mut callers: HashMap<&str, (u64, u64)> = HashMap::new();
        for found in &self.found {
            let is_of_zone = match found.address {
                Some(address) => *decided
                    .entry(address)
                    .or_insert_with(|| self.is_of_zone(address, has_held)),
                None => Some(true),
            };
            let reason = match is_of_zone {
                _ if Some(found.own.source) != best => &mut accounts.acquisitions_repeated,
                None => &mut accounts.waits_of_unknown_locks,
                Some(false) => &mut accounts.waits_for_others,
                Some(true) if !found.is_own || found.own.time_ns < begin_ns => {
                    &mut accounts.acquisitions_by_others
                }
                Some(true) => {
                    let own = Acquisition {
                        time_ns: found.own.time_ns - begin_ns,
                        ..found.own
                    };
                    match cpus.admit(&own) {
                        Ok(()) => {
                            acquisitions.push(own);
                            if let Some(name) = found.caller {
                                let (waits, wait_ns) = callers.entry(name).or_default();
                                (*waits, *wait_ns) = (*waits + 1, *wait_ns + own.wait_ns);
                            }
                            &mut accounts.acquisitions
                        }
                        Err(_) => &mut accounts.waits_overlapping,
                    }
                }
            };
            *reason += 1;
        }
        let callers = callers
            .into_iter()
            .map(|(name, (waits, wait_ns))| WaitingCaller {
                name: name.to_string(),
                waits,
                wait_ns,
            });
        let mut callers: Vec<WaitingCaller> = callers.collect();
        callers.sort_by(|a, b| (b.wait_ns, &a.name).cmp(&(a.wait_ns, &b.name)));
        (acquisitions, callers)
    }
}

fn wait(lock: u64, at: Moment) -> Wait {
    Wait {
        lock,
        tid: at.tid,
        begin_ns: at.time_ns,
        has_queued: false,
        caller: None,
    }
}

fn latest_of(lock: u64, at: Moment, end: Option<usize>) -> Latest {
    Latest {
        lock,
        tid: at.tid,
        end,
    }
}

fn acquisition(at: Moment, wait_ns: u64, batch: u32, source: LockSource) -> Acquisition {
    Acquisition {
        time_ns: at.time_ns,
        wait_ns,
        hold_ns: 0,
        pid: at.tid,
        batch,
        cpu: at.cpu,
        source: source as u8,
    }
}

fn found(own: Acquisition, address: Option<u64>, at: Moment) -> FoundAcquisition {
    FoundAcquisition {
        own,
        address,
        is_own: at.is_own,
        caller: None,
    }
}
