"""Reads and writes rows of measurements: JSON lines in files that may be packed with gzip."""

import gzip
import json
import pathlib


def text(path):
    """Returns the text of a file, whose first bytes say whether it is packed."""
    with open(path, "rb") as file:
        content = file.read()
    return (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode()


def read(path):
    """Returns the rows of a file."""
    return [json.loads(line) for line in text(path).splitlines()]


def write(path, lines):
    """Stores lines packed. Their order stays: it is that of the command line, and tables and verdicts follow it."""
    content = "".join(line + "\n" for line in lines)
    path = pathlib.Path(path)
    # Another zlib would pack the same lines otherwise.
    if path.exists() and text(path) == content:
        return
    path.parent.mkdir(exist_ok=True)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(content.encode())
