"""Compare page-frame allocators on real traces.

Each function runs a command of the program `everybuddy`, which is part of this package, and returns its rows as an
Arrow table: one measurement per row, with the columns and the metrics that docs/metrics.md of the project defines.

    >>> import everybuddy
    >>> rows = everybuddy.compare("gcc_build", systems=["bs", "linux-6"])
    >>> rows.to_pandas()                                           # with pandas

**Options.** The keyword arguments of a function are the options of its command, as `everybuddy COMMAND --help` lists
them: `cpus=2` is `--cpus 2`, `all_columns=True` is `--all-columns`, and `systems=["bs", "is"]` is `--systems bs,is`.
`None` and `False` leave an option out. The program checks them, so a wrong option is an `InputError`.

**Messages.** What the program writes to standard error, and on a terminal its progress, goes to `sys.stderr`.

**Errors.** `InputError` and `CheckFailed` are both an `EverybuddyError` and contain the message of the program. Ctrl-C
ends the program and raises `KeyboardInterrupt`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ._program import CheckFailed, EverybuddyError, InputError, Option, program, run

__all__ = [
    "CheckFailed",
    "EverybuddyError",
    "InputError",
    "Option",
    "bench",
    "check",
    "compare",
    "experiments",
    "metrics",
    "program",
    "record",
    "reproduce",
    "simulate",
    "sweep",
    "systems",
    "trace_calls",
    "trace_info",
    "traces",
    "workloads",
]

_Path = str | os.PathLike[str]


def compare(*traces: _Path, **options: Option) -> pa.Table:
    """Replays traces on systems and returns all measurements.

    `traces` are files or names of bundled traces (`traces()`); without any, the default ones are replayed. A page
    with charts is written only if `html` names a file.

        >>> everybuddy.compare("run.parquet", systems=["lbs-31", "everybuddy"], cpus=2)
    """
    # In a terminal the command writes a page without being asked.
    return _rows("compare", traces, {"no_html": options.get("html") is None, **options})


def bench(**options: Option) -> pa.Table:
    """Measures systems on synthetic workloads and returns all measurements.

    >>> everybuddy.bench(workloads=["hot"], systems=["bs", "llfree"])
    """
    return _rows("bench", (), options)


def check(**options: Option) -> pa.Table:
    """Checks systems against a shadow of memory on synthetic workloads, and returns the counts of blocks.

    The options are those of `bench`; by default, all systems run all workloads. The metric `blocks_wrong` counts blocks
    that were outside of memory, not aligned, or allocated twice, of `blocks_checked`. Nothing is timed.

    Raises `CheckFailed` if a block was wrong; its `rows` are the counts.

        >>> everybuddy.check(systems=["everybuddy"], shrink=10)
    """
    return _rows("bench", (), {**options, "check": True})


def simulate(**options: Option) -> pa.Table:
    """Runs workloads or traces on a simulated machine and returns all measurements.

    The same call gives the same rows on every host: the times are virtual.

        >>> everybuddy.simulate(systems=["lbs-31", "is"], cpus=[1, 16, 64])
    """
    return _rows("simulate", (), options)


def sweep(grid: _Path, **options: Option) -> pa.Table:
    """Runs a grid of simulations or replays, and returns the measurements of all cells.

    Finished cells are kept in a folder next to the grid, so the same call continues where it stopped. With `ray`, the
    address of a cluster, the cells run as its tasks. With `minimize` or `maximize`, Optuna searches for the best options,
    and the result is that of the best ones. Both libraries are those of this Python.

        >>> everybuddy.sweep("grid.toml", ray="auto")
        >>> everybuddy.sweep("grid.toml", minimize="latency:p99:allocate", trials=50)
    """
    return _rows("sweep", (grid,), {"python": sys.executable, **options})


def reproduce(*experiments: _Path, **options: Option) -> pa.Table:
    """Repeats experiments of papers, checks their claims, and returns all measurements.

    `experiments` are names (`experiments()`) or TOML files; without any, all are repeated. The column `expected`
    contains the paper's value, where the paper prints one.

    Raises `CheckFailed` if a claim fails; its `rows` are the measurements.

        >>> everybuddy.reproduce("fragmentation")
    """
    return _rows("reproduce", experiments, options)


def record(command: Sequence[_Path], *, output: _Path, **options: Option) -> pa.Table:
    """Records the calls of a command to the kernel's page allocator, and returns them, one per row.

    The trace is written to `output`, a `.parquet` file that `compare` and `simulate` read. An empty `command` records
    the whole machine for `seconds`. The command has the standard input and output of this process. Needs Linux, root
    and tracefs. Ctrl-C ends the recording, and the trace is written before `KeyboardInterrupt` is raised.

        >>> everybuddy.record(["make", "-j2"], output="make.parquet")
    """
    run("record", command, {**options, "output": output}, stdin=None, stdout=None)
    return pq.read_table(Path(output))


def trace_info(trace: _Path, **options: Option) -> pa.Table:
    """Returns the statistics of a trace: orders, runs, lifetimes, memory in use.

    >>> everybuddy.trace_info("gcc_build")
    """
    return _rows("trace info", (trace,), options)


def trace_calls(trace: _Path, **options: Option) -> pa.Table:
    """Returns the calls of a trace, one per row, with the columns that traces/README.md of the project defines.

    `trace` is a file or the name of a bundled trace. The options select calls; they are those of `trace cut`.

        >>> everybuddy.trace_calls("gcc_build", first=1000)
    """
    with tempfile.TemporaryDirectory(prefix="everybuddy-") as folder:
        file = Path(folder, "calls.parquet")
        run("trace cut", (trace,), {"keep_time": True, **options, "output": file})
        return pq.read_table(file)


def traces() -> pa.Table:
    """Lists the bundled traces."""
    return _list("traces")


def systems() -> pa.Table:
    """Lists the systems: allocators that can be compared, with their sources."""
    return _list("systems")


def workloads() -> pa.Table:
    """Lists the workloads of `bench` and `simulate`."""
    return _list("workloads")


def experiments() -> pa.Table:
    """Lists the experiments of papers that `reproduce` repeats, with their claims."""
    return _list("experiments")


def metrics() -> pa.Table:
    """Lists the metrics, with their definitions and units."""
    return _list("metrics")


def _rows(command: str, operands: Sequence[_Path], options: dict[str, Option]) -> pa.Table:
    """Runs a command that measures, and returns its rows."""
    with tempfile.TemporaryDirectory(prefix="everybuddy-") as folder:
        file = Path(folder, "rows.parquet")
        try:
            run(command, operands, {**options, "parquet": file})
        except CheckFailed as failed:
            # The rows are written before the verdict is given.
            failed.rows = pq.read_table(file) if file.exists() else None
            raise
        return pq.read_table(file)


def _list(command: str) -> pa.Table:
    """Runs a command that lists what the program knows, and returns one row per line."""
    with tempfile.TemporaryFile(prefix="everybuddy-") as file:
        run(command, (), {"json": True}, stdout=file)
        file.seek(0)
        return pa.Table.from_pylist([json.loads(line) for line in file])
