#!/usr/bin/env python3
"""Takes the rows of experiments over into the committed results.

    ci/rows.py target/experiments/COMMIT [NAME...]

For each experiment NAME (all of the folder by default), its rows in results/papers/reproduce.jsonl are replaced by
those of FOLDER/NAME.jsonl, which `ci/experiments.sh` has written. Only what documents and claims show is kept: the
metrics and operations that the old rows had, and those that the experiment's claims name. A new experiment keeps the
metrics of its tables and claims. Rows of single rounds and moments are left out, unless the old ones had such. Native
times stay the old ones: other programs run next to these experiments. The table of experiments in
results/papers/README.md then names the commit.
"""

import json
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = ROOT / "results/papers/reproduce.jsonl"
TABLE = ROOT / "results/papers/README.md"
BEGIN = "| experiment, counted or simulated | commit |\n|---|---|\n"


def kept(name, old):
    """Returns what says of a row whether a document or a claim shows it."""
    path = ROOT / "lab/papers/src" / name.replace("-", "_") / "experiment.toml"
    experiment = tomllib.loads(path.read_text())
    claims = experiment.get("claims", [])
    columns = ("metric", "statistic", "operation", "source")
    shown = {tuple(row[column] for column in columns) for row in old}
    tables = [] if shown else experiment.get("tables", [])

    def is_kept(row):
        return tuple(row[column] for column in columns) in shown or any(
            part["metric"] == row["metric"]
            and row["operation"] in (part.get("operations") or part.get("operation", "all"))
            and row["statistic"] in part.get("statistics", [part.get("statistic", row["statistic"])])
            and row["source"] in (part.get("sources") or [row["source"]])
            and (row["contender"] in (part.get("systems") or [row["contender"]]) or part in tables)
            for part in claims + tables
        )

    return is_kept


def is_time(row):
    return row["platform"] == "native" and row["unit"] == "ns"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    names = sys.argv[2:] or sorted(path.stem for path in folder.glob("*.jsonl"))
    committed = {}
    for line in ROWS.read_text().splitlines():
        row = json.loads(line)
        committed.setdefault(row["experiment"].split("@")[0], []).append((row, line))
    for name in names:
        old = [row for row, _ in committed.get(name, [])]
        is_kept = kept(name, old)
        has_rounds = any("@" in row["experiment"] for row in old)
        new = [(json.loads(line), line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        times = [(row, line) for row, line in committed.get(name, []) if is_time(row)]
        rows = [
            (row, line) for row, line in new
            if is_kept(row) and not is_time(row) and (has_rounds or "@" not in row["experiment"])
        ]
        committed[name] = rows + times
        print(f"{name}: {len(old)} rows before, {len(rows)} of {len(new)} now")
    lines = [line for name in sorted(committed) for _, line in committed[name]]
    ROWS.write_text("".join(line + "\n" for line in lines))
    text = TABLE.read_text()
    before, _, after = text.partition(BEGIN)
    old = re.match(r"(?:\|[^\n]*\|\n)*", after).group()
    commits = dict(re.findall(r"^\| `(.*?)` \| (.*?) \|$", old, re.M))
    commits.update(dict.fromkeys(names, folder.name))
    table = "".join(f"| `{name}` | {commits[name]} |\n" for name in sorted(commits))
    TABLE.write_text(before + BEGIN + table + after.removeprefix(old))


main()
