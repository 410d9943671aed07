#!/usr/bin/env bash
# The page of `compare --html` in a real browser, and its text. Also lints that code. 4 minutes.
#
# Chromium is installed where that is possible; without it the tests of the text run, and the script exits with 77.
# Pictures of the page are left in target/page-shots.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v chromium >/dev/null || command -v google-chrome >/dev/null || ci/install.sh chromium
cargo clippy --locked --profile gate -p everybuddy-page --all-targets --features browser -- -D warnings
# Threads: each test of the browser starts one, and two of them fill a small machine.
cargo test --locked --profile gate -p everybuddy-page --features browser -- --test-threads=2
if ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then
    echo "page: no browser (ci/install.sh chromium installs it): its tests were skipped"
    exit 77
fi
