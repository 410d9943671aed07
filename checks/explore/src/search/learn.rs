//! Which experiments tell states apart: learned by comparing states with equal keys, step by step.
//!
//! A search that begins anew with each experiment repeats everything but the new one. So while experiments are learned,
//! the bytes of all states are kept. A new experiment is executed in each of them, which may tell a state apart from
//! the one with which it was merged. Then the search goes on. What it judged by an earlier key does not count: the last
//! search begins anew, with all experiments.
//!
//! # Invariants
//! While `merged` is there, each state of bytes is in `nodes` or there, and `seen` leads to the node with its key.

use super::*;

/// While experiments are learned, a search ends after this many states.
const LEARNING: usize = 20_000;
/// One more experiment per this number of states of bytes is learned before all of them are executed.
const AT_ONCE: u64 = 10_000;

impl Explorer<'_> {
    /// Learns experiments until no comparison of a search and its walks fails.
    pub(super) fn learn(&mut self) {
        self.merged = Some(Vec::new());
        self.begin();
        loop {
            self.go_on(LEARNING.min(self.scope.states));
            self.walk();
            if self.learned.is_empty() || !self.adopt() {
                break;
            }
        }
        self.merged = None;
    }

    /// Adds what was learned just now to the key, if states of bytes are kept, and there are not too many.
    pub(super) fn learn_at_once(&mut self) {
        if self.merged.is_some() && self.learned.len() as u64 > self.counts.bytes / AT_ONCE {
            self.adopt();
        }
    }

    /// Adds what was learned to the key. Returns `false` if there are enough experiments, or no time is left.
    fn adopt(&mut self) -> bool {
        if self.experiments.len() >= self.scope.experiments || self.is_late() {
            return false;
        }
        self.experiments.append(&mut self.learned);
        self.is_away = true;
        self.keys.clear();
        // Different keys remain different.
        for node in 0..self.nodes.len() {
            let key = self.key_of(&self.nodes[node].state.clone(), self.nodes[node].hash);
            self.nodes[node].key = key;
            self.keys.insert(key, node as u32);
        }
        for mut state in self.merged.replace(Vec::new()).into_iter().flatten() {
            state.key = self.key_of(&state.state, state.hash);
            let new = self.nodes.len() as u32;
            let node = *self.keys.entry(state.key).or_insert(new);
            self.seen.insert(state.hash, node);
            match &mut self.merged {
                Some(merged) if node != new => merged.push(state),
                _ => self.nodes.push(state),
            }
        }
        true
    }

    /// Returns the key of a state.
    fn key_of(&mut self, state: &State, hash: u128) -> u128 {
        self.world.load(state);
        self.key(hash)
    }

    /// Returns the steps at which the state that was merged last is compared: all at first, then some in turn.
    pub(super) fn sample(&self) -> Vec<Step> {
        let (merged, all) = (self.counts.merged as usize, self.steps.len());
        let most = match self.counts.compared {
            0..100_000 => all,
            100_000..200_000 => 4,
            _ => 1,
        };
        let turn = |index: usize| self.steps[(merged * most + index) % all];
        (0..most.min(all)).map(turn).collect()
    }

    /// Executes a step in a state, and returns the outcome with the key of what follows, which is then loaded.
    fn follow(&mut self, state: &State, step: &Step) -> (Option<Outcome>, u128) {
        self.is_away = true;
        self.world.load(state);
        let outcome = self.call(step);
        let next = self.world.state();
        self.world.load(&next);
        let hash = self.world.hash_of(&next);
        if let Some(node) = self.seen.get(&hash) {
            return (outcome, self.nodes[*node as usize].key);
        }
        (outcome, self.key(hash))
    }

    /// Compares two states at one step, and returns an experiment that tells them apart.
    fn compare_at(&mut self, one: &State, other: &State, step: &Step) -> Option<Experiment> {
        let (first, second) = (self.follow(one, step), self.follow(other, step));
        if first == second {
            return None;
        }
        if first.0 != second.0 {
            return Some(self.experiments[0].after(*step));
        }
        let index = (0..self.experiments.len()).find(|index| {
            let [one, other] = [one, other].map(|state| {
                self.follow(state, step);
                self.experiments[*index].observe(&mut self.world)
            });
            one != other
        })?;
        Some(self.experiments[index].after(*step))
    }

    /// Compares two states with equal keys at some steps, and learns what tells them apart. Returns `true` if nothing
    /// does.
    pub(super) fn compare(&mut self, one: &State, other: &State, steps: &[Step]) -> bool {
        let is_known = (0..self.learned.len()).any(|index| {
            let [one, other] = [one, other].map(|state| {
                self.is_away = true;
                self.world.load(state);
                self.learned[index].observe(&mut self.world)
            });
            one != other
        });
        if !is_known {
            let found = steps
                .iter()
                .find_map(|step| self.compare_at(one, other, step));
            let Some(experiment) = found else {
                return true;
            };
            self.learned.push(experiment);
        }
        self.counts.mismatches += 1;
        false
    }

    /// Walks at random. If the search is closed, every step must lead where the step from the node of its key leads.
    /// Otherwise walks begin at the border, and each step is judged.
    pub(super) fn walk(&mut self) {
        let is_closed = self.is_closed();
        let mut random = 0x9E37_79B9_7F4A_7C15u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % below.max(1) as u64) as usize
        };
        for _ in 0..self.scope.walks {
            if self.is_late() {
                return;
            }
            let mut node = if is_closed {
                next(self.nodes.len())
            } else {
                self.expanded + next(self.nodes.len() - self.expanded)
            };
            let (start, mut way) = (node, Vec::new());
            let (mut state, mut oracle) = (self.nodes[node].state.clone(), self.nodes[node].oracle);
            for _ in 0..self.scope.length {
                let step = self.steps[next(self.steps.len())];
                self.world.load(&state);
                let outcome = self.call(&step);
                way.push(step);
                let mut after = oracle;
                let judged = match &outcome {
                    None => Err("panic".into()),
                    Some(outcome) => after.judge(&self.promises, &step, outcome),
                };
                if let Err(fault) = &judged
                    && allowed(&self.scope.spec, &step.name(), fault).is_some()
                {
                    way.pop();
                    continue;
                }
                let after_state = self.world.state();
                self.world.load(&after_state);
                let judged = judged
                    .map_err(|fault| format!("{}: {fault}", step.name()))
                    .and_then(|()| {
                        let judged = self.inspect(&after);
                        judged.map_err(|fault| format!("after {}: {fault}", step.name()))
                    });
                if let Err(fault) = judged {
                    self.find(fault, start, &way);
                    break;
                }
                self.counts.walked += 1;
                if is_closed {
                    let there = self.nodes[node].state.clone();
                    if !self.compare(&state, &there, &[step]) {
                        break;
                    }
                    let (_, key) = self.follow(&there, &step);
                    let Some(known) = self.keys.get(&key) else {
                        // Only after a mismatch or a fault is a key unknown.
                        break;
                    };
                    node = *known as usize;
                }
                if is_closed || outcome.is_some_and(|outcome| outcome.refusal.is_none()) {
                    (state, oracle) = (after_state, after);
                } else {
                    way.pop();
                }
            }
        }
    }
}
