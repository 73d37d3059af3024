#!/usr/bin/env bash
# Random programs of calls of the driver contract whose answers an H100 was recorded to give, on the software device.
#
#   ci/replay.sh             fails unless exactly as many recorded programs are equal as recordings/h100.txt says
#   ci/replay.sh --update    writes that file; a number that falls needs a reason
#
# To see the differences: target/release/anabranch fuzz --device host --against crates/anabranch-conformance/recordings/h100.gz
set -euo pipefail
cd "$(dirname "$0")/.."
recordings=crates/anabranch-conformance/recordings
cargo build --release --package anabranch-cli
anabranch=target/release/anabranch

report=$(mktemp)
trap 'rm -f "$report"' EXIT
# Status 1: something differs.
"$anabranch" fuzz --device host --against "$recordings/h100.gz" >"$report" || [ $? -eq 1 ]
grep 'programs equal$' "$report" || { cat "$report"; exit 1; }
if [ "${1:-}" = --update ]; then
    grep 'programs equal$' "$report" >"$recordings/h100.txt"
elif ! grep 'programs equal$' "$report" | diff "$recordings/h100.txt" -; then
    echo "answers of the software device have changed; after looking at the differences: ci/replay.sh --update" >&2
    exit 1
fi
