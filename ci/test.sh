#!/usr/bin/env bash
# All tests: the test command of the README. It ends with the line "test: all tests passed", or fails.
#
# One profile for everything (`gate` in Cargo.toml): each dependency and each system is compiled once, with the assertions
# of the development profile. `ci/full.sh` runs the tests that take longer. Sessions compile all systems once more for the
# page of `everybuddy play`: ci/play.sh tests them.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --locked --profile gate --workspace --exclude everybuddy-session
echo "test: all tests passed"
