//! Linking an image to the device runtime, and loading the result.

use crate::error::check;
use crate::ffi::CudaFunctions;
use crate::ffi::cuda_types::*;
use anabranch_hal::{Failure, Result, Status};
use std::ffi::{CString, c_uint};
use std::path::Path;
use std::ptr;

use super::image::Image;
use super::logs::Logs;

/// A link that has begun, ended when dropped.
struct Link<'a> {
    functions: &'a CudaFunctions,
    state: CUlinkState,
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        // SAFETY: the state was made by the driver, and this is the last use of it. A failure would leave it behind, no
        // more.
        let _ = unsafe { self.functions.cuLinkDestroy(self.state) };
    }
}

/// Links an image to the library and loads it. The detail of a failure is the linker's log, unless that is empty.
///
/// # Safety
///
/// A context is current, and what the driver reads of the image is what NVIDIA's tools made.
pub(super) unsafe fn load(functions: &CudaFunctions, image: &Image, library: &Path) -> Result<CUmodule> {
    let path = library.to_str().and_then(|path| CString::new(path).ok()).ok_or_else(|| {
        let message = format!("the driver cannot be given the name of the file {}", library.display());
        Failure::argument(Status::FILE_NOT_FOUND, message)
    })?;
    let mut logs = Logs::new();
    let linked = {
        // The driver uses options, values and buffers until the link has ended.
        let (mut options, mut values) = logs.options();
        let mut state = ptr::null_mut();
        // SAFETY: a context is current; there are as many options as values, each of the kind that belongs to it; they and
        // the buffers outlive the state, which is destroyed at the end of this block.
        check(unsafe {
            functions.cuLinkCreate(options.len() as c_uint, options.as_mut_ptr(), values.as_mut_ptr(), &mut state)
        })?;
        let link = Link { functions, state };
        // SAFETY: the caller promises that NVIDIA's tools made the image, and the name ends with a zero byte.
        unsafe { link.load(image, &path) }
    };
    linked.map_err(|failure| logs.explain(failure))
}

impl Link<'_> {
    /// # Safety
    ///
    /// As for the function [`load`].
    unsafe fn load(&self, image: &Image, library: &CString) -> Result<CUmodule> {
        let Self { functions, state } = *self;
        let (options, values, name) = (ptr::null_mut(), ptr::null_mut(), c"module");
        let data = image.as_ptr().cast_mut();
        // SAFETY: the state is live; the image is as long as stated, of the kind stated, and only read; there are no further
        // options.
        check(unsafe {
            functions.cuLinkAddData(state, image.kind(), data, image.size(), name.as_ptr(), 0, options, values)
        })?;
        // SAFETY: the state is live, and the name has a terminator.
        check(unsafe { functions.cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, library.as_ptr(), 0, options, values) })?;
        let (mut binary, mut size, mut module) = (ptr::null_mut(), 0, ptr::null_mut());
        // SAFETY: the state is live.
        check(unsafe { functions.cuLinkComplete(state, &mut binary, &mut size) })?;
        // SAFETY: the binary is the driver's own, and stays as long as the state.
        check(unsafe { functions.cuModuleLoadDataEx(&mut module, binary, 0, options, values) })?;
        Ok(module)
    }
}
