#!/usr/bin/env bash
# Tests under AddressSanitizer, ThreadSanitizer and Miri.
#
#   ci/sanitize.sh [CHECK ...] [-p CRATE ...]      checks: address thread miri; all by default, of all crates
#
# Needs a nightly toolchain, with its `rust-src` for ThreadSanitizer and its `miri`. What was run, and what came of it,
# stands in target/sanitize/results.md, as the table to record in docs/safety.md. Exit status 1 if anything failed or could
# not be run.
set -uo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
target_directory=${CARGO_TARGET_DIR:-target}
results=$target_directory/sanitize
checks=
crates=
while [ $# -gt 0 ]; do
    case $1 in
        -p)
            crates+=" ${2:?-p takes the name of a crate}"
            shift
            ;;
        address | thread | miri) checks+=" $1" ;;
        *)
            echo "no such check: $1" >&2
            exit 2
            ;;
    esac
    shift
done
checks=${checks:-address thread miri}
mkdir -p "$results"
rows=()
failed=0

wanted() { [[ " $checks " == *" $1 "* ]]; }

row() { rows+=("| $1 | $2 | $3 | $4 | $5 | $6 |"); }

# What bounds the memory of the process, and would measure the sanitizer's own.
of_the_process=(--skip ten_million_entries_in_one_stream_stay_small --skip idle_staging_memory_goes_with_its_context)

# What a test is left out by must be part of its name, also when it is renamed.
for name in $(grep -o -- '--skip [a-z_]*' ci/sanitize.sh | cut -d ' ' -f 2 | grep .); do
    if ! grep -rqE "fn [a-z0-9_]*$name" crates --include '*.rs'; then
        echo "there is no test $name to leave out" >&2
        exit 2
    fi
done

# The tests of the library that put the host device's threads and memory to work.
library=(model order order_model scope host_functions safety safety_graphs safety_conditions capture graph conditions completion owned
    checked_launches safety_threads safety_captures safety_shared_captures safety_streams safety_inside
    safety_instances safety_leaks safety_reaper safety_sizes safety_unwinding reaper registered)

# The arguments that choose those of the named tests that a crate has.
tests_of() {
    local crate=$1 name
    shift
    for name in "$@"; do
        if [ -e "crates/$crate/tests/$name.rs" ]; then printf -- '--test\n%s\n' "$name"; fi
    done
}

# Sums up what `cargo test` said: the tests' files, how many tests passed, how many were left out.
summary() {
    awk '
        $1 == "Running" { name = $2 == "unittests" ? "unit tests" : $2; sub(/.*\//, "", name); sub(/\.rs$/, "", name) }
        /^test result:/ {
            for (i = 1; i < NF; i++) {
                if ($(i + 1) ~ /^passed/) { passed += $i; if ($i > 0) names = names (names ? ", " : "") name }
                if ($(i + 1) ~ /^(ignored|filtered)/) left_out += $i
            }
        }
        END { printf "%s|%d|%d\n", names, passed, left_out }' "$1"
}

# Runs the tests of one crate: cover CHECK CRATE CARGO_ARGUMENT ...
cover() {
    local check=$1 crate=$2 log names passed left_out result
    shift 2
    if [ -n "$crates" ] && [[ " $crates " != *" $crate "* ]]; then return; fi
    if [ ! -e "crates/$crate/Cargo.toml" ]; then
        echo "-- $check: there is no crate $crate here; skipped"
        row "$check" "\`$crate\`" - 0 0 "no such crate"
        return
    fi
    log=$results/$check-$crate.txt
    printf '\n-- %s, %s: cargo %s\n' "$check" "$crate" "$*"
    result="nothing found"
    if ! cargo "$@" 2>&1 | tee "$log"; then
        result="FAILED"
        failed=1
    fi
    IFS='|' read -r names passed left_out < <(summary "$log")
    if [ "$passed" -eq 0 ] && [ "$result" != FAILED ]; then
        result="NO TESTS RAN"
        failed=1
    fi
    row "$check" "\`$crate\`" "${names:--}" "$passed" "$left_out" "$result"
}

# Says that a check cannot be run here.
cannot() {
    echo "-- $1: $2" >&2
    row "$1" - - 0 0 "NOT RUN: $2"
    failed=1
}

has_component() { cargo +nightly --version >/dev/null 2>&1 && [ -e "$(rustc +nightly --print sysroot)/$1" ]; }

# The crates that both sanitizers look at: sanitizer CHECK CARGO_ARGUMENT ...
sanitizer() {
    local check=$1 crate tests
    shift
    for crate in anabranch-sync anabranch-ptx anabranch-hal anabranch-host anabranch-core; do
        cover "$check" "$crate" "$@" --package "$crate" --lib --tests -- "${of_the_process[@]}"
    done
    mapfile -t tests < <(tests_of anabranch "${library[@]}")
    cover "$check" anabranch "$@" --package anabranch --lib "${tests[@]}" -- "${of_the_process[@]}"
}

if wanted address; then
    if ! has_component bin/cargo; then
        cannot address "no nightly toolchain"
    else
        # Leaks are not looked for: threads that outlive main keep what they use.
        RUSTFLAGS="-Zsanitizer=address --cfg rustix_use_libc" CARGO_TARGET_DIR="$target_directory/address" ASAN_OPTIONS="detect_leaks=0"
        export RUSTFLAGS CARGO_TARGET_DIR ASAN_OPTIONS
        sanitizer address +nightly test --target "$host"
    fi
fi

if wanted thread; then
    if ! has_component lib/rustlib/src/rust/library/std/Cargo.toml; then
        cannot thread "the nightly toolchain has no rust-src"
    else
        # The standard library is built with it too: its channels and locks would otherwise look like races.
        RUSTFLAGS="-Zsanitizer=thread --cfg rustix_use_libc" CARGO_TARGET_DIR="$target_directory/thread" TSAN_OPTIONS="halt_on_error=0"
        export RUSTFLAGS CARGO_TARGET_DIR TSAN_OPTIONS
        sanitizer thread +nightly test -Zbuild-std --target "$host"
    fi
fi

if wanted miri; then
    if ! has_component bin/miri; then
        cannot miri "the nightly toolchain has no miri"
    else
        unset RUSTFLAGS
        export CARGO_TARGET_DIR="$target_directory/miri"
        # Addresses of the host device's memory are numbers, as they are on hardware.
        permissive="-Zmiri-permissive-provenance -Zmiri-disable-isolation"
        export MIRIFLAGS=$permissive
        cover miri anabranch-sync +nightly miri test --package anabranch-sync --lib
        # Kernels access one word with atomics of several sizes, for which Miri emulates no weak memory. Other tests run
        # too many operations for it.
        export MIRIFLAGS="$permissive -Zmiri-disable-weak-memory-emulation"
        cover miri anabranch-ptx +nightly miri test --package anabranch-ptx --test sizes --test improved
        export MIRIFLAGS=$permissive
        cover miri anabranch-hal +nightly miri test --package anabranch-hal --lib
        # Without what calls a library of NVIDIA's. A panic out of the drop of a panic's payload is leaked on purpose.
        export MIRIFLAGS="$permissive -Zmiri-ignore-leaks"
        cover miri anabranch-cuda +nightly miri test --package anabranch-cuda --lib \
            -- host_work module::image panics memory::fill --skip what_the_compiler_makes
        export MIRIFLAGS=$permissive
        # Without what is too much work at Miri's pace.
        mapfile -t tests < <(tests_of anabranch-host events kernels ordering pools values memory_checked)
        cover miri anabranch-host +nightly miri test --package anabranch-host "${tests[@]}" \
            -- --skip threads_on_legacy_and_blocking_streams_never_wait_in_a_cycle \
            --skip when_the_memory_leaves_quarantine --skip large_memory --skip many_threads_with_memory
        cover miri anabranch-core +nightly miri test --package anabranch-core --lib
    fi
fi

{
    echo "Of $(date -u +%F), on $(uname -sm), $(rustc +nightly --version 2>/dev/null || echo 'no nightly compiler'):"
    echo
    echo "| with | crate | tests | passed | left out | result |"
    echo "|---|---|---|---|---|---|"
    printf '%s\n' "${rows[@]}"
} >"$results/results.md"
echo
cat "$results/results.md"
exit "$failed"
