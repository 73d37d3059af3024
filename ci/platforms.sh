#!/usr/bin/env bash
# Checks that the crates build for Windows and macOS, where rustup has the standard library of these targets.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/not-checked.sh

installed=$(rustup target list --installed 2>/dev/null || true)
for target in x86_64-pc-windows-msvc aarch64-apple-darwin; do
    if ! grep -qx "$target" <<<"$installed"; then
        not_checked "a build for $target, whose standard library rustup does not have here"
        continue
    fi
    cargo check --target "$target"
    cargo check --target "$target" --package anabranch --no-default-features --features host
done
