//! What NVRTC answers, as failures of the contract.

use crate::error::missing_symbol;
use crate::ffi::nvrtc_types::*;
use crate::ffi::{MissingSymbol, NvrtcFunctions};
use anabranch_hal::{Detail, Failure, Status};
use std::ffi::{CStr, CString};

/// The result of a call into NVRTC. What it says of the code is the detail of a failure.
pub(super) fn check(functions: &NvrtcFunctions, answer: Result<nvrtcResult, MissingSymbol>) -> Result<(), Failure> {
    match answer {
        Ok(NVRTC_SUCCESS) => Ok(()),
        Ok(code) => Err(Failure::with_detail(status(code), Detail::Log(description(functions, code)))),
        Err(missing) => Err(missing_symbol(missing)),
    }
}

/// The driver's code for a code of NVRTC, which has its own.
fn status(code: nvrtcResult) -> Status {
    match code {
        NVRTC_ERROR_COMPILATION | NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID => Status::INVALID_SOURCE,
        NVRTC_ERROR_OUT_OF_MEMORY | NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED => Status::OUT_OF_MEMORY,
        NVRTC_ERROR_INVALID_INPUT | NVRTC_ERROR_INVALID_OPTION => Status::INVALID_VALUE,
        _ => Status::UNKNOWN,
    }
}

fn description(functions: &NvrtcFunctions, code: nvrtcResult) -> String {
    // SAFETY: the function takes any code.
    match unsafe { functions.nvrtcGetErrorString(code) } {
        // SAFETY: the text is a constant of the library, which stays loaded, and has a terminator.
        Ok(text) if !text.is_null() => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        _ => format!("NVRTC returned code {code}"),
    }
}

/// A text for NVRTC, which takes no lengths.
pub(super) fn text(what: &str, text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|error| {
        let message = format!("the {what} has a zero byte, at position {}", error.nul_position());
        Failure::argument(Status::INVALID_VALUE, message)
    })
}

#[cfg(test)]
mod tests {
    use super::{status, text};
    use anabranch_hal::{Detail, Status};

    #[test]
    fn what_the_source_is_to_blame_for_is_told_from_what_it_is_not() {
        assert_eq!(status(6), Status::INVALID_SOURCE);
        assert_eq!(status(5), Status::INVALID_VALUE);
        assert_eq!(status(1), Status::OUT_OF_MEMORY);
        assert_eq!([7, 11, 4242].map(status), [Status::UNKNOWN; 3]);
    }

    #[test]
    fn a_zero_byte_is_an_error_that_says_where() {
        let failure = text("source", "int\0main").unwrap_err();
        assert_eq!(failure.status, Status::INVALID_VALUE);
        let message = "the source has a zero byte, at position 3".to_owned();
        assert_eq!(failure.detail.as_deref(), Some(&Detail::Argument(message)));
    }
}
