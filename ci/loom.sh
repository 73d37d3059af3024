#!/usr/bin/env bash
# Model-checks the host device's queue protocol: every interleaving of a few threads.
set -euo pipefail
cd "$(dirname "$0")/.."
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test -p anabranch-host --release --lib loom
