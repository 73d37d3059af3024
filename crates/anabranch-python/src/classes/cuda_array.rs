//! Memory that another library describes by `__cuda_array_interface__`.

use crate::classes::buffer;
use crate::classes::open_stream::of_handle;
use crate::classes::stream::Stream;
use crate::classes::transfer;
use crate::dtype::DType;
use crate::few::Few;
use crate::memory::{Memory, View};
use crate::{error, wait};
use anabranch::{BackendKind, Status};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

const INTERFACE: &str = "__cuda_array_interface__";

/// What the interface says of an array, version 2 or 3.
struct Described {
    address: u64,
    is_read_only: bool,
    dtype: DType,
    shape: Vec<usize>,
    /// The number of the stream whose work makes the array, if there is one.
    stream: Option<usize>,
}

impl Described {
    fn read(interface: &Bound<'_, PyDict>) -> PyResult<Self> {
        let field = |name: &str| {
            interface.get_item(name)?.ok_or_else(|| PyValueError::new_err(format!("{INTERFACE} has no '{name}'")))
        };
        let optional = |name: &str| Ok::<_, PyErr>(interface.get_item(name)?.filter(|value| !value.is_none()));
        let version: u32 = field("version")?.extract()?;
        if !(2..=3).contains(&version) {
            let message = format!("version {version} of {INTERFACE} is not supported; use from_dlpack");
            return Err(PyBufferError::new_err(message));
        }
        if optional("mask")?.is_some() {
            return Err(PyBufferError::new_err("the array has a mask, which a buffer cannot have"));
        }
        let typestr: String = field("typestr")?.extract()?;
        let Some(dtype) = DType::of_typestr(&typestr) else {
            return Err(PyTypeError::new_err(format!(
                "elements of type {typestr} are not supported; convert the array"
            )));
        };
        let (address, is_read_only) = field("data")?.extract()?;
        let Few(shape): Few<usize> = field("shape")?.extract()?;
        if let Some(strides) = optional("strides")? {
            let Few(strides): Few<i64> = strides.extract()?;
            if !is_row_major(&shape, &strides, dtype.size()) {
                let message = "the array is not contiguous in row-major order; make a contiguous copy of it";
                return Err(PyBufferError::new_err(message));
            }
        }
        let stream = optional("stream")?.map(|stream| stream.extract()).transpose()?;
        if stream == Some(0) {
            return Err(PyValueError::new_err(format!("{INTERFACE} names stream 0, which the interface forbids")));
        }
        Ok(Self { address, is_read_only, dtype, shape, stream })
    }
}

/// Whether elements in a shape with these strides, in bytes, follow each other. Strides of extents of 1 do not matter.
fn is_row_major(shape: &[usize], strides: &[i64], size: usize) -> bool {
    if shape.len() != strides.len() {
        return false;
    }
    if shape.contains(&0) {
        return true;
    }
    let mut expected = size as i64;
    shape.iter().zip(strides).rev().all(|(&extent, &stride)| {
        let fits = extent == 1 || stride == expected;
        expected = expected.saturating_mul(extent as i64);
        fits
    })
}

/// A buffer of such an array, without a copy. Its uses come behind the work of the stream that the array names, or of
/// `stream`.
pub(crate) fn import(
    context: &anabranch::Context,
    array: &Bound<'_, PyAny>,
    stream: Option<&Bound<'_, Stream>>,
) -> PyResult<Py<PyAny>> {
    let py = array.py();
    error::require_usable(py)?;
    let Some(interface) = array.getattr_opt(INTERFACE)? else {
        let message = format!("{} is no array of a GPU: it has no {INTERFACE}", array.get_type().name()?);
        return Err(PyTypeError::new_err(message));
    };
    let Described { address, is_read_only, dtype, shape, stream: of_array } = Described::read(interface.cast()?)?;
    if context.device().backend() != BackendKind::Cuda {
        let message = "the array is memory of an NVIDIA GPU, and the context is of another device";
        let hint = "call this of a context of that GPU";
        return Err(error::refused(py, Status::INVALID_DEVICE, "using memory of another library", message, hint));
    }
    let owner = array.clone().unbind();
    // SAFETY: the library that describes the array promises that its memory is there as long as the array, which is kept.
    let mut memory = wait::call(py, || unsafe { Memory::foreign(context, address, dtype, &shape, owner) })?;
    memory.is_read_only = is_read_only;
    let made = buffer::create(py, View::whole(memory, dtype, shape))?;
    let buffer = made.bind(py).cast::<buffer::Buffer>()?;
    if let Some(handle) = of_array {
        let theirs = of_handle(py, context, handle, array.clone().unbind())?;
        transfer::note_use(py, &*theirs.get(py)?, buffer)?;
    }
    if let Some(stream) = stream {
        transfer::note_use(py, &*stream.get().get(py)?, buffer)?;
    }
    Ok(made)
}
