#!/usr/bin/env bash
# Runs on a machine with a GPU what ci/gpu-pack.sh has packed, and writes what came of it to a folder.
#
#   ci/gpu-run.sh [FOLDER] [STEP ...]      steps: conformance tests main overhead graphs overlap await host sanitize, all by
#                                          default, and programs, fuzz, kernels, devices, python
#
# Exit status 1 if anything failed.
set -uo pipefail
cd "$(dirname "$0")/.."
results=${1:-gpu-results}
shift || true
steps=${*:-conformance tests main overhead graphs overlap await host sanitize}
mkdir -p "$results"
pack=.gpu/pack
failed=0

# Runs a step, and keeps all its output.
step() {
    local name=$1
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    if "$@" >"$results/$name.txt" 2>&1; then
        tail -n 12 "$results/$name.txt"
    else
        echo "FAILED with status $?"
        tail -n 60 "$results/$name.txt"
        failed=1
    fi
}

wanted() { [[ " $steps " == *" $1 "* ]]; }

{
    date -u
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    uname -srm
    grep -m 1 'model name' /proc/cpuinfo
} >"$results/machine.txt" 2>&1
cat "$results/machine.txt"
"$pack/anabranch" devices | tee "$results/devices.txt"

wanted conformance && step conformance "$pack/anabranch" conformance --device cuda:0
if wanted tests; then
    # One after the other: some calls of the driver hold a lock while they wait for the device.
    for test in "$pack"/tests/*; do step "test-$(basename "$test")" "$test" --test-threads=1; done
fi
# Not by default: it takes five minutes.
if wanted programs; then
    ANABRANCH_PROGRAMS_ON_CUDA=1 ANABRANCH_PROGRAMS=4000 step programs timeout 300 "$pack/programs" --test-threads=1
fi
if wanted main; then
    step main "$pack/examples/edges" --device cuda:0 --verify --output "$results/edges.png"
    step replay "$pack/examples/replay" --device cuda:0 --verify
    step replay-times "$pack/examples/replay" --device cuda:0 --pictures 200
    for example in fork_join overlap foreign_streams either_device current_stream saxpy three_streams timeouts training_step \
        cudarc_port plugin two_devices rayon_streams; do
        step "example-$example" "$pack/examples/$example" --device cuda:0
    done
    step server timeout 120 "$pack/examples/server" load --device cuda:0 --requests 5000 --deadline 500
    step server-peace timeout 120 "$pack/examples/server" load --device cuda:0 --requests 20000 --trouble 0
fi
# Not by default either: it takes ten minutes, and only a changed generator needs it.
if wanted fuzz; then
    families=()
    for family in streams gates capture graphs memory values modules; do families+=(--family "$family"); done
    seconds=${ANABRANCH_FUZZ_SECONDS:-130}
    # Each process has two contexts, or four for programs of the safe API. A GPU has memory for twelve.
    fuzz=("$pack/anabranch" fuzz --device cuda:0)
    step fuzz-record "${fuzz[@]}" --jobs 6 "${families[@]}" --seeds 0..10000 --seconds "$seconds" \
        --record "$results/programs.gz"
    step fuzz-front "${fuzz[@]}" --jobs 3 --family front --seeds 0..100000 --seconds $((seconds / 3)) \
        --record "$results/programs-front.gz"
    # A program that loses its context takes a process of its own, which takes seconds to start.
    step fuzz-sticky "${fuzz[@]}" --jobs 6 --family sticky --seeds 0..1000 --seconds $((seconds / 3)) \
        --record "$results/programs-sticky.gz"
    # What a GPU does not answer again the same is of no use.
    step fuzz-again "${fuzz[@]}" --jobs 6 --against "$results/programs.gz" --seeds 0..250
fi
# Not by default either: only changed kernels need it.
if wanted kernels; then
    kernels=("$pack/anabranch" kernels --device cuda:0 --limit 30)
    step kernels-record "${kernels[@]}" --seeds 0..300 --seconds "${ANABRANCH_KERNELS_SECONDS:-120}" \
        --record "$results/kernels.gz"
    # For the conformance cases: crates/anabranch-conformance/src/ptx/golden/recording.gz
    step kernels-golden "${kernels[@]}" --family golden --record "$results/kernels-golden.gz"
    # What a GPU does not compute again the same is of no use.
    step kernels-again "${kernels[@]}" --against "$results/kernels.gz" --seconds 60
    step kernels-host "$pack/anabranch" kernels --device host --against "$results/kernels.gz"
fi
# On a machine with two GPUs: programs over both.
if wanted devices; then
    fuzz=("$pack/anabranch" fuzz --device cuda:0 --jobs 6)
    step fuzz-devices "${fuzz[@]}" --family devices --seeds 0..10000 --seconds "${ANABRANCH_FUZZ_SECONDS:-130}" \
        --record "$results/programs-devices.gz"
    step fuzz-devices-again "${fuzz[@]}" --against "$results/programs-devices.gz" --seeds 0..250
fi
# If ci/gpu-pack.sh has packed it. CuPy, cuda.core, PyTorch and Warp are compared with what is installed of them.
if wanted python; then
    site=$(realpath -m "$results")/site
    mkdir -p "$site"
    for wheel in "$pack"/python/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$site"; done
    export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
    ANABRANCH_TEST_DEVICE=cuda:0 step python-tests timeout 300 python3 -m pytest -v -p no:cacheprovider \
        -o faulthandler_timeout=60 "$pack/python/tests"
    step python-interoperation timeout 120 python3 "$pack/python/examples/interoperation.py" cuda:0
    step python-interoperation-cupy timeout 120 python3 "$pack/python/examples/interoperation_cupy.py"
    step python-speed timeout 300 python3 "$pack/python/benchmarks/speed.py" cuda:0
    rm -rf "$site"
fi
wanted overhead && step overhead "$pack/benches/cuda_overhead" --bench
wanted graphs && step graphs "$pack/benches/cuda_graphs" --bench
wanted overlap && step overlap "$pack/benches/cuda_overlap" --bench
wanted await && step await "$pack/benches/cuda_await" --bench
wanted host && step host timeout 180 "$pack/benches/host_device" --bench
if wanted sanitize && command -v compute-sanitizer >/dev/null; then
    # A call that the driver refuses is not an error here: some are made to be refused, such as the one past the last
    # parameter of a kernel. Races are looked for in small pictures, because that takes very long.
    step sanitize-memcheck timeout 120 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 \
        "$pack/examples/edges" --device cuda:0 --verify --bands 4 --repeat 1 --output "$results/edges-sanitized.png"
    step sanitize-graphs timeout 120 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 \
        "$pack/examples/replay" --device cuda:0 --pictures 3 --verify
    step sanitize-racecheck timeout 120 compute-sanitizer --tool racecheck --error-exitcode 1 \
        "$pack/examples/replay" --device cuda:0 --pictures 1 --verify
    rm -f "$results/edges-sanitized.png"
    step sanitize-server timeout 120 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 \
        "$pack/examples/server" load --device cuda:0 --requests 200 --side 64 --deadline 2000
    step sanitize-other-libraries timeout 120 compute-sanitizer --tool memcheck --report-api-errors no \
        --error-exitcode 1 "$pack/tests/other_libraries_gpu" --test-threads=1
    step sanitize-conformance timeout 120 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 \
        "$pack/anabranch" conformance --device cuda:0 --filter launch.
fi
printf '\n'
tail -n 1 "$results/conformance.txt" 2>/dev/null
exit "$failed"
