#!/usr/bin/env bash
# Installs what the checks need beyond Rust itself: valgrind, which counts instructions. The program and its
# tests need nothing but Rust; without root, or without apt, the checks that use valgrind say so and skip.
set -euo pipefail

if command -v valgrind >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "install: no valgrind, and no root with apt to install it: its checks are skipped" >&2
    exit 0
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends valgrind
