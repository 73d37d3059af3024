//! Data of the host that is copied to memory.

use crate::dtype::DType;
use crate::error;
use crate::few::Few;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

/// Elements in row-major order.
pub(crate) struct HostData {
    /// Nobody changes them, so that they can be read without the interpreter.
    pub(crate) bytes: Py<PyBytes>,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

impl HostData {
    /// The elements of an object with the buffer protocol, such as an array of NumPy, bytes or an `array.array`; or of a list
    /// of numbers. A type that is given is that of the elements: bytes are taken for elements of it, and numbers are
    /// converted to it.
    pub(crate) fn of_python(data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Self> {
        if let Ok(list) = data.cast::<PyList>() {
            return Self::of_numbers(data.py(), taken(list.len(), list.iter())?, dtype);
        }
        if let Ok(tuple) = data.cast::<PyTuple>() {
            return Self::of_numbers(data.py(), taken(tuple.len(), tuple.iter())?, dtype);
        }
        let (bytes, found, shape) = if let Ok(bytes) = data.cast_exact::<PyBytes>() {
            (bytes.clone(), DType::U8, vec![bytes.as_bytes().len()])
        } else {
            let view = memoryview_or(data, || not_data(data))?;
            let format: String = view.getattr("format")?.extract()?;
            let found =
                DType::of_text(&format).filter(|dtype| view_item_size(&view).is_ok_and(|size| size == dtype.size()));
            let found = found.ok_or_else(|| {
                PyTypeError::new_err(format!("elements of the format {format:?} are not supported; convert them"))
            })?;
            require_same(data, found)?;
            let bytes = view.call_method0("tobytes")?.cast_into::<PyBytes>()?;
            (bytes, found, view.getattr("shape")?.extract::<Few<usize>>()?.0)
        };
        let Some(dtype) = dtype.filter(|dtype| *dtype != found) else {
            return Ok(Self { bytes: bytes.unbind(), dtype: found, shape });
        };
        // Plain bytes, and numbers of 16 bits as which others pass `float16` and `bfloat16`.
        let is_raw = found == DType::U8 || (found == DType::U16 && dtype.size() == 2);
        if !is_raw {
            let message = format!("the elements are {}, and not {}; convert them first", found.name(), dtype.name());
            return Err(PyTypeError::new_err(message));
        }
        let count = bytes.as_bytes().len();
        if !count.is_multiple_of(dtype.size()) {
            let message = format!("{count} bytes are no whole number of elements of {}", dtype.name());
            return Err(PyValueError::new_err(message));
        }
        let shape = if dtype.size() == found.size() { shape } else { vec![count / dtype.size()] };
        Ok(Self { bytes: bytes.unbind(), dtype, shape })
    }

    fn of_numbers<'py>(py: Python<'py>, numbers: Vec<Bound<'py, PyAny>>, dtype: Option<DType>) -> PyResult<Self> {
        /// Elements that exist, and not what a class of the program gives out for them.
        struct Convert<'a, 'py>(Python<'py>, &'a [Bound<'py, PyAny>]);

        impl crate::dtype::TypedCall for Convert<'_, '_> {
            type Output = PyResult<Py<PyBytes>>;

            fn call<T: crate::dtype::Element>(self) -> Self::Output {
                let (py, numbers) = (self.0, self.1);
                // Python says if there is no memory.
                let bytes = PyBytes::new_with(py, numbers.len() * size_of::<T>(), |bytes| {
                    let elements = bytes.chunks_exact_mut(size_of::<T>()).zip(numbers);
                    elements.into_iter().try_for_each(|(bytes, number)| {
                        bytes.copy_from_slice(bytemuck::bytes_of(&T::of_python(number)?));
                        Ok(())
                    })
                })?;
                Ok(bytes.unbind())
            }
        }

        let Some(dtype) = dtype else {
            return Err(PyTypeError::new_err("a list has no type of elements: pass dtype=\"float32\", for example"));
        };
        let bytes = dtype.with(Convert(py, &numbers))?;
        Ok(Self { bytes, dtype, shape: vec![numbers.len()] })
    }
}

/// Bytes for Python. Without memory for them, there is an exception, where `PyBytes::new` panics.
pub(crate) fn bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |copy| {
        copy.copy_from_slice(bytes);
        Ok(())
    })
}

/// A copy of bytes that the program has passed, which may be more than memory holds.
pub(crate) fn copied(bytes: &[u8]) -> PyResult<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| PyMemoryError::new_err("there is no memory for the bytes"))?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// A view of an object with the buffer protocol.
pub(crate) fn memoryview<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    data.py().import("builtins")?.getattr("memoryview")?.call1((data,))
}

/// A view of an object with the buffer protocol, or else `refuse`'s exception, whose cause says why there is none. Other exceptions are not
/// about the object: that of a signal handler, for example, which ends a wait, or an error of the library.
pub(crate) fn memoryview_or<'py>(
    data: &Bound<'py, PyAny>,
    refuse: impl FnOnce() -> PyErr,
) -> PyResult<Bound<'py, PyAny>> {
    let py = data.py();
    memoryview(data).map_err(|error| {
        let is_without_buffer = error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<PyBufferError>(py)
            || error.is_instance_of::<PyValueError>(py);
        if !is_without_buffer || error::is_of_library(py, &error) {
            return error;
        }
        let refused = refuse();
        refused.set_cause(py, Some(error));
        refused
    })
}

/// The objects of a list or tuple: converting one may change the list.
fn taken<'py>(count: usize, objects: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut taken = Vec::new();
    taken.try_reserve_exact(count).map_err(|_| PyMemoryError::new_err("there is no memory for the list"))?;
    taken.extend(objects.take(count));
    Ok(taken)
}

/// Refuses elements that an array or a number of NumPy says to be of another type than its bytes: dates are bytes there.
fn require_same(data: &Bound<'_, PyAny>, found: DType) -> PyResult<()> {
    let Some(said) = data.getattr_opt("dtype")?.filter(|_| !data.is_instance_of::<PyBytes>()) else { return Ok(()) };
    match DType::of_python(&said) {
        Ok(dtype) if dtype == found => Ok(()),
        Err(error)
            if !error.is_instance_of::<PyTypeError>(data.py()) && !error.is_instance_of::<PyValueError>(data.py()) =>
        {
            Err(error)
        }
        _ => {
            let said = said.str()?;
            let said = said.to_str()?;
            Err(PyTypeError::new_err(format!("elements of the type {said} are not supported; convert them")))
        }
    }
}

fn view_item_size(view: &Bound<'_, PyAny>) -> PyResult<usize> {
    view.getattr("itemsize")?.extract()
}

fn not_data(data: &Bound<'_, PyAny>) -> PyErr {
    let name = data.get_type().name().map_or_else(|_| "the object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "{name} is no data of the host: pass an object with the buffer protocol, such as an array of NumPy or bytes, or a list \
         of numbers; an array of another library can be shared by Context.from_dlpack"
    ))
}
