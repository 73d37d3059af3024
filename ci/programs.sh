#!/usr/bin/env bash
# Random programs of safe calls on host devices that check how their memory is used.
#
#   ci/programs.sh [HOW_MANY]       100,000 by default, which take two minutes on two cores
set -euo pipefail
cd "$(dirname "$0")/.."
ANABRANCH_PROGRAMS=${1:-100000} cargo test --release --package anabranch --test programs
