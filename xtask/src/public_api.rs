//! `cargo xtask public-api`: a listing of what each published library offers, kept in the repository, so that whoever
//! changes it sees the change.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use public_api::PublicItem;

use crate::packages::{self, Package};
use crate::{Outcome, generated, workspace};

/// The listing, in the folder of its crate.
const LISTING: &str = "public-api.txt";

/// Traits that the compiler implements by itself and that no user here asks for. `Send` and `Sync` stay.
const LEFT_OUT: &[&str] = &["Freeze", "RefUnwindSafe", "StructuralPartialEq", "Unpin", "UnsafeUnpin", "UnwindSafe"];

/// Writes the listings of all published libraries, or of those that are named, or with `check` compares them. False means
/// that one differs, and what is new or gone was printed.
pub(crate) fn run(names: &[String], check: bool) -> Outcome<bool> {
    let root = workspace::root();
    let all = packages::all(&root)?;
    let mut agreed = true;
    for package in packages::named(&all, names)?.into_iter().filter(|package| package.is_published_library) {
        let text = listing(&root, package)?;
        let folder = package.folder.strip_prefix(&root).unwrap_or(&package.folder).display();
        let path = format!("{folder}/{LISTING}");
        if check {
            let kept = std::fs::read_to_string(root.join(&path)).unwrap_or_default();
            eprint!("{}", differences(&kept, &text));
        }
        agreed &= generated::keep(&root, &path, &text, check, "the sources")?;
    }
    Ok(agreed)
}

/// What a library offers with all its features, one item a line.
fn listing(root: &Path, package: &Package) -> Outcome<String> {
    let target = root.join("target/public-api");
    let status = Command::new("cargo")
        .args(["rustdoc", "--quiet", "--lib", "--all-features", "--package", &package.name])
        .args(["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"])
        // rustdoc writes JSON with the stable compiler too, but has to be told that its format may change.
        .env("RUSTC_BOOTSTRAP", "1")
        // Where what is built without it does not have to be built again.
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !status.success() {
        return Err(format!("rustdoc failed for {}", package.name).into());
    }
    let json = target.join("doc").join(package.name.replace('-', "_")).with_extension("json");
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .build()
        .map_err(|error| format!("{error}; the version of the crate public-api must fit the compiler"))?;
    let implementations: HashSet<_> =
        api.items().filter(|item| is_implementation(&item.to_string())).map(PublicItem::id).collect();
    // What a trait is implemented with follows from the trait, except for associated types.
    let items = api.items().filter(|item| !item.parent_id().is_some_and(|parent| implementations.contains(&parent)));
    let types = api.items().filter(|item| item.to_string().starts_with("pub type"));
    let mut lines: Vec<String> = items.chain(types).map(ToString::to_string).filter(|line| is_kept(line)).collect();
    lines.sort();
    lines.dedup();
    Ok(lines.into_iter().fold(String::new(), |text, line| text + &line + "\n"))
}

/// Whether a line is that of a trait's implementation.
fn is_implementation(line: &str) -> bool {
    line.starts_with("impl") && line.contains(" for ")
}

fn is_kept(line: &str) -> bool {
    !is_implementation(line) || LEFT_OUT.iter().all(|name| !line.contains(&format!("::{name} for ")))
}

/// The lines that are new or gone, marked as `diff` does.
fn differences(kept: &str, now: &str) -> String {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (kept, now) = (lines(kept), lines(now));
    let mut text = String::new();
    for line in kept.symmetric_difference(&now) {
        let _ = writeln!(text, "{} {line}", if now.contains(line) { '+' } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{differences, is_kept};

    #[test]
    fn what_users_ask_for_is_kept() {
        assert!(is_kept("impl core::marker::Send for anabranch::Stream"));
        assert!(is_kept("pub fn anabranch::Stream::synchronize(&self)"));
        assert!(!is_kept("impl core::marker::Freeze for anabranch::Stream"));
        assert!(!is_kept("impl<T> core::panic::unwind_safe::RefUnwindSafe for anabranch::Buffer<T>"));
    }

    #[test]
    fn differences_are_the_lines_of_one_side() {
        assert_eq!(differences("a\nb\nc\n", "a\nc\nd\n"), "- b\n+ d\n");
        assert_eq!(differences("a\n", "a\n"), "");
    }
}
