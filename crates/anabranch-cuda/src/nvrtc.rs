//! NVRTC, NVIDIA's compiler of CUDA C++, as the contract's compiler.

mod build;
mod failure;
mod program;

use crate::absence;
use crate::ffi::nvrtc_types::NVRTC_SUCCESS;
use crate::ffi::{Loaded, NVRTC_VARIABLE, NvrtcFunctions, load_nvrtc};
use anabranch_hal::{Absence, CompileOutput, CompileRequest, Compiler, Failure, FoundCompiler};
use failure::check;
use program::Program;
use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;

/// Finds NVRTC: the file that the variable `ANABRANCH_NVRTC` names, or else the first that is found where the operating
/// system searches, in a CUDA toolkit, or in the active Python environment.
///
/// # Errors
///
/// Which files were tried, and what would put it right.
pub fn load_compiler() -> FoundCompiler {
    let functions = load_nvrtc().map_err(|error| absence::no_compiler(&error, NVRTC_VARIABLE))?;
    Ok(Arc::new(Nvrtc::new(functions)?))
}

struct Nvrtc {
    functions: Loaded<NvrtcFunctions>,
    version: (u32, u32),
    build: Option<String>,
}

impl Nvrtc {
    fn new(functions: Loaded<NvrtcFunctions>) -> Result<Self, Absence> {
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: the results are written to variables that outlive the call.
        let answer = unsafe { functions.nvrtcVersion(&mut major, &mut minor) };
        match (answer, u32::try_from(major), u32::try_from(minor)) {
            (Ok(NVRTC_SUCCESS), Ok(major), Ok(minor)) => {
                let build = build::of(&functions);
                Ok(Self { functions, version: (major, minor), build })
            }
            _ => Err(absence::no_compiler_version(functions.file())),
        }
    }
}

// SAFETY: NVRTC makes the images.
unsafe impl Compiler for Nvrtc {
    fn identity(&self) -> String {
        let (major, minor) = self.version;
        format!("NVRTC {major}.{minor}")
    }

    fn build(&self) -> Option<String> {
        self.build.clone()
    }

    fn version(&self) -> (u32, u32) {
        self.version
    }

    fn architectures(&self) -> Result<Vec<u32>, Failure> {
        let mut count: c_int = 0;
        // SAFETY: the result is written to a variable that outlives the call.
        check(&self.functions, unsafe { self.functions.nvrtcGetNumSupportedArchs(&mut count) })?;
        let mut architectures: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: there is room for as many numbers as the function before said.
        check(&self.functions, unsafe { self.functions.nvrtcGetSupportedArchs(architectures.as_mut_ptr()) })?;
        Ok(architectures.into_iter().filter_map(|architecture| u32::try_from(architecture).ok()).collect())
    }

    fn compile(&self, request: &CompileRequest<'_>) -> Result<CompileOutput, Failure> {
        let program = Program::new(&self.functions, request.source, request.name)?;
        for expression in request.name_expressions {
            program.add_name_expression(expression)?;
        }
        program.compile(request.options)?;
        Ok(CompileOutput {
            image: program.image(request.output)?,
            log: program.log(),
            lowered_names: request
                .name_expressions
                .iter()
                .map(|expression| program.lowered_name(expression))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Nvrtc").field("version", &self.version).field("file", &self.functions.file()).finish()
    }
}
