//! States as JSON, one object per line.
//!
//! Programs read every number, those of all orders included.
//!
//! # Invariants
//! Numbers that may be bounds have two fields, `low` and `high`. Unknown values are `null`.

use serde_json::{Value, json};

use crate::answer::{self, Range};
use crate::explain;
use crate::frames::{Facts, Holder};
use crate::request::Request;
use crate::show::holders;
use crate::state::{Blocks, State, Types, Zone};

/// Converts a state.
#[must_use]
pub fn state(state: &State) -> Value {
    let parts = state.parts.iter().map(
        |(kind, place)| json!({ "kind": kind.name(), "file": place.file, "line": place.line }),
    );
    let event = state.event.as_ref().map(|event| {
        json!({
            "cause": event.cause.name(),
            "process": event.process,
            "order": event.order,
            "flags": event.flags,
            "line": event.place.line,
            "explanation": explain::event(state),
        })
    });
    let callers = state.callers.iter().map(|caller| {
        json!({
            "function": caller.function,
            "place": caller.place,
            "bytes": caller.bytes,
            "calls": caller.calls,
        })
    });
    json!({
        "parts": parts.collect::<Vec<_>>(),
        "time": state.time,
        "kernel": state.kernel,
        "event": event,
        "frame_bytes": state.frame.bytes,
        "frame_is_assumed": !state.frame.is_known,
        "zones": state.zones.iter().map(|zone| zone_value(state, zone)).collect::<Vec<_>>(),
        "vmstat": state.vmstat,
        "meminfo": state.meminfo,
        "callers": callers.collect::<Vec<_>>(),
        "remarks": state.remarks,
        "frames": state.frames.as_ref().map(facts_value),
        "assumptions": holders::assumptions(state),
        "unknown": explain::unknown(state),
    })
}

fn zone_value(state: &State, zone: &Zone) -> Value {
    let answer = answer::of_zone(state, zone, Request::shown(zone));
    let rows = answer.as_ref().map(|answer| {
        let rows = answer.rows.iter().map(|row| {
            let listed = zone
                .blocks
                .as_ref()
                .and_then(|blocks| blocks.get(row.order as usize));
            let windows = zone
                .windows
                .as_ref()
                .and_then(|windows| windows.orders.get(row.order as usize));
            let held =
                windows.map(|windows| windows.holders.iter().map(holder_value).collect::<Vec<_>>());
            let special = row
                .special
                .iter()
                .map(|(name, range)| json!({ "type": name.name(), "blocks": bounds(*range) }));
            json!({
                "order": row.order,
                "bytes": row.bytes,
                "listed": listed.map(listed_value),
                "free": bounds(row.free),
                "usable": bounds(row.usable),
                "special": special.collect::<Vec<_>>(),
                "below_watermark": row.withheld,
                "by_moving": row.moving.map(bounds),
                "by_dropping_cache": row.dropping.map(bounds),
                "never": row.never,
                "held_by": held,
                "in_zone": row.total,
            })
        });
        rows.collect::<Vec<_>>()
    });
    let lists = zone.lists.iter().map(|list| {
        json!({ "cpu": list.cpu, "count": list.count, "high": list.high, "batch": list.batch })
    });
    json!({
        "node": zone.extent.node,
        "zone": zone.extent.name,
        "line": zone.place.line,
        "free_frames": zone.free_frames(),
        "table_frames": zone.table_frames().map(|count| bounds(count.into())),
        "counter_frames": zone.free,
        "min": zone.min,
        "low": zone.low,
        "high": zone.high,
        "boost": zone.boost,
        "lowmem_reserve": zone.lowmem_reserve,
        "spanned": zone.extent.spanned,
        "present": zone.extent.present,
        "managed": zone.extent.managed,
        "first_frame": zone.extent.start,
        "free_cma": zone.free_cma,
        "free_highatomic": zone.free_high_atomic,
        "reserved_highatomic": zone.reserved_high_atomic,
        "on_cpu_lists": zone.on_lists,
        "cpu_lists": lists.collect::<Vec<_>>(),
        "types_known": answer.map(|answer| answer.knows_types),
        "orders": rows,
    })
}

fn holder_value(holder: &Holder) -> Value {
    json!({
        "kind": holder.kind.name(),
        "frames": holder.frames,
        "blocks": holder.blocks,
        "alone": holder.alone,
    })
}

/// What the frames tell besides windows.
fn facts_value(facts: &Facts) -> Value {
    let functions = facts.functions.as_ref().map(|holders| {
        let functions = holders.functions.iter().map(|function| {
            json!({
                "function": function.name,
                "frames": function.frames,
                "blocks": function.blocks,
                "alone": function.alone,
            })
        });
        functions.collect::<Vec<_>>()
    });
    let groups = facts.groups.as_ref().map(|groups| {
        let values = groups.tally.groups.iter().map(|group| {
            json!({
                "inode": group.inode,
                "path": groups.paths.get(&group.inode),
                "fixed_frames": group.pinned(),
                "movable_frames": group.movable(),
                "blocks": group.blocks,
            })
        });
        values.collect::<Vec<_>>()
    });
    let settled = facts.settled.as_ref().map(|settled| {
        json!({
            "on_cpu_lists": settled.on_lists,
            "kernel": settled.kernel,
            "pinned": settled.pinned,
            "undecided": settled.undecided,
        })
    });
    json!({
        "block_bytes": facts.block_bytes,
        "functions": functions,
        "groups": groups,
        "by_references": settled,
    })
}

/// The blocks of one order, as the table lists them.
fn listed_value(blocks: &Blocks) -> Value {
    let types = match &blocks.types {
        Types::Unknown => Value::Null,
        Types::Present(types) => types.iter().map(|name| Value::from(name.name())).collect(),
        Types::Counts(types) => types
            .iter()
            .map(|(name, count)| (name.name().to_owned(), json!(count.value)))
            .collect(),
    };
    json!({ "blocks": bounds(blocks.count.into()), "types": types })
}

fn bounds(range: Range) -> Value {
    json!({ "low": range.low, "high": range.high })
}
