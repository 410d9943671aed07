"""What the tests share: the program itself, to compare with."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Protocol

import pytest

import everybuddy


class Program(Protocol):
    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def program() -> Program:
    """Runs the installed program as users run it."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([everybuddy.program(), *words], capture_output=True, text=True)

    return run


def lines(run: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Returns the JSON lines that a run printed."""
    assert run.returncode in (0, 1), run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]
