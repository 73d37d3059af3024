#!/usr/bin/env bash
# Measures the host device's queues beside a channel with a thread, and beside oneTBB where g++ and the library are there
# (Debian: libtbb-dev). All run in turn in one run; the ratios are what counts.
set -euo pipefail
cd "$(dirname "$0")/.."
build="${CARGO_TARGET_DIR:-target}/host-bench"
mkdir -p "$build"
with=()
if command -v g++ > /dev/null && g++ -O2 -std=c++17 -o "$build/tbb" ci/host-bench/tbb.cpp -ltbb -lpthread; then
    with=(--with "$(realpath "$build/tbb")")
else
    echo "without oneTBB: there is no g++, or no libtbb-dev" >&2
fi
cargo bench -q -p anabranch-host --bench queue -- ${with[@]+"${with[@]}"} "$@"
cargo bench -q -p anabranch-host --bench latency -- "$@"
