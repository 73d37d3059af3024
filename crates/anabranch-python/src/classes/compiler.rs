//! The compiler for CUDA C++.

use crate::classes::device::Device;
use crate::few::Few;
use crate::host_data::bytes;
use crate::{error, wait};
use anabranch::{CompileOptions, CompiledImage, Compiler, OutputKind, Status};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Compiles CUDA C++ with NVRTC, which needs neither a GPU nor a driver. `architecture` is a number such as 90 or a text such
/// as "sm_90a", or else that of `device`, a GPU, or else the compiler's default. `options` are passed on to NVRTC. Results are cached on disk, unless `cache` is False.
#[pyfunction]
#[pyo3(signature = (
    source, *, name = None, architecture = None, device = None, output = "ptx", defines = None, include_directories = None,
    name_expressions = None, options = None, standard = None, cache = true
))]
#[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn compile(
    py: Python<'_>,
    source: String,
    name: Option<String>,
    architecture: Option<&Bound<'_, PyAny>>,
    device: Option<&Bound<'_, Device>>,
    output: &str,
    defines: Option<BTreeMap<String, String>>,
    include_directories: Option<Few<PathBuf>>,
    name_expressions: Option<Few<String>>,
    options: Option<Few<String>>,
    standard: Option<String>,
    cache: bool,
) -> PyResult<Compiled> {
    let mut chosen = CompileOptions::new();
    match (architecture, device) {
        (Some(architecture), _) => {
            let text = architecture.str()?.to_string();
            let text = if text.bytes().all(|byte| byte.is_ascii_digit()) { format!("sm_{text}") } else { text };
            chosen = chosen.architecture(text.parse().map_err(|error| error::raise(py, &error))?);
        }
        (None, Some(device)) => chosen = chosen.for_device(&device.get().0),
        (None, None) => {}
    }
    chosen = match output {
        "ptx" => chosen.output(OutputKind::Ptx),
        "binary" => chosen.output(OutputKind::Binary),
        _ => {
            return Err(PyValueError::new_err(format!(
                "there is no output {output:?}; there are \"ptx\" and \"binary\""
            )));
        }
    };
    if let Some(name) = name {
        chosen = chosen.name(name);
    }
    if let Some(standard) = standard {
        chosen = chosen.standard(standard);
    }
    for (name, value) in defines.unwrap_or_default() {
        chosen = chosen.define(name, value);
    }
    let few = |given: Option<Few<String>>| given.unwrap_or_default().0.into_iter();
    let include_directories = include_directories.map_or_else(Vec::new, |Few(directories)| directories);
    chosen = include_directories.into_iter().fold(chosen, CompileOptions::include_directory);
    chosen = few(name_expressions).fold(chosen, CompileOptions::name_expression);
    chosen = few(options).fold(chosen, CompileOptions::option);
    if !cache {
        chosen = chosen.without_cache();
    }
    wait::for_call(py, move || Compiler::find()?.compile(&source, &chosen)).map(Compiled)
}

/// What the compiler made.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Compiled(pub(crate) anabranch::Compiled);

#[pymethods]
impl Compiled {
    /// The PTX, or None if machine code was asked for.
    #[getter]
    fn ptx(&self) -> Option<&str> {
        self.0.ptx()
    }

    /// The machine code, or None if PTX was asked for.
    #[getter]
    fn binary<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.0.binary().map(|binary| bytes(py, binary)).transpose()
    }

    /// The compiler's log.
    #[getter]
    fn log(&self) -> &str {
        self.0.log()
    }

    /// Whether it is from the cache.
    #[getter]
    fn is_from_cache(&self) -> bool {
        self.0.from_cache()
    }

    /// The name in the code of a kernel that `name_expressions` named.
    fn kernel_name(&self, py: Python<'_>, expression: &str) -> PyResult<String> {
        self.0.kernel_name(expression).map(ToOwned::to_owned).ok_or_else(|| {
            let message = format!("{expression:?} was not among name_expressions");
            let hint = "pass it to compile() in name_expressions";
            error::refused(py, Status::NOT_FOUND, "looking for a kernel", message, hint)
        })
    }

    fn __repr__(&self) -> &'static str {
        match self.0.image() {
            CompiledImage::Ptx(_) => "<anabranch.Compiled to PTX>",
            CompiledImage::Binary(_) => "<anabranch.Compiled to machine code>",
        }
    }
}
