//! The modules of a crate, read from its files, with the names that each has.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use syn::Item;

use super::condition::counts;
use super::references::{self, Reference};
use crate::{Outcome, sources};

/// The number of a scope; the root's is 0.
pub(crate) type ScopeId = usize;

/// A crate's files and scopes.
#[derive(Default)]
pub(crate) struct Crate {
    /// The files; the root is the first.
    pub(crate) files: Vec<File>,
    /// The scopes: a module each, with a file of its own or not.
    pub(crate) scopes: Vec<Scope>,
    /// What refers to what, by the scope that it is in.
    pub(crate) references: Vec<(ScopeId, Reference)>,
    /// The macros that are exported, which are names of the root.
    pub(crate) exported_macros: HashMap<String, ScopeId>,
}

/// A file of a crate.
pub(crate) struct File {
    /// The path of its module from the root, which is empty for the root itself.
    pub(crate) module: Vec<String>,
    /// Where it is.
    pub(crate) path: PathBuf,
}

/// A module.
#[derive(Default)]
pub(crate) struct Scope {
    /// The scope around it; the root's is itself.
    pub(crate) parent: ScopeId,
    /// Its file, as a position in [`Crate::files`].
    pub(crate) file: usize,
    /// The modules in it.
    pub(crate) modules: BTreeMap<String, ScopeId>,
    /// The names that it imports, and from where.
    pub(crate) imports: HashMap<String, Vec<String>>,
    /// The modules that it imports all names of.
    pub(crate) globs: Vec<Vec<String>>,
    /// The names that it declares.
    pub(crate) declared: HashSet<String>,
}

impl Crate {
    /// Reads a crate from its root file, `lib.rs` or `main.rs`, and the files of all modules that count.
    pub(crate) fn read(root: &Path) -> Outcome<Self> {
        let mut found = Self::default();
        let folder = root.parent().unwrap_or(Path::new("."));
        found.file(root.to_path_buf(), folder, Vec::new(), 0)?;
        Ok(found)
    }

    /// Reads a file. The files of its modules are in `folder`.
    fn file(&mut self, path: PathBuf, folder: &Path, module: Vec<String>, parent: ScopeId) -> Outcome<ScopeId> {
        let items = sources::parse(&path)?.items;
        let file = self.files.len();
        self.files.push(File { module: module.clone(), path });
        self.scope(&items, folder, module, file, parent)
    }

    fn scope(
        &mut self,
        items: &[Item],
        folder: &Path,
        module: Vec<String>,
        file: usize,
        parent: ScopeId,
    ) -> Outcome<ScopeId> {
        let id = self.scopes.len();
        self.scopes.push(Scope { parent, file, ..Scope::default() });
        for item in items.iter().filter(|item| counts(references::attributes(item))) {
            match item {
                Item::Mod(inner) => {
                    if inner.attrs.iter().any(|attribute| attribute.path().is_ident("path")) {
                        let place = self.files[file].path.display();
                        return Err(format!("{place}: a module with a path of its own cannot be followed").into());
                    }
                    let name = inner.ident.to_string();
                    let folder = folder.join(&name);
                    let module: Vec<String> = module.iter().cloned().chain([name.clone()]).collect();
                    let child = match &inner.content {
                        Some((_, items)) => self.scope(items, &folder, module, file, id)?,
                        None => self.file(module_file(&folder), &folder, module, id)?,
                    };
                    self.scopes[id].modules.insert(name, child);
                }
                Item::Use(item) => {
                    for import in references::imports(item) {
                        match import.name {
                            Some(name) => drop(self.scopes[id].imports.insert(name, import.path)),
                            None => self.scopes[id].globs.push(import.path),
                        }
                    }
                }
                Item::Macro(declared) => {
                    if let Some(name) = &declared.ident {
                        if declared.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) {
                            self.exported_macros.insert(name.to_string(), id);
                        }
                        self.scopes[id].declared.insert(name.to_string());
                    }
                }
                other => self.scopes[id].declared.extend(declared(other)),
            }
            self.references.extend(references::of_item(item).into_iter().map(|reference| (id, reference)));
        }
        Ok(id)
    }
}

/// The file of the module whose own modules are in `folder`.
fn module_file(folder: &Path) -> PathBuf {
    let (beside, inside) = (folder.with_extension("rs"), folder.join("mod.rs"));
    if !beside.exists() && inside.exists() { inside } else { beside }
}

/// The name that an item declares.
fn declared(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
