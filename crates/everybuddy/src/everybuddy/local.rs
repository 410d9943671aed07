//! What a CPU keeps: which trees it owns, and where it allocates.
//!
//! A CPU allocates from its current trees, whose owner it compares with its identity. A CPU whose identity was taken
//! away hits nothing, so a hit pays nothing to notice that another CPU asks for its trees.
//!
//! # Invariants
//! 1. A CPU owns the trees in its slots, and those that it claims during one operation.
//! 2. The first-fit point of a list is where the CPU last allocated such a block by address. It returns to 0 when the
//!    list cannot name what is free below it.
//! 3. Only the holder of the CPU's token touches the cells.

use crate::cache_padded::CachePadded;
use crate::frame::{Index, Order};
use crate::percpu::drain::CpuState;
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, SharedCell};

use super::filling::{Filled, Filling};
use super::fitting::Fitting;
use super::foreign::{GROUP, Shared};
use super::geometry::{Dimensions, HEADS_OF_SMALL, HEADS_WITH_LIST};
use super::heads::head;
use super::slots::OwnSlots;
use super::tree::Among;
use super::wanted::{CLOSED_ID, Wanted, is_large};
use super::word::{Header, Kind};

/// Means that there is no tree. No memory has this many.
const NO_TREE: u32 = u32::MAX;

/// Means that own trees may have blocks of any order.
const NOTHING_KNOWN: u32 = u32::MAX;

/// Means that there is no word. No memory has this many.
pub(super) const NO_WORD: u32 = u32::MAX;

/// The most trees at which a request looks before it uses an own tree.
const LOOKS_BEFORE_OWN: u32 = 16;

/// Which own trees a search considers.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    /// Those for frames of this kind. A small request omits the trees from which the CPU allocates large blocks, and a
    /// large request omits those from which it allocates small ones.
    Meant,
    /// Those for frames of this kind.
    Kind,
    /// All.
    All,
}

/// The list of the blocks of an order and a kind that a CPU freed last.
#[repr(C, align(32))]
pub(super) struct List<'m, P: Platform> {
    /// Its places, the first of which hold blocks.
    pub(super) entries: &'m [P::Cell<u32>],
    /// The number of its blocks.
    pub(super) count: P::Cell<u32>,
    /// The first-fit point: where the CPU last allocated such a block by address.
    pub(super) point: P::Cell<u32>,
}

impl<'m, P: Platform> List<'m, P> {
    /// Creates an empty list.
    fn new(entries: &'m [P::Cell<u32>]) -> Self {
        Self {
            entries,
            count: P::Cell::new(0),
            point: P::Cell::new(0),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.count.get() as usize == self.entries.len()
    }

    /// Returns the entries of its blocks. A hint, unless the CPU is at rest.
    pub(super) fn blocks(&self) -> &'m [P::Cell<u32>] {
        let count = (self.count.peek() as usize).min(self.entries.len());
        self.entries.get(..count).unwrap_or_default()
    }
}

/// Where a CPU allocates frames of a kind.
pub(super) struct KindPlace<P: Platform> {
    /// The number of frames that were freed below the point without entering the list, in blocks of less than a word,
    /// since the point was last 0.
    pub(super) passed: P::Cell<u32>,
    /// The own tree from which the CPU allocates single frames, or [`NO_TREE`].
    pub(super) current: P::Cell<u32>,
    /// The own tree from which it allocates small blocks of several frames, or [`NO_TREE`]. Low trees have single
    /// frames long before they have such blocks again.
    pub(super) blocks: P::Cell<u32>,
    /// The own tree from which it allocates large ones, or [`NO_TREE`].
    pub(super) large: P::Cell<u32>,
    /// No own tree but `large` had a block of this order when a request for a large block searched them, or
    /// [`NOTHING_KNOWN`].
    lacks: P::Cell<u32>,
    /// No tree of the CPU's window below this one had a block of the order `lacks` when a request searched them. What
    /// other CPUs free there is found when the trees above are used up.
    searched: P::Cell<u32>,
}

impl<P: Platform> KindPlace<P> {
    fn new() -> Self {
        Self {
            passed: P::Cell::new(0),
            current: P::Cell::new(NO_TREE),
            blocks: P::Cell::new(NO_TREE),
            large: P::Cell::new(NO_TREE),
            lacks: P::Cell::new(NOTHING_KNOWN),
            searched: P::Cell::new(0),
        }
    }

    /// Returns the cells with the trees from which the CPU allocates.
    fn trees(&self) -> [&P::Cell<u32>; 3] {
        [&self.current, &self.blocks, &self.large]
    }

    /// Forgets the trees for which `is_lost` is true.
    fn forget(&self, is_lost: impl Fn(u32) -> bool) {
        for tree in self.trees() {
            if is_lost(tree.get()) {
                tree.set(NO_TREE);
            }
        }
    }

    /// Lets the next small request search by address.
    #[inline(always)]
    fn leave(&self) {
        self.current.set(NO_TREE);
        self.blocks.set(NO_TREE);
    }

    /// Notes that trees of this kind may have large blocks that they did not have before. If a tree is now wholly free,
    /// requests of the other kind may use it, too. They find it when they search the trees of both kinds.
    #[inline(always)]
    pub(super) fn has_more(&self) {
        self.lacks.set(NOTHING_KNOWN);
        self.searched.set(0);
    }

    /// Returns the cell with the tree from which the CPU allocates blocks of an order.
    #[inline(always)]
    pub(super) fn tree_for(&self, order: Order) -> &P::Cell<u32> {
        match order {
            Order::ZERO => &self.current,
            order if is_large(order) => &self.large,
            _ => &self.blocks,
        }
    }
}

/// The state of a CPU.
#[repr(C, align(64))]
pub(crate) struct Local<'m, P: Platform> {
    /// The same as `id`, or [`CLOSED_ID`] while the CPU may not hit.
    pub(crate) identity: P::AtomicU32,
    /// The same for frees, which may not hit while a refusal is remembered, either.
    pub(crate) free_identity: P::AtomicU32,
    /// By [`Kind`].
    pub(super) places: [KindPlace<P>; Kind::COUNT],
    /// The kind of the last free into a list.
    pub(super) last: P::Cell<u8>,
    pub(super) slots: OwnSlots<'m, P>,
    /// 1 if the CPU may keep frames: those that it gathered, and those in its lists. Other CPUs read it.
    pub(super) keeps: P::AtomicU32,
    /// The tree into which the CPU freed last without owning it.
    pub(super) freed: P::Cell<u32>,
    /// The word of which the CPU gathers frames, or [`NO_WORD`].
    pub(super) pending: P::Cell<u32>,
    /// The frames that it gathered.
    pub(super) gathered: P::Cell<u64>,
    /// How often in a row the CPU freed into the tree `freed`. Narrow, so that what
    /// precedes the lists is four cache lines.
    pub(super) times: P::Cell<u8>,
    /// The number of this CPU as the owner of trees.
    pub(crate) id: u32,
    /// The window where this CPU begins to search.
    pub(crate) home: u32,
    /// The nested frees on this CPU that have begun and not ended.
    pub(crate) nested_frees: P::AtomicU32,
    /// Where the CPU looks next for a tree that lies below its own ones.
    below: P::Cell<u32>,
    pub(super) fitting: Fitting<P>,
    pub(super) filling: Filling<P>,
    /// What other CPUs know about this one.
    pub(crate) state: CachePadded<P::AtomicU32>,
    /// By head.
    pub(super) lists: [List<'m, P>; HEADS_WITH_LIST],
}

impl<'m, P: Platform> Local<'m, P> {
    /// Creates the state of a CPU that owns nothing and is parked.
    pub(super) fn new(
        cpu: u32,
        home: u32,
        (fitting, filling): (Fitting<P>, Filling<P>),
        (of, entries): (&Dimensions, &'m [P::Cell<u32>]),
        slots: &'m [P::Cell<u32>],
    ) -> Self {
        let list = |head| {
            let places = of.entries_below(head)..of.entries_below(head + 1);
            List::new(entries.get(places).unwrap_or_default())
        };
        Self {
            identity: P::AtomicU32::new(CLOSED_ID),
            free_identity: P::AtomicU32::new(CLOSED_ID),
            places: Kind::ALL.map(|_| KindPlace::new()),
            last: P::Cell::new(0),
            slots: OwnSlots::new(slots),
            keeps: P::AtomicU32::new(0),
            freed: P::Cell::new(0),
            pending: P::Cell::new(NO_WORD),
            gathered: P::Cell::new(0),
            times: P::Cell::new(0),
            id: cpu + 1,
            home,
            nested_frees: P::AtomicU32::new(0),
            below: P::Cell::new(0),
            fitting,
            filling,
            state: CachePadded::new(P::AtomicU32::new(CpuState::NEW.0)),
            lists: core::array::from_fn(list),
        }
    }

    #[inline(always)]
    pub(super) fn place(&self, kind: Kind) -> &KindPlace<P> {
        let [staying, movable] = &self.places;
        match kind {
            Kind::Staying => staying,
            Kind::Movable => movable,
        }
    }

    /// Returns the list of a block, if blocks of this order have lists.
    #[inline(always)]
    pub(super) fn list(&self, order: Order, kind: Kind) -> Option<&List<'m, P>> {
        self.lists.get(usize::from(head(order, kind)))
    }

    /// Lets the CPU allocate from low addresses again, when a list is used up. Below the first-fit point, blocks are
    /// free that the list does not name. If the point stayed where it is, a CPU whose list serves all its requests
    /// would never allocate by address again.
    #[inline(always)]
    pub(super) fn start_over(&self, list: &List<'_, P>, kind: Kind) {
        list.point.set(0);
        self.place(kind).passed.set(0);
        self.place(kind).leave();
    }

    #[inline(always)]
    pub(super) fn owns(&self, owner: &P::AtomicU32) -> bool {
        // Relaxed: the CPU itself wrote both, or the identity was taken away, which is a hint.
        owner.load(Ordering::Relaxed) == self.identity.load(Ordering::Relaxed)
    }

    /// Returns `true` if the CPU owns a tree, and may free into it without asking whether a refusal is remembered.
    #[inline(always)]
    pub(super) fn frees_into(&self, owner: &P::AtomicU32) -> bool {
        // Relaxed: as in `owns`.
        owner.load(Ordering::Relaxed) == self.free_identity.load(Ordering::Relaxed)
    }

    /// Returns the CPU.
    pub(super) fn cpu(&self) -> CpuId {
        CpuId((self.id - 1) as u16)
    }

    /// Takes the identities away: the CPU hits nothing until it has asked what other CPUs want.
    pub(crate) fn close(&self) {
        // Release: pairs with the acquires in `set_open`: a CPU whose exchange there comes later sees the epoch.
        // Acquire: what another CPU did before it closed this one is seen.
        self.identity.swap(CLOSED_ID, Ordering::AcqRel);
        // The same. If another CPU restores it meanwhile, that CPU only answers later.
        self.free_identity.swap(CLOSED_ID, Ordering::AcqRel);
    }

    /// Returns `true` if the CPU may not hit, since another CPU asked for what it keeps, or since it is parked.
    pub(super) fn is_closed(&self) -> bool {
        // Relaxed: a hint, as in `owns`.
        self.identity.load(Ordering::Relaxed) == CLOSED_ID
    }

    /// Notes that a request was refused.
    pub(crate) fn fell_short(&self, shared: &Shared<'_, P>, wanted: Wanted) {
        if !wanted.is_large() && !self.fitting.is_on() {
            self.choose_by_fit(shared);
        }
    }

    /// Begins a shortage: small blocks are chosen by fit, and no hit takes them by address. Listed blocks of whole
    /// words return to their trees, where smaller requests find them.
    pub(super) fn choose_by_fit(&self, shared: &Shared<'_, P>) {
        self.free_gathered(shared, false);
        self.fitting.begin();
        self.filling.stop();
        for place in &self.places {
            place.leave();
        }
        for list in &self.lists {
            list.point.set(0);
        }
        self.empty_lists(shared, HEADS_OF_SMALL);
    }

    /// Takes the first frame of the current tree.
    pub(crate) fn first(&self, shared: &Shared<'_, P>, kind: Kind) -> Option<u32> {
        let mut frame = [Index(0)];
        (self.take_frames(shared, kind, &mut frame) == 1).then_some(frame[0].0)
    }

    /// Takes single frames of the current tree until `out` is full. Returns their number.
    pub(super) fn take_frames(
        &self,
        shared: &Shared<'_, P>,
        kind: Kind,
        out: &mut [Index],
    ) -> usize {
        let tree = self.place(kind).current.get();
        let header = shared.trees.header(tree);
        let Some(header) = header.filter(|header| self.owns(&header.owner)) else {
            return 0;
        };
        // In a tree of the other kind, only words that are split already: other trees may be whole again.
        let among = if header.kind() == kind {
            Among::All
        } else {
            Among::Split(u64::MAX)
        };
        let trees = &shared.trees;
        let taken = trees.take_small(tree, header, among, Order::ZERO, out);
        self.point_after(out, taken, Order::ZERO, kind);
        taken
    }

    /// Returns the own tree from which blocks enter a list, and which of its words may serve: the words that the CPU
    /// fills with movable frames, or the current tree, if it is for the kind of the list.
    #[inline(always)]
    pub(super) fn refilling<'s>(
        &self,
        shared: &Shared<'s, P>,
        order: Order,
        kind: Kind,
    ) -> Option<(u32, &'s Header<P>, Among)> {
        if (order, kind) == (Order::ZERO, Kind::Movable)
            && let Some(Filled { tree, words }) = self.filling.area()
            && let Some(header) = shared.trees.header(tree)
            && self.owns(&header.owner)
        {
            return Some((tree, header, Among::Split(words)));
        }
        let current = self.place(kind).tree_for(order);
        let (tree, header) = self.current(shared, current, kind)?;
        Some((tree, header, Among::All))
    }

    /// Returns a current tree, if the CPU owns it and it is for a kind.
    #[inline(always)]
    pub(super) fn current<'s>(
        &self,
        shared: &Shared<'s, P>,
        tree: &P::Cell<u32>,
        kind: Kind,
    ) -> Option<(u32, &'s Header<P>)> {
        let tree = tree.get();
        let header = shared.trees.header(tree)?;
        (self.owns(&header.owner) && header.kind() == kind).then_some((tree, header))
    }

    /// Takes what is wanted of the current tree: at most a tree.
    #[inline(always)]
    pub(crate) fn take_current(&self, shared: &Shared<'_, P>, wanted: Wanted) -> Option<u32> {
        let Wanted {
            frames,
            order,
            kind,
        } = wanted;
        if frames == 1 {
            return self.first(shared, kind);
        }
        let tree = self.place(kind).tree_for(order);
        let (tree, header) = self.current(shared, tree, kind)?;
        if !wanted.is_block() {
            return shared.trees.take(tree, header, frames, order);
        }
        let start = if wanted.is_large() {
            shared.trees.take_words(tree, header, order)
        } else {
            shared.trees.take(tree, header, frames, order)
        }?;
        self.point_to(start, order, kind);
        Some(start)
    }

    /// Takes blocks of several frames of the current tree until `out` is full. Returns their number.
    pub(super) fn take_blocks(
        &self,
        shared: &Shared<'_, P>,
        wanted: Wanted,
        out: &mut [Index],
    ) -> usize {
        let tree = self.place(wanted.kind).tree_for(wanted.order);
        let Some((tree, header)) = self.current(shared, tree, wanted.kind) else {
            return 0;
        };
        let trees = &shared.trees;
        let taken = if wanted.is_large() {
            trees.take_blocks(tree, header, wanted.order, out)
        } else {
            trees.take_small(tree, header, Among::All, wanted.order, out)
        };
        self.point_after(out, taken, wanted.order, wanted.kind);
        taken
    }

    /// Sets the first-fit point of a list to the last one of the `taken` blocks.
    #[inline(always)]
    fn point_after(&self, out: &[Index], taken: usize, order: Order, kind: Kind) {
        if let Some(last) = out.get(taken.wrapping_sub(1)) {
            self.point_to(last.0, order, kind);
        }
    }

    /// Sets the first-fit point of a list. In a shortage, a list of blocks of whole words stays empty: smaller requests
    /// would not find a listed block by fit.
    #[inline(always)]
    pub(super) fn point_to(&self, start: u32, order: Order, kind: Kind) {
        if is_large(order) && self.fitting.is_on() {
            return;
        }
        if let Some(list) = self.list(order, kind) {
            list.point.set(start);
        }
    }

    /// Sets the tree from which the CPU allocates blocks like `wanted`, after it allocated one there. If blocks are
    /// chosen by fit, it is none: hits would take them by address.
    pub(crate) fn moved(&self, tree: u32, header: &Header<P>, wanted: Wanted, frame: u32) {
        // A tree for this kind serves no other one.
        for (place, kind) in self.places.iter().zip(Kind::ALL) {
            if kind != wanted.kind && header.kind() == wanted.kind {
                place.forget(|own| own == tree);
            }
        }
        let place = self.place(wanted.kind);
        let is_by_fit = self.fitting.is_on() && !wanted.is_large();
        let cell = place.tree_for(wanted.order);
        cell.set(if is_by_fit { NO_TREE } else { tree });
        if wanted.is_block() && !is_by_fit {
            self.point_to(frame, wanted.order, wanted.kind);
        }
    }

    /// Returns the next trees of the CPU's window that lie below `own`, one of its own trees. If `own` is in another
    /// window, all trees of the CPU's window count as lower.
    pub(crate) fn look_below(&self, shared: &Shared<'_, P>, own: u32) -> impl Iterator<Item = u32> {
        let groups = shared.windows.groups(self.home);
        let (first, end) = (groups.start * GROUP, groups.end * GROUP);
        let end = if own >= first { own.min(end) } else { end };
        (0..LOOKS_BEFORE_OWN.min(end - first)).map(move |_| {
            let next = self.below.get();
            let tree = if (first..end).contains(&next) {
                next
            } else {
                first
            };
            self.below.set(tree + 1);
            tree
        })
    }

    /// Returns `true` if the CPU's own trees were searched in vain for a large block like `wanted`, and only other CPUs
    /// have freed frames there since. Other trees are then searched before these are searched again.
    pub(crate) fn lacks(&self, wanted: Wanted) -> bool {
        wanted.is_large() && wanted.order.index() as u32 >= self.place(wanted.kind).lacks.get()
    }

    /// Notes that the own trees have no large block like `wanted`.
    pub(crate) fn note_lack(&self, wanted: Wanted) {
        if wanted.is_large() {
            let place = self.place(wanted.kind);
            place.lacks.set(wanted.order.index() as u32);
            // Trees without larger blocks may have some of this order.
            place.searched.set(0);
        }
    }

    /// Adds a claimed tree to the own ones.
    pub(super) fn insert(&self, tree: u32) {
        self.slots.insert(tree);
        self.places.iter().for_each(KindPlace::has_more);
    }

    /// Returns the tree at which a search of the CPU's window begins.
    pub(crate) fn search_start(&self, wanted: Wanted) -> u32 {
        if self.lacks(wanted) {
            self.place(wanted.kind).searched.get()
        } else {
            0
        }
    }

    /// Returns the own trees of a scope that may have a block, lowest first.
    pub(crate) fn own_serving<'s>(
        &self,
        shared: &Shared<'s, P>,
        wanted: Wanted,
        scope: Scope,
    ) -> impl Iterator<Item = (u32, &'s Header<P>)> {
        let trees = &shared.trees;
        let is_of_other_size = move |tree| {
            let mut places = self.places.iter();
            places.any(|place| {
                if wanted.is_large() {
                    place.current.get() == tree || place.blocks.get() == tree
                } else {
                    place.large.get() == tree
                }
            })
        };
        let is_in_scope = move |tree, header| match scope {
            Scope::Meant => trees.suits(header, wanted.kind) && !is_of_other_size(tree),
            Scope::Kind => trees.suits(header, wanted.kind),
            Scope::All => true,
        };
        let has_any = move |tree| {
            let header = trees.header(tree)?;
            trees.may_have_any(header).then_some((tree, header))
        };
        // Free frames below the first-fit point are in the list, or few.
        let first = match wanted.frames {
            1 => self
                .list(Order::ZERO, wanted.kind)
                .map_or(0, |list| trees.tree_of(list.point.get())),
            _ => 0,
        };
        self.slots
            .search_order(first)
            .filter_map(has_any)
            .filter(move |(tree, header)| {
                trees.may_serve(header, wanted.frames, wanted.order) && is_in_scope(*tree, header)
            })
    }

    /// Returns the own trees, lowest first.
    pub(crate) fn own_trees(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.slots.iter()
    }

    /// Returns the trees from which the CPU allocates. One of them can be named several times.
    pub(crate) fn current_trees(&self) -> impl Iterator<Item = u32> {
        let all = self
            .places
            .iter()
            .flat_map(KindPlace::trees)
            .map(P::Cell::get);
        all.filter(|tree| *tree != NO_TREE)
            .chain(self.filling.area().map(|area| area.tree))
    }

    /// Keeps a claimed tree for small blocks of a kind. If all slots are in use, another tree is released, but not the
    /// one from which the CPU allocates single frames of another kind.
    pub(crate) fn adopt(&self, shared: &Shared<'_, P>, tree: u32, kind: Kind) {
        if self.slots.is_full() {
            let others = self.places.iter().zip(Kind::ALL);
            let others = others.filter(|(_, other)| *other != kind);
            let is_in_use = |tree| others.clone().any(|(place, _)| place.current.get() == tree);
            if let Some(old) = self.slots.advance(is_in_use) {
                self.release_own(shared, old);
            }
        }
        self.insert(tree);
    }

    /// Keeps a claimed tree for large blocks. If all slots are in use, the tree is released from which the CPU
    /// allocated large ones before, or the highest one: large blocks take at most one tree away from smaller ones. The
    /// trees from which the CPU allocates single frames stay. If it has slots for no others, the claimed tree is
    /// released.
    pub(crate) fn adopt_large(
        &self,
        shared: &Shared<'_, P>,
        tree: u32,
        header: &Header<P>,
        wanted: Wanted,
    ) -> bool {
        let place = self.place(wanted.kind);
        if self.slots.is_full() {
            let is_in_use = |tree| self.places.iter().any(|place| place.current.get() == tree);
            let last = place.large.get();
            let old = match self.slots.capacity() > Kind::COUNT {
                true if last != NO_TREE && !is_in_use(last) => Some(last),
                true => self.own_trees().rfind(|own| !is_in_use(*own)),
                false => None,
            };
            let Some(old) = old else {
                shared.release(tree, header);
                return false;
            };
            self.release_own(shared, old);
        }
        self.slots.insert(tree);
        // The tree from which the CPU allocated large blocks before may have smaller ones.
        let lacks = place.lacks.get().max(wanted.order.index() as u32);
        place.lacks.set(lacks);
        place.searched.set(tree + 1);
        true
    }

    /// Releases an own tree.
    pub(super) fn release_own(&self, shared: &Shared<'_, P>, tree: u32) {
        if !self.slots.remove(tree) {
            return;
        }
        for place in &self.places {
            place.forget(|own| own == tree);
        }
        if self.filling.area().is_some_and(|area| area.tree == tree) {
            self.filling.stop();
        }
        if let Some(header) = shared.trees.header(tree) {
            shared.release(tree, header);
        }
    }

    /// Releases all trees, and announces all frames that the CPU keeps.
    pub(crate) fn release_all(&self, shared: &Shared<'_, P>) {
        self.announce_all(shared);
        for tree in self.own_trees() {
            if let Some(header) = shared.trees.header(tree) {
                shared.release(tree, header);
            }
        }
        self.slots.clear();
        self.filling.stop();
        for place in &self.places {
            place.forget(|_| true);
            place.has_more();
        }
    }
}
