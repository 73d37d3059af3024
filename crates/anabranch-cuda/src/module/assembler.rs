//! Loading an image.

use crate::error::check;
use crate::ffi::CudaFunctions;
use crate::ffi::cuda_types::*;
use anabranch_hal::Result;
use std::ffi::c_uint;
use std::ptr;

use super::image::Image;
use super::logs::Logs;

/// Loads an image. The detail of a failure is the assembler's log, unless that is
/// empty.
///
/// # Safety
///
/// A context is current, and what the driver reads of the image is what NVIDIA's tools made.
pub(super) unsafe fn load(functions: &CudaFunctions, image: &Image) -> Result<CUmodule> {
    let mut logs = Logs::new();
    let (mut options, mut values) = logs.options();
    let mut module = ptr::null_mut();
    // SAFETY: there are as many options as values, each of the kind that belongs to it; the buffers are at least as long
    // as stated and outlive the call, and so does the variable for the result. The caller promises that NVIDIA's tools
    // made the image, which ends with zero bytes as a text must.
    let loaded = check(unsafe {
        functions.cuModuleLoadDataEx(
            &mut module,
            image.as_ptr(),
            options.len() as c_uint,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    });
    match loaded {
        Ok(()) => Ok(module),
        Err(failure) => Err(logs.explain(failure)),
    }
}
