#!/usr/bin/env bash
# Asks cargo-deny whether the dependencies are such as deny.toml wants them: licences, one version of each crate, where they
# come from, and, where the database of advisories can be fetched, what is known to be wrong with them.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/not-checked.sh

if ! command -v cargo-deny >/dev/null; then
    not_checked "licences, versions and sources of dependencies, and advisories: there is no cargo-deny"
    exit 0
fi
cargo-deny --log-level error check bans licenses sources

if cargo-deny fetch db >/dev/null 2>&1; then
    cargo-deny --log-level error check advisories
else
    not_checked "advisories about dependencies: their database cannot be fetched from here"
fi
