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
with open(decoded) as text:
    for packet in packets(text):
        if "track_descriptor.uuid" in packet:
            uuid = packet["track_descriptor.uuid"]
            parent = packet.get("track_descriptor.parent_uuid")
            if parent is not None and parent not in tracks:
                fail(f"the parent of track {uuid} is unknown")
            tracks[uuid] = packet.get("track_descriptor.name", "")
            continue
        track, at = packet["track_event.track_uuid"], int(packet["timestamp"])
        if track not in tracks:
            fail(f"track {track} is unknown")
        if at < last.get(track, 0):
            fail(f"time decreases in track {track}")
        last[track] = at
        kind = packet["track_event.type"]
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

of = collections.Counter()
for track, value in counters.items():
    of[re.sub(", CPU .*", "", track)] += value
with open(rows) as lines:
    values = [json.loads(line) for line in lines]


def row(metric, statistic):
    return sum(r["value"] for r in values if (r["metric"], r["statistic"]) == (metric, statistic))


calls = row("latency", "count")
expected = {
    "calls": calls,
    "contended calls": round(row("contention_rate", "value") * calls),
    "lock acquisitions": row("lock_acquisitions", "count"),
}
for counter, value in expected.items():
    if of[counter] != value:
        fail(f"{counter}: {of[counter]} in the timeline, {value} in the rows")
if calls < 1000 or slices["allocate"] + slices["free"] != calls:
    fail("a slice for each call")
print(f"timeline: {name}: {sum(slices.values())} slices, {len(tracks)} tracks, {dict(of)}")
