"""Failures of the program are exceptions with its message."""

from __future__ import annotations

import importlib.util
import re
import stat
import sys
from pathlib import Path

import pytest

import everybuddy
from conftest import Program
from everybuddy import _program

EXPERIMENT = """
name = 'tiny'
title = 'A tiny replay'
source = 'this test'
needs = 'nothing'
method = 'fragmentation'
figure = 'fragmentation'
platform = 'native'
systems = ['bs']
traces = ['sysbench_mt_cut']
[parameters]
order = 10
[[tables]]
title = 'free blocks'
metric = 'free_blocks'
order = 10
statistics = ['mean', 'value']
[[claims]]
kind = 'ratio'
of = 'expected'
text = 'More memory returns than there is.'
metric = 'free_blocks'
statistic = 'value'
order = 10
systems = ['bs']
at_least = 1.1
"""


def message(run: str) -> str:
    """Returns the message of the program's standard error."""
    assert run.startswith("error: "), run
    return run.removeprefix("error: ").strip()


def test_an_unknown_option_is_an_error(program: Program) -> None:
    with pytest.raises(everybuddy.InputError) as raised:
        everybuddy.simulate(cpsu=2)
    assert raised.value.message == str(raised.value) == message(program("simulate", "--cpsu=2").stderr)
    assert "'--cpus'" in raised.value.message and raised.value.code == 2


@pytest.mark.parametrize("words", [("gcc_biuld",), ("no/such.parquet",)])
def test_unknown_traces_are_errors(words: tuple[str, ...], program: Program) -> None:
    with pytest.raises(everybuddy.InputError, match=words[0]) as raised:
        everybuddy.compare(*words)
    assert raised.value.message == message(program("compare", *words).stderr)


def test_options_are_translated_by_their_form() -> None:
    options = {"all_columns": True, "lenient": False, "cpus": None, "systems": ["a", "b"], "html": Path("x"), "seed": 0}
    words = [word for name, value in options.items() for word in _program._words(name, value)]
    assert words == ["--all-columns", "--systems=a,b", "--html=x", "--seed=0"]


def test_a_name_that_looks_like_an_option_is_a_name() -> None:
    with pytest.raises(everybuddy.InputError, match="trace `--help` not found"):
        everybuddy.compare("--help")


@pytest.mark.parametrize(
    ("module", "options"), [("ray", {"ray": "auto"}), ("optuna", {"minimize": "latency:p99:allocate"})]
)
def test_a_missing_library_is_an_error(module: str, options: dict[str, str], tmp_path: Path) -> None:
    if importlib.util.find_spec(module):
        pytest.skip(f"{module} is installed")
    grid = tmp_path / "grid.toml"
    grid.write_text('command = "simulate"\nsystems = ["bs"]\nworkloads = ["burst:in-order"]\ncpus = [1]\n')
    with pytest.raises(everybuddy.InputError, match=f"-m pip install {module}") as raised:
        everybuddy.sweep(grid, **options)
    assert f"{sys.executable} has no {module.capitalize()}" in raised.value.message


def test_a_claim_that_fails_comes_with_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(EXPERIMENT)
    with pytest.raises(everybuddy.CheckFailed) as raised:
        everybuddy.reproduce(file)
    rows = raised.value.rows
    assert raised.value.code == 1 and rows is not None
    assert {row["metric"] for row in rows.to_pylist()} >= {"free_blocks"}
    file.write_text(EXPERIMENT.replace("1.1", "0.9"))
    assert everybuddy.reproduce(file).num_rows == rows.num_rows


def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Replaces the program."""
    file = tmp_path / "everybuddy"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(_program, "program", lambda: file)


def test_messages_before_the_error_are_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script = r"printf 'note: ä an error: here\n' >&2; sleep 0.1; printf 'error: a\nhelp: b\n' >&2; exit 2"
    fake(tmp_path, monkeypatch, script)
    with pytest.raises(everybuddy.InputError, match=re.escape("a\nhelp: b")):
        everybuddy.bench()
    assert capfd.readouterr().err == "note: ä an error: here\n"


def test_other_ends_of_the_program_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "kill -KILL $$")
    with pytest.raises(everybuddy.EverybuddyError, match="ended by SIGKILL") as killed:
        everybuddy.bench()
    assert killed.value.code == -9
    fake(tmp_path, monkeypatch, "exit 101")
    with pytest.raises(everybuddy.EverybuddyError, match="exit code 101"):
        everybuddy.bench()
    fake(tmp_path, monkeypatch, "kill -INT $$")
    with pytest.raises(KeyboardInterrupt):
        everybuddy.bench()
