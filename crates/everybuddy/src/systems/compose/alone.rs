//! Systems without layers: each implements the interface directly.
//!
//! What [`compose`](super) says for layers, said for systems as a whole.
//!
//! # Invariants
//! Those of [`compose`](super).

use super::{Builder, Compose};
use crate::arena::ArenaPlan;
use crate::coalesce::PolicyKind;
use crate::error::{BuildError, RangeError};
use crate::everybuddy::{self, OwnedTrees};
use crate::frame::Index;
use crate::llfree::{self, LlFree};
use crate::nbbs::{self, Nbbs};
use crate::platform::Platform;
use crate::region::Span;
use crate::structure::StructureKind;
use crate::systems::parameters::{Composition, Parameters};
use crate::systems::values::{ListAccess, ListKind, ZoneKind};

impl<'m, P: Platform> Compose<'m, P> for LlFree<'m, P> {
    const COMPOSITION: Composition = Composition {
        list: ListKind::None,
        access: ListAccess::Token,
        zone: ZoneKind::Reserved,
        structure: StructureKind::Fields,
        policy: PolicyKind::Eager,
    };

    type Erased = Self;

    fn erase(self) -> Self {
        self
    }

    fn take_before_use(&self, start: Index, frames: u32) -> Result<(), RangeError> {
        self.take_first(start, frames)
    }

    fn plan(parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan {
        let geometry = parameters.trees(span, cpus);
        Self::plan(ArenaPlan::default(), &geometry).slice::<Self>(1)
    }

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
        let geometry = builder.parameters.trees(builder.span, builder.setup.cpus);
        let system = Self::new(&mut builder.arena, &geometry, builder.bytes)?;
        builder.seed(|start, frames| system.seed(start, frames))?;
        Ok(system)
    }
}

impl<'m, P: Platform> Compose<'m, P> for Nbbs<'m, P> {
    const COMPOSITION: Composition = Composition {
        list: ListKind::None,
        access: ListAccess::Token,
        zone: ZoneKind::Shared,
        structure: StructureKind::Words,
        policy: PolicyKind::Eager,
    };

    type Erased = Self;

    fn erase(self) -> Self {
        self
    }

    fn take_before_use(&self, start: Index, frames: u32) -> Result<(), RangeError> {
        self.take_first(start, frames)
    }

    fn plan(parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan {
        let geometry = parameters.words(span, cpus);
        Self::plan(ArenaPlan::default(), &geometry).slice::<Self>(1)
    }

    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
        let geometry = builder.parameters.words(builder.span, builder.setup.cpus);
        let system = Self::new(&mut builder.arena, &geometry, builder.bytes)?;
        builder.seed(|start, frames| system.seed(start, frames))?;
        Ok(system)
    }
}

impl<'m, P: Platform> Compose<'m, P> for OwnedTrees<'m, P> {
    const COMPOSITION: Composition = Composition {
        list: ListKind::None,
        access: ListAccess::Token,
        zone: ZoneKind::Owned,
        structure: StructureKind::Planes,
        policy: PolicyKind::Eager,
    };

    type Erased = Self;

    fn erase(self) -> Self {
        self
    }

    fn take_before_use(&self, start: Index, frames: u32) -> Result<(), RangeError> {
        self.take_first(start, frames)
    }

    fn plan(parameters: &Parameters, span: Span, cpus: u16) -> ArenaPlan {
        Self::plan(&parameters.own_trees(span, cpus))
    }

    /// All memory is free initially. O(frames), or O(holes) in zeroed memory.
    fn make(builder: &mut Builder<'m, '_>) -> Result<Self, BuildError> {
        let geometry = builder
            .parameters
            .own_trees(builder.span, builder.setup.cpus);
        let system = Self::new(&mut builder.arena, &geometry, builder.bytes)?;
        let mut end = 0;
        builder.seed(|start, frames| {
            system.remove_before_use(end, start.0);
            end = start.0 + frames;
        })?;
        system.remove_before_use(end, system.frames_of_trees());
        Ok(system)
    }
}

impl Parameters {
    /// Returns the trees and children of a system without zones.
    fn trees(&self, span: Span, cpus: u16) -> llfree::Geometry {
        llfree::Geometry {
            span,
            cpus,
            max_order: self.max_order,
            tree: self.tree.unwrap_or(llfree::TREE),
        }
    }

    /// Returns what a tree of status words is made for.
    fn words(&self, span: Span, cpus: u16) -> nbbs::Geometry {
        nbbs::Geometry {
            span,
            cpus,
            max_order: self.max_order,
        }
    }

    /// Returns the trees of a system whose CPUs own them.
    fn own_trees(&self, span: Span, cpus: u16) -> everybuddy::Geometry {
        everybuddy::Geometry {
            span,
            cpus,
            max_order: self.max_order,
            tree: self.tree,
        }
    }
}
