//! Methods that are called so often that what PyO3 does for a call counts: it is as much as what the library does.
//!
//! Such a method takes one argument. PyO3 makes it, as every other one, and it is the *general* method. In its place in the class, a
//! method of the same name is put that makes the usual call: one argument by position, of exactly the type that is expected, and
//! objects that can be used. Whatever else it is called with goes to the function of the general method, so that names of arguments,
//! defaults and refusals are stated once. The new method has the signature and the documentation of the general one.
//!
//! PyO3 counts how often a thread is attached to the interpreter. These methods do not count, which is allowed: where PyO3 does not
//! know that a thread is attached, it asks the interpreter, and references that are dropped there go at its next call. While
//! the library is called, PyO3 does know that the thread is detached (`process::detached`), also if Python was called by PyO3.

use crate::{error, process};
use anabranch::Result;
use anabranch::hal::{Thrown, contain};
use pyo3::exceptions::PySystemError;
use pyo3::ffi::{
    self, Py_ssize_t, PyCFunction, PyCFunctionFastWithKeywords, PyMethodDef, PyMethodDefPointer, PyObject,
};
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::{PyTypeInfo, intern};
use std::ffi::{CString, c_int};
use std::mem::transmute;
use std::ptr::{self, null_mut};
use std::sync::OnceLock;

/// How methods are called here, and by PyO3: with arguments in an array, and a tuple of the names of the last of them.
const FLAGS: c_int = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;

/// The general method, once another one is in its place.
pub(crate) struct General {
    method: PyOnceLock<Py<PyAny>>,
    /// Its function, since it was called first.
    function: OnceLock<PyCFunctionFastWithKeywords>,
}

impl General {
    pub(crate) const fn new() -> Self {
        Self { method: PyOnceLock::new(), function: OnceLock::new() }
    }

    /// The function, which an interpreter tells of a method that is bound to an object.
    #[cold]
    fn find(&self, object: &Bound<'_, PyAny>) -> PyResult<PyCFunctionFastWithKeywords> {
        let py = object.py();
        let method = self.method.get(py).ok_or_else(|| PySystemError::new_err("the general method is not known"))?;
        let bound = method.bind(py).call_method1(intern!(py, "__get__"), (object,))?;
        // SAFETY: it is an object.
        if unsafe { ffi::PyCFunction_Check(bound.as_ptr()) } == 0 {
            return Err(PySystemError::new_err("the general method is no function of C"));
        }
        // SAFETY: it is a function of C.
        let (flags, function) =
            unsafe { (ffi::PyCFunction_GetFlags(bound.as_ptr()), ffi::PyCFunction_GetFunction(bound.as_ptr())) };
        let Some(function) = function.filter(|_| flags == FLAGS) else {
            return Err(PySystemError::new_err(format!("the general method is called in another way: {flags}")));
        };
        // SAFETY: by its flags, the function is of this type, as the interpreter calls it, too.
        let function = unsafe { transmute::<PyCFunction, PyCFunctionFastWithKeywords>(function) };
        Ok(*self.function.get_or_init(|| function))
    }
}

/// A method that is called often.
pub(crate) trait FastCall: 'static {
    /// What has the method.
    type Object: PyTypeInfo;
    /// The argument of the usual call.
    type Argument: PyTypeInfo;

    /// The name of the method.
    const NAME: &'static str;
    /// Whether the usual call returns its argument, instead of None.
    const RETURNS_ARGUMENT: bool = false;
    /// The general method, in a place of its own for each.
    const GENERAL: &'static General;

    /// Makes the usual call, or does nothing and returns `None`: then the general method is called, which says why.
    fn call(object: &Bound<'_, Self::Object>, argument: &Bound<'_, Self::Argument>) -> Option<Result<()>>;
}

/// Calls the library without the interpreter, or returns `None` if it must not be called.
#[inline(always)]
pub(crate) fn call(py: Python<'_>, body: impl FnOnce() -> Result<()> + Send) -> Option<Result<()>> {
    error::is_usable().then(|| process::detached(py, body))
}

/// Puts a method in the place of the general one. Called once for each, before the class can be used.
pub(crate) fn install<M: FastCall>(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<M::Object>();
    let general = class.getattr(M::NAME)?;
    let signature: String = general.getattr("__text_signature__")?.extract()?;
    let documentation: String = general.getattr("__doc__")?.extract()?;
    if M::GENERAL.method.set(py, general.unbind()).is_err() {
        // The class has the method already.
        return Ok(());
    }
    // The form that the interpreter knows to take apart again.
    let documentation = CString::new(format!("{}{signature}\n--\n\n{documentation}", M::NAME))?;
    // They are used as long as the class, which is never freed.
    let definition = Box::leak(Box::new(PyMethodDef {
        ml_name: CString::new(M::NAME)?.into_raw(),
        ml_meth: PyMethodDefPointer { PyCFunctionFastWithKeywords: method::<M> },
        ml_flags: FLAGS,
        ml_doc: documentation.into_raw(),
    }));
    // SAFETY: the class is a type, and the definition and its texts are never freed. Its function is of the kind that the flags
    // say. The result is a new reference, or null with an exception.
    let method = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(class.as_type_ptr(), definition)) }?;
    class.setattr(M::NAME, method)
}

/// The function of the method.
///
/// # Safety
/// As the interpreter calls it: attached; `object` is one of the class, because the method was made for it by `PyDescr_NewMethod`,
/// and the interpreter checks that; `arguments` has `count` arguments by position, and behind them one for each of the tuple `names`,
/// if that is not null. All of them exist until it returns.
unsafe extern "C" fn method<M: FastCall>(
    object: *mut PyObject,
    arguments: *const *mut PyObject,
    count: Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter calls this.
    let py = unsafe { Python::assume_attached() };
    if count == 1 && names.is_null() {
        // SAFETY: there is one argument, which is an object.
        let (argument, class) = unsafe { (*arguments, ffi::Py_TYPE(*arguments)) };
        if ptr::eq(class, M::Argument::type_object_raw(py)) {
            // SAFETY: the interpreter has checked the type of the object, and that of the argument was just compared. Both exist
            // until this returns, and longer than the references.
            let (object, argument) = unsafe {
                (
                    Borrowed::from_ptr(py, object).cast_unchecked::<M::Object>(),
                    Borrowed::from_ptr(py, argument).cast_unchecked::<M::Argument>(),
                )
            };
            match contain(|| M::call(&object, &argument)) {
                Ok(Some(Ok(()))) if M::RETURNS_ARGUMENT => return argument.to_owned().into_ptr(),
                Ok(Some(Ok(()))) => return py.None().into_ptr(),
                Ok(Some(Err(error))) => return raise(py, &error),
                Ok(None) => {}
                Err(thrown) => return fail(py, of_panic(&thrown)),
            }
        }
    }
    // SAFETY: these are what the interpreter has passed.
    unsafe { call_general::<M>(object, arguments, count, names) }
}

/// Calls the general method with what this one was called with.
///
/// # Safety
/// As for [`method`].
#[inline(never)]
unsafe fn call_general<M: FastCall>(
    object: *mut PyObject,
    arguments: *const *mut PyObject,
    count: Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    let function = match M::GENERAL.function.get() {
        Some(function) => *function,
        None => {
            // SAFETY: the interpreter calls this, and the object exists until it returns.
            let object = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), object) };
            match contain(|| M::GENERAL.find(&object)) {
                Ok(Ok(function)) => function,
                Ok(Err(error)) => return fail(object.py(), error),
                Err(thrown) => return fail(object.py(), of_panic(&thrown)),
            }
        }
    };
    // SAFETY: it is the function of a method of the same class, called as the interpreter calls this one. PyO3 lets no panic out.
    unsafe { function(object, arguments, count, names) }
}

/// Raises an error of the library.
#[cold]
fn raise(py: Python<'_>, error: &anabranch::Error) -> *mut PyObject {
    fail(py, contain(|| error::raise(py, error)).unwrap_or_else(|thrown| of_panic(&thrown)))
}

/// The exception that PyO3 raises for a panic.
#[cold]
fn of_panic(thrown: &Thrown) -> PyErr {
    PanicException::new_err((thrown.message(),))
}

/// What a function returns when an exception is set.
#[cold]
fn fail(py: Python<'_>, error: PyErr) -> *mut PyObject {
    error.restore(py);
    null_mut()
}
