//! Finding NVRTC, NVIDIA's compiler at run time, and its functions.
//!
//! NVRTC is no part of the driver. It comes with the CUDA toolkit and with Python packages, in places where the operating
//! system does not search, so those are searched here.

use std::ffi::{OsString, c_int};
use std::path::{Path, PathBuf};

use super::directories;
use super::load_error::LoadError;
use super::loader::{self, Loaded};
use super::nvrtc_functions::NvrtcFunctions;
use super::nvrtc_types::NVRTC_SUCCESS;

/// The environment variable that names the library file to load, instead of searching for one.
pub(crate) const NVRTC_VARIABLE: &str = "ANABRANCH_NVRTC";

/// Loads NVRTC: the file that [`NVRTC_VARIABLE`] names, or the first of these that there is: where the operating system
/// searches, a CUDA toolkit, a Python environment that is active.
pub(crate) fn load_nvrtc() -> Result<Loaded<NvrtcFunctions>, LoadError> {
    load_with(&|name| std::env::var_os(name))
}

fn load_with(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Loaded<NvrtcFunctions>, LoadError> {
    // NVRTC's functions have kept their signatures, so its exports are all that is needed.
    let nvrtc = loader::load("NVRTC library", candidates(variable), |exports| exports)?;
    load_builtins(&nvrtc);
    Ok(nvrtc)
}

/// Loads the library of built-in declarations that lies beside an NVRTC in a directory of its own.
///
/// NVRTC opens it by its bare name when it first compiles, and has no record of where it was loaded from, so that every
/// compilation would fail with `NVRTC_ERROR_BUILTIN_OPERATION_FAILURE` where the operating system does not search that
/// directory. If there is none beside it, NVRTC is left to look for it, and reports it if need be.
fn load_builtins(nvrtc: &Loaded<NvrtcFunctions>) {
    let (mut major, mut minor): (c_int, c_int) = (0, 0);
    // SAFETY: both results are written to variables that outlive the call.
    if unsafe { nvrtc.nvrtcVersion(&mut major, &mut minor) } != Ok(NVRTC_SUCCESS) {
        return;
    }
    let name = if cfg!(windows) {
        format!("nvrtc-builtins64_{major}{minor}.dll")
    } else {
        format!("libnvrtc-builtins.so.{major}.{minor}")
    };
    if nvrtc.file().parent().is_none_or(|directory| directory.as_os_str().is_empty()) {
        // A bare name: the operating system searched for this one and will for the other.
        return;
    }
    // The file may be a link to one in another directory, and then either directory may have the library.
    let linked = std::fs::canonicalize(nvrtc.file()).ok();
    for directory in [Some(nvrtc.file()), linked.as_deref()].into_iter().flatten().filter_map(Path::parent) {
        if loader::load_for_another(&directory.join(&name)) {
            return;
        }
    }
}

/// Where NVRTC may be, best first, in an environment with these variables.
fn candidates(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(file) = variable(NVRTC_VARIABLE).filter(|file| !file.is_empty()) {
        // Alone: a user who names a file wants that file, and an error if it does not load.
        return vec![PathBuf::from(file)];
    }
    let names = file_names();
    let mut candidates: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    for directory in directories::all(variable, "cuda_nvrtc") {
        for name in names {
            let file = directory.join(name);
            // Only what exists: the error is read by a person, and would otherwise be mostly about files that nobody
            // expected. A variable can also name a directory that was listed already.
            if file.exists() && !candidates.contains(&file) {
                candidates.push(file);
            }
        }
    }
    candidates
}

/// The names of the library, newest first. Since 11.2 a library serves every release with its number.
fn file_names() -> &'static [&'static str] {
    if cfg!(target_os = "linux") {
        &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"]
    } else if cfg!(windows) {
        &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"]
    } else {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, OsString, c_char};
    use std::path::PathBuf;
    use std::ptr;

    use super::{NVRTC_VARIABLE, candidates, file_names, load_nvrtc, load_with};
    use crate::ffi::nvrtc_types::NVRTC_SUCCESS;

    #[test]
    fn a_named_file_that_does_not_exist_is_an_error_about_that_file_alone() {
        let named = |name: &str| (name == NVRTC_VARIABLE).then(|| OsString::from("/nowhere/libnvrtc.so"));
        let error = load_with(&named).err().expect("there is no such file");
        assert_eq!(error.library, "NVRTC library");
        assert_eq!(
            error.tried.iter().map(|attempt| &attempt.file).collect::<Vec<_>>(),
            [&PathBuf::from("/nowhere/libnvrtc.so")]
        );
        assert!(error.to_string().contains("/nowhere/libnvrtc.so"));
    }

    #[test]
    fn an_empty_variable_names_nothing() {
        let empty = |_: &str| Some(OsString::new());
        assert_eq!(candidates(&empty), candidates(&|_| None));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn python_environments_are_searched_after_the_operating_system() {
        let environment = std::env::temp_dir().join(format!("anabranch-nvrtc-{}", std::process::id()));
        let packages = environment.join("lib/python3.12/site-packages/nvidia");
        let files = [packages.join("cu13/lib/libnvrtc.so.13"), packages.join("cuda_nvrtc/lib/libnvrtc.so.12")];
        for file in &files {
            std::fs::create_dir_all(file.parent().expect("the file is in a directory")).expect("a temporary directory");
            std::fs::write(file, "").expect("a temporary file");
        }
        let found = candidates(&|name| (name == "VIRTUAL_ENV").then(|| environment.clone().into_os_string()));
        std::fs::remove_dir_all(&environment).expect("the temporary directory is ours");
        assert!(found.starts_with(&file_names().iter().map(PathBuf::from).collect::<Vec<_>>()));
        assert!(found.ends_with(&files), "{found:?}");
    }

    /// Needs an NVRTC that [`load_nvrtc`] finds. What it shows beyond loading is that the library finds the one of
    /// built-in declarations that it needs, which lies beside it.
    #[test]
    fn a_kernel_compiles() {
        let nvrtc = match load_nvrtc() {
            Ok(nvrtc) => nvrtc,
            Err(error) => {
                eprintln!("not tested with NVRTC: {error}");
                return;
            }
        };
        let source = c"extern \"C\" __global__ void fill(int *to, int value) { to[threadIdx.x] = value; }";
        let options = [c"--gpu-architecture=compute_80".as_ptr()];
        let mut program = ptr::null_mut();
        let mut size = 0;
        // SAFETY: every string ends with a zero byte, every result is written to a variable of the type that the
        // function asks for, and the buffer is as long as the function before said.
        let text = unsafe {
            let created =
                nvrtc.nvrtcCreateProgram(&mut program, source.as_ptr(), ptr::null(), 0, ptr::null(), ptr::null());
            assert_eq!(created, Ok(NVRTC_SUCCESS));
            assert_eq!(nvrtc.nvrtcCompileProgram(program, 1, options.as_ptr()), Ok(NVRTC_SUCCESS));
            assert_eq!(nvrtc.nvrtcGetPTXSize(program, &mut size), Ok(NVRTC_SUCCESS));
            let mut text = vec![0_u8; size];
            assert_eq!(nvrtc.nvrtcGetPTX(program, text.as_mut_ptr().cast::<c_char>()), Ok(NVRTC_SUCCESS));
            assert_eq!(nvrtc.nvrtcDestroyProgram(&mut program), Ok(NVRTC_SUCCESS));
            text
        };
        let text = CStr::from_bytes_with_nul(&text).expect("NVRTC ends its text with a zero byte");
        assert!(text.to_string_lossy().contains(".entry fill"));
    }
}
