#!/usr/bin/env bash
# Timelines of simulated runs, decoded with Perfetto's published schema: ci/timeline.sh. 5 minutes, most of them a build.
# Slices nest and end, time never decreases in a track, and counters and flows agree with the rows of the same run. A flow
# leads from the release of a lock to its acquisition by another CPU. Needs protoc and
# python3 (ci/install.sh protoc); without them it exits with 77. The schema is that of the crate
# tracing-perfetto-sdk-schema, which cargo downloads.
set -euo pipefail
cd "$(dirname "$0")/.."

ci/install.sh protoc
for tool in protoc python3; do
    if ! command -v "$tool" >/dev/null; then
        echo "timeline: no $tool: skipped"
        exit 77
    fi
done
everybuddy=${EVERYBUDDY:-}
if [ -z "$everybuddy" ]; then
    cargo build --quiet --release --locked -p everybuddy-cli
    everybuddy=${CARGO_TARGET_DIR:-target}/release/everybuddy
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A package that depends on the schema, only to find it.
mkdir "$folder/schema" "$folder/schema/src"
touch "$folder/schema/src/lib.rs"
cat >"$folder/schema/Cargo.toml" <<'TOML'
[package]
name = "schema"
version = "0.0.0"
edition = "2024"
[dependencies]
tracing-perfetto-sdk-schema = "=0.13.1"
[workspace]
TOML
schema=$(cargo metadata --format-version 1 --manifest-path "$folder/schema/Cargo.toml" |
    python3 -c 'import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == "tracing-perfetto-sdk-schema":
        print(os.path.dirname(package["manifest_path"]) + "/protos")')

for system in bs lbs-31 is spring serewa; do
    "$everybuddy" simulate --workloads burst:random --systems "$system" --cpus 8 --seeds 1 --shrink 64 --memory 256MiB \
        --timeline "$folder/run.pftrace" --json "$folder/rows.jsonl" >/dev/null 2>"$folder/said" || {
        cat "$folder/said" >&2
        exit 1
    }
    protoc --proto_path="$schema" --decode=perfetto.protos.Trace perfetto_trace.proto \
        <"$folder/run.pftrace" >"$folder/run.txt" 2>"$folder/warnings"
    python3 ci/timeline.py "$system" "$folder/run.txt" "$folder/rows.jsonl"
done
