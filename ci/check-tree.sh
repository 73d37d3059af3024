#!/usr/bin/env bash
# Checks of the tree that no compiler makes.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0

complain() {
    echo "$1" >&2
    failed=1
}

# Unfinished work does not land.
if git grep -nE 'todo!\(|unimplemented!\(|TODO|FIXME|XXX' -- '*.rs' '*.cu' '*.sh' ':!ci/check-tree.sh'; then
    complain "unfinished marks"
fi

# A file is one concept.
while read -r lines file; do
    if [ "$lines" -gt 600 ]; then complain "$file has $lines lines: split it"; fi
done < <(git ls-files '*.rs' | grep -vE '/ffi/|/generated\.rs$' | xargs wc -l | grep -v ' total$')

# Paths of somebody's machine do not belong here.
if git grep -nIE '/(home|root|Users)/[A-Za-z0-9_-]+' -- ':!*.lock' ':!ci/check-tree.sh'; then
    complain "paths of a machine"
fi

# Cargo adds this file to packages. Tests that need the rest of the repository are skipped where it is.
if ls crates/*/Cargo.toml.orig 2>/dev/null; then
    complain "the repository is not a package"
fi

# Code of the program is called by one function, which stops its unwinding.
if git grep -n 'catch_unwind' -- 'crates/*/src/*.rs' ':!crates/anabranch-hal/src' ':!crates/anabranch-sync/src' \
    ':!crates/anabranch-conformance/src'; then
    complain "use anabranch_hal::contain"
fi

# What Python passes as a sequence may say any length, which PyO3 allocates for a Vec at once.
vectors='while (/#\[pymethods\]\nimpl.*?\n}\n|#\[pyfunction\].*?\{\n/sg) {
        my $found = $&;
        while ($found =~ /\bfn (\w+)[^(]*\(([^{]*?)\)\s*(?:->[^{]*)?\{/sg) {
            my ($name, $arguments) = ($1, $2);
            print "$ARGV: $name\n" if $arguments =~ /\b(?:Vec|HashSet)</;
        }
    }
    while (/extract::<Vec<|: Vec<[^=\n]*=[^;]*\.extract\(\)/g) { print "$ARGV: $&\n" }'
if git ls-files 'crates/anabranch-python/src/*.rs' | xargs perl -0777 -ne "$vectors" | grep .; then
    complain "take sequences as Few"
fi

# The help of the command and the guide list every environment variable.
for variable in $(git grep -hoE '"ANABRANCH_[A-Z_]+"' -- 'crates/*/src/*.rs' | tr -d '"' | sort -u); do
    if [ "$variable" != ANABRANCH_NO_SUCH_VARIABLE ] && ! grep -qE "^  $variable( |$)" crates/anabranch-cli/src/arguments.rs; then
        complain "anabranch --help does not list $variable"
    fi
    if [ "$variable" != ANABRANCH_NO_SUCH_VARIABLE ] && ! grep -qE "^\| \`$variable\` \|" docs/environment.md; then
        complain "docs/environment.md does not list $variable"
    fi
done

# The guides of the crate's documentation are the files of the repository.
for file in crates/anabranch/docs/*; do
    if [ "$(realpath "$file")" != "$PWD/docs/$(basename "$file")" ]; then complain "$file is no link to docs"; fi
done

# CONTRIBUTING.md describes every step of .ci/run, in the same order.
steps=$(sed -nE 's/^step "(.*)"$/\1/p' .ci/run)
described=$(sed -nE '/^\| step \|/,/^$/s/^\| ([^|`-]+) \|.*/\1/p' CONTRIBUTING.md | tail -n +2)
if ! diff <(echo "$steps") <(echo "$described"); then
    complain "the steps of .ci/run (<) are not those that CONTRIBUTING.md describes (>)"
fi

exit "$failed"
