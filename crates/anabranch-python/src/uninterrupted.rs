//! Functions of Python that are to be called to their end, although a signal handler may raise an exception anywhere in them, and
//! although the program may be at its limit of recursion.
//!
//! Python runs signal handlers between instructions, and never in native code: what an exception of theirs has ended is called
//! again from here. Such a function can be called twice: what it has done before it does not do again.

mod depth;

use depth::Room;
use pyo3::exceptions::{PyAttributeError, PyException, PyRecursionError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{c_int, c_void};

/// How often a function is called at most, if interrupts come again and again.
const TRIES: usize = 16;

/// How often in a row a function raises an exception until that is taken for its own.
const OWN: usize = 4;

/// Who gets an exception of a signal handler once the function has been called to its end.
#[derive(Clone, Copy)]
enum Then {
    /// The caller.
    Raise,
    /// Whatever the main thread runs next: exceptions of a finalizer have no caller.
    RaiseLater,
}

#[pyclass(frozen, name = "_Uninterrupted", module = "anabranch._anabranch")]
pub(crate) struct Uninterrupted {
    function: Py<PyAny>,
    then: Then,
}

/// A function that puts something back, such as ``__exit__``. An exception of a signal handler is raised when it has. It may call more
/// functions inside of each other than the program's limit of recursion allows.
#[pyfunction]
#[pyo3(name = "_restoring")]
pub(crate) fn restoring(function: Py<PyAny>) -> Uninterrupted {
    Uninterrupted { function, then: Then::Raise }
}

/// A finalizer. An exception of a signal handler is raised in the main thread behind it.
#[pyfunction]
#[pyo3(name = "_finalizing")]
pub(crate) fn finalizing(function: Py<PyAny>) -> Uninterrupted {
    Uninterrupted { function, then: Then::RaiseLater }
}

#[pymethods]
impl Uninterrupted {
    #[getter]
    fn __wrapped__(&self, py: Python<'_>) -> Py<PyAny> {
        self.function.clone_ref(py)
    }

    /// What tools ask functions for.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match name {
            "__name__" | "__qualname__" | "__annotations__" | "__defaults__" | "__kwdefaults__" | "__code__" => {
                self.function.bind(py).getattr(name)
            }
            _ => Err(PyAttributeError::new_err(name.to_owned())),
        }
    }

    fn __get__<'py>(
        this: Bound<'py, Self>,
        object: Bound<'py, PyAny>,
        _class: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static METHOD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if object.is_none() {
            return Ok(this.into_any());
        }
        METHOD.import(object.py(), "types", "MethodType")?.call1((this, object))
    }

    #[pyo3(signature = (*arguments, **keywords))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut errors = Errors::default();
        let mut room = None;
        for _ in 0..TRIES {
            match self.function.bind(py).call(arguments, keywords) {
                Ok(result) => {
                    let Some(error) = errors.into_one(py) else { return Ok(result) };
                    return match self.then {
                        Then::Raise => Err(error),
                        Then::RaiseLater => {
                            raise_later(py, error);
                            Ok(result)
                        }
                    };
                }
                Err(error) if room.is_none() && error.is_instance_of::<PyRecursionError>(py) => {
                    room = Some(Room::make(py));
                    continue;
                }
                Err(error) => errors.add(py, error),
            }
            if errors.in_a_row == OWN {
                break;
            }
        }
        errors.into_one(py).map_or_else(|| Ok(py.None().into_bound(py)), Err)
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.function)
    }
}

/// What calls of one function have raised. Its own exception is the same each time, and others are those of signal handlers.
#[derive(Default)]
struct Errors {
    first: Option<PyErr>,
    /// The last one of another type.
    last: Option<PyErr>,
    /// How many of the last ones are exceptions of one type, and no interrupts, such as `KeyboardInterrupt`.
    in_a_row: usize,
}

impl Errors {
    fn add(&mut self, py: Python<'_>, error: PyErr) {
        let is_of_type = |before: &PyErr| before.get_type(py).is(error.get_type(py));
        let is_again = self.last.as_ref().or(self.first.as_ref()).is_some_and(is_of_type);
        self.in_a_row = match error.is_instance_of::<PyException>(py) {
            true if is_again => self.in_a_row + 1,
            is_exception => usize::from(is_exception),
        };
        if self.first.is_none() {
            self.first = Some(error);
        } else if !self.first.as_ref().is_some_and(is_of_type) {
            self.last = Some(error);
        }
    }

    /// The one to raise: an interrupt rather than another exception, which is its context.
    fn into_one(self, py: Python<'_>) -> Option<PyErr> {
        let (Some(first), Some(last)) = (&self.first, &self.last) else { return self.first };
        let (mut raised, mut context) = (last, first);
        if !first.is_instance_of::<PyException>(py) {
            (raised, context) = (first, last);
        }
        // If this fails, the context is lost, and not the interrupt.
        let _ = raised.value(py).setattr("__context__", context.value(py));
        Some(raised.clone_ref(py))
    }
}

/// Raises an exception in the main thread, where that runs code of Python next, as signal handlers do.
fn raise_later(py: Python<'_>, error: PyErr) {
    extern "C" fn raise(error: *mut c_void) -> c_int {
        // SAFETY: it was made by `Box::into_raw` below, and the interpreter calls this once.
        let error = unsafe { Box::from_raw(error.cast::<PyErr>()) };
        // SAFETY: the interpreter calls this in a thread that has it.
        error.restore(unsafe { Python::assume_attached() });
        -1
    }
    let told = error.clone_ref(py);
    if !is_main_thread(py).unwrap_or(false) {
        // It comes from another thread, and not from a signal handler.
        return told.write_unraisable(py, None);
    }
    let error = Box::into_raw(Box::new(error));
    // SAFETY: any thread may call this, and the interpreter gives `raise` what is passed here, once.
    if unsafe { ffi::Py_AddPendingCall(Some(raise), error.cast()) } != 0 {
        // There is no room for it. Whether the box is used is not known then.
        told.write_unraisable(py, None);
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let main = py.import("threading")?.call_method0("main_thread")?.getattr("ident")?;
    py.import("_thread")?.call_method0("get_ident")?.eq(main)
}
