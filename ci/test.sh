#!/usr/bin/env bash
# All tests: the test command of the README. It ends with the line "test: all tests passed", or fails.
#
# One profile for everything (`gate` in Cargo.toml): each dependency and each system is compiled once, with the assertions
# of the development profile. `ci/full.sh` runs the tests that take longer.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --locked --profile gate --workspace
echo "test: all tests passed"
