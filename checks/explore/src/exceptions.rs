//! Where systems deviate from what the interface promises, as their documents say.
//!
//! # Invariants
//! An exception that the whole list of scopes does not find is a fault: then the document says too much.

use everybuddy::systems::{ListKind, Row, Switch, ZoneKind};
use everybuddy::{SystemSpec, systems};

/// A deviation.
pub(crate) struct Exception {
    /// The operations, by name, `both` for two simultaneous calls, `interrupt` for a nested one; none means all.
    operations: &'static [&'static str],
    /// The systems.
    applies: fn(&SystemSpec) -> bool,
    /// The kind of the finding.
    pub(crate) kind: &'static str,
    /// What the documents say.
    pub(crate) text: &'static str,
}

/// A free of such a system leaves buddies apart.
fn delays(spec: &SystemSpec) -> bool {
    let row: &Row = spec.row();
    row.rule != systems::Rule::AT_ONCE
}

/// A request of such a system is refused before deferred coalescing is done.
fn refuses_early(spec: &SystemSpec) -> bool {
    delays(spec) && spec.options().or(&spec.row().preset).reclaim != Some(Switch::On)
}

/// CPUs of such a system keep free frames in lists before a zone.
fn has_list(spec: &SystemSpec) -> bool {
    spec.row().list != ListKind::None
}

/// All exceptions.
#[rustfmt::skip]
pub(crate) const EXCEPTIONS: &[Exception] = &[
    Exception { operations: &[], applies: refuses_early,
        kind: "exhausted although a block is free",
        text: "SYSTEMS.md: without reclaim=on, a request does not wait for delayed coalescing." },
    Exception { operations: &[], applies: delays,
        kind: "refused, but the state changes",
        text: "Before a request of a system that delays coalescing is refused, blocks may have been coalesced." },
    Exception { operations: &["allocate_in", "allocate_runs"], applies: |_| true,
        kind: "refused, but the state changes",
        text: "Calls that try several blocks return them, so later requests may be given others." },
    Exception { operations: &["both", "interrupt"],
        applies: |spec| spec.row().zone() == ZoneKind::Shared || has_list(spec),
        kind: "refused while another call holds frames that it gives back",
        text: "allocate_at: a range that is refused may hold some of its frames meanwhile." },
    Exception { operations: &["both"], applies: has_list,
        kind: "a range is refused that was free throughout",
        text: "allocate_at: a frame that another CPU moves between its list and the zone counts as used." },
];

/// Returns the position of the exception that allows a finding.
pub(crate) fn allowed(spec: &SystemSpec, operation: &str, kind: &str) -> Option<usize> {
    EXCEPTIONS.iter().position(|exception| {
        let is_listed =
            exception.operations.is_empty() || exception.operations.contains(&operation);
        is_listed && exception.kind == kind && (exception.applies)(spec)
    })
}
