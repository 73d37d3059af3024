//! `cargo xtask modules`: whether the arrows between crates, and between the modules of each crate, point down only.
//!
//! A file of the root and the folder of its name are one module; `lib.rs`, which re-exports, is none. The files of a folder
//! are one concept: a type there and what it is made of may name each other. Re-exporting what is below is not using
//! it, and a re-exported name is a use of the module that declares it. Code for tests and for loom does not count.

mod arrows;
mod circles;
mod condition;
mod exceptions;
mod references;
mod resolve;
mod scopes;

use std::path::Path;

use crate::{Outcome, packages, workspace};
use circles::{Edges, circles, reaches};
use exceptions::{EXCEPTIONS, Exception};
use scopes::Crate;

/// Checks all crates, or those that are named. False means that something points up, and was printed.
pub(crate) fn run(names: &[String]) -> Outcome<bool> {
    let root = workspace::root();
    let packages = packages::all(&root)?;
    let mut problems = Vec::new();
    for package in packages::named(&packages, names)? {
        problems.extend(arrows::problems(package));
        match Crate::read(&package.root_file) {
            Ok(krate) => {
                problems.extend(module_problems(&package.name, of_the_root(edges(&krate, &root)), EXCEPTIONS));
            }
            Err(error) => problems.push(format!("{}: {error}", package.name)),
        }
    }
    if names.is_empty() {
        let gone =
            EXCEPTIONS.iter().filter(|exception| packages.iter().all(|package| package.name != exception.package));
        problems.extend(gone.map(|exception| format!("exceptions.rs: there is no crate {}", exception.package)));
    }
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    Ok(problems.is_empty())
}

/// Which module uses which. Modules of different folders are told apart by the path of their folder; those that use each
/// other are those that are next to each other.
fn edges(krate: &Crate, root: &Path) -> Edges {
    let mut edges = Edges::new();
    for (scope, reference) in &krate.references {
        let Some(target) = krate.resolve(*scope, &reference.path) else { continue };
        let file_of = |scope: usize| &krate.files[krate.scopes[scope].file];
        let (user, used) = (file_of(*scope), file_of(target));
        let common = user.module.iter().zip(&used.module).take_while(|(user, used)| user == used).count();
        let is_of_the_root = common == 0 && (user.module.is_empty() || used.module.is_empty());
        let reexports_what_is_below = reference.is_reexport && user.module.len() == common;
        if user.module == used.module || is_of_the_root || reexports_what_is_below {
            continue;
        }
        let name = |module: &[String]| module[..module.len().min(common + 1)].join("::");
        let path = user.path.strip_prefix(root).unwrap_or(&user.path).display();
        let witness = format!("{path}:{}: {}", reference.line, reference.path.join("::"));
        edges.entry((name(&user.module), name(&used.module))).or_default().push(witness);
    }
    edges
}

/// The edges between modules of the root, without those between the files of a folder.
fn of_the_root(edges: Edges) -> Edges {
    edges.into_iter().filter(|((from, to), _)| !from.contains("::") && !to.contains("::")).collect()
}

/// What is wrong with the modules of a crate, one text each.
fn module_problems(package: &str, mut edges: Edges, exceptions: &[Exception]) -> Vec<String> {
    let mut problems = Vec::new();
    let all = edges.clone();
    for Exception { from, to, reason, .. } in exceptions.iter().filter(|exception| exception.package == package) {
        let is_needed = edges.remove(&((*from).to_owned(), (*to).to_owned())).is_some() && reaches(&all, to, from);
        if !is_needed {
            problems
                .push(format!("{package}: {from} -> {to} makes no circle any more; its exception ({reason}) can go"));
        }
    }
    for circle in circles(&edges) {
        let mut text =
            format!("{package}: a circle of {} modules: {} -> {}", circle.len(), circle.join(" -> "), circle[0]);
        for (position, from) in circle.iter().enumerate() {
            let to = &circle[(position + 1) % circle.len()];
            let places = &edges[&(from.clone(), to.clone())];
            let more = if places.len() > 1 { format!(" (and {} more)", places.len() - 1) } else { String::new() };
            text.push_str(&format!("\n    {from} -> {to}\n        {}{more}", places[0]));
        }
        problems.push(text);
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{Edges, Exception, edges, module_problems, of_the_root};
    use crate::modules::scopes::Crate;

    /// The edges of a crate of these files.
    fn of_files(files: &[(&str, &str)]) -> Edges {
        let folder = tempfile::tempdir().unwrap();
        for (path, source) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, source).unwrap();
        }
        edges(&Crate::read(&folder.path().join("lib.rs")).unwrap(), folder.path())
    }

    fn arrows(edges: &Edges) -> Vec<String> {
        edges.iter().map(|((from, to), places)| format!("{from} -> {to} ({})", places.join(", "))).collect()
    }

    #[test]
    fn a_file_and_its_folder_are_one_module() {
        let found = of_files(&[
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
            ("a.rs", "mod inner; pub use inner::A;"),
            ("a/inner.rs", "use crate::B;\npub struct A(B);"),
            ("b.rs", "pub struct B;"),
        ]);
        assert_eq!(arrows(&found), ["a -> b (a/inner.rs:1: crate::B)"]);
    }

    #[test]
    fn the_files_of_a_folder_are_modules_too() {
        let found = of_files(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod one; mod two; pub(crate) use one::One; pub struct A; fn f() { two::two() }"),
            ("a/one.rs", "pub struct One;"),
            ("a/two.rs", "use super::{A,\n One}; pub fn two() {}"),
        ]);
        let expected = [
            "a -> a::two (a.rs:1: two::two)",
            "a::two -> a (a/two.rs:1: super::A)",
            "a::two -> a::one (a/two.rs:2: super::One)",
        ];
        assert_eq!(arrows(&found), expected);
        assert!(of_the_root(found).is_empty());
    }

    fn two() -> Edges {
        of_files(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B;\nfn f() -> crate::a::A { crate::c::f!(crate::a) }"),
            ("c.rs", ""),
        ])
    }

    #[test]
    fn a_circle_is_told_with_its_places() {
        let expected = "p: a circle of 2 modules: a -> b -> a\n    a -> b\n        a.rs:1: crate::b::B\n    \
                        b -> a\n        b.rs:2: crate::a::A (and 1 more)";
        assert_eq!(module_problems("p", two(), &[]), [expected]);
    }

    #[test]
    fn exceptions_are_kept_only_while_they_are_needed() {
        let exception = |package, from, to| Exception { package, from, to, reason: "no reason" };
        assert!(module_problems("p", two(), &[exception("p", "b", "a")]).is_empty());
        assert!(module_problems("p", two(), &[exception("p", "a", "b"), exception("other", "b", "a")]).is_empty());
        for (from, to) in [("b", "c"), ("c", "a")] {
            let exceptions = [exception("p", "a", "b"), exception("p", from, to)];
            let expected = format!("p: {from} -> {to} makes no circle any more; its exception (no reason) can go");
            assert_eq!(module_problems("p", two(), &exceptions), [expected]);
        }
    }
}
