"""Runs the program `everybuddy`, which is installed with this package.

Nothing here knows a command or an option: options are translated by their form alone, and the program checks them.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_Value = str | int | float | os.PathLike[str]
Option = _Value | bool | Sequence[_Value] | None
"""The value of an option."""

_Files = int | IO[bytes] | None

# The start of the program's error message, which may be coloured and may follow a line of progress.
_ERROR = re.compile(rb"(?:^|(?<=[\r\n])|(?<=\x1b\[2K))(?:\x1b\[[0-9;]*m)*error:")
_COLOUR = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class EverybuddyError(Exception):
    """The program failed. The text of the exception is the message of the program, with its advice."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.message = message
        """The message of the program."""
        self.code = code
        """The exit code of the program; negative for the signal that ended it."""


class InputError(EverybuddyError):
    """An option, a name, an input or a file is wrong."""


class CheckFailed(EverybuddyError):
    """A claim or a comparison failed."""

    rows: pa.Table | None = None
    """The measurements, if they were made."""


def program() -> Path:
    """Returns the path of the installed program.

    Raises `FileNotFoundError` if it is not where this package was installed.
    """
    name = "everybuddy" + (sysconfig.get_config_var("EXE") or "")
    user = sysconfig.get_preferred_scheme("user")
    # `pip install --target FOLDER` puts programs into FOLDER/bin.
    target = Path(__file__).parent.parent / "bin"
    folders = [Path(sysconfig.get_path("scripts")), Path(sysconfig.get_path("scripts", user)), target]
    for folder in folders:
        if (path := folder / name).is_file():
            return path
    places = ", ".join(str(folder) for folder in folders)
    raise FileNotFoundError(f"no {name} in {places}: install the wheel of everybuddy again")


def run(
    command: str,
    operands: Sequence[str | os.PathLike[str]],
    options: Mapping[str, Option],
    *,
    stdin: _Files = subprocess.DEVNULL,
    stdout: _Files = subprocess.DEVNULL,
) -> None:
    """Runs a command and waits for its end.

    Raises `InputError`, `CheckFailed` or `EverybuddyError` if it fails.
    """
    words = [str(program()), *command.split()]
    words += [word for name, value in options.items() for word in _words(name, value)]
    if operands:
        words += ["--", *map(_text, operands)]
    code, errors = _wait(words, stdin, stdout)
    if code == 0:
        return
    found = _ERROR.search(errors)
    text = _COLOUR.sub(b"", errors[found.end() if found else 0 :]).decode(errors="replace").strip()
    if code == -signal.SIGINT:
        raise KeyboardInterrupt
    if code < 0:
        raise EverybuddyError(f"the program was ended by {signal.Signals(-code).name}", code)
    kind = {1: CheckFailed, 2: InputError}.get(code, EverybuddyError)
    raise kind(text or f"the program ended with exit code {code}", code)


def _words(name: str, value: Option) -> list[str]:
    """Returns an option as the program's command line has it."""
    option = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [f"{option}={','.join(map(_text, value))}"]
    return [f"{option}={_text(value)}"]


def _text(value: _Value) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _wait(words: Sequence[str], stdin: _Files, stdout: _Files) -> tuple[int, bytes]:
    """Runs the program, passes on its messages, and returns its exit code and what it wrote to standard error."""
    reader, writer = _terminal() or os.pipe()
    with open(reader, "rb", buffering=0) as messages, open(writer, "wb", buffering=0) as own:
        shown = _Shown()
        process = None
        interrupts = 0
        while True:
            try:
                if process is None:
                    with _without_interrupts():
                        process = subprocess.Popen(words, stdin=stdin, stdout=stdout, stderr=own)
                own.close()
                shown.drain(messages)
                code = process.wait()
                break
            except KeyboardInterrupt:
                if process is None:
                    raise
                # The first ends the program as in a terminal: a recording is written. The second does not wait for it.
                interrupts += 1
                if interrupts == 1:
                    process.send_signal(signal.SIGINT)
                else:
                    process.kill()
            except BaseException:
                if process is not None:
                    process.kill()
                    process.wait()
                raise
        if interrupts:
            raise KeyboardInterrupt
        return code, bytes(shown.errors)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Delays Ctrl-C: a `Popen` that it interrupts would leave a process that no one knows."""
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous is None:
        yield
        return
    arrived: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if arrived:
        signal.raise_signal(signal.SIGINT)


class _Shown:
    """Passes the messages of the program to `sys.stderr`, up to its error, which becomes the exception."""

    def __init__(self) -> None:
        self.errors = bytearray()
        self.passed = 0
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def drain(self, messages: IO[bytes]) -> None:
        while chunk := self._read(messages):
            self.errors += chunk
            found = _ERROR.search(self.errors)
            end = found.start() if found else len(self.errors)
            if self.passed < end and sys.stderr is not None:
                sys.stderr.write(self.decoder.decode(self.errors[self.passed : end]))
                sys.stderr.flush()
                self.passed = end

    @staticmethod
    def _read(messages: IO[bytes]) -> bytes:
        try:
            return messages.read(1 << 16) or b""
        except OSError:
            # A terminal that no process uses any more.
            return b""


def _terminal() -> tuple[int, int] | None:
    """Returns both ends of a new terminal like that of `sys.stderr`: the program shows progress only on a terminal.

    Returns `None` if `sys.stderr` is not a terminal, or if the operating system has none to give.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    try:
        import fcntl
        import termios

        reader, writer = os.openpty()
    except (ImportError, OSError):
        return None
    # Line ends pass unchanged: the user's terminal treats them.
    mode = termios.tcgetattr(writer)
    mode[1] &= ~termios.OPOST
    termios.tcsetattr(writer, termios.TCSANOW, mode)
    size = fcntl.ioctl(sys.stderr.fileno(), termios.TIOCGWINSZ, bytes(8))
    fcntl.ioctl(writer, termios.TIOCSWINSZ, size)
    return reader, writer
