#!/usr/bin/env bash
# Random programs of safe calls, and pairs of calls at the same time, on host devices that check how their memory is used.
#
#   ci/programs.sh [PROGRAMS [PAIRS]]            100,000 and 30,000 by default, which take six minutes on two cores
#   PROPTEST_RNG_SEED=N ci/programs.sh           programs made from a seed, which a failure says
#   ci/programs.sh --delays [PROGRAMS [PAIRS]]   the same with pauses at random before and after locks are taken and released
#                                                and before atomics are accessed, and with all checks of debug builds:
#                                                20,000 of each by default
#   ci/programs.sh --address|--thread [PROGRAMS [PAIRS]]
#                                                the same under AddressSanitizer or ThreadSanitizer, with a nightly toolchain
#                                                and its `rust-src`: 100,000 and 30,000 by default
#
# `all` instead of the number of pairs runs each pair of the table once.
set -euo pipefail
cd "$(dirname "$0")/.."
run() {
    local programs=$1 pairs=$2
    shift 2
    ANABRANCH_PROGRAMS=$programs cargo "$@" --package anabranch --features dlpack --test programs
    ANABRANCH_PAIRS=$pairs cargo "$@" --package anabranch --test pairs
}

case ${1:-} in
    --delays)
        export RUSTFLAGS="--cfg anabranch_delays" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/delays"
        run "${2:-20000}" "${3:-20000}" test
        ;;
    --address | --thread)
        sanitizer=${1#--}
        # Programs leak on purpose, and look for other leaks themselves.
        # Sanitizers know of mapped memory by calls of libc only.
        export RUSTFLAGS="-Zsanitizer=$sanitizer --cfg rustix_use_libc" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/$sanitizer"
        export ASAN_OPTIONS=detect_leaks=0
        host=$(rustc -vV | sed -n 's/^host: //p')
        # The standard library is built with it too: its channels and locks would otherwise look like races.
        run "${2:-100000}" "${3:-30000}" +nightly test --release -Zbuild-std --target "$host"
        ;;
    *)
        run "${1:-100000}" "${2:-30000}" test --release
        ;;
esac
