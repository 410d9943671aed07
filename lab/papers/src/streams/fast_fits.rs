//! Fast fits: free blocks of any size in a Cartesian tree.
//!
//! # Source
//! C. J. Stephenson, "Fast Fits: New Methods for Dynamic Storage Allocation", 1983, with which \[BL89\] (figure 5)
//! compares. Only the extended abstract is widely available; this implements the method, not its code.
//!
//! Fast fits is compared with the buddy systems by memory consumption. It rounds no size up and coalesces any
//! neighbours, immediately.
//!
//! Every free block is a node. By address the tree is a search tree; by size it is a heap: no block is larger than
//! its parent. The root therefore shows whether a request can be served, and the path to a sufficiently large block
//! never enters a subtree without one. A block that shrinks moves down, and one that grows moves up; both operations
//! split and join the two spines on the way.
//!
//! # Invariants
//! In address order, at least one unit between two nodes is in use.
//!
//! # Design decisions
//! Nodes are stored outside the memory, not in the free blocks, and blocks have no headers, as in the buddy systems
//! here: only memory given to callers is counted. A request is served from the lower end of a block.

use everybuddy::Order;

use crate::streams::manager::Manager;

/// No node.
const NONE: u32 = u32::MAX;

/// The selection among sufficiently large blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The one with the lowest address: leftmost fit.
    Leftmost,
    /// The end of the path that goes to the smaller child as long as it is large enough: better fit.
    Better,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    size: u32,
    children: [u32; 2],
}

/// The location of a link to a node: the root, or a side of another node.
#[derive(Clone, Copy)]
enum Hook {
    Root,
    Child(u32, usize),
}

const LEFT: usize = 0;
const RIGHT: usize = 1;

/// The tree, with the memory that it manages.
#[derive(Clone, Debug)]
pub struct FastFits {
    choice: Choice,
    root: u32,
    /// Nodes by the first unit of a block; valid for free blocks only.
    nodes: Vec<Node>,
}

impl FastFits {
    /// Starts with the given number of free units.
    pub fn new(choice: Choice, units: u32) -> Self {
        let mut own = Self {
            choice,
            root: NONE,
            nodes: Vec::new(),
        };
        own.add(units);
        own
    }

    fn add(&mut self, units: u32) {
        let start = self.nodes.len() as u32;
        let node = Node {
            size: 0,
            children: [NONE; 2],
        };
        self.nodes.resize(self.nodes.len() + units as usize, node);
        if units > 0 {
            self.put(start, units);
        }
    }

    fn size(&self, node: u32) -> u32 {
        match node {
            NONE => 0,
            node => self.nodes[node as usize].size,
        }
    }

    fn child(&self, node: u32, side: usize) -> u32 {
        self.nodes[node as usize].children[side]
    }

    fn at(&self, hook: Hook) -> u32 {
        match hook {
            Hook::Root => self.root,
            Hook::Child(node, side) => self.child(node, side),
        }
    }

    fn set(&mut self, hook: Hook, to: u32) {
        match hook {
            Hook::Root => self.root = to,
            Hook::Child(node, side) => self.nodes[node as usize].children[side] = to,
        }
    }

    /// Inserts a block, or nothing, between two trees, as far down as its size requires, and links the result to
    /// `hook`.
    fn sink(&mut self, mut hook: Hook, mut trees: [u32; 2], node: Option<(u32, u32)>) {
        let size = node.map_or(0, |node| node.1);
        loop {
            let [left, right] = trees.map(|tree| self.size(tree));
            if left.max(right) <= size {
                break;
            }
            // The larger one moves up; the part between it and the other continues.
            let side = if left >= right { LEFT } else { RIGHT };
            let up = trees[side];
            self.set(hook, up);
            hook = Hook::Child(up, 1 - side);
            trees[side] = self.at(hook);
        }
        match node {
            Some((start, size)) => {
                self.nodes[start as usize] = Node {
                    size,
                    children: trees,
                };
                self.set(hook, start);
            }
            None => self.set(hook, NONE),
        }
    }

    /// Inserts a block without free neighbours.
    fn rise(&mut self, start: u32, size: u32) {
        let mut hook = Hook::Root;
        while self.at(hook) != NONE && self.size(self.at(hook)) >= size {
            let node = self.at(hook);
            hook = Hook::Child(node, usize::from(start > node));
        }
        // The subtree is divided by address, along its two spines.
        let mut rest = self.at(hook);
        self.nodes[start as usize] = Node {
            size,
            children: [NONE; 2],
        };
        self.set(hook, start);
        let mut ends = [Hook::Child(start, LEFT), Hook::Child(start, RIGHT)];
        while rest != NONE {
            // The rest on the left side becomes the left child.
            let side = usize::from(rest > start);
            self.set(ends[side], rest);
            ends[side] = Hook::Child(rest, 1 - side);
            rest = self.at(ends[side]);
        }
        ends.into_iter().for_each(|end| self.set(end, NONE));
    }

    /// Removes the block that starts here.
    fn remove(&mut self, start: u32) {
        let mut hook = Hook::Root;
        while self.at(hook) != start {
            let node = self.at(hook);
            hook = Hook::Child(node, usize::from(start > node));
        }
        let trees = self.nodes[start as usize].children;
        self.sink(hook, trees, None);
    }

    /// Inserts a block, joined with its neighbours.
    fn put(&mut self, start: u32, size: u32) {
        // Both neighbours by address are on the path to the block.
        let mut around = [NONE; 2];
        let mut node = self.root;
        while node != NONE {
            let side = usize::from(start > node);
            around[1 - side] = node;
            node = self.child(node, side);
        }
        let (mut start, mut size) = (start, size);
        let [before, after] = around;
        if before != NONE && before + self.size(before) == start {
            size += self.size(before);
            self.remove(before);
            start = before;
        }
        if after != NONE && start + size == after {
            size += self.size(after);
            self.remove(after);
        }
        self.rise(start, size);
    }

    /// Removes the given number of units, if there is a block of that size.
    fn take(&mut self, units: u32) -> Option<u32> {
        if self.root == NONE || self.size(self.root) < units {
            return None;
        }
        let mut hook = Hook::Root;
        loop {
            let node = self.at(hook);
            let sizes = self.nodes[node as usize]
                .children
                .map(|child| self.size(child));
            let fits = sizes.map(|size| size >= units);
            let side = match (self.choice, fits) {
                (Choice::Leftmost, [true, _]) | (Choice::Better, [true, false]) => LEFT,
                (Choice::Better, [false, true]) => RIGHT,
                (Choice::Better, [true, true]) => usize::from(sizes[RIGHT] < sizes[LEFT]),
                _ => break,
            };
            hook = Hook::Child(node, side);
        }
        let start = self.at(hook);
        let Node { size, children } = self.nodes[start as usize];
        let rest = (size > units).then_some((start + units, size - units));
        self.sink(hook, children, rest);
        Some(start)
    }

    /// Checks the tree; returns the number of free units.
    fn walk(&self) -> Result<u32, String> {
        let mut free = 0;
        let mut end = None;
        let mut above = Vec::new();
        let mut node = self.root;
        loop {
            while node != NONE {
                above.push(node);
                let left = self.child(node, LEFT);
                if self.size(left).max(self.size(self.child(node, RIGHT))) > self.size(node) {
                    return Err(format!("unit {node}: a block lies below a smaller one"));
                }
                node = left;
            }
            let Some(next) = above.pop() else {
                return Ok(free);
            };
            if end.is_some_and(|end| next <= end) {
                return Err(format!("unit {next}: blocks touch, or are out of order"));
            }
            free += self.size(next);
            end = Some(next + self.size(next));
            node = self.child(next, RIGHT);
        }
    }
}

impl Manager for FastFits {
    fn allocate(&mut self, order: Order) -> Option<u32> {
        self.take(order.frames())
    }

    fn free(&mut self, start: u32, order: Order) -> bool {
        self.put(start, order.frames());
        true
    }

    fn grow(&mut self, units: u32) -> bool {
        self.add(units);
        true
    }

    fn check(&mut self) -> Result<u32, String> {
        self.walk()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNITS: u32 = 64;

    /// The same by a linear search: the first sufficiently long run.
    fn first_fit(free: &[bool], units: u32) -> Option<u32> {
        let fits = |start: &usize| {
            let run = free.get(*start..*start + units as usize);
            run.is_some_and(|run| run.iter().all(|free| *free))
        };
        let begins = |start: &usize| *start == 0 || !free[start - 1];
        let mut starts = (0..free.len()).filter(begins).filter(fits);
        starts.next().map(|start| start as u32)
    }

    proptest! {
        #[test]
        fn leftmost_fit_is_first_fit_and_nothing_is_lost(
            steps in prop::collection::vec((1u32..12, any::<u16>(), prop::bool::weighted(0.55)), 1..200)
        ) {
            for choice in [Choice::Leftmost, Choice::Better] {
                let mut own = FastFits::new(choice, UNITS);
                let mut free = vec![true; UNITS as usize];
                let mut held: Vec<(u32, u32)> = Vec::new();
                for (units, pick, takes) in &steps {
                    if *takes {
                        let expected = first_fit(&free, *units);
                        let found = own.take(*units);
                        match choice {
                            Choice::Leftmost => prop_assert_eq!(found, expected),
                            Choice::Better => prop_assert_eq!(found.is_some(), expected.is_some()),
                        }
                        if let Some(start) = found {
                            for unit in &mut free[start as usize..(start + units) as usize] {
                                prop_assert!(std::mem::replace(unit, false), "given twice");
                            }
                            held.push((start, *units));
                        }
                    } else if !held.is_empty() {
                        let (start, units) = held.swap_remove(usize::from(*pick) % held.len());
                        own.put(start, units);
                        free[start as usize..(start + units) as usize].fill(true);
                    }
                    let count = free.iter().filter(|free| **free).count() as u32;
                    prop_assert_eq!(own.walk(), Ok(count));
                }
                for (start, units) in held {
                    own.put(start, units);
                }
                prop_assert_eq!(own.size(own.root), UNITS);
            }
        }
    }

    #[test]
    fn better_fit_goes_to_the_smaller_block() {
        let mut own = FastFits::new(Choice::Better, 0);
        own.add(64);
        let starts: Vec<u32> = [10, 4, 20, 4, 6, 4]
            .map(|units| own.take(units).unwrap())
            .to_vec();
        for (start, units) in [(starts[0], 10), (starts[2], 20), (starts[4], 6)] {
            own.put(start, units);
        }
        // 20 at the root; below it 10, which is smaller, and 16 with 6 below that.
        assert_eq!(own.take(6), Some(starts[0]));
        // 4 of the 10 are left, so the path now leads to the other side.
        assert_eq!(own.take(6), Some(starts[4]));
    }

    #[test]
    fn memory_that_is_added_joins_what_is_free_at_the_end() {
        let mut own = FastFits::new(Choice::Leftmost, 8);
        assert_eq!(own.take(6), Some(0));
        assert_eq!(own.take(4), None);
        assert!(own.grow(2));
        assert_eq!(own.take(4), Some(6));
    }
}
