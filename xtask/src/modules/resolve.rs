//! Which module of the crate a path leads to, through re-exports to the one that declares what it names.

use super::scopes::{Crate, ScopeId};

/// Imports can be declared in a circle, which the compiler refuses; this is where following them ends.
const DEPTH: u32 = 32;

/// What a name stands for.
#[derive(Clone, Copy)]
enum Meaning {
    /// A module.
    Module(ScopeId),
    /// Something declared in a module.
    DeclaredIn(ScopeId),
    /// Something of another crate.
    Elsewhere,
}

impl Crate {
    /// The scope that declares what `path` names in `scope`, or that it names itself. None for what is of other crates.
    pub(crate) fn resolve(&self, scope: ScopeId, path: &[String]) -> Option<ScopeId> {
        match self.follow(scope, path, DEPTH) {
            Meaning::Module(scope) | Meaning::DeclaredIn(scope) => Some(scope),
            Meaning::Elsewhere => None,
        }
    }

    fn follow(&self, scope: ScopeId, path: &[String], depth: u32) -> Meaning {
        let (Some((first, rest)), Some(depth)) = (path.split_first(), depth.checked_sub(1)) else {
            return Meaning::Elsewhere;
        };
        let mut meaning = match &**first {
            "crate" => Meaning::Module(0),
            "self" => Meaning::Module(scope),
            "super" => Meaning::Module(self.scopes[scope].parent),
            name => self.name(scope, name, depth).unwrap_or(Meaning::Elsewhere),
        };
        for segment in rest {
            // What is behind an item, such as a method or a variant, is declared with it.
            let Meaning::Module(module) = meaning else { break };
            meaning = match &**segment {
                "super" => Meaning::Module(self.scopes[module].parent),
                // What nothing is known of was made by a macro.
                name => self.name(module, name, depth).unwrap_or(Meaning::DeclaredIn(module)),
            };
        }
        meaning
    }

    /// What a name means in a scope, if that is known.
    fn name(&self, id: ScopeId, name: &str, depth: u32) -> Option<Meaning> {
        let depth = depth.checked_sub(1)?;
        let scope = &self.scopes[id];
        if let Some(&module) = scope.modules.get(name) {
            return Some(Meaning::Module(module));
        }
        if scope.declared.contains(name) {
            return Some(Meaning::DeclaredIn(id));
        }
        if let Some(path) = scope.imports.get(name) {
            return Some(self.follow(id, path, depth));
        }
        if id == 0
            && let Some(&declaring) = self.exported_macros.get(name)
        {
            return Some(Meaning::DeclaredIn(declaring));
        }
        scope.globs.iter().find_map(|path| match self.follow(id, path, depth) {
            Meaning::Module(module) => self.name(module, name, depth),
            Meaning::DeclaredIn(_) | Meaning::Elsewhere => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::scopes::{Crate, File};

    /// A crate of one file, with its modules in it.
    fn krate(source: &str) -> Crate {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib.rs");
        std::fs::write(&path, source).unwrap();
        Crate::read(&path).unwrap()
    }

    /// The path of the module that a path leads to.
    fn module(krate: &Crate, from: &str, path: &str) -> Option<String> {
        let split = |path: &str| path.split("::").map(str::to_owned).collect::<Vec<_>>();
        let from = if from.is_empty() { 0 } else { krate.resolve(0, &split(from)).unwrap() };
        let mut found = krate.resolve(from, &split(path))?;
        let mut names = Vec::new();
        while found != 0 {
            let parent = krate.scopes[found].parent;
            let name = krate.scopes[parent].modules.iter().find(|(_, child)| **child == found).unwrap().0;
            names.insert(0, name.clone());
            found = parent;
        }
        Some(names.join("::"))
    }

    const SOURCE: &str = "
        mod a { pub struct A; pub mod deep { pub struct Deep; bitflags! { pub struct Made: u8 {} } } pub use deep::Deep; }
        mod b { use super::a; pub use crate::A as B; pub use crate::a::deep::*; #[macro_export] macro_rules! m { () => {} } }
        mod c { pub use self::C as C; pub use super::c::D; pub use super::c::D as D; use std::fmt; pub fn f() {} }
        pub use a::A;
        pub use a::Deep as Shallow;
    ";

    #[test]
    fn paths_lead_to_who_declares() {
        let krate = krate(SOURCE);
        for (from, path, expected) in [
            ("a", "crate::b::B", Some("a")),
            ("b", "crate::A", Some("a")),
            ("b", "crate::A::method", Some("a")),
            ("c", "crate::Shallow", Some("a::deep")),
            ("c", "crate::a::Deep", Some("a::deep")),
            ("c", "crate::a::deep::Made", Some("a::deep")),
            ("c", "crate::b::Deep", Some("a::deep")),
            ("c", "crate::m", Some("b")),
            ("b", "a::deep::Deep", Some("a::deep")),
            ("a::deep", "super::A", Some("a")),
            ("a::deep", "super::super::c::f", Some("c")),
            ("a", "self::deep", Some("a::deep")),
            ("c", "crate::made_by_a_macro", Some("")),
            ("c", "fmt::Debug", None),
            ("c", "std::fmt", None),
            ("c", "crate::c::fmt::Debug", None),
        ] {
            assert_eq!(module(&krate, from, path).as_deref(), expected, "{path} in {from}");
        }
    }

    #[test]
    fn imports_in_a_circle_lead_nowhere() {
        let krate = krate(SOURCE);
        assert_eq!(module(&krate, "a", "crate::c::C"), None);
        assert_eq!(module(&krate, "a", "crate::c::D"), None);
    }

    #[test]
    fn files_are_found_beside_and_below() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, source: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, source).unwrap();
        };
        write("lib.rs", "mod a; #[cfg(test)] mod absent;");
        write("a.rs", "mod b; mod inline { mod c; }");
        write("a/b.rs", "");
        write("a/inline/c.rs", "");
        let krate = Crate::read(&folder.path().join("lib.rs")).unwrap();
        let modules: Vec<String> = krate.files.iter().map(|File { module, .. }| module.join("::")).collect();
        assert_eq!(modules, ["", "a", "a::b", "a::inline::c"]);
    }
}
