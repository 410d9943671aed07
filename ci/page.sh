#!/usr/bin/env bash
# The page of `compare --html`: its text, and what it does in a real browser.
#
# Chromium is installed where that is possible; without it the tests of the browser say so and pass, those of
# the text still run. Pictures of the page are left in target/page-shots.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core
    else
        echo "page: no Chromium, and no root with apt to install it: the browser's tests are skipped" >&2
    fi
fi
# Threads: each test of the browser starts one, and two of them fill a small machine.
cargo test --locked -p everybuddy-page -- --test-threads=2
