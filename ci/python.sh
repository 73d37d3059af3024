#!/usr/bin/env bash
# Builds the Python package as a wheel, installs it in a fresh virtual environment, and there checks its types and runs its
# tests. The wheel is built without optimization, from what other steps have built.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/not-checked.sh

python=${ANABRANCH_CI_PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    not_checked "the Python package, which needs Python 3.10 or newer"
    exit 0
fi

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
"$python" -m venv "$fresh/venv"
pip=("$fresh/venv/bin/python" -m pip install --quiet --disable-pip-version-check)
"${pip[@]}" "maturin==1.*" "mypy==2.*" "typing_extensions>=4.15" "numpy" "pytest==9.*" "hypothesis==6.*" "anyio==4.*" "trio==0.*" \
    "basedpyright==1.*"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
"$fresh/venv/bin/maturin" build --quiet --profile dev --locked --manifest-path crates/anabranch-python/Cargo.toml \
    --interpreter "$fresh/venv/bin/python" --target-dir "$target" --out "$fresh"
"${pip[@]}" --no-deps "$fresh"/*.whl

package=$PWD/crates/anabranch-python
# Elsewhere, so that what is installed is imported.
cp -r crates/anabranch-python/tests crates/anabranch-python/README.md "$fresh"
# Tests compare these pages with the modules that they describe.
mkdir "$fresh/docs"
cp docs/python*.md "$fresh/docs"
cd "$fresh"
export MYPY_CACHE_DIR=$fresh/mypy
venv/bin/python -m mypy.stubtest anabranch
venv/bin/python -m mypy --strict --python-version 3.10 --package anabranch
venv/bin/python -m mypy tests
# What pyright checks by default, by a package that needs nothing but Python.
mkdir types
cp -r "$package/python/anabranch" types
echo '{"typeCheckingMode": "standard", "pythonVersion": "3.10", "include": ["anabranch"]}' >types/pyrightconfig.json
venv/bin/basedpyright --pythonpath venv/bin/python --project types
venv/bin/python -m pytest -q -p no:cacheprovider tests
venv/bin/anabranch devices
