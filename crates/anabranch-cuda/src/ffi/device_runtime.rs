//! Finding the device runtime: a library of functions for kernels, which is linked to them when they are loaded.
//!
//! It is no part of the driver. It comes with the CUDA toolkit and with NVIDIA's Python package of the CUDA runtime.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::directories;
use super::nvrtc_loader::NVRTC_VARIABLE;

/// The environment variable that names the file, instead of searching for one.
pub(crate) const DEVICE_RUNTIME_VARIABLE: &str = "ANABRANCH_CUDADEVRT";

/// The device runtime, or one sentence that says what is missing and what would put it right.
pub(crate) fn find_device_runtime() -> Result<PathBuf, String> {
    find_with(&|name| std::env::var_os(name))
}

fn find_with(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, String> {
    let named = |name: &str| variable(name).filter(|file| !file.is_empty()).map(PathBuf::from);
    if let Some(file) = named(DEVICE_RUNTIME_VARIABLE) {
        // Alone: a user who names a file wants that file.
        return if file.is_file() {
            Ok(file)
        } else {
            Err(format!(
                "there is no file {}, which {DEVICE_RUNTIME_VARIABLE} names as the device runtime",
                file.display()
            ))
        };
    }
    let beside_nvrtc = named(NVRTC_VARIABLE).map(|file| beside(&file)).unwrap_or_default();
    let directories = directories::all(variable, "cuda_runtime");
    let mut files = directories.into_iter().chain(beside_nvrtc).map(|directory| directory.join(FILE_NAME));
    files.find(|file| file.is_file()).ok_or_else(|| {
        format!(
            "the device runtime {FILE_NAME} was not found; install the CUDA toolkit, or run `pip install \
             nvidia-cuda-runtime`, and set {DEVICE_RUNTIME_VARIABLE} to the file"
        )
    })
}

const FILE_NAME: &str = if cfg!(windows) { "cudadevrt.lib" } else { "libcudadevrt.a" };

/// Where the device runtime is that came with an NVRTC: in the same directory, or in that of the package beside it.
fn beside(nvrtc: &Path) -> Vec<PathBuf> {
    let Some(directory) = nvrtc.parent() else { return Vec::new() };
    let packages = directory.parent().and_then(Path::parent);
    let package = packages.map(|packages| packages.join("cuda_runtime/lib"));
    std::iter::once(directory.to_owned()).chain(package).collect()
}

#[cfg(test)]
mod tests {
    use super::{DEVICE_RUNTIME_VARIABLE, FILE_NAME, NVRTC_VARIABLE, find_with};
    use std::ffi::OsString;
    use std::path::PathBuf;

    #[test]
    fn a_named_file_that_does_not_exist_is_an_error_about_that_file_alone() {
        let named = |name: &str| (name == DEVICE_RUNTIME_VARIABLE).then(|| OsString::from("/nowhere/libcudadevrt.a"));
        let message = find_with(&named).expect_err("there is no such file");
        assert!(message.contains("/nowhere/libcudadevrt.a") && message.contains(DEVICE_RUNTIME_VARIABLE), "{message}");
    }

    #[test]
    fn toolkits_and_packages_are_searched() {
        let root = std::env::temp_dir().join(format!("anabranch-devrt-{}", std::process::id()));
        let toolkit = if cfg!(windows) { "toolkit/lib/x64" } else { "toolkit/lib64" };
        let files = [toolkit, "nvidia/cuda_runtime/lib"].map(|directory| root.join(directory).join(FILE_NAME));
        for file in &files {
            std::fs::create_dir_all(file.parent().expect("the file is in a directory")).expect("a temporary directory");
            std::fs::write(file, "").expect("a temporary file");
        }
        let toolkit = |name: &str| (name == "CUDA_HOME").then(|| root.join("toolkit").into_os_string());
        let nvrtc = root.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        let package = |name: &str| (name == NVRTC_VARIABLE).then(|| nvrtc.clone().into_os_string());
        let found: [Option<PathBuf>; 2] = [find_with(&toolkit).ok(), find_with(&package).ok()];
        std::fs::remove_dir_all(&root).expect("the temporary directory is ours");
        assert_eq!(found[0].as_ref(), Some(&files[0]));
        // A toolkit that is installed on this machine comes first.
        assert!(found[1].as_ref().is_some_and(|file| *file == files[1] || file.starts_with("/usr/local")), "{found:?}");
    }
}
