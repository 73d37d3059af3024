#!/usr/bin/env bash
# Tests under AddressSanitizer, ThreadSanitizer and Miri. Needs a nightly toolchain, with its `rust-src` for
# ThreadSanitizer and its `miri`.
#
#   ci/sanitize.sh [CHECK ...]      checks: address thread miri; all by default
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
target_directory=${CARGO_TARGET_DIR:-target}
checks=${*:-address thread miri}

wanted() { [[ " $checks " == *" $1 "* ]]; }

# What bounds the memory of the process, and would measure the sanitizer's own.
of_the_process=(--skip ten_million_entries_in_one_stream_stay_small --skip idle_staging_memory_goes_with_its_context)

# The tests of the library that put the host device's threads and memory to work.
library=(--test model --test order --test order_model --test scope --test host_functions --test safety
    --test safety_graphs --test capture --test graph --test conditions --test completion --test owned
    --test checked_launches --test safety_threads)

if wanted address; then
    export RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR="$target_directory/address"
    # Leaks are not looked for: threads that outlive main keep what they use.
    export ASAN_OPTIONS="detect_leaks=0"
    cargo +nightly test --target "$host" -p anabranch-hal -p anabranch-host --lib --tests -- "${of_the_process[@]}"
    cargo +nightly test --target "$host" -p anabranch "${library[@]}" -- "${of_the_process[@]}"
fi

if wanted thread; then
    # The standard library is built with it too: its channels and locks would otherwise look like races.
    export RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR="$target_directory/thread"
    export TSAN_OPTIONS="halt_on_error=0"
    cargo +nightly test -Zbuild-std --target "$host" -p anabranch-hal -p anabranch-host --lib --tests \
        -- "${of_the_process[@]}"
    cargo +nightly test -Zbuild-std --target "$host" -p anabranch "${library[@]}" -- "${of_the_process[@]}"
fi

if wanted miri; then
    unset RUSTFLAGS
    export CARGO_TARGET_DIR="$target_directory/miri"
    # Addresses of the host device's memory are numbers, as they are on hardware.
    export MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-disable-isolation"
    cargo +nightly miri test -p anabranch-hal --lib
    # Without what calls a library of NVIDIA's. A panic out of the drop of a panic's payload is leaked on purpose.
    MIRIFLAGS="$MIRIFLAGS -Zmiri-ignore-leaks" cargo +nightly miri test -p anabranch-cuda --lib \
        -- host_work module::image panics memory::fill --skip what_the_compiler_makes
    # Without what is too much work at Miri's pace.
    cargo +nightly miri test -p anabranch-host --test events --test kernels --test ordering --test pools --test values \
        --test memory_checked \
        -- --skip threads_on_legacy_and_blocking_streams_never_wait_in_a_circle \
        --skip when_the_memory_leaves_quarantine --skip large_memory --skip many_threads_with_memory
fi
