//! The search: breadth-first over the states of a system, each judged.
//!
//! # Invariants
//! 1. From each state that was expanded, every step was executed, and its result and its following state were judged.
//! 2. Every state that was reached, with other bytes too, was judged by the oracle and by `check`. Of those with equal
//!    keys, one is expanded.

mod learn;

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use everybuddy::{BuildError, FrameRange, Setup};
use everybuddy_explore::platform::alone;
use everybuddy_explore::world::{State, World, mix};

use crate::exceptions::{EXCEPTIONS, allowed};
use crate::key::{Experiment, frames};
use crate::oracle::{Oracle, Promises};
use crate::scope::Scope;
use crate::step::{Arguments, Outcome, Refusal, Step, all, bits};

/// A state that was reached.
pub(crate) struct Node {
    /// The bytes.
    pub(crate) state: State,
    /// Their hash.
    hash: u128,
    key: u128,
    /// What the oracle knows.
    pub(crate) oracle: Oracle,
    /// The state before it, and the step from there.
    parent: (u32, u16),
    /// The number of steps from the new system.
    pub(crate) depth: u32,
}

/// Something that is wrong.
pub(crate) struct Finding {
    /// How often it was found.
    pub(crate) count: u64,
    /// How many transitions of the search, or schedules of pairs, were executed until it was found first.
    pub(crate) after: u64,
    /// The shortest way to it, as a test.
    pub(crate) way: String,
}

/// What was done.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    /// States of bytes.
    pub(crate) bytes: u64,
    /// Steps that were executed and judged.
    pub(crate) transitions: u64,
    /// States of bytes whose key was known.
    pub(crate) merged: u64,
    /// Of these, the ones whose behaviour was compared, step by step.
    pub(crate) compared: u64,
    /// Steps of random walks, each of which was judged, and compared if the search is closed.
    pub(crate) walked: u64,
    /// Comparisons that failed.
    pub(crate) mismatches: u64,
    /// Steps that were refused.
    pub(crate) refused: u64,
    /// Refusals that moved free frames from lists.
    pub(crate) moved: u64,
}

/// A search over one scope.
pub(crate) struct Explorer<'s> {
    scope: &'s Scope,
    /// The system.
    pub(crate) world: World,
    /// What it promises.
    pub(crate) promises: Promises,
    /// Every step.
    pub(crate) steps: Vec<Step>,
    /// What tells states apart.
    pub(crate) experiments: Vec<Experiment>,
    /// The states, by depth.
    pub(crate) nodes: Vec<Node>,
    /// How many of them were expanded.
    pub(crate) expanded: usize,
    /// From the hash of bytes to the state.
    seen: HashMap<u128, u32>,
    /// From the key to the state.
    keys: HashMap<u128, u32>,
    /// From the hash of bytes to the number of experiments that were executed there, and the key by these.
    known: HashMap<u128, (u32, u128)>,
    /// Experiments that tell states of this search apart, and are not yet part of the key.
    learned: Vec<Experiment>,
    /// While experiments are learned, the states of bytes whose key was known.
    merged: Option<Vec<Node>>,
    /// What is wrong, by kind.
    pub(crate) findings: BTreeMap<String, Finding>,
    /// How often each exception was found.
    pub(crate) exceptions: [u64; EXCEPTIONS.len()],
    /// What was done.
    pub(crate) counts: Counts,
    /// When the search ends.
    pub(crate) deadline: Option<Instant>,
    /// Whether another state than that of the node that is expanded was loaded.
    is_away: bool,
}

/// The most keys that are kept for comparisons.
const MOST_KNOWN: usize = 2_000_000;

impl<'s> Explorer<'s> {
    /// Builds the system of a scope.
    ///
    /// # Errors
    /// Any [`BuildError`].
    pub(crate) fn new(scope: &'s Scope) -> Result<Self, BuildError> {
        alone();
        let setup = Setup::new(&scope.ranges, scope.cpus);
        let world = World::new(&scope.spec, &setup)?;
        let promises = Promises::of(&scope.spec, world.system);
        let steps = all(&Arguments {
            span: promises.span.frames(),
            largest: promises.largest,
            cpus: scope.cpus,
            services: world.system.services().len(),
            regions: scope.regions,
        });
        let experiments = Experiment::first(scope.cpus, promises.largest);
        Ok(Self {
            scope,
            world,
            promises,
            steps,
            experiments,
            nodes: Vec::new(),
            expanded: 0,
            seen: HashMap::new(),
            keys: HashMap::new(),
            known: HashMap::new(),
            learned: Vec::new(),
            merged: None,
            findings: BTreeMap::new(),
            exceptions: [0; EXCEPTIONS.len()],
            counts: Counts::default(),
            deadline: None,
            is_away: true,
        })
    }

    /// Learns what tells states apart, then searches anew until the scope is closed, or has as many states as it may.
    pub(crate) fn run(&mut self) {
        if self.scope.pairs > 0 {
            self.search(self.scope.states);
            return;
        }
        // Bytes tell all states apart.
        if self.scope.bytes {
            self.search(self.scope.states);
            self.walk();
            return;
        }
        // Half of the time is for learning, so that time is left for the last search.
        let (end, now) = (self.deadline, Instant::now());
        self.deadline = end.map(|end| now + end.saturating_duration_since(now) / 2);
        let first = self.experiments.len();
        self.learn();
        self.deadline = end;
        // Where nothing was learned, that search is the last one.
        if self.experiments.len() == first && self.is_closed() {
            return;
        }
        loop {
            self.search(self.scope.states);
            self.walk();
            let is_full = self.experiments.len() >= self.scope.experiments;
            if self.learned.is_empty() || is_full || self.is_late() {
                break;
            }
            self.experiments.append(&mut self.learned);
        }
    }

    /// Returns `true` if the time is used up.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns `true` if every state was expanded.
    pub(crate) fn is_closed(&self) -> bool {
        self.expanded == self.nodes.len()
    }

    /// Returns the number of steps up to which every sequence was executed.
    pub(crate) fn depth(&self) -> u32 {
        let last = self.nodes.get(self.expanded).or(self.nodes.last());
        last.map_or(0, |node| node.depth)
    }

    /// Searches from the new system until there is the given number of states.
    fn search(&mut self, most: usize) {
        self.begin();
        self.go_on(most);
    }

    /// Forgets all states but the first.
    fn begin(&mut self) {
        self.nodes.clear();
        self.seen.clear();
        self.keys.clear();
        self.findings.clear();
        self.learned.clear();
        self.exceptions = [0; EXCEPTIONS.len()];
        (self.expanded, self.counts) = (0, Counts::default());
        let first = State::default();
        self.world.load(&first);
        let present = self.scope.ranges.iter().fold(0, |set, range| {
            let start = (range.start.0 - self.promises.span.base().0) as u32;
            set | bits(start, range.frames as u32)
        });
        let oracle = Oracle::new(present);
        if let Err(fault) = self.inspect(&oracle) {
            self.find(format!("the new system: {fault}"), 0, &[]);
        }
        let key = self.key(0);
        self.seen.insert(0, 0);
        self.keys.insert(key, 0);
        self.counts.bytes = 1;
        self.nodes.push(Node {
            state: first,
            hash: 0,
            key,
            oracle,
            parent: (0, 0),
            depth: 0,
        });
    }

    /// Expands states until there is the given number of them.
    fn go_on(&mut self, most: usize) {
        while self.expanded < self.nodes.len() && self.nodes.len() < most && !self.is_late() {
            self.expand(self.expanded);
            self.expanded += 1;
        }
    }

    /// Executes a step in the loaded state. A panic is a finding.
    pub(crate) fn call(&mut self, step: &Step) -> Option<Outcome> {
        alone();
        let system = self.world.system;
        catch_unwind(AssertUnwindSafe(|| step.call(system))).ok()
    }

    /// Executes all steps from a state.
    fn expand(&mut self, from: usize) {
        let state = self.nodes[from].state.clone();
        self.is_away = true;
        for index in 0..self.steps.len() {
            if core::mem::take(&mut self.is_away) {
                self.world.load(&state);
            } else {
                self.world.undo();
            }
            let step = self.steps[index];
            let (hash, mut oracle) = (self.nodes[from].hash, self.nodes[from].oracle);
            let outcome = self.call(&step);
            self.counts.transitions += 1;
            if self.counts.transitions.is_multiple_of(4096) && self.world.unlogged().is_some() {
                self.find(
                    "a word is written that the log does not name".into(),
                    from,
                    &[step],
                );
            }
            let Some(outcome) = outcome else {
                self.find_at(&step, "panic", from);
                continue;
            };
            if let Err(fault) = oracle.judge(&self.promises, &step, &outcome) {
                self.find_at(&step, &fault, from);
                continue;
            }
            let now = self.world.hash(hash);
            let (node, is_new) = match self.seen.get(&now) {
                Some(node) => (*node as usize, false),
                None => {
                    let Some(node) = self.arrive(from, index, now, oracle) else {
                        continue;
                    };
                    (node, true)
                }
            };
            if self.nodes[node].oracle != oracle {
                self.find("equal states have other allocations".into(), from, &[step]);
            }
            self.note_refusal(from, node, &step, &outcome);
            let is_merged = is_new && self.nodes[node].hash != now;
            // Where nothing is learned, comparisons are of no use.
            if is_merged && self.scope.pairs == 0 {
                let (here, there) = (self.world.state(), self.nodes[node].state.clone());
                let steps = self.sample();
                self.compare(&here, &there, &steps);
                self.counts.compared += steps.len() as u64;
                self.learn_at_once();
            }
        }
    }

    /// Judges the present state, whose bytes are new, and returns the node with its key. Afterwards it is loaded.
    fn arrive(&mut self, from: usize, index: usize, hash: u128, oracle: Oracle) -> Option<usize> {
        let state = self.world.state();
        self.world.load(&state);
        self.is_away = true;
        self.counts.bytes += 1;
        if let Err(fault) = self.inspect(&oracle) {
            let step = self.steps[index];
            self.find(format!("after {}: {fault}", step.name()), from, &[step]);
            return None;
        }
        let key = self.key(hash);
        let new = self.nodes.len() as u32;
        let node = *self.keys.entry(key).or_insert(new);
        self.seen.insert(hash, node);
        let arrived = Node {
            state,
            hash,
            key,
            oracle,
            parent: (from as u32, index as u16),
            depth: self.nodes[from].depth + 1,
        };
        if node == new {
            self.nodes.push(arrived);
        } else {
            self.counts.merged += 1;
            if let Some(merged) = &mut self.merged {
                merged.push(arrived);
            }
        }
        Some(node as usize)
    }

    /// After an error, everything is as before, except that free frames may have left lists.
    fn note_refusal(&mut self, from: usize, to: usize, step: &Step, outcome: &Outcome) {
        let Some(refusal) = outcome.refusal else {
            return;
        };
        self.counts.refused += 1;
        let (before, after) = (&self.nodes[from], &self.nodes[to]);
        if before.key == after.key || matches!(refusal, Refusal::Bulk(error) if error.index > 0) {
            return;
        }
        if self.promises.keeps_frames || self.promises.cpus > 1 {
            self.counts.moved += 1;
        } else {
            self.find_at(step, "refused, but the state changes", from);
        }
    }

    /// Judges the loaded state.
    pub(crate) fn inspect(&mut self, oracle: &Oracle) -> Result<(), String> {
        let states = frames(&self.world);
        let (promises, system) = (&self.promises, self.world.system);
        alone();
        let judge = || {
            oracle.inspect(promises, system, &states)?;
            oracle.inspect_whole(promises, system)
        };
        let result = catch_unwind(AssertUnwindSafe(judge));
        self.world.undo();
        result.unwrap_or_else(|_| Err("panic in check".into()))
    }

    /// Returns the key of the loaded state, whose bytes have this hash.
    fn key(&mut self, hash: u128) -> u128 {
        if self.scope.bytes {
            return hash;
        }
        let (done, mut key) = self.known.get(&hash).copied().unwrap_or_default();
        for (index, experiment) in (0..).zip(&self.experiments).skip(done as usize) {
            alone();
            // A panic is found when its step is taken.
            let seen = experiment.observe(&mut self.world).unwrap_or(index);
            key = mix(index as u32, key as u64 ^ seen as u64)
                ^ mix(1, (key >> 64 ^ seen >> 64) as u64);
        }
        if self.known.len() < MOST_KNOWN {
            self.known
                .insert(hash, (self.experiments.len() as u32, key));
        }
        key
    }

    /// Notes a finding of a step from a node, unless it is an exception.
    fn find_at(&mut self, step: &Step, fault: &str, from: usize) {
        let name = step.name();
        match allowed(&self.scope.spec, &name, fault) {
            Some(exception) => self.exceptions[exception] += 1,
            None => self.find(format!("{name}: {fault}"), from, &[*step]),
        }
    }

    /// Returns `true` if an exception allows what was found of an operation, such as two calls at the same time, and
    /// counts it.
    pub(crate) fn is_exception(&mut self, operation: &str, kind: &str) -> bool {
        let exception = allowed(&self.scope.spec, operation, kind);
        if let Some(exception) = exception {
            self.exceptions[exception] += 1;
        }
        exception.is_some()
    }

    /// Notes a finding: after the steps to a node, and these.
    fn find(&mut self, kind: String, from: usize, steps: &[Step]) {
        if let Some(finding) = self.findings.get_mut(&kind) {
            finding.count += 1;
            return;
        }
        let (way, count, after) = (self.text(from, steps), 1, self.counts.transitions);
        self.findings.insert(kind, Finding { count, after, way });
    }

    /// Returns the steps to a node.
    pub(crate) fn way(&self, mut node: usize) -> Vec<Step> {
        let mut way = Vec::new();
        while node != 0 {
            let (parent, index) = self.nodes[node].parent;
            way.push(self.steps[index as usize]);
            node = parent as usize;
        }
        way.reverse();
        way
    }

    /// Returns the steps to a node, and further ones, as a test. The present state is loaded afterwards.
    pub(crate) fn text(&mut self, node: usize, steps: &[Step]) -> String {
        let (way, now) = (self.way(node), self.world.state());
        self.is_away = true;
        self.world.load(&State::default());
        let ranges = &self.scope.ranges;
        let mut text = format!("let ranges = {};\n", ranges_text(ranges));
        text += &format!("let setup = Setup::new(&ranges, {});\n", self.scope.cpus);
        text += &format!("let system = on(\"{}\", &setup, ...);\n", self.scope.spec);
        for step in way.iter().chain(steps) {
            let outcome = self
                .call(step)
                .map_or("panic".into(), |outcome| outcome.to_string());
            text += &format!("{step}; // {outcome}\n");
        }
        self.world.load(&now);
        text
    }
}

fn ranges_text(ranges: &[FrameRange]) -> String {
    let each = ranges
        .iter()
        .map(|range| format!("FrameRange::new(Pfn({}), {})", range.start.0, range.frames));
    format!("[{}]", each.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::Pairs;
    use crate::scope::listed;
    use everybuddy_explore::platform::forget_writes;

    #[test]
    fn small_scopes_are_explored_without_a_finding() {
        for text in listed("gate") {
            let scope: Scope = text.parse().expect("a scope");
            let mut explorer = Explorer::new(&scope).expect("a system");
            explorer.run();
            let mut pairs = Pairs::of(&mut explorer);
            pairs.run(scope.pairs);
            assert!(
                scope.pairs == 0 || pairs.counts.schedules > 10_000,
                "{scope}"
            );
            let findings = pairs.findings;
            let first = findings.iter().chain(&explorer.findings).next();
            if let Some((kind, finding)) = first {
                panic!("{scope}: {kind}\n{}", finding.way);
            }
            let counts = explorer.counts;
            println!(
                "{scope}: {} states, {} transitions",
                explorer.nodes.len(),
                counts.transitions
            );
            let is_limited = text.contains("states=") || scope.pairs > 0;
            assert!(
                is_limited || explorer.is_closed() && counts.mismatches == 0,
                "{scope}"
            );
        }
    }

    #[test]
    fn a_system_changes_nothing_but_its_metadata_and_the_log_names_it() {
        for text in listed("systems") {
            let scope: Scope = text.parse().expect("a scope");
            let mut explorer = Explorer::new(&scope).expect("a system");
            let (mut state, mut changes) = (State::default(), 0);
            for index in 0..2000 {
                explorer.world.load(&state);
                let step = explorer.steps[index * 7919 % explorer.steps.len()];
                let first = explorer.call(&step);
                assert_eq!(explorer.world.unlogged(), None, "{scope}: {step}");
                let after = explorer.world.state();
                // The same again, from the same bytes.
                explorer.world.load(&state);
                assert_eq!(explorer.call(&step), first, "{scope}: {step}");
                assert_eq!(explorer.world.state(), after, "{scope}: {step}");
                changes += usize::from(after != state);
                state = after;
            }
            assert!(changes > 100, "{scope}: {changes}");
            explorer.world.load(&State::default());
            explorer.call(&explorer.steps[0].clone());
            forget_writes();
            assert!(
                explorer.world.unlogged().is_some(),
                "a write without the log is noticed"
            );
        }
    }
}
