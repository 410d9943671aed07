"""What docs/python.md and README.md show is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import everybuddy

DOCUMENT = (Path(__file__).parents[2] / "docs/python.md").read_text()
README = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", DOCUMENT + README, re.DOTALL | re.MULTILINE)


def test_there_are_four_examples() -> None:
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code: str, tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0 and run.stdout.strip() not in ("", "[]"), run
    assert list(tmp_path.iterdir()) == []


def test_the_error_is_as_shown() -> None:
    with pytest.raises(everybuddy.InputError) as raised:
        everybuddy.compare("gcc_biuld")
    assert f"everybuddy.InputError: {raised.value.message}\n```" in DOCUMENT


def test_every_function_is_listed() -> None:
    for name in everybuddy.__all__:
        assert f"{name}(" in DOCUMENT or f"everybuddy.{name}`" in DOCUMENT or name == "Option", name
