"""Runs commands as tasks of a Ray cluster.

The program `everybuddy` contains this file and runs it for `--ray ADDRESS`, so it needs Ray and nothing else of this
package. It reads lines `{"cell": KEY, "command": [WORD, ...]}` from standard input, and prints a line
`{"cell": KEY, "code": EXIT_CODE, "message": TEXT}` as each command ends, in any order. An exit code that is not 0 is a
result: the command is not repeated. What a lost node was doing is.
"""

from __future__ import annotations

import collections
import json
import os
import socket
import subprocess
import sys
import threading
from typing import Any, TextIO

RETRIES = 10
"""How often the same command is repeated after nodes were lost."""

LEAST_PENDING = 64
"""Tasks that wait in the cluster. More would slow down each look at them."""

TAIL = 4000
"""The last characters of a command's messages that are passed on."""


def execute(command: list[str]) -> tuple[int, str]:
    """Runs a command on the node of this task. Returns its exit code and the end of its messages."""
    try:
        run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except OSError as failure:
        return 2, f"{os.uname().nodename}: {failure}: the program must be installed under the same path on all nodes"
    message = run.stderr.decode(errors="replace")[-TAIL:]
    # A message begins after the notes.
    _, mark, error = message.rpartition("error: ")
    return run.returncode, error if mark else message


def reach(address: str) -> None:
    """Raises `OSError` if no process listens at an address with a port: Ray itself would try for minutes."""
    host, mark, port = address.rpartition("://")[2].rpartition(":")
    if mark and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def main(address: str, commands: TextIO, answers: TextIO) -> int:
    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    try:
        import ray
    except ImportError as missing:
        answer(error=f"{sys.executable} has no Ray ({missing})\nhelp: install it with `{sys.executable} -m pip install ray`")
        return 2
    try:
        reach(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as failure:
        text = str(failure).strip().splitlines()
        answer(error=f"no cluster answers ({text[0] if text else type(failure).__name__})\nhelp: `ray status` shows its state")
        return 2
    answer(ready=True)

    # On whatever node there is room; on a lost node, again on another one.
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(execute)
    waiting: collections.deque[dict[str, Any]] = collections.deque()
    changed = threading.Event()
    ended = False

    def read() -> None:
        nonlocal ended
        for line in commands:
            waiting.append(json.loads(line))
            changed.set()
        ended = True
        changed.set()

    threading.Thread(target=read, daemon=True).start()
    pending: dict[Any, str] = {}
    while True:
        # Nodes come and go.
        room = max(LEAST_PENDING, 4 * int(ray.cluster_resources().get("CPU", 0)))
        while waiting and len(pending) < room:
            new = waiting.popleft()
            pending[task.remote(new["command"])] = new["cell"]
        if not pending:
            if ended and not waiting:
                return 0
            changed.wait(1)
            changed.clear()
            continue
        done, _ = ray.wait(list(pending), timeout=0.5)
        for own in done:
            cell = pending.pop(own)
            try:
                code, message = ray.get(own)
            except ray.exceptions.RayError as failure:
                text = str(failure).strip().splitlines()
                code, message = 2, f"Ray: {text[0] if text else type(failure).__name__}"
            answer(cell=cell, code=code, message=message)


if __name__ == "__main__":
    # Whatever the library prints must not come between the answers.
    own_output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.exit(main(sys.argv[1], sys.stdin, own_output))
