//! Where CUDA toolkits and Python packages keep libraries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The directories, best first, in an environment with these variables: toolkits that a variable names, toolkits where
/// the installer puts them, Python environments that are active. `package` is the part of NVIDIA's Python packages for
/// CUDA 12 that the library is in; from CUDA 13 on there is one directory for all.
pub(super) fn all(variable: &dyn Fn(&str) -> Option<OsString>, package: &str) -> Vec<PathBuf> {
    let directory = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let toolkits = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(directory).chain(installed_toolkits());
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(directory);
    toolkits
        .flat_map(|toolkit| in_toolkit(&toolkit))
        .chain(environments.flat_map(|environment| in_environment(&environment, package)))
        .collect()
}

/// The one without a version first, which is a link to the one that is in use, and then the newest.
fn installed_toolkits() -> Vec<PathBuf> {
    if !cfg!(target_os = "linux") {
        return Vec::new();
    }
    let mut toolkits = entries(Path::new("/usr/local"), "cuda-");
    toolkits.insert(0, PathBuf::from("/usr/local/cuda"));
    toolkits
}

fn in_toolkit(toolkit: &Path) -> Vec<PathBuf> {
    let below: &[&str] = if cfg!(windows) {
        &["bin", "bin/x64", "lib/x64"]
    } else if cfg!(target_arch = "aarch64") {
        &["lib64", "lib", "targets/sbsa-linux/lib"]
    } else {
        &["lib64", "lib", "targets/x86_64-linux/lib"]
    };
    below.iter().map(|name| toolkit.join(name)).collect()
}

/// The directories of a Python environment that NVIDIA's packages put libraries into.
fn in_environment(environment: &Path, package: &str) -> Vec<PathBuf> {
    if cfg!(windows) {
        let packages = environment.join("Lib/site-packages/nvidia");
        let below = ["cu13/bin/x86_64", "cu13/bin", "cu13/lib/x64"].map(|name| packages.join(name));
        let own = ["bin", "lib/x64"].map(|name| packages.join(package).join(name));
        let conda = ["Library/bin", "Library/lib"].map(|name| environment.join(name));
        return conda.into_iter().chain(below).chain(own).collect();
    }
    let library = environment.join("lib");
    let pythons = entries(&library, "python").into_iter().map(|python| python.join("site-packages/nvidia"));
    let in_packages: Vec<PathBuf> =
        pythons.flat_map(|python| [python.join("cu13/lib"), python.join(package).join("lib")]).collect();
    std::iter::once(library).chain(in_packages).collect()
}

/// What is in a directory under names that begin so, in descending order. Where there is more than one of a kind, the
/// order is only to be the same every time.
fn entries(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let found = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = found
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    paths.sort_unstable_by(|first, second| second.cmp(first));
    paths
}
