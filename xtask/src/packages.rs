//! The crates of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Outcome;

/// A crate of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) folder: PathBuf,
    /// Its `lib.rs`, or its `main.rs` if it is a command.
    pub(crate) root_file: PathBuf,
    /// Whether it is a library that others can depend on.
    pub(crate) is_published_library: bool,
    /// The crates of the workspace that it uses outside of tests.
    pub(crate) uses: Vec<String>,
}

/// The crates of the workspace at `root`, as cargo reads their manifests.
pub(crate) fn all(root: &Path) -> Outcome<Vec<Package>> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    of_metadata(&serde_json::from_slice(&output.stdout)?)
}

/// Those of these names, or all if there are no names. A name that there is no crate of is an error.
pub(crate) fn named<'a>(packages: &'a [Package], names: &[String]) -> Outcome<Vec<&'a Package>> {
    if let Some(unknown) = names.iter().find(|name| packages.iter().all(|package| package.name != **name)) {
        return Err(format!("there is no crate {unknown}").into());
    }
    Ok(packages.iter().filter(|package| names.is_empty() || names.contains(&package.name)).collect())
}

fn of_metadata(metadata: &Value) -> Outcome<Vec<Package>> {
    let listed = || list(&metadata["packages"]);
    let is_ours = |name: &str| listed().any(|package| package["name"] == name);
    listed()
        .map(|package| {
            let name = text(&package["name"])?;
            let target =
                |kind: &str| list(&package["targets"]).find(|target| list(&target["kind"]).any(|own| own == kind));
            let library = target("lib");
            let Some(root_target) = library.or_else(|| target("cdylib")).or_else(|| target("bin")) else {
                return Err(format!("{name} is neither a library nor a command").into());
            };
            let used = list(&package["dependencies"]).filter(|used| used["kind"] != "dev");
            let mut uses = used.map(|used| text(&used["name"])).collect::<Outcome<Vec<String>>>()?;
            uses.retain(|used| is_ours(used));
            uses.sort();
            uses.dedup();
            let manifest = PathBuf::from(text(&package["manifest_path"])?);
            Ok(Package {
                name,
                folder: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
                root_file: text(&root_target["src_path"])?.into(),
                // `publish = false` is a list of no registries.
                is_published_library: library.is_some() && package["publish"] != Value::Array(Vec::new()),
                uses,
            })
        })
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Outcome<String> {
    Ok(value.as_str().ok_or("cargo metadata has no text where there was one")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{named, of_metadata};
    use serde_json::{Value, json};

    fn package(name: &str, kinds: &[&str], publish: Value, uses: &[(&str, Option<&str>)]) -> Value {
        let uses: Vec<_> = uses.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
        let targets: Vec<_> =
            kinds.iter().map(|kind| json!({ "kind": [kind], "src_path": format!("{kind}.rs") })).collect();
        json!({
            "name": name,
            "publish": publish,
            "dependencies": uses,
            "targets": targets,
            "manifest_path": format!("crates/{name}/Cargo.toml"),
        })
    }

    #[test]
    fn crates_are_read_from_their_manifests() {
        let metadata = json!({ "packages": [
            package("a", &["test", "lib", "bin"], Value::Null, &[("b", None), ("c", Some("dev")), ("bitflags", None)]),
            package("b", &["bin"], Value::Null, &[("c", Some("build")), ("c", None)]),
            package("c", &["lib"], json!([]), &[]),
            package("d", &["cdylib"], Value::Null, &[]),
        ]});
        let found = of_metadata(&metadata).unwrap();
        assert_eq!(found[0].root_file.to_str(), Some("lib.rs"));
        assert_eq!(found[1].root_file.to_str(), Some("bin.rs"));
        assert_eq!(found[3].root_file.to_str(), Some("cdylib.rs"));
        assert_eq!(found[0].folder.to_str(), Some("crates/a"));
        assert_eq!(
            found.iter().map(|package| package.is_published_library).collect::<Vec<_>>(),
            [true, false, false, false]
        );
        assert_eq!((&*found[0].uses, &*found[1].uses), (&["b".to_owned()][..], &["c".to_owned()][..]));
    }

    #[test]
    fn names_are_of_crates_that_there_are() {
        let metadata = json!({ "packages": [package("a", &["lib"], Value::Null, &[])] });
        let found = of_metadata(&metadata).unwrap();
        assert_eq!(named(&found, &[]).unwrap().len(), 1);
        assert_eq!(named(&found, &["a".to_owned()]).unwrap().len(), 1);
        assert!(named(&found, &["b".to_owned()]).is_err());
    }
}
