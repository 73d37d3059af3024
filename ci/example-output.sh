#!/usr/bin/env bash
# Checks of each example, as built before: it has a help; it ends quietly where nobody reads its output any more; and where
# its output cannot be written it fails with one sentence.
set -euo pipefail
cd "$(dirname "$0")/.."
examples=${CARGO_TARGET_DIR:-target}/release/examples
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "$1" >&2
    cat "$folder/errors" >&2
    exit 1
}

# A pipe that is closed at its other end: the only reader is gone before anything is written.
mkfifo "$folder/pipe"
exec 8<>"$folder/pipe" 9>"$folder/pipe"
exec 8>&-

check() {
    local name=$1
    "$examples/$name" --help >"$folder/help" 2>"$folder/errors" || fail "$name --help fails"
    grep -q '^Usage:' "$folder/help" || fail "$name --help does not say how it is used"
    for arguments in --help "${*:2}"; do
        # shellcheck disable=SC2086
        "$examples/$name" $arguments >&9 2>"$folder/errors" || fail "$name $arguments fails where nobody reads"
        if [ -s "$folder/errors" ]; then fail "$name $arguments complains where nobody reads"; fi
        # shellcheck disable=SC2086
        if "$examples/$name" $arguments >/dev/full 2>"$folder/errors"; then fail "$name $arguments does not notice a full disk"; fi
        if [ "$(wc -l <"$folder/errors")" != 1 ] || ! grep -q '^error: the output cannot be written' "$folder/errors"; then
            fail "$name $arguments does not say in one sentence that the disk is full"
        fi
    done
}

for example in crates/anabranch/examples/*.rs; do check "$(basename "$example" .rs)" --device host; done
check edges --device host --repeat 1 --output "$folder/edges.png"
check replay --device host --pictures 1
check server load --device host --requests 10 --clients 1
