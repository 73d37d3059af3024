//! The paths that a piece of source names others by: imports, paths in expressions and types, and paths in macros.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{ImplItemFn, Item, ItemUse, Macro, Path, Stmt, UseTree, VisRestricted, Visibility};

use super::condition::counts;

/// A path as it was written, generic arguments left out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Its segments. Imports of all names of a module end with that module.
    pub(crate) path: Vec<String>,
    /// Where it is, from 1.
    pub(crate) line: usize,
    /// Whether it is an import that others can use: a re-export.
    pub(crate) is_reexport: bool,
}

/// One name that an import brings into scope.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The path of what is imported.
    pub(crate) path: Vec<String>,
    /// The name that it has here; none if all names of the path are imported.
    pub(crate) name: Option<String>,
    /// Where it is, from 1.
    pub(crate) line: usize,
}

/// What an item refers to. A module within it is not looked into.
pub(crate) fn of_item(item: &Item) -> Vec<Reference> {
    let mut collector = Collector(Vec::new());
    collector.visit_item(item);
    collector.0
}

/// The names that a `use` brings into scope.
pub(crate) fn imports(item: &ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    if item.leading_colon.is_none() {
        flatten(&item.tree, &mut Vec::new(), &mut found);
    }
    found
}

fn flatten(tree: &UseTree, before: &mut Vec<String>, found: &mut Vec<Import>) {
    let mut import = |name: &Ident, renamed: &Ident| {
        let mut path = before.clone();
        // `use a::{self}` imports `a`.
        let is_self = name == "self" && !path.is_empty();
        if !is_self {
            path.push(name.to_string());
        }
        let name = if is_self && renamed == name { path.last().cloned() } else { Some(renamed.to_string()) };
        found.push(Import { path, name, line: line(renamed) });
    };
    match tree {
        UseTree::Name(name) => import(&name.ident, &name.ident),
        UseTree::Rename(renamed) => import(&renamed.ident, &renamed.rename),
        UseTree::Glob(glob) => {
            let line = glob.star_token.spans[0].start().line;
            found.push(Import { path: before.clone(), name: None, line });
        }
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, found);
            before.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, found)),
    }
}

fn line(name: &Ident) -> usize {
    name.span().start().line
}

struct Collector(Vec<Reference>);

impl Collector {
    /// A name of one segment is one of the scope, and was imported or declared there.
    fn path(&mut self, segments: &[&Ident]) {
        if let [first, _, ..] = segments {
            let path = segments.iter().map(ToString::to_string).collect();
            self.0.push(Reference { path, line: line(first), is_reexport: false });
        }
    }

    /// The paths in the tokens of a macro, which need not be Rust.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_colon =
            |position: usize| matches!(tokens.get(position), Some(TokenTree::Punct(mark)) if mark.as_char() == ':');
        let mut position = 0;
        while let Some(token) = tokens.get(position) {
            position += 1;
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let mut segments = vec![first];
                    while is_colon(position) && is_colon(position + 1) {
                        let Some(TokenTree::Ident(next)) = tokens.get(position + 2) else { break };
                        segments.push(next);
                        position += 3;
                    }
                    self.path(&segments);
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast Item) {
        if counts(attributes(item)) && !matches!(item, Item::Mod(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_reexport = !matches!(item.vis, Visibility::Inherited);
        let references = imports(item).into_iter();
        self.0.extend(references.map(|Import { path, line, .. }| Reference { path, line, is_reexport }));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if counts(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let attributes = match statement {
            Stmt::Local(local) => &*local.attrs,
            Stmt::Macro(statement) => &*statement.attrs,
            Stmt::Expr(syn::Expr::Block(block), _) => &*block.attrs,
            Stmt::Item(_) | Stmt::Expr(..) => &[],
        };
        if counts(attributes) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            self.path(&path.segments.iter().map(|segment| &segment.ident).collect::<Vec<_>>());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    /// Who may see an item is no use of it.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

/// The attributes of an item.
pub(crate) fn attributes(item: &Item) -> &[syn::Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::{imports, of_item};

    fn references(source: &str) -> Vec<(String, usize)> {
        let file = syn::parse_file(source).unwrap();
        let found = file.items.iter().flat_map(of_item);
        found.map(|reference| (reference.path.join("::"), reference.line)).collect()
    }

    fn names(source: &str) -> Vec<String> {
        references(source).into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn imports_are_taken_apart() {
        let item: syn::ItemUse = syn::parse_str("use crate::{a::{self, B as C, *}, super_thing, d as _};").unwrap();
        let found = imports(&item);
        let found: Vec<(String, Option<&str>)> =
            found.iter().map(|import| (import.path.join("::"), import.name.as_deref())).collect();
        assert_eq!(
            found,
            [
                ("crate::a".to_owned(), Some("a")),
                ("crate::a::B".to_owned(), Some("C")),
                ("crate::a".to_owned(), None),
                ("crate::super_thing".to_owned(), Some("super_thing")),
                ("crate::d".to_owned(), Some("_")),
            ]
        );
    }

    #[test]
    fn imports_are_found_where_they_are() {
        let source = "use std::fmt;\nuse crate::{\n    a::B,\n    c::D,\n};\nfn f() {\n    use super::e::F;\n}\n";
        let lines = [("std::fmt", 1), ("crate::a::B", 3), ("crate::c::D", 4), ("super::e::F", 7)];
        assert_eq!(references(source), lines.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn paths_in_code_are_found() {
        let source =
            "fn f(a: &crate::a::A<'_, super::b::B>) -> impl crate::c::C { <D as crate::d::D>::new(e::f()); one }";
        assert_eq!(names(source), ["crate::a::A", "super::b::B", "crate::c::C", "crate::d::D::new", "e::f"]);
    }

    #[test]
    fn paths_in_macros_are_found() {
        let source = "macro_rules! m { ($a:expr) => { $crate::a::b($a, [x ? 2 : 3]) }; }\n\
                      fn f() { assert_eq!(crate::c::D, (self::e::F, g: h), \"crate::no::no\"); crate::i::j!(); }";
        assert_eq!(names(source), ["crate::a::b", "crate::c::D", "self::e::F", "crate::i::j"]);
    }

    #[test]
    fn tests_visibility_and_modules_within_do_not_count() {
        let source = "#[cfg(test)] use crate::a::A; #[cfg(loom)] fn f() { crate::b::B } pub(in crate::c::d) struct S;\n\
                      impl S { #[cfg(test)] fn f() { crate::e::f() } fn g() { #[cfg(loom)] { crate::h::i() } } }\n\
                      mod inner { use crate::j::K; }";
        assert!(names(source).is_empty(), "{:?}", names(source));
    }

    #[test]
    fn a_reexport_is_told_from_an_import() {
        let file = syn::parse_file("pub(crate) use a::B; use c::D;").unwrap();
        let found: Vec<bool> = file.items.iter().flat_map(of_item).map(|reference| reference.is_reexport).collect();
        assert_eq!(found, [true, false]);
    }
}
