//! The queue of CPUs that are ready to run.
//!
//! Nearly every access replaces the first key by that of the CPU that made the access. A binary heap compares twice at
//! each level and branches on the results, which no processor predicts. In a tournament the path is known beforehand:
//! from a leaf to the root, with one minimum at each level.
//!
//! # Invariants
//! 1. `nodes[1]` is the root. Each inner node `n` is the minimum of its children `2 * n` and `2 * n + 1`.
//! 2. Each CPU has a leaf of its own: `leaves` names different nodes. The leaf holds the key of the CPU if it is
//!    ready, and [`Ready::NONE`] otherwise.
//!
//! # Complexity
//! [`first`](Ready::first) is O(1); everything else takes O(log(CPUs)).

use everybuddy::CpuId;

/// The keys of the ready CPUs. The low 16 bits of a key are the number of the CPU.
pub(crate) struct Ready {
    nodes: Box<[u64]>,
    leaves: Box<[u32]>,
}

/// The bits of a key that name the CPU.
pub(crate) const CPU_BITS: u32 = u16::BITS;

/// The largest limit of virtual time, in cycles: the sum of two clocks still fits into a key.
pub(crate) const LONGEST: u64 = 1 << 46;

/// Returns the key of a CPU at a given time.
pub(crate) const fn key(clock: u64, cpu: u16) -> u64 {
    clock << CPU_BITS | cpu as u64
}

/// Returns the clock of a key.
pub(crate) const fn clock_of(key: u64) -> u64 {
    key >> CPU_BITS
}

/// Returns the CPU of a key as an index.
fn cpu_of(key: u64) -> usize {
    usize::from(key as u16)
}

impl Ready {
    /// Larger than every key.
    pub(crate) const NONE: u64 = u64::MAX;

    /// Creates a queue of none of the CPUs with numbers below `cpus`.
    pub(crate) fn new(cpus: u16) -> Self {
        let leaves = u32::from(cpus).next_power_of_two();
        Self {
            nodes: vec![Self::NONE; 2 * leaves as usize].into_boxed_slice(),
            leaves: (leaves..leaves + u32::from(cpus)).collect(),
        }
    }

    /// Returns the smallest key, or [`NONE`](Self::NONE).
    #[inline]
    pub(crate) fn first(&self) -> u64 {
        self.nodes[1]
    }

    /// Adds the key of a CPU that is not ready.
    pub(crate) fn insert(&mut self, key: u64) {
        self.set(self.leaves[cpu_of(key)], key);
    }

    /// Removes and returns the smallest key. Returns `None` if no CPU is ready.
    pub(crate) fn remove_first(&mut self) -> Option<u64> {
        let first = self.first();
        if first == Self::NONE {
            return None;
        }
        self.set(self.leaves[cpu_of(first)], Self::NONE);
        Some(first)
    }

    /// Removes the key of a CPU.
    pub(crate) fn remove(&mut self, cpu: CpuId) {
        self.set(self.leaves[cpu.index()], Self::NONE);
    }

    /// Replaces the smallest key by that of a CPU that is not ready, and returns the smallest key. The queue must not
    /// be empty.
    #[inline]
    pub(crate) fn replace_first(&mut self, key: u64) -> u64 {
        let first = self.first();
        // The CPUs exchange their leaves, so that one leaf changes instead of two.
        self.leaves.swap(cpu_of(first), cpu_of(key));
        self.set(self.leaves[cpu_of(key)], key);
        first
    }

    #[inline]
    fn set(&mut self, leaf: u32, key: u64) {
        let mut node = leaf as usize;
        let mut smallest = key;
        self.nodes[node] = key;
        while node > 1 {
            smallest = smallest.min(self.nodes[node ^ 1]);
            node /= 2;
            self.nodes[node] = smallest;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_leave_in_order() {
        for cpus in [1, 2, 3, 5, 24, 128, 1000] {
            let mut ready = Ready::new(cpus);
            let mut expected = BTreeSet::new();
            let mut waiting: Vec<u64> = (0..u64::from(cpus)).collect();
            let mut random = 1_u64;
            assert_eq!(ready.remove_first(), None);
            for step in 0..20_000 {
                random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                let later = |key: u64| key + (((random >> 40) % 1000) << 16);
                let other = waiting.pop();
                match (random >> 60, other) {
                    (0..4, _) | (_, None) => {
                        waiting.extend(other);
                        let removed = ready.remove_first();
                        assert_eq!(removed, expected.pop_first());
                        waiting.extend(removed.map(later));
                    }
                    (4..12, Some(key)) if !expected.is_empty() => {
                        let removed = ready.replace_first(key);
                        assert_eq!(Some(removed), expected.pop_first());
                        expected.insert(key);
                        waiting.push(later(removed));
                    }
                    (_, Some(key)) => {
                        ready.insert(key);
                        expected.insert(key);
                    }
                }
                let first = expected.first().copied().unwrap_or(Ready::NONE);
                assert_eq!(ready.first(), first, "{cpus} CPUs, step {step}");
            }
        }
    }
}
