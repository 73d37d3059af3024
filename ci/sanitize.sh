#!/usr/bin/env bash
# The host device's tests under AddressSanitizer. Needs a nightly toolchain.
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
# Leaks are not looked for: threads that outlive main keep what they use.
RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS="detect_leaks=0" \
    CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/sanitize" \
    cargo +nightly test --target "$host" -p anabranch-hal -p anabranch-host \
    --lib --tests
RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS="detect_leaks=0" \
    CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/sanitize" \
    cargo +nightly test --target "$host" -p anabranch \
    --test model --test order --test scope --test host_functions --test safety
