//! Finding the CUDA driver and its functions.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::path::PathBuf;
use std::ptr::{self, NonNull};

use super::cuda_functions::CudaFunctions;
use super::cuda_types::{
    CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_SUCCESS, CUDA_SUCCESS, CUresult,
    PFN_cuGetProcAddress_v11030, PFN_cuGetProcAddress_v12000, cuuint64_t,
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
    query: Query,
}

impl Driver {
    fn new(exports: Exports) -> Self {
        let query = exports.find(c"cuGetProcAddress_v2");
        let first_query = exports.find(c"cuGetProcAddress");
        let version = exports.find(c"cuDriverGetVersion");
        // SAFETY: the export of this name has had this signature since CUDA 2.2, and the library stays loaded. An optional
        // pointer and an optional function have the same size, and none is null in both.
        let version = unsafe { transmute::<Option<NonNull<c_void>>, VersionQuery>(version) };
        let query = Query {
            // SAFETY: every export of this name has this signature; the sizes are the same, as for the version.
            newest: unsafe { transmute::<Option<NonNull<c_void>>, PFN_cuGetProcAddress_v12000>(query) },
            // SAFETY: the name without a suffix is that of the first signature; the sizes are the same, as for the version.
            first: unsafe { transmute::<Option<NonNull<c_void>>, PFN_cuGetProcAddress_v11030>(first_query) },
            version: version.and_then(version_of),
        };
        Self { exports, query }
    }
}

type VersionQuery = Option<unsafe extern "C" fn(*mut c_int) -> CUresult>;

/// The version of the driver.
fn version_of(query: unsafe extern "C" fn(*mut c_int) -> CUresult) -> Option<c_int> {
    let mut version = 0;
    // SAFETY: the result is written to a variable that outlives the call, which may be made before the driver is
    // initialised.
    let status = unsafe { query(&mut version) };
    (status == CUDA_SUCCESS && version > 0).then_some(version)
}

/// The driver's own way of looking functions up by the version of their signature.
struct Query {
    newest: PFN_cuGetProcAddress_v12000,
    /// The same as it was before CUDA 12.0.
    first: PFN_cuGetProcAddress_v11030,
    /// The version of the driver. Without it the driver is not asked.
    version: Option<c_int>,
}

impl Query {
    /// Whether the driver is old enough not to have the function. It must not be asked for a version newer than its own,
    /// which it cannot know anything of.
    fn is_newer(&self, symbol: &Symbol) -> bool {
        self.version.is_some_and(|version| i64::from(symbol.since) > i64::from(version))
    }

    fn ask(&self, symbol: &Symbol) -> Option<NonNull<c_void>> {
        if self.version.is_none() || self.is_newer(symbol) {
            return None;
        }
        let version = c_int::try_from(symbol.since).ok()?;
        // A program may also contain code built to give each thread its own default stream; what the null stream means
        // to us must not depend on it.
        let flags = cuuint64_t::from(CU_GET_PROC_ADDRESS_LEGACY_STREAM);
        let name = symbol.entry_point.as_ptr();
        let mut address = ptr::null_mut();
        let status = match (self.newest, self.first) {
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
            // SAFETY: the name ends with a zero byte, the result is written to a variable that outlives the call, and the
            // function may be called before the driver is initialised.
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
        if self.query.is_newer(symbol) {
            return None;
        }
        self.query.ask(symbol).or_else(|| self.exports.address(symbol))
    }
}

#[cfg(test)]
mod tests {
    use super::{Query, Symbol, load_cuda, version_of};
    use crate::ffi::FunctionTable;
    use crate::ffi::cuda_types::{CUDA_SUCCESS, CUdriverProcAddressQueryResult, CUresult, cuuint64_t};
    use std::ffi::{c_char, c_int, c_void};
    use std::sync::atomic::{AtomicI32, Ordering};

    /// The newest version that a driver was asked for.
    static ASKED: AtomicI32 = AtomicI32::new(0);

    unsafe extern "C" fn query(
        _: *const c_char,
        address: *mut *mut c_void,
        version: c_int,
        _: cuuint64_t,
        _: *mut CUdriverProcAddressQueryResult,
    ) -> CUresult {
        ASKED.fetch_max(version, Ordering::Relaxed);
        // SAFETY: the caller's variable outlives the call.
        unsafe { *address = query as *mut c_void };
        CUDA_SUCCESS
    }

    unsafe extern "C" fn of_12_2(version: *mut c_int) -> CUresult {
        // SAFETY: the caller's variable outlives the call.
        unsafe { *version = 12020 };
        CUDA_SUCCESS
    }

    #[test]
    fn a_driver_is_asked_for_no_version_newer_than_its_own() {
        let symbol = |since| Symbol { entry_point: c"cuAnything", exported: c"cuAnything_v2", since };
        let driver = Query { newest: Some(query), first: None, version: version_of(of_12_2) };
        assert!(driver.ask(&symbol(13000)).is_none() && driver.ask(&symbol(12030)).is_none());
        assert!(driver.is_newer(&symbol(12030)) && !driver.is_newer(&symbol(12020)));
        assert!(driver.ask(&symbol(12020)).is_some() && driver.ask(&symbol(2000)).is_some());
        assert_eq!(ASKED.load(Ordering::Relaxed), 12020);
        let unknown = Query { version: None, ..driver };
        assert!(unknown.ask(&symbol(2000)).is_none() && !unknown.is_newer(&symbol(13000)));
    }

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
