#!/usr/bin/env bash
# Random programs of calls on the software device. None may crash or hang, and all give the same answers with 1, 2 and 8 threads,
# with the memory checker, and in an order made from a seed.
#
#   ci/fuzz.sh [SECONDS [SEED]]    for two minutes, from seed 100000 on by default
#
# A difference is printed with the few calls that show it.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-120} seed=${2:-100000}
cargo build --release --package anabranch-cli
anabranch=target/release/anabranch
answers=$(mktemp)
trap 'rm -f "$answers"' EXIT

# The comparisons take about twice as long each, because some are of slower devices.
"$anabranch" fuzz --device host --seeds "$seed..$((seed + 1000000))" --seconds $((seconds / 9 + 1)) --record "$answers"
for variables in ANABRANCH_HOST_WORKERS=1 ANABRANCH_HOST_WORKERS=8 ANABRANCH_HOST_SEED=1 ANABRANCH_HOST_CHECK_MEMORY=1 \
    "ANABRANCH_HOST_CHECK_MEMORY=1 ANABRANCH_HOST_WORKERS=8"; do
    echo "-- $variables"
    env $variables "$anabranch" fuzz --device host --against "$answers"
done
