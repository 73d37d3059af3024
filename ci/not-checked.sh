# shellcheck shell=bash
# Sourced by the checks: says what could not be checked on this machine, now and at the end of .ci/run.
not_checked() {
    echo "NOT CHECKED: $1" >&2
    if [ -n "${ANABRANCH_NOT_CHECKED:-}" ]; then echo "$1" >>"$ANABRANCH_NOT_CHECKED"; fi
}
