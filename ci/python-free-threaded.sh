#!/usr/bin/env bash
# The Python package in an interpreter without a global lock: it builds, needs no such lock, and passes its tests there.
#
# ANABRANCH_CI_FREE_THREADED_PYTHON names such an interpreter. Else it is built once from Debian's sources, where they can be
# fetched, and kept with the other tools of the checks.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/not-checked.sh
tools=${ANABRANCH_CI_TOOLS:-${TMPDIR:-/tmp}/anabranch-ci-tools}
# The newest that a stable release of Debian has.
version=3.13 release=trixie

# Builds the interpreter in a folder that is removed afterwards.
build() {
    local folder=$1 mirror apt
    command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ] || return
    apt-get install --yes --quiet=2 libffi-dev libssl-dev zlib1g-dev dpkg-dev >/dev/null || return
    # Of the mirror that this machine uses.
    # shellcheck disable=SC2016
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' | grep '/debian/$' | head -n 1)
    [ -n "$mirror" ] || return
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" >"$folder/sources.list"
    mkdir -p "$folder/lists/partial"
    apt=(apt-get --quiet=2 -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=-
        -o Dir::State::Lists="$folder/lists" -o APT::Sandbox::User=root)
    "${apt[@]}" update && (cd "$folder" && "${apt[@]}" source --download-only "python$version") || return
    mkdir "$folder/source"
    tar -x --strip-components 1 -C "$folder/source" -f "$folder"/python"$version"_*.orig.tar.xz || return
    (
        cd "$folder/source"
        ./configure --quiet --disable-gil --disable-test-modules --prefix="$tools/python$version" CFLAGS=-O1 &&
            make --silent -j2 && make --silent install
    ) >"$folder/log" 2>&1 || {
        tail -n 20 "$folder/log" >&2
        return 1
    }
}

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
python=${ANABRANCH_CI_FREE_THREADED_PYTHON:-$tools/python$version/bin/python$version}
if [ ! -x "$python" ] && ! { [ -z "${ANABRANCH_CI_FREE_THREADED_PYTHON:-}" ] && build "$fresh"; }; then
    not_checked "the Python package in an interpreter without a global lock, of which there is none here"
    exit 0
fi

"$python" -m venv "$fresh/venv"
pip=("$fresh/venv/bin/python" -m pip install --quiet --disable-pip-version-check)
"${pip[@]}" --only-binary=:all: "maturin==1.*" typing_extensions numpy "pytest==9.*" "hypothesis==6.*" "anyio==4.*" "trio==0.*"
# PyO3 supports 3.14 and newer. What it uses is there in 3.13, too.
if "$python" -c 'import sys; sys.exit(sys.version_info >= (3, 14))'; then
    export UNSAFE_PYO3_SKIP_VERSION_CHECK=1
fi
"$fresh/venv/bin/maturin" build --quiet --profile dev --locked --manifest-path crates/anabranch-python/Cargo.toml \
    --interpreter "$fresh/venv/bin/python" --target-dir "$(realpath -m "${CARGO_TARGET_DIR:-target}")" --out "$fresh"
"${pip[@]}" --no-deps "$fresh"/*.whl
cp -r crates/anabranch-python/tests crates/anabranch-python/README.md "$fresh"
mkdir "$fresh/docs"
cp docs/python*.md "$fresh/docs"
cd "$fresh"
# An extension that needs the lock has it switched on, with a warning.
venv/bin/python -W error -c 'import sys, anabranch; sys.exit(sys._is_gil_enabled())'
venv/bin/python -m pytest -q -p no:cacheprovider tests
