"""Tables have what the program itself prints."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import everybuddy
from conftest import Program, lines

COLUMNS = [
    *("experiment", "source", "system", "options", "contender", "platform", "cpus", "seed"),
    *("operation", "order", "metric", "statistic", "value", "unit", "expected", "simulated", "program"),
]


def untimed(rows: pa.Table) -> pa.Table:
    """Returns the rows that are the same in every run."""
    return rows.filter(pc.is_in(rows["metric"], pa.array(["miss_rate", "splits", "coalescings"])))


def test_a_simulation_is_the_same_to_the_last_digit(program: Program) -> None:
    table = everybuddy.simulate(systems=["bs", "lbs-31"], cpus=[1, 4], seeds=1, shrink=20)
    own = program(
        "simulate", "--systems", "bs,lbs-31", "--cpus", "1,4", "--seeds", "1", "--shrink", "20", "--json", "-"
    )
    assert table.column_names == COLUMNS
    assert table.to_pylist() == lines(own)
    assert pc.all(table["simulated"]).as_py()
    assert set(table["cpus"].to_pylist()) == {1, 4}


def test_a_sweep_returns_the_rows_of_all_cells(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    lists = 'systems = ["bs", "is"]\nworkloads = ["burst:in-order"]\ncpus = [1, 4]\n'
    grid.write_text(f'command = "simulate"\n{lists}[arguments]\nshrink = 20\n')
    table = everybuddy.sweep(grid)
    own = everybuddy.simulate(systems=["bs", "is"], cpus=[1, 4], seeds=1, shrink=20)
    assert table.to_pylist() == own.to_pylist()
    assert len(list((tmp_path / "grid.cells").glob("*.parquet"))) == 4


def test_a_comparison_has_the_counts_of_the_program(program: Program) -> None:
    options = ["--systems", "bs,lbs-31", "--json", "-"]
    own = lines(program("compare", *options, "sysbench_mt_cut"))
    table = everybuddy.compare("sysbench_mt_cut", systems=["bs", "lbs-31"])
    assert {row["metric"] for row in own} == set(table["metric"].to_pylist())
    mine = untimed(table).to_pylist()
    assert mine == untimed(pa.Table.from_pylist(own, schema=table.schema)).to_pylist()
    assert {row["system"] for row in mine} == {"bs", "lbs-31"}


def test_only_asked_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = everybuddy.compare("sysbench_mt_cut", systems="bs", csv=Path("rows.csv"))
    assert os.listdir() == ["rows.csv"]
    assert len(Path("rows.csv").read_text().splitlines()) == table.num_rows + 1


def test_benchmarks_return_rows() -> None:
    table = everybuddy.bench(workloads=["hot"], systems=["bs", "is"], shrink=1000)
    assert {"bs", "is"} <= set(table["system"].to_pylist())
    assert "hot:order0" in table["source"].to_pylist()


def test_every_system_conforms() -> None:
    table = everybuddy.check(shrink=500, memory="16MiB", rounds=1)
    assert set(table["system"].to_pylist()) == set(everybuddy.systems()["name"].to_pylist())
    checked = table.filter(pc.field("metric") == "blocks_checked")["value"]
    wrong = table.filter(pc.field("metric") == "blocks_wrong")["value"]
    assert len(checked) == len(wrong) > 100
    assert pc.min(checked).as_py() > 0 and pc.sum(wrong).as_py() == 0


def test_an_earlier_run_is_judged_again(tmp_path: Path, program: Program) -> None:
    file = tmp_path / "rows.jsonl"
    first = program("reproduce", "space-size", "--shrink", "50", "--json", str(file))
    assert first.returncode == 0, first.stderr
    own = program("reproduce", "space-size", "--rows", str(file), "--json", "-")
    try:
        table = everybuddy.reproduce("space-size", rows=file)
    except everybuddy.CheckFailed as failed:
        # A shortened run may fail a claim.
        assert own.returncode == 1 and failed.rows is not None
        table = failed.rows
    assert table.to_pylist() == lines(own) and table.num_rows > 0


@pytest.mark.parametrize("name", ["traces", "systems", "workloads", "experiments", "metrics"])
def test_lists_have_every_name(name: str, program: Program) -> None:
    listed: Callable[[], pa.Table] = getattr(everybuddy, name)
    own = lines(program(name, "--json"))
    assert listed()["name"].to_pylist() == [row["name"] for row in own] != []


def test_statistics_of_a_trace_are_those_of_the_program(program: Program) -> None:
    table = everybuddy.trace_info("numpy_thp")
    assert table.to_pylist() == lines(program("trace", "info", "numpy_thp", "--json", "-"))


def test_calls_are_those_of_the_program(tmp_path: Path, program: Program) -> None:
    calls = everybuddy.trace_calls("sysbench_mt_cut")
    exported = tmp_path / "calls.csv"
    program("trace", "export", "sysbench_mt_cut", "--to", "csv", "-o", str(exported))
    own = csv.read_csv(exported)
    assert calls.num_rows == own.num_rows > 0
    for name in ("time_ns", "cpu", "pid", "pfn", "order"):
        assert calls[name].cast(pa.int64()).equals(own[name].cast(pa.int64())), name
    assert everybuddy.trace_calls("sysbench_mt_cut", first=1000).num_rows == 1000


def counted(calls: pa.Table) -> dict[Any, Any]:
    """Returns the number of calls of each order, by Arrow."""
    groups = calls.group_by("order").aggregate([("pfn", "count")]).to_pylist()
    return {group["order"]: group["pfn_count"] for group in groups}


def test_polars_takes_the_calls_of_a_trace() -> None:
    polars = pytest.importorskip("polars", reason="pip has no polars for this Python")
    calls = everybuddy.trace_calls("numpy_thp")
    groups = polars.from_arrow(calls).group_by("order").len()
    assert dict(groups.iter_rows()) == counted(calls)


def test_duckdb_takes_the_calls_of_a_trace() -> None:
    duckdb = pytest.importorskip("duckdb", reason="pip has no duckdb for this Python")
    calls = everybuddy.trace_calls("numpy_thp")
    with duckdb.connect() as database:
        database.register("calls", calls)
        groups = database.sql('select "order", count(*) from calls group by "order"').fetchall()
    assert dict(groups) == counted(calls)


def test_a_recording_is_a_trace(tmp_path: Path) -> None:
    output = tmp_path / "ls.parquet"
    try:
        calls = everybuddy.record(["ls", "/"], output=output)
    except everybuddy.InputError as error:
        pytest.skip(f"recording is not possible here: {error.message}")
    assert calls.num_rows == pq.read_metadata(output).num_rows > 0
    assert {"time_ns", "cpu", "pid", "op", "pfn", "order"} <= set(calls.column_names)
    rows = everybuddy.compare(output, systems="bs")
    assert set(rows["source"].to_pylist()) == {"ls"}
