#!/usr/bin/env bash
# Random programs of safe calls, and pairs of calls at the same time, on host devices that check how their memory is used.
#
#   ci/programs.sh [PROGRAMS [PAIRS]]            100,000 and 30,000 by default, which take five minutes on two cores
#   PROPTEST_RNG_SEED=N ci/programs.sh           programs made from a seed, which a failure says
#   ci/programs.sh --delays [PROGRAMS [PAIRS]]   the same with pauses at random before and after locks are taken and released
#                                                and before atomics are accessed, and with all checks of debug builds:
#                                                20,000 of each by default
#
# `all` instead of the number of pairs runs each pair of the table once.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --delays ]; then
    export RUSTFLAGS="--cfg anabranch_delays" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/delays"
    ANABRANCH_PROGRAMS=${2:-20000} cargo test --package anabranch --test programs
    ANABRANCH_PAIRS=${3:-20000} cargo test --package anabranch --test pairs
else
    ANABRANCH_PROGRAMS=${1:-100000} cargo test --release --package anabranch --test programs
    ANABRANCH_PAIRS=${2:-30000} cargo test --release --package anabranch --test pairs
fi
