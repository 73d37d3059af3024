#!/usr/bin/env bash
# Model-checks the host device's queue protocol, that between futures and the reactor, and that between uses of memory,
# marks in streams and conditional parts: every interleaving of a few threads.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
ran=0
for crate in anabranch-sync anabranch-host anabranch-core anabranch; do
    # Models are in modules that are built for tests under loom only.
    if ! grep -rqsE '^\s*#\[cfg\(all\((test, loom|loom, test)\)\)\]' "crates/$crate/src"; then
        echo "-- $crate: no models"
        continue
    fi
    echo "-- $crate"
    log=$(cargo test --package "$crate" --release --lib loom 2>&1 | tee >(cat >&2))
    ran=$((ran + $(sed -nE 's/^test result: ok\. ([0-9]+) passed.*/\1/p' <<<"$log")))
done
if [ "$ran" -eq 0 ]; then
    echo "no model was checked" >&2
    exit 1
fi
echo "$ran models hold in every interleaving"
