#!/usr/bin/env bash
# Builds the crates with the oldest Rust that Cargo.toml names, where rustup has it. Elsewhere clippy's `incompatible_msrv`,
# which the lints of .ci/run include, is all that looks for what is newer: it knows the standard library, and not the
# language.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/not-checked.sh

version=$(sed -nE 's/^rust-version = "(.*)"$/\1/p' Cargo.toml)
toolchain=$(rustup toolchain list 2>/dev/null | grep -oE "^${version//./\\.}(\.[0-9]+)?-[^ ]*" | head -n 1 || true)
if [ -z "$toolchain" ]; then
    not_checked "a build with Rust $version, which rustup does not have here: clippy has looked at the standard library only"
    exit 0
fi
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/msrv" cargo "+$toolchain" check --all-features
