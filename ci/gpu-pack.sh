#!/usr/bin/env bash
# Builds what is to be run on a machine with a GPU, and packs it into .gpu/, so that the machine needs no Rust.
#
#   ci/gpu-pack.sh            then copy the repository, or just .gpu/ and ci/gpu-run.sh, to the machine, and there:
#   ci/gpu-run.sh results/    runs everything and writes what came of it to results/
#
# ANABRANCH_GPU_PYTHON is the version of Python there, such as 3.12: the Python package and its tests are packed for it.
set -euo pipefail
cd "$(dirname "$0")/.."
pack=.gpu/pack
rm -rf "$pack"
mkdir -p "$pack/tests" "$pack/benches" "$pack/examples"

# The executables that a cargo command has built, one "name path" a line.
executables() {
    "$@" --message-format=json | python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        print(message["target"]["name"], message["executable"])'
}

pack_into() {
    while read -r name path; do
        strip -o "$pack/$1/$name" "$path"
    done
}

cargo build --release --package anabranch-cli
strip -o "$pack/anabranch" target/release/anabranch
executables cargo build --release --package anabranch --examples | pack_into examples
executables cargo bench --package anabranch --bench cuda_overhead --bench cuda_graphs --bench cuda_overlap \
    --bench cuda_await --bench host_device --no-run | pack_into benches
executables cargo test --release --package anabranch-cuda --no-run | pack_into tests
executables cargo test --release --package anabranch --test other_libraries_gpu --test external_vulkan --no-run |
    pack_into tests
executables cargo test --release --package anabranch --test programs --no-run | pack_into .

if [ -n "${ANABRANCH_GPU_PYTHON:-}" ]; then
    mkdir -p "$pack/python/wheels"
    ci/python-wheel.sh "$pack/python/wheels"
    python3 -m pip download --quiet --only-binary=:all: --python-version "$ANABRANCH_GPU_PYTHON" \
        --dest "$pack/python/wheels" "pytest==9.*" "hypothesis==6.*" "anyio==4.*" "typing_extensions>=4.15"
    cp -r crates/anabranch-python/{README.md,tests,examples,benchmarks} "$pack/python"
    # Tests compare these pages with the modules that they describe.
    mkdir -p "$pack/python/docs"
    cp docs/python*.md "$pack/python/docs"
fi

du -sh "$pack"
find "$pack" -type f | sort
