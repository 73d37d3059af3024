//! The foreign functions of the CUDA driver and of NVRTC, found when the program runs.
//!
//! Nothing here links to NVIDIA's libraries: a program that contains this back end starts on a machine without them and
//! learns through [`LoadError`] that they are absent. [`load_cuda`] and [`load_nvrtc`] each return a table with one
//! entry per function. A method of the table calls the function and answers [`MissingSymbol`] where the loaded library
//! is too old to have it:
//!
//! ```ignore
//! let cuda = load_cuda()?;
//! // SAFETY: the driver may be initialised at any time, from any thread.
//! let status: CUresult = unsafe { cuda.cuInit(0) }?;
//! ```
//!
//! The field of the same name shows beforehand whether the function exists: `cuda.cuFuncGetParamInfo.is_some()`.
//!
//! The `_types` and `_functions` files are generated; `xtask/src/cuda_symbols.rs` lists their contents. The calling
//! convention is written as `"C"`. NVIDIA's headers say `__stdcall` on Windows, which is the same on every 64-bit
//! target.

#[allow(non_snake_case, reason = "generated, with the names that NVIDIA's documentation uses")]
mod cuda_functions;
mod cuda_loader;
#[allow(
    dead_code,
    non_camel_case_types,
    non_snake_case,
    unreachable_pub,
    unused_imports,
    reason = "generated: all of an enumeration comes with its type, as spelled in the headers"
)]
pub(crate) mod cuda_types;
mod device_runtime;
mod directories;
mod load_error;
mod loader;
mod missing_symbol;
#[allow(non_snake_case, reason = "generated, with the names that NVIDIA's documentation uses")]
mod nvrtc_functions;
mod nvrtc_loader;
#[allow(
    dead_code,
    non_camel_case_types,
    unreachable_pub,
    reason = "generated: all of an enumeration comes with its type, as spelled in the headers"
)]
pub(crate) mod nvrtc_types;
mod symbol_table;
mod zeroed;

#[cfg(test)]
mod cross_check;

pub(crate) use self::cuda_functions::CudaFunctions;
pub(crate) use self::cuda_loader::load_cuda;
pub(crate) use self::device_runtime::find_device_runtime;
#[cfg(test)]
pub(crate) use self::load_error::FailedAttempt;
pub(crate) use self::load_error::LoadError;
pub(crate) use self::loader::Loaded;
pub(crate) use self::missing_symbol::MissingSymbol;
pub(crate) use self::nvrtc_functions::NvrtcFunctions;
pub(crate) use self::nvrtc_loader::{NVRTC_VARIABLE, load_nvrtc};
pub(crate) use self::symbol_table::FunctionTable;
pub(crate) use self::zeroed::Zeroed;
