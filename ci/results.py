#!/usr/bin/env python3
"""Makes committed results again, the oldest first: called by ci/results.sh, which says how.

results/stale.tsv lists what is of an older program, results/runs.tsv how each run is made. A run works in a folder of
target/results/COMMIT, and what is done there is not repeated. Of its rows, those are kept whose metrics the old rows
had, or that a claim or a table of an experiment names; a new file is kept whole. Rows lose what follows from others.
They are in the file that the run is named after: NAME.jsonl.gz.
"""

import datetime
import fnmatch
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time
import tomllib

import rows as stored

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
REPEATABLE = ("simulated", "counted")
# A machine is quiet if its CPUs are busy for less than this share of the time, for so many seconds. The load average
# would remember the run before.
QUIET, QUIET_FOR = 0.03, 20


def table(name):
    """Returns the lines of a table of results by run, each a dictionary."""
    head, *lines = (RESULTS / name).read_text().splitlines()
    rows = (dict(zip(head.split("\t"), line.split("\t"))) for line in lines)
    return {row["run"]: row for row in rows}


def experiment(row):
    return row["experiment"].split("@")[0]


def operations(part):
    """Returns the operations of a claim or a table, which names one or several."""
    named = part.get("operations") or part.get("operation", "all")
    return [named] if isinstance(named, str) else named


def kept(name, old, new):
    """Returns the rows of a run that are committed."""
    columns = ("metric", "statistic", "operation", "order")
    shown = {tuple(row.get(column) for column in columns) for row in old}
    parts = []
    path = ROOT / "lab/papers/src" / name.replace("-", "_") / "experiment.toml"
    if path.exists():
        own = tomllib.loads(path.read_text())
        parts = own.get("claims", []) + ([] if shown else own.get("tables", []))
        columns += ("source",)
        shown = {tuple(row.get(column) for column in columns) for row in old}

    def is_part(row):
        # Claims form ratios within rounds, and need the ends of all rounds.
        of_round = row["statistic"] in (("value",) if "@" in row["experiment"] else ("min", "max"))

        def is_of(part):
            of_claim = part.get("statistics", [part.get("statistic", row["statistic"])])
            if part.get("against") == row["metric"]:
                return row["statistic"] == "mean"
            of_median = of_round and "p50" in of_claim
            return part["metric"] == row["metric"] and (of_median or row["statistic"] in of_claim)

        return any(
            is_of(part)
            and row["operation"] in operations(part)
            and row["source"] in (part.get("sources") or [row["source"]])
            and row["contender"] in (part.get("systems", []) + part.get("rivals", []) or [row["contender"]])
            for part in parts
        )

    def is_kept(row):
        if shown and tuple(row[column] for column in columns) in shown and "@" not in row["experiment"]:
            return True
        return not shown or is_part(row)

    return [row for row in new if is_kept(row)]


def named(row, commit, digests):
    """Returns a row that says what made it, as the program does; rows that scripts write say nothing."""
    words = "+".join(part for part in (row["system"], row.get("options")) if part).split()
    own = "+".join(digests[word] for word in words if word in digests) or "-"
    return row if row.get("program") else row | {"program": f"{commit} {own} -"}


def short(row):
    """Returns a row as it is committed."""
    left_out = {"contender", "simulated"} | {name for name in ("order", "expected") if row.get(name) is None}
    return json.dumps({name: value for name, value in row.items() if name not in left_out}, separators=(",", ":"))


def committed(run):
    """Returns the file with the rows of a run, and these rows."""
    path = RESULTS / f"{run['run']}.jsonl.gz"
    return path, stored.read(path) if path.exists() else []


def files(run, folder):
    """Returns the files of results that a run has written: those that its command names, or that are committed. Its
    rows are in the file that has the second part of its name."""
    kind, name = run["run"].split("/")[:2]
    named = run["command"].split()

    def is_result(path):
        if path.suffix == ".jsonl":
            return path.stem == name and (committed(run)[0].exists() or path.name in named)
        return path.suffix in (".txt", ".tsv", ".toml") and ((RESULTS / kind / path.name).exists() or path.name in named)

    return [pathlib.Path(path.name) for path in sorted(folder.iterdir()) if is_result(path)]


def times():
    """Returns the time that all CPUs have worked, and all their time."""
    user, nice, system, idle, waiting, *rest = map(int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return user + nice + system + sum(rest), user + nice + system + idle + waiting + sum(rest)


def wait_until_quiet():
    """Returns the share of the time in which CPUs were busy, once it is small."""
    while True:
        before = times()
        time.sleep(QUIET_FOR)
        worked, passed = (now - then for now, then in zip(times(), before))
        if worked < QUIET * passed:
            return worked / passed


def family():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    found = [re.search(rf"^{name}\s*: (.*)$", info, re.M) for name in ("vendor_id", "cpu family", "model")]
    return "-".join(one[1].removeprefix("Authentic").removeprefix("Genuine").lower() for one in found if one)


def place_of(run, base):
    """Returns the folder of a run, whose name may be in a list of folders."""
    return base / run["run"].replace("/", "+")


def make(run, base):
    """Runs the commands of a run. Returns its folder, or nothing if they failed."""
    folder = place_of(run, base)
    if (folder / "done").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    place = run["where"].split()[0]
    if place == "native":
        print(f"results: {run['run']}: waits for a quiet machine", flush=True)
        place = f"native {family()}, {wait_until_quiet():.1%} busy before"
    for link, goal in (("ci", ROOT / "ci"), ("everybuddy", base / "everybuddy")):
        if not (folder / link).is_symlink():
            (folder / link).symlink_to(goal)
    path = f"{folder}:{os.environ['PATH']}"
    before = float((folder / "seconds").read_text()) if (folder / "seconds").exists() else 0.0
    started = time.monotonic()
    try:
        with open(folder / "log", "w") as log:
            command = ["bash", "-euo", "pipefail", "-c", run["command"]]
            environment = os.environ | {"PATH": path, "ROOT": str(ROOT)}
            ended = subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, check=False)
    finally:
        seconds = before + time.monotonic() - started
        (folder / "seconds").write_text(str(seconds))
    # A claim that fails is a result, too.
    if ended.returncode > 1 or not files(run, folder):
        return None
    (folder / "done").write_text(f"{place}\t{seconds:.0f}")
    return folder


def take(run, folder, commit, now):
    """Takes the files of a run over into the results."""
    digests = dict(line.split("\t")[:2] for line in (RESULTS / "digests.tsv").read_text().splitlines())
    for file in files(run, folder):
        if file.suffix == ".jsonl":
            path, old = committed(run)
            new = kept(experiment(old[0]) if old else "", old, stored.read(folder / file))
            stored.write(path, [short(named(row, commit, digests)) for row in new])
            print(f"results: {run['run']}: {len(old)} rows before, {len(new)} now")
            if old:
                name = path.relative_to(ROOT)
                print(f"results: what changed: everybuddy rows <(git show HEAD:{name}) {name}")
        else:
            shutil.copy(folder / file, RESULTS / run["run"].split("/")[0] / file)
    place, seconds = (folder / "done").read_text().split("\t")
    today = datetime.date.today().isoformat()
    run |= {"date": today, "commit": commit, "program": now, "seconds": seconds, "where": place}
    head = (RESULTS / "runs.tsv").read_text().splitlines()[0]
    runs = table("runs.tsv") | {run["run"]: run}
    lines = ["\t".join(own[column] for column in head.split("\t")) for own in runs.values()]
    (RESULTS / "runs.tsv").write_text("\n".join([head, *lines]) + "\n")


def differences(run, folder):
    """Returns what is not the same to the last digit in the committed files of a run."""
    found = []
    for file in files(run, folder):
        path = RESULTS / run["run"].split("/")[0] / file
        if file.suffix == ".jsonl":
            path, old = committed(run)
            new = kept(experiment(old[0]) if old else "", old, stored.read(folder / file))
            # A run makes more rows than are committed.
            plain = [{short(row | {"program": ""}) for row in rows} for rows in (old, new)]
            count = len(plain[0] - plain[1])
            if count:
                found.append(f"{count} rows differ: everybuddy rows {path.relative_to(ROOT)} {folder / file}")
        elif path.read_text() != (folder / file).read_text():
            found.append(f"{path.name} differs")
    return found


def duration(seconds):
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds} s"


def main():
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    names = [word for word in sys.argv[1:] if not word.startswith("--")]
    runs, stale = table("runs.tsv"), table("stale.tsv")

    def is_meant(run):
        place = runs[run]["where"].split()[0]
        return not names or any(fnmatch.fnmatch(run, name) or place == name for name in names)

    if options[:1] == ["--list"]:
        chosen = [own for name, own in stale.items() if is_meant(name)]
        print(f"{'date':12}{'where':12}{'older':>7} of {'rows':6}{'about':>8}  run")
        for own in chosen:
            about, place = duration(int(own["seconds"])), own["where"].split()[0]
            print(f"{own['date']:12}{place:12}{own['older']:>7} of {own['rows']:6}{about:>8}  {own['run']}")
        total = sum(int(own["seconds"]) for own in chosen)
        rows, older = (sum(int(own[column]) for own in chosen) for column in ("rows", "older"))
        print(f"{len(chosen)} of {len(runs)} runs, {older} of their {rows} rows, about {duration(total)}")
        return
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    base = ROOT / "target/results" / commit
    base.mkdir(parents=True, exist_ok=True)
    program = pathlib.Path(os.environ["EVERYBUDDY"])
    if not (base / "everybuddy").exists():
        shutil.copy(program, base / "everybuddy")
    again = next((own for own in options if own.startswith("--again")), None)
    if again:
        ready = [run for name, run in runs.items() if name not in stale and run["where"].startswith(REPEATABLE)]
        ready = [run for run in ready if is_meant(run["run"])]
        chosen = random.sample(ready, min(int(again.partition("=")[2] or 10), len(ready)))
    else:
        chosen = [runs[name] for name in stale if is_meant(name)]
    failed = 0
    for run in chosen:
        if run["command"].startswith("by hand"):
            print(f"results: {run['run']}: {run['command']}")
            continue
        print(f"results: {run['run']}: about {duration(int(run['seconds']))}", flush=True)
        if again:
            shutil.rmtree(place_of(run, base), ignore_errors=True)
        folder = make(run, base)
        if folder is None:
            failed += 1
            print(f"results: {run['run']}: FAILED, see {place_of(run, base)}/log")
        elif again:
            found = differences(run, folder)
            failed += bool(found)
            print(f"results: {run['run']}: {', '.join(found) or 'the same to the last digit'}")
        else:
            take(run, folder, commit, stale[run["run"]]["program"])
    sys.exit(failed > 0)


main()
