#!/usr/bin/env bash
# Lints the library with each set of features that makes another library of it, but the default one.
set -euo pipefail
cd "$(dirname "$0")/.."

for features in "" cuda host host,half host,dlpack host,tracing; do
    echo "-- anabranch with features: ${features:-none}"
    cargo clippy --package anabranch --no-default-features --features "$features" -- -D warnings
done
# Tests and examples need a device, and so the host device; all of them must do without the other one.
cargo clippy --package anabranch --no-default-features --features host,dlpack,half,tracing --all-targets -- -D warnings
