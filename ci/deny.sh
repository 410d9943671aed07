#!/usr/bin/env bash
# The dependencies: their licenses, their sources, and versions that are left open. With access to the database of
# advisories, also their known weaknesses. Half a minute. deny.toml states what is allowed.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo deny --version >/dev/null 2>&1; then
    echo "deny: no cargo-deny (ci/install.sh deny): skipped"
    exit 77
fi
cargo deny --locked check licenses bans sources
if ! cargo deny --locked fetch db 2>/dev/null; then
    echo "deny: no database of advisories: the rest passed: skipped"
    exit 77
fi
cargo deny --locked check advisories
echo "deny: passed in $SECONDS s"
