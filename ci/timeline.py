"""Checks a decoded timeline: ci/timeline.py NAME DECODED.txt ROWS.jsonl. ci/timeline.sh calls it."""

import collections
import json
import re
import sys

name, decoded, rows = sys.argv[1:]


def fail(what):
    sys.exit(f"timeline: {name}: {what}")


def packets(lines):
    """Yields each packet as the fields that it has, by path."""
    path, fields = [], {}
    for line in lines:
        line = line.strip()
        if line.endswith("{"):
            path.append(line[:-1].strip())
        elif line == "}":
            path.pop()
            if not path:
                yield fields
                fields = {}
        else:
            key, value = line.split(": ", 1)
            if key.isdigit():
                fail(f"field {key} of {path} is not in the schema")
            fields[".".join(path[1:] + [key])] = value.strip('"')


tracks, last, open_slices = {}, {}, collections.defaultdict(list)
slices, counters = collections.Counter(), {}
begins, ends = {}, {}
with open(decoded) as text:
    for packet in packets(text):
        if "track_descriptor.uuid" in packet:
            uuid = packet["track_descriptor.uuid"]
            parent = packet.get("track_descriptor.parent_uuid")
            if parent is not None and parent not in tracks:
                fail(f"the parent of track {uuid} is unknown")
            thread = packet.get("track_descriptor.thread.thread_name", "")
            tracks[uuid] = packet.get("track_descriptor.name", thread)
            continue
        track, at = packet["track_event.track_uuid"], int(packet["timestamp"])
        if track not in tracks:
            fail(f"track {track} is unknown")
        if at < last.get(track, 0):
            fail(f"time decreases in track {track}")
        last[track] = at
        kind = packet["track_event.type"]
        stack = open_slices[track]
        what = stack[-1] if kind == "TYPE_SLICE_END" and stack else packet.get("track_event.name")
        call = stack[0] if stack else None
        for key, ids in ("flow_ids", begins), ("terminating_flow_ids", ends):
            flow = packet.get(f"track_event.{key}")
            if flow is not None and flow in ids:
                fail(f"flow {flow} has two {key}")
            if flow is not None:
                ids[flow] = (track, at, what, call, packet.get("track_event.debug_annotations.uint_value"))
        if kind == "TYPE_SLICE_BEGIN":
            open_slices[track].append(packet["track_event.name"])
        elif kind == "TYPE_SLICE_END":
            if not open_slices[track]:
                fail(f"a slice of track {track} ends that has not begun")
            slices[open_slices[track].pop()] += 1
        elif kind == "TYPE_COUNTER":
            counters[tracks[track]] = int(packet["track_event.counter_value"])
        elif kind != "TYPE_INSTANT":
            fail(f"type {kind}")
if any(open_slices.values()):
    fail("a slice does not end")
if begins.keys() != ends.keys():
    fail("a flow has one end")
for flow, (track, at, what, _, _) in begins.items():
    to, then, acquired, _, named = ends[flow]
    lock = (what.removeprefix("lock held").removeprefix("lock released"), acquired.removeprefix("lock held"))
    is_domain = what == "domain handed over" and acquired.startswith("ghost")
    if to == track or then < at or not (lock[0] == lock[1] or is_domain):
        fail(f"flow {flow} leads from {what} to {acquired}, {then - at} ns later")
    if tracks[track] != f"CPU {named}":
        fail(f"flow {flow} names CPU {named}, and begins at {tracks[track]}")

of = collections.Counter()
for track, value in counters.items():
    of[re.sub(", CPU .*", "", track)] += value
with open(rows) as lines:
    values = [json.loads(line) for line in lines]


def row(metric, statistic, operations=("allocate", "free", "all")):
    key = metric, statistic
    return sum(r["value"] for r in values if (r["metric"], r["statistic"]) == key and r["operation"] in operations)


calls = row("latency", "count")
expected = {
    "calls": calls,
    "contended calls": round(row("contention_rate", "value", ["all"]) * calls),
    "lock acquisitions": row("lock_acquisitions", "count"),
}
for counter, value in expected.items():
    if of[counter] != value:
        fail(f"{counter}: {of[counter]} in the timeline, {value} in the rows")
flows = sum(call in ("allocate", "free") for _, _, _, call, _ in ends.values())
waits = row("contended_wait", "count")
# A CPU that finds its domain held takes another one: it waits, but no CPU hands anything over.
if flows > waits or flows < waits and name != "spring":
    fail(f"{flows} flows, {waits} waits")
if calls < 1000 or slices["allocate"] + slices["free"] != calls:
    fail("a slice for each call")
print(f"timeline: {name}: {sum(slices.values())} slices, {len(tracks)} tracks, {flows} flows, {dict(of)}")
