//! One program of NVRTC: from a source to an image.

use super::failure::{check, text};
use crate::ffi::nvrtc_types::{nvrtcProgram, nvrtcResult};
use crate::ffi::{MissingSymbol, NvrtcFunctions};
use anabranch_hal::{Detail, Failure, OutputKind, Status};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

/// A program, destroyed when dropped.
pub(super) struct Program<'a> {
    functions: &'a NvrtcFunctions,
    raw: nvrtcProgram,
}

/// What a function of NVRTC answers.
type Answer = Result<nvrtcResult, MissingSymbol>;

impl<'a> Program<'a> {
    /// A program that is not compiled yet.
    pub(super) fn new(functions: &'a NvrtcFunctions, source: &str, name: &str) -> Result<Self, Failure> {
        let (source, name) = (text("source", source)?, text("name of the source", name)?);
        let mut raw = ptr::null_mut();
        // SAFETY: source and name have a terminator, and are copied; there are no headers; the result is written to a
        // variable that outlives the call.
        check(functions, unsafe {
            functions.nvrtcCreateProgram(&mut raw, source.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null())
        })?;
        Ok(Self { functions, raw })
    }

    /// Asks for the mangled name of an expression. Before compiling.
    pub(super) fn add_name_expression(&self, expression: &str) -> Result<(), Failure> {
        let expression = text("name expression", expression)?;
        // SAFETY: the program is live; the expression has a terminator, and is copied.
        check(self.functions, unsafe { self.functions.nvrtcAddNameExpression(self.raw, expression.as_ptr()) })
    }

    /// Compiles. The detail of a failure is the log.
    pub(super) fn compile(&self, options: &[String]) -> Result<(), Failure> {
        let options: Vec<CString> = options.iter().map(|option| text("option", option)).collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).map_err(|_| Failure::new(Status::INVALID_VALUE))?;
        // SAFETY: the program is live; there are as many options as stated, each with a terminator.
        let compiled = unsafe { self.functions.nvrtcCompileProgram(self.raw, count, pointers.as_ptr()) };
        check(self.functions, compiled).map_err(|failure| match self.log() {
            log if log.is_empty() => failure,
            log => Failure::with_detail(failure.status, Detail::Log(log)),
        })
    }

    /// What the compiler said. Empty if it said nothing, or does not answer.
    pub(super) fn log(&self) -> String {
        let log = self.result(
            // SAFETY: the program is live; the result is written to a variable that outlives the call.
            |size| unsafe { self.functions.nvrtcGetProgramLogSize(self.raw, size) },
            // SAFETY: the program is live; there is room for as much as the function above says.
            |log| unsafe { self.functions.nvrtcGetProgramLog(self.raw, log) },
        );
        let log = log.unwrap_or_default();
        String::from_utf8_lossy(without_terminator(&log)).trim_end().to_owned()
    }

    /// The image, after compiling.
    pub(super) fn image(&self, kind: OutputKind) -> Result<Vec<u8>, Failure> {
        match kind {
            OutputKind::Ptx => {
                let ptx = self.result(
                    // SAFETY: the program is live; the result is written to a variable that outlives the call.
                    |size| unsafe { self.functions.nvrtcGetPTXSize(self.raw, size) },
                    // SAFETY: the program is live; there is room for as much as the function above says.
                    |ptx| unsafe { self.functions.nvrtcGetPTX(self.raw, ptx) },
                )?;
                Ok(without_terminator(&ptx).to_vec())
            }
            OutputKind::Binary => {
                let code = self.result(
                    // SAFETY: the program is live; the result is written to a variable that outlives the call.
                    |size| unsafe { self.functions.nvrtcGetCUBINSize(self.raw, size) },
                    // SAFETY: the program is live; there is room for as much as the function above says.
                    |code| unsafe { self.functions.nvrtcGetCUBIN(self.raw, code) },
                )?;
                if code.is_empty() {
                    let message = "no machine code was made: the options name no real architecture, as in \
                                   --gpu-architecture=sm_90";
                    return Err(Failure::argument(Status::INVALID_VALUE, message));
                }
                Ok(code)
            }
        }
    }

    /// The mangled name of an expression that was added. After compiling.
    pub(super) fn lowered_name(&self, expression: &str) -> Result<String, Failure> {
        let expression = text("name expression", expression)?;
        let mut name = ptr::null();
        // SAFETY: the program is live; the expression has a terminator; the result is written to a variable that outlives
        // the call.
        check(self.functions, unsafe { self.functions.nvrtcGetLoweredName(self.raw, expression.as_ptr(), &mut name) })?;
        if name.is_null() {
            return Err(Failure::new(Status::NOT_FOUND));
        }
        // SAFETY: the name has a terminator, and stays until the program is destroyed.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// A result of some length, by the function that says the length and the one that writes it.
    fn result(
        &self,
        length: impl FnOnce(*mut usize) -> Answer,
        write: impl FnOnce(*mut c_char) -> Answer,
    ) -> Result<Vec<u8>, Failure> {
        let mut size = 0;
        check(self.functions, length(&mut size))?;
        let mut bytes = vec![0; size];
        if size != 0 {
            check(self.functions, write(bytes.as_mut_ptr().cast()))?;
        }
        Ok(bytes)
    }
}

fn without_terminator(text: &[u8]) -> &[u8] {
    text.strip_suffix(&[0]).unwrap_or(text)
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is live, and this is the last use of it. A failure can be neither handled nor reported
        // here.
        let _ = unsafe { self.functions.nvrtcDestroyProgram(&mut self.raw) };
    }
}
