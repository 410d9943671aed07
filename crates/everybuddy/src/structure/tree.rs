//! Free blocks in balanced trees, ordered by address.
//!
//! A queue returns the block that was freed last or first. A tree returns the lowest address, so that high memory
//! stays whole. Measurements of this structure show whether that is worth a walk.
//!
//! # Source
//! \[Serewa\] §2.2.4, which proposes balanced trees in place of queues and leaves the kind open. Here it is the AVL
//! tree (Adelson-Velsky and Landis 1962): it is the lowest of the usual ones, and a record has room for it.
//!
//! # Invariants
//! A block's bit is set exactly if its head is in the tree of its order. In a tree, addresses ascend from left to
//! right. The two sides of a node differ in height by at most one, and the node stores which is higher.
//!
//! # Design decisions
//! A node is the record of a block's head: the left child in its first word, where a list has the next block, and the
//! right child and the lean in the second. A zone therefore has at most `MAX_TREE_FRAMES` frames. The bits are
//! those of [`free_list`](super::free_list), and `contains` reads them in both: the structures differ only in the
//! queue and the tree.
//!
//! # Complexity
//! For n blocks in a tree, `insert`, `remove` and `take` descend at most 1.44 log2(n + 2) nodes, and ascend as far as
//! heights change. An insertion rotates at most one node, or two; a removal rotates one per level. `contains` is
//! O(1). There is no allocation and no recursion: a [`Path`] stores the way down. Two bits per frame in addition to
//! the records.

use super::bits::LevelBits;
use super::levels::{LEVELS, Level, level_of};
use super::{Ordered, Placed, Structure, StructureKind, StructurePlace};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Side};
use crate::platform::Platform;
use crate::snapshot::Violation;

/// The maximum number of levels of a tree. An AVL tree of h levels has at least F(h + 2) - 1 nodes, where F are the
/// Fibonacci numbers; for h = 43 that is 1,134,903,169, more than `MAX_TREE_FRAMES`.
const DEEPEST: usize = 42;

/// Room for [`DEEPEST`] nodes, rounded up to a power of two, so that a masked depth needs no bounds check.
const ROOM: usize = DEEPEST.next_power_of_two();

/// The nodes from a root down to the place of a change, the root first. The side on which the path continues from a
/// node is not stored, since the address determines it.
struct Path {
    nodes: [Frame; ROOM],
    depth: usize,
}

impl Path {
    /// Creates an empty path; any frame fills the unused places.
    #[inline]
    fn new(filler: Frame) -> Self {
        Self {
            nodes: [filler; ROOM],
            depth: 0,
        }
    }

    #[inline]
    fn push(&mut self, node: Frame) {
        debug_assert!(self.depth < DEEPEST);
        self.nodes[self.depth & (ROOM - 1)] = node;
        self.depth += 1;
    }

    /// Puts another node at a depth that the path has reached.
    #[inline]
    fn replace(&mut self, depth: usize, node: Frame) {
        debug_assert!(depth < self.depth);
        self.nodes[depth & (ROOM - 1)] = node;
    }

    #[inline]
    fn last(&self) -> Option<Frame> {
        let depth = self.depth.checked_sub(1)?;
        Some(self.nodes[depth & (ROOM - 1)])
    }

    #[inline]
    fn pop(&mut self) -> Option<Frame> {
        let last = self.last()?;
        self.depth -= 1;
        Some(last)
    }
}

/// Returns the side of a node on which an address lies. The node's own address counts as right, where its successor is.
#[inline(always)]
fn side_of(node: Frame, address: Frame) -> Side {
    if address < node {
        Side::Left
    } else {
        Side::Right
    }
}

/// Bitmap and trees of one zone.
pub struct Trees<'a, P: Platform> {
    table: FrameTable<'a, P>,
    levels: &'a [Level<P>; LEVELS],
    bits: LevelBits<'a, P>,
    max_order: Order,
}

impl<'a, P: Platform> Trees<'a, P> {
    #[inline(always)]
    fn level(&self, order: Order) -> &'a Level<P> {
        level_of(self.levels, order)
    }

    #[inline(always)]
    fn child(&self, node: Frame, side: Side) -> Option<Frame> {
        match side {
            Side::Left => self.table.next(node),
            Side::Right => self.table.right(node).0,
        }
    }

    #[inline(always)]
    fn set_child(&self, node: Frame, side: Side, child: Option<Frame>) {
        match side {
            Side::Left => self.table.set_next(node, child),
            Side::Right => self.table.set_right(node, child, self.lean(node)),
        }
    }

    /// Returns the side on which a node is higher, if it is.
    #[inline(always)]
    fn lean(&self, node: Frame) -> Option<Side> {
        self.table.right(node).1
    }

    #[inline(always)]
    fn set_lean(&self, node: Frame, lean: Option<Side>) {
        self.table.set_right(node, self.table.right(node).0, lean);
    }

    /// Attaches `child` below a parent, or as the root, on the side where `address` is.
    #[inline(always)]
    fn hang(&self, level: &Level<P>, parent: Option<Frame>, address: Frame, child: Option<Frame>) {
        match parent {
            Some(parent) => self.set_child(parent, side_of(parent, address), child),
            None => level.set_head(child),
        }
    }

    /// Descends from a node to the lowest address below it, and returns it. The path receives the nodes above that.
    #[inline]
    fn lowest(&self, path: &mut Path, mut node: Frame) -> Frame {
        while let Some(left) = self.table.next(node) {
            path.push(node);
            node = left;
        }
        node
    }

    /// Rotates a node whose child on `side` is two levels higher than the other. Returns the node that takes its
    /// place, and whether that is one level lower than before.
    fn turn(&self, node: Frame, side: Side) -> (Frame, bool) {
        let other = side.other();
        let Some(child) = self.child(node, side) else {
            debug_assert!(false, "a node leans where it has no child");
            return (node, false);
        };
        let child_lean = self.lean(child);
        let inner = self.child(child, other);
        let (Some(top), true) = (inner, child_lean == Some(other)) else {
            // The outer side is higher, or after a removal both are equal: the child moves up.
            self.set_child(node, side, inner);
            self.set_child(child, other, Some(node));
            let even = child_lean.is_none();
            self.set_lean(node, even.then_some(side));
            self.set_lean(child, even.then_some(other));
            return (child, !even);
        };
        // The inner grandchild moves up, and its children go to the two nodes that it separates.
        let top_lean = self.lean(top);
        self.set_child(child, other, self.child(top, side));
        self.set_child(node, side, self.child(top, other));
        self.set_child(top, side, Some(child));
        self.set_child(top, other, Some(node));
        self.set_lean(node, (top_lean == Some(side)).then_some(other));
        self.set_lean(child, (top_lean == Some(other)).then_some(side));
        self.set_lean(top, None);
        (top, true)
    }

    /// Propagates up the path that the side where `address` is grew by one level.
    fn grown(&self, level: &Level<P>, path: &mut Path, address: Frame) {
        while let Some(node) = path.pop() {
            let side = side_of(node, address);
            match self.lean(node) {
                None => self.set_lean(node, Some(side)),
                Some(lean) if lean != side => return self.set_lean(node, None),
                Some(_) => {
                    let (top, _) = self.turn(node, side);
                    return self.hang(level, path.last(), address, Some(top));
                }
            }
        }
    }

    /// Propagates up the path that the side where `address` is lost one level.
    fn shrunk(&self, level: &Level<P>, path: &mut Path, address: Frame) {
        while let Some(node) = path.pop() {
            let side = side_of(node, address);
            match self.lean(node) {
                None => return self.set_lean(node, Some(side.other())),
                Some(lean) if lean == side => self.set_lean(node, None),
                Some(lean) => {
                    let (top, lower) = self.turn(node, lean);
                    self.hang(level, path.last(), address, Some(top));
                    if !lower {
                        return;
                    }
                }
            }
        }
    }

    /// Removes the node that the path leads to.
    fn unlink(&self, level: &Level<P>, path: &mut Path, node: Frame) {
        let parent = path.last();
        let left = self.table.next(node);
        let (right, lean) = self.table.right(node);
        level.shrink();
        let (Some(_), Some(right)) = (left, right) else {
            self.hang(level, parent, node, left.or(right));
            return self.shrunk(level, path, node);
        };
        // The next higher address, which has no left child, takes the node's place.
        let depth = path.depth;
        path.push(node);
        let next = self.lowest(path, right);
        let (below, _) = self.table.right(next);
        let right = if next == right {
            below
        } else {
            self.hang(level, path.last(), next, below);
            Some(right)
        };
        self.table.set_next(next, left);
        self.table.set_right(next, right, lean);
        self.hang(level, parent, node, Some(next));
        path.replace(depth, next);
        self.shrunk(level, path, next);
    }

    /// Calls `visit` for the heads of an order from an address on, in ascending order, until it returns `Some`. O(log
    /// n + visited).
    fn ascend<R>(
        &self,
        order: Order,
        from: Index,
        mut visit: impl FnMut(Frame) -> Option<R>,
    ) -> Option<R> {
        let root = self.level(order).head(self.table)?;
        // The nodes that are visited before their right sides: those that the way down left to the left.
        let mut waiting = Path::new(root);
        let mut below = Some(root);
        loop {
            while let Some(node) = below {
                below = if node.index() < from {
                    self.table.right(node).0
                } else {
                    waiting.push(node);
                    self.table.next(node)
                };
            }
            let node = waiting.pop()?;
            if let Some(result) = visit(node) {
                return Some(result);
            }
            below = self.table.right(node).0;
        }
    }

    /// Returns the height of a node, according to the leans of the nodes. O(log n).
    fn height(&self, node: Option<Frame>) -> Option<usize> {
        let higher = |node: &Frame| {
            let side = self.lean(*node).unwrap_or(Side::Left);
            self.child(*node, side)
        };
        let height = core::iter::successors(node, higher)
            .take(DEEPEST + 1)
            .count();
        (height <= DEEPEST).then_some(height)
    }

    /// Checks a node by itself.
    fn check_node(&self, node: Frame, order: Order) -> Result<(), Violation> {
        let fail = |what| {
            let index = node.index();
            Err(Violation { index, what })
        };
        if !node.index().is_aligned(order) {
            return fail("a free block is not aligned to its order");
        }
        if !self.contains(node, order) {
            return fail("a block is in its tree, but its bit is clear");
        }
        let (left, (right, lean)) = (self.table.next(node), self.table.right(node));
        if left.is_some_and(|left| left >= node) || right.is_some_and(|right| right <= node) {
            return fail("a node's child is on the wrong side");
        }
        // Each node's height is that of the side which its lean names as higher. If all leans are right, all heights
        // are right.
        let (Some(left), Some(right)) = (self.height(left), self.height(right)) else {
            return fail("a tree is deeper than a balanced one can be");
        };
        let right_lean = match left as isize - right as isize {
            0 => lean.is_none(),
            1 => lean == Some(Side::Left),
            -1 => lean == Some(Side::Right),
            _ => return fail("a node's sides differ by more than one level"),
        };
        if right_lean {
            Ok(())
        } else {
            fail("a node is wrong about which side is higher")
        }
    }
}

impl<'a, P: Platform> Placed<'a, P> for Trees<'a, P> {
    const KIND: StructureKind = StructureKind::Trees;

    fn new(place: StructurePlace<'a, P>) -> Self {
        Self {
            table: place.table,
            levels: place.levels,
            bits: LevelBits::new(place.bits, place.first, place.blocks, place.max_order),
            max_order: place.max_order,
        }
    }
}

impl<P: Platform> Structure<P> for Trees<'_, P> {
    const INDIVIDUAL: bool = false;

    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.table
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.max_order
    }

    fn insert(&self, head: Frame, order: Order) {
        self.bits.set(head, order);
        let level = self.level(order);
        let mut path = Path::new(head);
        let mut below = level.head(self.table);
        while let Some(node) = below {
            path.push(node);
            below = self.child(node, side_of(node, head));
        }
        self.table.set_next(head, None);
        self.table.set_right(head, None, None);
        self.hang(level, path.last(), head, Some(head));
        level.grow();
        self.grown(level, &mut path, head);
    }

    fn remove(&self, head: Frame, order: Order) {
        self.bits.clear(head, order);
        let level = self.level(order);
        let mut path = Path::new(head);
        let mut below = level.head(self.table);
        while let Some(node) = below.filter(|node| *node != head) {
            path.push(node);
            below = self.child(node, side_of(node, head));
        }
        debug_assert!(below.is_some(), "{order:?} at {:?} is not in", head.index());
        self.unlink(level, &mut path, head);
    }

    fn take(&self, order: Order) -> Option<Frame> {
        let level = self.level(order);
        let root = level.head(self.table)?;
        let mut path = Path::new(root);
        let head = self.lowest(&mut path, root);
        self.bits.clear(head, order);
        self.unlink(level, &mut path, head);
        Some(head)
    }

    #[inline]
    fn contains(&self, head: Frame, order: Order) -> bool {
        self.bits.get(head, order)
    }

    fn blocks(&self, order: Order) -> u32 {
        if order > self.max_order {
            0
        } else {
            self.level(order).peek_length()
        }
    }

    fn largest(&self) -> Option<Order> {
        let mut orders = Order::up_to(self.max_order).rev();
        orders.find(|order| self.level(*order).length() > 0)
    }

    /// O(n log n).
    fn check(&self) -> Result<(), Violation> {
        let mut blocks = 0u64;
        for order in Order::up_to(self.max_order) {
            let (mut counted, mut last) = (0u32, None);
            let violation = self.ascend(order, Index(0), |node| {
                let disorder = Violation {
                    index: node.index(),
                    what: "a tree's addresses do not ascend",
                };
                if last.replace(node).is_some_and(|last| last >= node) {
                    return Some(disorder);
                }
                counted += 1;
                self.check_node(node, order).err()
            });
            if let Some(violation) = violation {
                return Err(violation);
            }
            if counted != self.level(order).length() {
                return Err(Violation::overall("a tree's blocks are miscounted"));
            }
            blocks += u64::from(counted);
        }
        if self.bits.ones() != blocks {
            return Err(Violation::overall("a bit is set without a block in a tree"));
        }
        Ok(())
    }
}

impl<P: Platform> Ordered<P> for Trees<'_, P> {
    fn pair(&self, order: Order, from: Index) -> Option<Frame> {
        let mut last = None;
        self.ascend(order, from, |node| {
            let buddy = node.buddy(order);
            let last = last.replace(node);
            // The lower one was visited just before, if it is in.
            last.filter(|last| *last == buddy)
        })
    }
}
