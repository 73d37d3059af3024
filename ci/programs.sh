#!/usr/bin/env bash
# Random programs of safe calls on host devices that check how their memory is used.
#
#   ci/programs.sh [HOW_MANY]             100,000 by default, which take four minutes on two cores
#   PROPTEST_RNG_SEED=N ci/programs.sh    those made from a seed, which a failure says
#   ci/programs.sh --delays [HOW_MANY]    the same with pauses at random after locks are taken and released, and with all
#                                         checks of debug builds: 20,000 by default
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --delays ]; then
    export RUSTFLAGS="--cfg anabranch_delays" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/delays"
    ANABRANCH_PROGRAMS=${2:-20000} cargo test --package anabranch --test programs
else
    ANABRANCH_PROGRAMS=${1:-100000} cargo test --release --package anabranch --test programs
fi
