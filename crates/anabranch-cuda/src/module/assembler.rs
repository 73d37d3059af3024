//! Loading an image, and what the driver's assembler has to say about it.

use crate::error::check;
use crate::ffi::CudaFunctions;
use crate::ffi::cuda_types::*;
use anabranch_hal::{Detail, Failure, Result};
use std::ffi::{c_uint, c_void};
use std::ptr;

use super::image::Image;

/// Room for what the assembler says, in bytes. It stops where the room ends.
const LOG_BYTES: usize = 16 * 1024;

/// Loads an image. On failure the detail is what the assembler says, where it says something.
///
/// # Safety
///
/// A context is current, and what the driver reads of the image is what NVIDIA's tools made.
pub(super) unsafe fn load(functions: &CudaFunctions, image: &Image) -> Result<CUmodule> {
    let (mut errors, mut remarks) = (vec![0_u8; LOG_BYTES], vec![0_u8; LOG_BYTES]);
    let mut options = [
        CU_JIT_ERROR_LOG_BUFFER,
        CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        CU_JIT_INFO_LOG_BUFFER,
        CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
    ];
    // Sizes travel in the guise of pointers. The terminator's byte is kept from the driver.
    let size = ptr::without_provenance_mut(LOG_BYTES - 1);
    let mut values: [*mut c_void; 4] = [errors.as_mut_ptr().cast(), size, remarks.as_mut_ptr().cast(), size];
    let mut module = ptr::null_mut();
    // SAFETY: there are as many options as values, each of the kind that belongs to it; the buffers are at least as long
    // as stated and outlive the call, and so does the variable for the result. The caller vouches for the image, which
    // ends with zero bytes as a text must.
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
        Err(failure) => Err(with_log(failure, &errors, &remarks)),
    }
}

/// A failure with what the assembler said of it: its errors, or failing that its remarks.
fn with_log(failure: Failure, errors: &[u8], remarks: &[u8]) -> Failure {
    let logs = [errors, remarks].map(text);
    match logs.into_iter().find(|log| !log.is_empty()) {
        Some(log) if failure.detail.is_none() => Failure::with_detail(failure.status, Detail::Log(log)),
        _ => failure,
    }
}

fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::with_log;
    use anabranch_hal::{Detail, Failure, Status};

    #[test]
    fn errors_come_before_remarks_and_silence_is_no_detail() {
        let failure = Failure::new(Status::INVALID_PTX);
        let detail = |errors: &[u8], remarks: &[u8]| with_log(failure.clone(), errors, remarks).detail;
        let log = |text: &str| Some(Box::new(Detail::Log(text.to_owned())));
        assert_eq!(detail(b"line 3: no\n\0\0\0", b"remark\0"), log("line 3: no"));
        assert_eq!(detail(b"\0", b"remark\0"), log("remark"));
        assert_eq!(detail(b"\0", b"\0"), None);
    }
}
