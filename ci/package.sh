#!/usr/bin/env bash
# Packages the crates that are published, and tests the packages as somebody gets them who has nothing else of this
# repository: each has its licences and a README, builds, and passes its unit tests and documentation tests. Its other tests,
# its examples and its benchmarks are only compiled: they are the same files as here, and would take too long to run again.
#
# While you work, `ci/package.sh --allow-dirty` packages files that are not committed.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target
# Where the packages are unpacked. They stay there, so that only what changes is built again.
tree=$target/package-tests
cargo package --quiet --no-verify "$@"
# The Python package is no crate for others, and is none of the default members, which this packages.
packaged=$(grep -L '^publish = false' crates/*/Cargo.toml | xargs -n 1 dirname)

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
version=$(sed -nE 's/^version = "(.*)"$/\1/p' Cargo.toml)
for folder in $packaged; do
    name=$(basename "$folder")-$version
    # All files of a package have the same date, and cargo looks at dates to see what has changed.
    tar -xzmf "$target/package/$name.crate" -C "$fresh"
    for file in LICENSE-MIT LICENSE-APACHE; do
        cmp "$file" "$fresh/$name/$file"
    done
    grep -q '^# ' "$fresh/$name/README.md"
done
while read -r file; do
    if cmp -s "$fresh/$file" "$tree/$file"; then touch -r "$tree/$file" "$fresh/$file"; fi
done < <(cd "$fresh" && find . -type f)

# Each package finds the others here, as it will find them in the registry. Other crates are those of the repository.
{
    printf '[workspace]\nresolver = "3"\nmembers = ["anabranch*"]\n\n[profile.dev]\ndebug = "line-tables-only"\n'
    printf '\n[patch.crates-io]\n'
    for folder in $packaged; do
        name=$(basename "$folder")
        printf '%s = { path = "%s-%s" }\n' "$name" "$name" "$version"
    done
} >"$fresh/Cargo.toml"
cp Cargo.lock "$fresh/Cargo.lock"
rm -rf "$tree"
cp -a "$fresh" "$tree"

cd "$tree"
cargo test --offline --quiet --workspace --lib --bins
cargo test --offline --quiet --workspace --doc
cargo check --offline --quiet --workspace --all-targets
