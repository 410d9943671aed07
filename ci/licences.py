#!/usr/bin/env python3
"""Writes the licences of everything that is linked into a program, which its files must contain.

    ci/licences.py PACKAGE TARGET

Each library of the program is listed with its version and its terms, and followed by the texts of its licences. Equal
texts appear once. It fails if a library from a registry has neither a text of its own nor terms whose text is known.
The standard library and the C library of a static program are not packages; their notices are at the end.
"""

import json
import os
import pathlib
import subprocess
import sys

NAMES = ("license", "licence", "copying", "notice", "copyright", "unlicense")


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def packages(metadata: dict, root: str) -> list[dict]:
    """Returns what `root` links: dependencies of builds and tests are not linked."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    own = {package["id"]: package for package in metadata["packages"]}
    seen, rest = set(), [next(id for id, package in own.items() if package["name"] == root)]
    while rest:
        id = rest.pop()
        if id in seen:
            continue
        seen.add(id)
        for dependency in nodes[id]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                rest.append(dependency["pkg"])
    found = [own[id] for id in seen if own[id]["source"] is not None]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package: dict) -> list[str]:
    folder = pathlib.Path(package["manifest_path"]).parent
    # A library in C is in a folder below, with a licence of its own.
    files = [file for file in sorted([*folder.glob("*"), *folder.glob("*/*")]) if file.is_file()]
    files = [file for file in files if file.name.lower().startswith(NAMES) and file.suffix not in (".c", ".h", ".rs")]
    return [file.read_text(encoding="utf-8", errors="replace").strip() for file in files]


def main() -> None:
    package, target = sys.argv[1:]
    command = ("cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}")
    linked = packages(json.loads(output(*command)), package)
    sysroot = pathlib.Path(output("rustc", "--print", "sysroot").strip())
    known = {file.stem: file.read_text().strip() for file in (sysroot / "share/doc/rust/licenses").glob("*.txt")}
    numbers: dict[str, int] = {}
    print(f"Libraries that are linked into this program for {target}\n")
    for one in linked:
        terms = one["license"] or "see the text"
        own = texts(one)
        if not own:
            # Some packages name their terms only. One of several terms is enough.
            names = terms.replace("/", " ").replace("(", " ").replace(")", " ").split()
            own = [known[name] for name in names if name in known][:1]
        if not own:
            sys.exit(f"licences: {one['name']} {one['version']} ({terms}) has no text")
        places = [numbers.setdefault(text, len(numbers) + 1) for text in own]
        authors = f", by {', '.join(one['authors'])}" if one["authors"] else ""
        print(f"{one['name']} {one['version']}: {terms}{authors}; text {', '.join(map(str, places))}")
    version = output("rustc", "--version").split()[1]
    mit = numbers.setdefault(known["MIT"], len(numbers) + 1)
    print(f"The standard library of Rust {version}: MIT OR Apache-2.0; text {mit}")
    if target.endswith("-musl"):
        print(f"musl, copyright 2005-2020 Rich Felker and others: MIT; text {mit}")
    for text, number in numbers.items():
        print(f"\n{'-' * 40} text {number}\n\n{text}")


if __name__ == "__main__":
    # Names of files sort equally everywhere.
    os.environ["LC_ALL"] = "C"
    main()
