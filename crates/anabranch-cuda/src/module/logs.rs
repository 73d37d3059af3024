//! The logs of the driver's assembler and linker.

use crate::ffi::cuda_types::*;
use anabranch_hal::{Detail, Failure};
use std::ffi::c_void;
use std::ptr;

/// The size of a log in bytes. What does not fit is cut off.
const LOG_BYTES: usize = 16 * 1024;

/// Buffers that the driver writes to.
pub(super) struct Logs {
    errors: Vec<u8>,
    remarks: Vec<u8>,
}

impl Logs {
    pub(super) fn new() -> Self {
        Self { errors: vec![0; LOG_BYTES], remarks: vec![0; LOG_BYTES] }
    }

    /// Options that name the buffers, and their values.
    pub(super) fn options(&mut self) -> ([CUjit_option; 4], [*mut c_void; 4]) {
        let options = [
            CU_JIT_ERROR_LOG_BUFFER,
            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            CU_JIT_INFO_LOG_BUFFER,
            CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        ];
        // Sizes are passed as pointers. The last byte stays zero, whatever the driver writes.
        let size = ptr::without_provenance_mut(LOG_BYTES - 1);
        (options, [self.errors.as_mut_ptr().cast(), size, self.remarks.as_mut_ptr().cast(), size])
    }

    /// A failure with the log as its detail.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        with_log(failure, &self.errors, &self.remarks)
    }
}

/// A failure with the log of errors, or if that is empty with the one of remarks.
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
