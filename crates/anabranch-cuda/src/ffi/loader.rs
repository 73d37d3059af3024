//! Loading a library and filling its table, the same for every library.

use std::ffi::{CStr, c_void};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use libloading::Library;

use super::load_error::{FailedAttempt, LoadError};
use super::symbol_table::{FunctionTable, Symbol, SymbolSource};

/// The functions of a library that was loaded.
pub(crate) struct Loaded<Functions> {
    functions: Functions,
    file: PathBuf,
}

impl<Functions> Loaded<Functions> {
    /// The file that was loaded, as it was asked for.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
}

impl<Functions> Deref for Loaded<Functions> {
    type Target = Functions;

    #[inline(always)]
    fn deref(&self) -> &Functions {
        &self.functions
    }
}

/// Loads the first candidate that the operating system accepts and looks its functions up in what `source` makes of the
/// library's exports.
///
/// The candidates must be files, or names of files, of the library that `Functions` was declared for.
pub(super) fn load<Functions: FunctionTable, Source: SymbolSource>(
    name: &'static str,
    candidates: impl IntoIterator<Item = PathBuf>,
    source: impl FnOnce(Exports) -> Source,
) -> Result<Loaded<Functions>, LoadError> {
    let mut tried = Vec::new();
    for file in candidates {
        if is_no_file(&file) {
            tried.push(FailedAttempt { file, reason: "it is not a regular file".to_owned() });
            continue;
        }
        // SAFETY: loading runs the initialisers of the library. The candidates are names of NVIDIA's libraries, whose
        // initialisers ask nothing of the program, or a file that the user named to be such a library.
        match unsafe { Library::new(&file) } {
            Ok(library) => {
                // Never unloaded: pointers to its functions can be copied out of the table, and the driver keeps threads
                // that would be left without their code.
                let exports = Exports { library: Box::leak(Box::new(library)) };
                return Ok(Loaded { functions: Functions::resolve(&source(exports)), file });
            }
            Err(error) => tried.push(FailedAttempt { file, reason: error.to_string() }),
        }
    }
    Err(LoadError { library: name, tried })
}

/// Whether a path leads to something that is no file, such as a pipe, which the operating system would wait for. It searches
/// for a bare name elsewhere.
fn is_no_file(path: &Path) -> bool {
    path.components().nth(1).is_some() && path.metadata().is_ok_and(|metadata| !metadata.is_file())
}

/// Loads a library that another one is going to ask for by its bare name, so that the operating system finds it loaded
/// already. False if it could not be loaded.
pub(super) fn load_for_another(file: &Path) -> bool {
    // SAFETY: loading runs the initialisers of the library. The file lies beside one of NVIDIA's libraries, under the
    // name of a library that belongs to it and that it would load itself if the operating system searched there.
    let library = unsafe { Library::new(file) };
    // Dropping would unload it again.
    library.map(std::mem::forget).is_ok()
}

/// What a loaded library exports.
#[derive(Clone, Copy)]
pub(super) struct Exports {
    library: &'static Library,
}

impl Exports {
    /// The address of an export, or none if there is no export of that name.
    pub(super) fn find(self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the export is not used here as anything but an address, and any symbol has one.
        let symbol = unsafe { self.library.get::<*mut c_void>(name.to_bytes_with_nul()) };
        symbol.ok().and_then(|address| NonNull::new(*address))
    }
}

// SAFETY: NVIDIA keeps the signature of an exported name: a changed signature gets a new name. The symbols of a table are
// looked up in the library that the table is of, and that library stays loaded.
unsafe impl SymbolSource for Exports {
    fn address(&self, symbol: &Symbol) -> Option<NonNull<c_void>> {
        self.find(symbol.exported)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::load;
    use crate::ffi::{CudaFunctions, Loaded};

    #[test]
    fn what_is_no_file_is_not_opened() {
        let directory = std::env::temp_dir();
        let result: Result<Loaded<CudaFunctions>, _> = load("CUDA driver", [directory.clone()], |exports| exports);
        let error = result.err().expect("a directory is no library");
        assert!(error.to_string().contains("it is not a regular file"), "{error}");
        assert_eq!(error.tried[0].file, directory);
    }

    #[test]
    fn an_absent_library_is_an_error_that_names_every_candidate() {
        let candidates = ["libanabranch-absent.so.1", "libanabranch-absent.so"].map(PathBuf::from);
        let result: Result<Loaded<CudaFunctions>, _> = load("CUDA driver", candidates.clone(), |exports| exports);
        let error = result.err().expect("no such library exists");
        assert_eq!(error.tried.iter().map(|attempt| attempt.file.clone()).collect::<Vec<_>>(), candidates);
        assert!(error.tried.iter().all(|attempt| !attempt.reason.is_empty()));
        let message = error.to_string();
        assert!(message.starts_with("could not load the CUDA driver; tried libanabranch-absent.so.1 ("), "{message}");
    }

    #[test]
    fn a_library_that_is_not_one_is_an_error() {
        let candidates = [PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")];
        let result: Result<Loaded<CudaFunctions>, _> = load("CUDA driver", candidates, |exports| exports);
        assert_eq!(result.err().map(|error| error.tried.len()), Some(1));
    }
}
