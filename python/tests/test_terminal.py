"""Progress on a terminal, and Ctrl-C."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

import everybuddy

T = TypeVar("T")

LONG = "import everybuddy; everybuddy.simulate(cpus=[64, 128], seeds=100, shrink=1)"


def children(parent: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def wait_for(condition: Callable[[], T]) -> T:
    """Waits until a function returns something true, and returns that."""
    limit = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < limit, "nothing happened"
        time.sleep(0.02)
    return value


def on_terminal(code: str) -> tuple[str, int]:
    """Runs Python on a terminal of its own, and returns what that shows and the exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(terminal)
    return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_progress_is_shown_on_a_terminal() -> None:
    code = "import everybuddy; everybuddy.compare('sysbench_mt_cut', systems=['bs', 'is'], no_html=True)"
    shown, status = on_terminal(code)
    assert status == 0, shown
    assert "passes" in shown and "━" in shown and "\N{REPLACEMENT CHARACTER}" not in shown


def test_a_pipe_shows_no_progress() -> None:
    code = "import everybuddy; everybuddy.compare('sysbench_mt_cut', systems=['bs', 'is'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "")
    assert "passes" not in run.stderr


def test_an_error_is_told_once() -> None:
    code = (
        "import everybuddy\n"
        "try: everybuddy.compare('gcc_biuld')\n"
        "except everybuddy.InputError as error: print('<', error.message, '>')"
    )
    shown, _ = on_terminal(code)
    assert shown.count("did you mean") == 1 and "< trace `gcc_biuld` not found" in shown, shown
    assert "\x1b" not in shown


def test_an_interrupt_ends_the_program() -> None:
    python = subprocess.Popen([sys.executable, "-c", LONG], stderr=subprocess.PIPE, text=True)
    (child,) = wait_for(lambda: children(python.pid))
    wait_for(lambda: Path(f"/proc/{child}/comm").read_text() == "everybuddy\n")
    # As a notebook interrupts its kernel: only Python receives the signal.
    python.send_signal(signal.SIGINT)
    _, errors = python.communicate(timeout=60)
    assert errors.endswith("KeyboardInterrupt\n"), errors
    assert not Path(f"/proc/{child}").exists()


def test_an_interrupt_while_the_program_starts_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def interrupted(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*words, **options))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        everybuddy.simulate(cpus=[64, 128], seeds=100, shrink=1)
    assert started[0].poll() == -signal.SIGINT
