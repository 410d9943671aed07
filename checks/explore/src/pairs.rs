//! Two operations of two CPUs under all schedules with at most two preemptions, and calls that interrupt an operation.
//!
//! A search of one thread never stops inside an operation. Here two operations run as coroutines from a state that the
//! search reached, and the code is the same. A CPU that waits gives way, which does not count as a preemption.
//!
//! # Invariants
//! 1. Preemption happens only before accesses of words that both operations access and one of them writes, in any
//!    schedule of the pair: other accesses commute with those of the other operation. A schedule that shows another
//!    such word begins the pair anew.
//! 2. `YIELDER` points to the yielder of the coroutine that runs.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use everybuddy::{AllocateError, FrameAllocator, FreeError, RegionError, Request};
use everybuddy_explore::platform::{
    Explored, accesses, alone, share, stop_after, take_watched, watch,
};

use crate::oracle::{Fault, Oracle, Promises};
use crate::search::{Explorer, Finding};
use crate::step::{Operation, Outcome, Refusal, Step, bits, frames_of};

thread_local! {
    static YIELDER: Cell<*const Yielder<(), bool>> = const { Cell::new(core::ptr::null()) };
    /// What interrupts.
    static NESTED: Cell<Option<(&'static dyn FrameAllocator<Explored>, Step)>> = const { Cell::new(None) };
    /// What it returned; a panic is that of the operation.
    static RETURNED: Cell<Option<Outcome>> = const { Cell::new(None) };
}

/// Runs what interrupts.
fn interrupt(is_wait: bool) {
    if !is_wait && let Some((system, step)) = NESTED.take() {
        RETURNED.set(Some(step.call(system)));
    }
}

/// Suspends the running coroutine.
fn give_way(is_wait: bool) {
    let own = YIELDER.get();
    // SAFETY: the pointer is that of the running coroutine (invariant 2), which lives while it runs.
    unsafe { (*own).suspend(is_wait) };
    YIELDER.set(own);
}

/// The most schedules of a pair. More is reported.
const MOST_SCHEDULES: u64 = 200_000;

/// A coroutine that executes a step. `None` is a panic.
type Cpu = Coroutine<(), bool, Option<Outcome>, DefaultStack>;

/// What was done.
#[derive(Clone, Copy, Default)]
pub(crate) struct PairCounts {
    /// The states from which pairs began.
    pub(crate) states: u64,
    /// The paths of operations, told apart by their numbers of accesses, that the search saw, and that begin there.
    pub(crate) paths: (u64, u64),
    /// Pairs, and those with a word that one writes and the other accesses.
    pub(crate) pairs: (u64, u64),
    /// Schedules of these.
    pub(crate) schedules: u64,
    /// Pairs that were given up with too many schedules.
    pub(crate) long: u64,
    /// Operations that were interrupted by a call, at each of their accesses, and these accesses.
    pub(crate) interrupted: (u64, u64),
    /// Results that were busy.
    pub(crate) busy: u64,
    /// Schedules and interrupted operations that were judged.
    judged: u64,
}

/// Two steps at the same time, with their outcomes.
type Both = [(Step, Option<Outcome>); 2];

/// Which words the two steps of a pair access (bits 0 and 1) and write (bits 2 and 3), in any schedule so far.
#[derive(Default)]
struct Words(HashMap<usize, u8>);

impl Words {
    /// Notes the accesses of a CPU. Returns `true` if another word is shared now.
    fn note(&mut self, cpu: usize) -> bool {
        let mut is_more = false;
        for (word, is_write) in take_watched() {
            let flags = self.0.entry(word).or_default();
            let before = *flags;
            *flags |= (1 | u8::from(is_write) << 2) << cpu;
            is_more |= Self::is_shared(*flags) && !Self::is_shared(before);
        }
        is_more
    }

    /// Returns `true` if both access a word and one writes it.
    fn is_shared(flags: u8) -> bool {
        flags & 0b11 == 0b11 && flags & 0b1100 != 0
    }

    /// Returns the shared words.
    fn shared(&self) -> HashSet<usize> {
        let shared = self.0.iter().filter(|(_, flags)| Self::is_shared(**flags));
        shared.map(|(word, _)| *word).collect()
    }
}

/// What may be exceptions: of each call that is refused although nothing says why, one of these kinds must be one.
type Doubts = Vec<Vec<Fault>>;

/// Judges the outcomes of two steps that ran at the same time, and returns the state that follows, with what may be
/// exceptions.
fn settle(promises: &Promises, before: Oracle, both: &Both) -> Result<(Oracle, Doubts), Fault> {
    let [Some(first), Some(second)] = [both[0].1, both[1].1] else {
        return Err("panic".into());
    };
    let calls = [(both[0].0, first), (both[1].0, second)];
    let mut after = before;
    // Frees first: what one frees, the other may be given.
    for frees in [true, false] {
        for (step, outcome) in &calls {
            let is_free = matches!(
                step.operation,
                Operation::Free(_) | Operation::FreeNested(_)
            );
            if is_free == frees && outcome.refusal.is_none() {
                after.judge(promises, step, outcome)?;
            }
        }
    }
    // What neither call holds afterwards was free throughout, unless a call that is refused held it meanwhile.
    let mut least = before;
    least.allocated |= after.allocated;
    least.present &= after.present;
    least.reserved |= after.reserved;
    let mut doubts = Doubts::new();
    for (index, (step, outcome)) in calls.iter().enumerate() {
        let (other, result) = &calls[1 - index];
        let mut held = least;
        if let (Operation::AllocateAt(start, frames), Some(_)) = (other.operation, result.refusal) {
            held.allocated |= bits(start, frames);
        }
        if let Err(fault) = refused(promises, least, step, outcome) {
            let mut kinds = vec![fault];
            if refused(promises, held, step, outcome).is_ok() {
                kinds.push("refused while another call holds frames that it gives back".into());
            }
            doubts.push(kinds);
        }
    }
    Ok((after, doubts))
}

/// Judges a call that may have been refused, where these frames were free throughout.
fn refused(
    promises: &Promises,
    mut free: Oracle,
    step: &Step,
    outcome: &Outcome,
) -> Result<(), Fault> {
    match (step.operation, outcome.refusal) {
        (_, None) => Ok(()),
        (_, Some(Refusal::Allocate(AllocateError::Busy))) => Ok(()),
        (Operation::FreeNested(_), Some(Refusal::Free(FreeError::Busy))) => Ok(()),
        // It names a frame that was not free at some time.
        (Operation::AllocateAt(start, frames), Some(Refusal::Region(RegionError::NotFree(_)))) => {
            match bits(start, frames) & !free.free() {
                0 => Err("a range is refused that was free throughout".into()),
                _ => Ok(()),
            }
        }
        // The range was in another state at some time.
        (_, Some(Refusal::Region(_))) => Ok(()),
        (_, Some(_)) => free.judge(promises, step, outcome),
    }
}

/// Explores pairs of a search.
pub(crate) struct Pairs<'e, 's> {
    explorer: &'e mut Explorer<'s>,
    stacks: Vec<DefaultStack>,
    /// What was done.
    pub(crate) counts: PairCounts,
    /// What is wrong.
    pub(crate) findings: BTreeMap<String, Finding>,
}

impl<'e, 's> Pairs<'e, 's> {
    /// Takes the states of a search.
    pub(crate) fn of(explorer: &'e mut Explorer<'s>) -> Self {
        Self {
            explorer,
            stacks: Vec::new(),
            counts: PairCounts::default(),
            findings: BTreeMap::new(),
        }
    }

    /// Explores all pairs from at most the given number of states.
    pub(crate) fn run(&mut self, most: usize) {
        if most == 0 {
            return;
        }
        for (node, gain) in self.choose(most) {
            self.counts.states += 1;
            if !self.run_from(node) {
                break;
            }
            self.counts.paths.1 += gain;
        }
        alone();
        self.explorer.world.undo();
    }

    /// Explores all pairs from a state. Returns `false` if the time is used up before.
    fn run_from(&mut self, node: usize) -> bool {
        let oracle = self.explorer.nodes[node].oracle;
        let state = self.explorer.nodes[node].state.clone();
        self.explorer.world.load(&state);
        let [first, second] = [0, 1].map(|cpu| self.candidates(cpu, &oracle));
        for one in &first {
            for other in &second {
                if self.explorer.is_late() {
                    return false;
                }
                if !share_frames(one, other) {
                    self.pair(node, [*one, *other]);
                }
            }
            self.interrupt(node, one);
        }
        true
    }

    /// Chooses states, by coverage: from one state after another, those where a step takes a path that it took in none
    /// before, those with most such paths first, until there are enough. Paths are told apart by their number of
    /// accesses. Each state comes with its number of new paths.
    fn choose(&mut self, most: usize) -> Vec<(usize, u64)> {
        let mut paths: HashMap<(usize, u64), usize> = HashMap::new();
        let expanded = self.explorer.expanded.min(5000);
        for node in 0..expanded {
            let state = self.explorer.nodes[node].state.clone();
            self.explorer.world.load(&state);
            for index in 0..self.explorer.steps.len() {
                let step = self.explorer.steps[index];
                self.explorer.call(&step);
                paths.entry((index, accesses())).or_insert(node);
                self.explorer.world.undo();
            }
        }
        self.counts.paths.0 = paths.len() as u64;
        let mut gains: BTreeMap<usize, u64> = BTreeMap::new();
        for node in paths.values() {
            *gains.entry(*node).or_default() += 1;
        }
        // Others, spread over the search, if that is not enough.
        let rest = most.saturating_sub(gains.len()).min(expanded);
        for index in 0..rest {
            gains.entry(index * expanded / rest).or_default();
        }
        let mut chosen: Vec<(usize, u64)> = gains.into_iter().collect();
        chosen.sort_by_key(|(_, gain)| core::cmp::Reverse(*gain));
        chosen.truncate(most);
        chosen
    }

    /// Returns the steps of a CPU that may run at the same time as others: no misuse, and each kind once or twice.
    fn candidates(&self, cpu: u16, oracle: &Oracle) -> Vec<Step> {
        let steps = self.explorer.steps.iter().filter(|step| step.cpu == cpu);
        let is_candidate = |step: &&Step| match step.operation {
            Operation::Allocate(request) => {
                let plain = Request {
                    size: request.size,
                    ..Request::FRAME
                };
                let frames = frames_of(request.size);
                request == plain && frames > 0 && frames <= 1 << self.explorer.promises.largest
            }
            Operation::AllocateBulk(request) => request == Request::FRAME,
            Operation::AllocateAt(start, frames) => frames > 0 && start < 2 && frames <= 2,
            Operation::Free(release) => oracle.is_block(release) || oracle.is_part(release),
            Operation::Drain | Operation::Park | Operation::Quiesce => true,
            Operation::DrainParked(_) | Operation::Serve(_) => true,
            Operation::Reserve(start, frames) | Operation::Remove(start, frames) => {
                (start, frames) == (0, 1)
            }
            Operation::Unreserve(start, frames) | Operation::Add(start, frames) => {
                (start, frames) == (0, 1)
            }
            _ => false,
        };
        steps.filter(is_candidate).copied().collect()
    }

    /// Runs one step up to its shared access `stops.0`, the other one up to `stops.1`, then the first to its end, and
    /// then the other. Returns the outcomes, whether each reached its stop, and whether more words are shared.
    fn schedule(
        &mut self,
        steps: [Step; 2],
        first: usize,
        stops: (u64, u64),
        words: &mut Words,
    ) -> (Both, [bool; 2], bool) {
        let system = self.explorer.world.system;
        let mut cpus = steps.map(|step| {
            let stack = self.stacks.pop().unwrap_or_default();
            Cpu::with_stack(stack, move |yielder, ()| {
                YIELDER.set(yielder);
                catch_unwind(AssertUnwindSafe(|| step.call(system))).ok()
            })
        });
        let (mut outcomes, mut is_done, mut is_more) = ([None; 2], [false; 2], false);
        watch(give_way);
        let mut go = |cpu: usize, stop: u64, is_done: &mut [bool; 2]| -> Option<bool> {
            stop_after(stop);
            let result = cpus[cpu].resume(());
            is_more |= words.note(cpu);
            match result {
                CoroutineResult::Yield(is_wait) => Some(is_wait),
                CoroutineResult::Return(outcome) => {
                    (is_done[cpu], outcomes[cpu]) = (true, outcome);
                    None
                }
            }
        };
        let other = 1 - first;
        let mut reached = [false; 2];
        reached[first] = go(first, stops.0, &mut is_done) == Some(false);
        reached[other] = go(other, stops.1, &mut is_done) == Some(false);
        let mut cpu = first;
        while is_done != [true, true] {
            if is_done[cpu] || go(cpu, u64::MAX, &mut is_done) == Some(true) {
                cpu = 1 - cpu;
            }
        }
        self.stacks.extend(cpus.map(Coroutine::into_stack));
        let [one, two] = outcomes;
        ([(steps[0], one), (steps[1], two)], reached, is_more)
    }

    /// Explores a pair.
    fn pair(&mut self, node: usize, steps: [Step; 2]) {
        self.counts.pairs.0 += 1;
        let mut words = Words::default();
        share(HashSet::new());
        for first in 0..2 {
            let (both, _, _) = self.schedule(steps, first, (0, 0), &mut words);
            self.judge(node, &both, || format!("CPU {first} first"));
        }
        let mut schedules = 2;
        if words.shared().is_empty() {
            return;
        }
        self.counts.pairs.1 += 1;
        'again: loop {
            share(words.shared());
            for first in 0..2 {
                let mut stops = (0, 0);
                loop {
                    schedules += 1;
                    let (both, reached, is_more) = self.schedule(steps, first, stops, &mut words);
                    self.judge(node, &both, || {
                        let (one, two) = (stops.0, stops.1);
                        let other = 1 - first;
                        format!("CPU {first} stops before its shared access {one}, CPU {other} before its {two}")
                    });
                    if schedules > MOST_SCHEDULES {
                        self.counts.long += 1;
                        break 'again;
                    }
                    if is_more {
                        continue 'again;
                    }
                    if reached[1 - first] {
                        stops.1 += 1;
                    } else if reached[first] {
                        stops = (stops.0 + 1, 0);
                    } else {
                        break;
                    }
                }
            }
            break;
        }
        self.counts.schedules += schedules;
    }

    /// Interrupts a step before each of its accesses, by nested calls on the same CPU.
    fn interrupt(&mut self, node: usize, step: &Step) {
        let system = self.explorer.world.system;
        let oracle = self.explorer.nodes[node].oracle;
        let nested = self
            .explorer
            .steps
            .iter()
            .filter(|nested| match nested.operation {
                Operation::AllocateNested(request) => frames_of(request.size) <= 2,
                Operation::FreeNested(release) => {
                    oracle.is_part(release) && !share_frames(step, nested)
                }
                _ => false,
            });
        let nested: Vec<Step> = nested
            .filter(|nested| nested.cpu == step.cpu)
            .copied()
            .collect();
        for nested in nested {
            self.counts.interrupted.0 += 1;
            let mut words = Words::default();
            for stop in 0.. {
                share(words.0.keys().copied().collect());
                watch(interrupt);
                stop_after(stop);
                NESTED.set(Some((system, nested)));
                RETURNED.set(None);
                let outcome = catch_unwind(AssertUnwindSafe(|| step.call(system))).ok();
                words.note(0);
                let was_reached = NESTED.take().is_none();
                if was_reached {
                    self.counts.interrupted.1 += 1;
                    let both = [(*step, outcome), (nested, RETURNED.take())];
                    self.judge(node, &both, || {
                        format!("the second interrupts the first at access {stop}")
                    });
                } else {
                    self.explorer.world.undo();
                    // The first time, no word was known.
                    if stop > 0 {
                        break;
                    }
                }
            }
        }
    }
}

impl Pairs<'_, '_> {
    /// Judges two outcomes and the present state, and returns to the state before.
    fn judge(&mut self, node: usize, both: &Both, schedule: impl Fn() -> String) {
        alone();
        self.counts.judged += 1;
        let before = self.explorer.nodes[node].oracle;
        let is_busy = |outcome: &&(Step, Option<Outcome>)| {
            let refusal = outcome.1.and_then(|outcome| outcome.refusal);
            matches!(refusal, Some(Refusal::Allocate(AllocateError::Busy)))
        };
        self.counts.busy += both.iter().filter(is_busy).count() as u64;
        let settled = settle(&self.explorer.promises, before, both);
        let is_nested = matches!(both[1].0.operation, Operation::AllocateNested(_));
        let operation = if is_nested { "interrupt" } else { "both" };
        let mut is_exception = |kind: &Fault| self.explorer.is_exception(operation, kind);
        let settled = settled.and_then(|(after, doubts)| {
            let mut faults = doubts.into_iter();
            let fault = faults.find(|kinds| !kinds.iter().any(&mut is_exception));
            fault
                .and_then(|mut kinds| kinds.pop())
                .map_or(Ok(after), Err)
        });
        let fault = match settled {
            Err(fault) => Some(fault),
            Ok(after) => {
                let now = self.explorer.world.state();
                let base = self.explorer.nodes[node].state.clone();
                self.explorer.world.load(&now);
                let result = self.explorer.inspect(&after);
                self.explorer.world.load(&base);
                result.err()
            }
        };
        self.explorer.world.undo();
        let Some(fault) = fault else { return };
        let names = [both[0].0.name(), both[1].0.name()].join(" and ");
        let kind = format!("{names}: {fault}");
        if let Some(finding) = self.findings.get_mut(&kind) {
            finding.count += 1;
            return;
        }
        let mut way = self.explorer.text(node, &[]);
        way += &format!("// at the same time, {}:\n", schedule());
        for (step, outcome) in both {
            let outcome = outcome.map_or("panic".into(), |outcome| outcome.to_string());
            way += &format!("{step}; // {outcome}\n");
        }
        let (count, after) = (1, self.counts.judged);
        self.findings.insert(kind, Finding { count, after, way });
        let base = self.explorer.nodes[node].state.clone();
        self.explorer.world.load(&base);
    }
}

/// Returns `true` if both steps free a frame, which would be misuse.
fn share_frames(one: &Step, other: &Step) -> bool {
    let frees = |step: &Step| match step.operation {
        Operation::Free(release) | Operation::FreeNested(release) => {
            bits(release.start.0, frames_of(release.size))
        }
        _ => 0,
    };
    frees(one) & frees(other) != 0
}
