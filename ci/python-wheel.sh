#!/usr/bin/env bash
# Builds the wheel of the Python package for manylinux_2_28: for any Python from 3.10 on, on Linux from 2018 on.
#
#   ci/python-wheel.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-dist}")
python=${ANABRANCH_CI_PYTHON:-python3}

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$python" -m venv "$tools"
# Zig's linker makes programs for older versions of the C library than that of this machine.
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check "maturin==1.*" "ziglang>=0.13"
export PATH=$tools/bin:$PATH
maturin build --profile wheel --locked --strip --zig --compatibility manylinux_2_28 \
    --manifest-path crates/anabranch-python/Cargo.toml --target-dir "$(realpath -m "${CARGO_TARGET_DIR:-target}")" --out "$out"
