#!/usr/bin/env bash
# Model-checks the host device's queue protocol, that between futures and the reactor, and that between uses of memory and
# marks in streams: every interleaving of a few threads.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
cargo test -p anabranch-host --release --lib loom
cargo test -p anabranch --release --lib loom
