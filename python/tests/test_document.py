"""What README.md shows is so."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

import everybuddy

DOCUMENT = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)


def names_the_fastest_system(printed: str) -> None:
    system, nanoseconds, unit = printed.split()
    # `floor`, the replay without an allocator, is faster than all of them.
    assert system in ("bs", "linux-6", "everybuddy")
    assert float(nanoseconds) > 0 and unit == "ns"


def lists_a_rate_of_each_cell(printed: str) -> None:
    rows = ast.literal_eval(printed)
    assert {(row["contender"], row["cpus"]) for row in rows} == set(product(("lbs-31", "llfree"), (1, 4)))
    assert len(rows) == 4 and all(row["value"] > 0 and row["unit"] == "1/s" for row in rows)


def lists_what_the_paper_says(printed: str) -> None:
    rows = ast.literal_eval(printed.splitlines()[-1])
    systems = set(everybuddy.systems()["name"].to_pylist())
    assert rows and {row["system"] for row in rows} <= systems
    # The only expected values are of the end, when all memory is in whole blocks again.
    assert all(row["metric"] == "free_blocks" and row["value"] == row["expected"] > 0 for row in rows)


OUTPUTS: list[Callable[[str], None]] = [
    names_the_fastest_system,
    lists_a_rate_of_each_cell,
    lists_what_the_paper_says,
]


@pytest.mark.parametrize(("code", "is_right"), list(zip(EXAMPLES, OUTPUTS, strict=True)))
def test_an_example_prints_what_the_text_says(code: str, is_right: Callable[[str], None], tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run
    is_right(run.stdout)
    assert list(tmp_path.iterdir()) == []


def test_the_error_is_as_shown() -> None:
    with pytest.raises(everybuddy.InputError) as raised:
        everybuddy.compare("gcc_biuld")
    assert f"everybuddy.InputError: {raised.value.message}\n```" in DOCUMENT


def test_every_function_is_listed() -> None:
    for name in everybuddy.__all__:
        assert f"{name}(" in DOCUMENT or f"everybuddy.{name}`" in DOCUMENT or name == "Option", name
