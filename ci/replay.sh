#!/usr/bin/env bash
# Random programs and kernels of PTX whose answers GPUs were recorded to give, on the software device.
# A recording of kernels is named kernels-*.gz.
#
#   ci/replay.sh             fails unless exactly as many of those recorded are equal as the file beside each recording says
#   ci/replay.sh --update    writes those files; a number that falls needs a reason
#
# To see the differences: target/release/anabranch fuzz --device host --against crates/anabranch-conformance/recordings/h100.gz
set -euo pipefail
cd "$(dirname "$0")/.."
recordings=crates/anabranch-conformance/recordings
cargo build --release --package anabranch-cli
anabranch=target/release/anabranch

report=$(mktemp)
trap 'rm -f "$report"' EXIT
changed=0
for recording in "$recordings"/*.gz; do
    counts=${recording%.gz}.txt
    case $recording in
        */kernels-*) command=kernels ;;
        *) command=fuzz ;;
    esac
    # Status 1: something differs.
    "$anabranch" "$command" --device host --against "$recording" >"$report" || [ $? -eq 1 ]
    grep '\(programs\|kernels\) equal$' "$report" || { cat "$report"; exit 1; }
    if [ "${1:-}" = --update ]; then
        grep '\(programs\|kernels\) equal$' "$report" >"$counts"
    elif ! grep '\(programs\|kernels\) equal$' "$report" | diff "$counts" -; then
        echo "answers of the software device have changed; after looking at the differences: ci/replay.sh --update" >&2
        changed=1
    fi
done
exit "$changed"
