//! The arguments of a launch.

use crate::classes::buffer::Buffer;
use crate::classes::config::LaunchConfig;
use crate::classes::module::Kernel;
use crate::classes::open_stream::OpenStream;
use crate::dtype::{DType, Element, TypedCall, shown};
use crate::host_data::{bytes, copied, memoryview_or};
use crate::memory::{Use, View};
use crate::{error, wait};
use anabranch::{ArgumentList, Status};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyTuple};
use std::sync::Arc;

/// A buffer that a kernel only reads: launches in other streams may read it at the same time.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Reads {
    /// The buffer. The garbage collector need not see it, as it sees nothing behind it.
    #[pyo3(get)]
    buffer: Py<Buffer>,
}

#[pymethods]
impl Reads {
    #[new]
    fn new(buffer: Py<Buffer>) -> Self {
        Self { buffer }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("anabranch.Reads({})", self.buffer.bind(py).repr()?))
    }
}

/// A number of a type, as an argument of a kernel.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Scalar {
    bytes: Vec<u8>,
    dtype: DType,
}

#[pymethods]
impl Scalar {
    #[new]
    fn new(value: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        struct Convert<'a, 'py>(&'a Bound<'py, PyAny>);

        impl TypedCall for Convert<'_, '_> {
            type Output = PyResult<Vec<u8>>;

            fn call<T: Element>(self) -> Self::Output {
                Ok(bytemuck::bytes_of(&T::of_python(self.0)?).to_vec())
            }
        }

        let dtype = DType::of_python(dtype)?;
        Ok(Self { bytes: dtype.with(Convert(value))?, dtype })
    }

    /// The type.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes(py, &self.bytes)
    }

    fn __repr__(&self) -> String {
        format!("<anabranch.Scalar of {}>", self.dtype.name())
    }
}

/// An argument for the library.
pub(crate) enum Argument {
    Memory { view: Arc<View>, writes: bool },
    Bytes(Vec<u8>),
}

/// Launches a kernel.
pub(crate) fn launch(
    py: Python<'_>,
    stream: &OpenStream,
    kernel: &Kernel,
    config: &LaunchConfig,
    arguments: &Bound<'_, PyTuple>,
) -> PyResult<()> {
    let library_kernel = kernel.get(py)?;
    let arguments = convert_all(py, kernel, arguments)?;
    let config = config.to_library();
    wait::in_turn(py, arguments.iter().filter_map(Argument::used), || {
        let list = list(&arguments)?;
        // SAFETY: the arguments have the sizes that the kernel declares. That they have its types, and that it stays
        // within its memory, the program promises by the launch, as wherever Python launches code of a device.
        unsafe { stream.launch(&library_kernel, &config, &list) }
    })
}

/// The arguments of a kernel, of which the number and the sizes are checked.
pub(crate) fn convert_all(py: Python<'_>, kernel: &Kernel, arguments: &Bound<'_, PyTuple>) -> PyResult<Vec<Argument>> {
    let library_kernel = kernel.get(py)?;
    let sizes = kernel.sizes();
    let Some(sizes) = sizes else {
        let message = format!("the driver does not say which parameters `{}` has", library_kernel.name());
        let hint = "pass their sizes in bytes, as in module.kernel(name, parameters=[8, 4])";
        return Err(error::refused(py, Status::INVALID_VALUE, "launching a kernel", message, hint));
    };
    if arguments.len() != sizes.len() {
        let (name, found, expected) = (library_kernel.name(), arguments.len(), sizes.len());
        let message = format!("`{name}` has {expected} parameters, and {found} arguments were passed");
        let hint = "pass one argument for each parameter";
        return Err(error::refused(py, Status::INVALID_VALUE, "launching a kernel", message, hint));
    }
    (1..)
        .zip(arguments.iter())
        .zip(sizes)
        .map(|((position, argument), &size)| {
            convert(&argument, size, |found| {
                if found == size {
                    return Ok(());
                }
                let name = library_kernel.name();
                let message = format!("parameter {position} of `{name}` has {size} bytes, and the argument {found}");
                let hint = "pass a value of the type that the kernel declares";
                Err(error::refused(py, Status::INVALID_VALUE, "launching a kernel", message, hint))
            })
        })
        .collect()
}

impl Argument {
    /// The use of memory, if it is some.
    pub(crate) fn used(&self) -> Option<Use<'_>> {
        match self {
            Self::Memory { view, writes: true } => Some(view.written()),
            Self::Memory { view, writes: false } => Some(view.read()),
            Self::Bytes(_) => None,
        }
    }
}

/// The arguments as the library takes them. Memory that is passed several times, and written by one of them, is declared once.
pub(crate) fn list(arguments: &[Argument]) -> anabranch::Result<ArgumentList<'_>> {
    let mut list = ArgumentList::new();
    let mut written: Vec<u64> = Vec::new();
    for argument in arguments {
        match argument {
            Argument::Bytes(bytes) => list.push_bytes(bytes),
            Argument::Memory { view, .. } if written.contains(&view.memory.id()) => {
                list.push(view.bytes()?.device_pointer());
            }
            Argument::Memory { view, .. } => {
                let id = view.memory.id();
                let writes = arguments.iter().any(|other| match other {
                    Argument::Memory { view, writes } => *writes && view.memory.id() == id,
                    Argument::Bytes(_) => false,
                });
                if writes {
                    written.push(id);
                    // SAFETY: other threads submit no work that uses the memory meanwhile.
                    list.push(unsafe { view.bytes_mut("launching a kernel") }?);
                } else {
                    list.push(view.bytes()?);
                }
            }
        }
    }
    Ok(list)
}

/// An argument for a parameter of `size` bytes. `require_size` refuses other sizes, before anything is copied.
fn convert(
    argument: &Bound<'_, PyAny>,
    size: usize,
    require_size: impl Fn(usize) -> PyResult<()>,
) -> PyResult<Argument> {
    let py = argument.py();
    if let Ok(buffer) = argument.cast::<Buffer>() {
        require_size(size_of::<u64>())?;
        let view = buffer.get().view(py)?;
        let writes = !view.memory.is_read_only;
        return Ok(Argument::Memory { view, writes });
    }
    if let Ok(reads) = argument.cast::<Reads>() {
        require_size(size_of::<u64>())?;
        return Ok(Argument::Memory { view: reads.get().buffer.get().view(py)?, writes: false });
    }
    if let Ok(scalar) = argument.cast::<Scalar>() {
        let bytes = &scalar.get().bytes;
        require_size(bytes.len())?;
        return Ok(Argument::Bytes(bytes.clone()));
    }
    if argument.is_exact_instance_of::<PyBool>() || argument.is_exact_instance_of::<PyInt>() {
        return integer(argument, size).map(Argument::Bytes);
    }
    if argument.is_exact_instance_of::<PyFloat>() {
        return float(argument.extract()?, size).map(Argument::Bytes);
    }
    // Numbers of NumPy and of ctypes, structures of ctypes, and bytes.
    let name = argument.get_type().name()?;
    let view = memoryview_or(argument, || {
        PyTypeError::new_err(format!(
            "{name} is no argument of a kernel: pass a Buffer, a number, a Scalar, a number of NumPy, or bytes"
        ))
    })?;
    let is_bytes = argument.is_instance_of::<PyBytes>();
    if !is_bytes && view.getattr("ndim")?.extract::<usize>()? != 0 {
        let message = "an array of the host is no argument of a kernel: upload it, and pass the buffer";
        return Err(PyTypeError::new_err(message));
    }
    require_size(view.getattr("nbytes")?.extract()?)?;
    let bytes = view.call_method0("tobytes")?.cast_into::<PyBytes>()?;
    copied(bytes.as_bytes()).map(Argument::Bytes)
}

fn integer(value: &Bound<'_, PyAny>, size: usize) -> PyResult<Vec<u8>> {
    if ![1, 2, 4, 8].contains(&size) {
        let message = format!("an int is no argument for a parameter of {size} bytes: pass bytes, or a Scalar");
        return Err(PyTypeError::new_err(message));
    }
    let bits = 8 * size as u32;
    let is_negative = value.lt(0)?;
    let bytes = if is_negative {
        let number = value.extract::<i64>().ok().filter(|number| *number >= i64::MIN >> (64 - bits));
        number.map(i64::to_le_bytes)
    } else {
        let number = value.extract::<u64>().ok().filter(|number| *number <= u64::MAX >> (64 - bits));
        number.map(u64::to_le_bytes)
    };
    let bytes =
        bytes.ok_or_else(|| PyOverflowError::new_err(format!("{} does not fit in {size} bytes", shown(value))))?;
    Ok(bytes[..size].to_vec())
}

fn float(value: f64, size: usize) -> PyResult<Vec<u8>> {
    match size {
        4 => Ok((value as f32).to_le_bytes().to_vec()),
        8 => Ok(value.to_le_bytes().to_vec()),
        _ => Err(PyTypeError::new_err(format!(
            "a float is no argument for a parameter of {size} bytes: pass a Scalar with its dtype"
        ))),
    }
}
