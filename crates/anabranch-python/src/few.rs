//! Sequences that are arguments.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// More than any argument needs.
const MOST: usize = 1 << 16;

/// The elements of a sequence that has a few. What a sequence says of its length counts for nothing: it may be wrong, or more than
/// memory holds.
pub(crate) struct Few<T>(pub(crate) Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'py, T: FromPyObjectOwned<'py>> FromPyObject<'_, 'py> for Few<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // Arrays have elements by their numbers, too, and do not say that they are sequences.
        let is_other = object.is_instance_of::<PyString>() || object.is_instance_of::<PyDict>();
        if is_other || !object.hasattr("__getitem__")? {
            let name = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("a sequence was expected, and not {name}")));
        }
        let mut elements = Vec::new();
        for element in object.try_iter()? {
            if elements.len() == MOST {
                return Err(PyValueError::new_err(format!("a sequence of more than {MOST} elements is too long here")));
            }
            elements.push(element?.extract().map_err(Into::into)?);
        }
        Ok(Self(elements))
    }
}
