//! Finding the CUDA driver and its functions.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::path::PathBuf;
use std::ptr::{self, NonNull};

use super::cuda_functions::CudaFunctions;
use super::cuda_types::{
    CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_SUCCESS, CUDA_SUCCESS, PFN_cuGetProcAddress_v11030,
    PFN_cuGetProcAddress_v12000, cuuint64_t,
};
use super::load_error::LoadError;
use super::loader::{self, Exports, Loaded};
use super::symbol_table::{Symbol, SymbolSource};

/// Loads the CUDA driver of this machine. The driver is not initialised; that is `cuInit`'s work.
pub(crate) fn load_cuda() -> Result<Loaded<CudaFunctions>, LoadError> {
    loader::load("CUDA driver", file_names().iter().map(PathBuf::from), Driver::new)
}

/// The names under which the driver's installer puts its library where the operating system searches. There are none
/// where NVIDIA makes no driver.
fn file_names() -> &'static [&'static str] {
    if cfg!(target_os = "linux") {
        // The second name belongs to development packages, but some containers have nothing else.
        &["libcuda.so.1", "libcuda.so"]
    } else if cfg!(windows) {
        &["nvcuda.dll"]
    } else {
        &[]
    }
}

/// The driver's functions: asked of the driver, and failing that, of its exports.
struct Driver {
    exports: Exports,
    /// The driver's own way of looking functions up by the version of their signature.
    query: PFN_cuGetProcAddress_v12000,
    /// The same as it was before CUDA 12.0.
    first_query: PFN_cuGetProcAddress_v11030,
}

impl Driver {
    fn new(exports: Exports) -> Self {
        let query = exports.find(c"cuGetProcAddress_v2");
        let first_query = exports.find(c"cuGetProcAddress");
        Self {
            exports,
            // SAFETY: the export of this name has this signature in every driver that has it, and the library stays
            // loaded. An optional pointer and an optional function have the same size, and none is null in both.
            query: unsafe { transmute::<Option<NonNull<c_void>>, PFN_cuGetProcAddress_v12000>(query) },
            // SAFETY: as above; the name without a suffix is that of the first signature.
            first_query: unsafe { transmute::<Option<NonNull<c_void>>, PFN_cuGetProcAddress_v11030>(first_query) },
        }
    }

    fn ask(&self, symbol: &Symbol) -> Option<NonNull<c_void>> {
        let version = c_int::try_from(symbol.since).ok()?;
        // A program may also contain code built to give each thread its own default stream; what the null stream means
        // to us must not depend on it.
        let flags = cuuint64_t::from(CU_GET_PROC_ADDRESS_LEGACY_STREAM);
        let name = symbol.entry_point.as_ptr();
        let mut address = ptr::null_mut();
        let status = match (self.query, self.first_query) {
            (Some(query), _) => {
                let mut found = CU_GET_PROC_ADDRESS_SUCCESS;
                // SAFETY: the name ends with a zero byte, both results are written to variables that outlive the call,
                // and the function may be called before the driver is initialised.
                let status = unsafe { query(name, &mut address, version, flags, &mut found) };
                if found != CU_GET_PROC_ADDRESS_SUCCESS {
                    return None;
                }
                status
            }
            // SAFETY: as above, with one result.
            (None, Some(query)) => unsafe { query(name, &mut address, version, flags) },
            (None, None) => return None,
        };
        if status == CUDA_SUCCESS { NonNull::new(address) } else { None }
    }
}

// SAFETY: asked for a version, the driver answers with the newest signature introduced at or before it, and each symbol
// names the version that introduced its signature. What it exports under a versioned name has that signature too. The
// library stays loaded.
unsafe impl SymbolSource for Driver {
    fn address(&self, symbol: &Symbol) -> Option<NonNull<c_void>> {
        self.ask(symbol).or_else(|| self.exports.address(symbol))
    }
}

#[cfg(test)]
mod tests {
    use super::load_cuda;
    use crate::ffi::FunctionTable;
    use crate::ffi::cuda_types::CUDA_SUCCESS;

    #[test]
    fn loading_finds_every_function_that_the_driver_is_new_enough_for() {
        let cuda = match load_cuda() {
            Ok(cuda) => cuda,
            Err(error) => {
                assert_eq!(error.library, "CUDA driver");
                eprintln!("not tested against a driver: {error}");
                return;
            }
        };
        let mut version = 0;
        // SAFETY: the result is written to a variable, and the function may be called before initialisation.
        let status = unsafe { cuda.cuDriverGetVersion(&mut version) };
        assert_eq!(status, Ok(CUDA_SUCCESS));
        let absent: Vec<_> =
            cuda.missing().into_iter().filter(|symbol| i64::from(symbol.since) <= i64::from(version)).collect();
        assert!(absent.is_empty(), "a driver for CUDA {version} lacks {absent:?}");
    }
}
