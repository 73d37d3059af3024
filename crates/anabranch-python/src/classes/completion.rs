//! Completion of work, for `await`.

use crate::classes::{buffer, tensor};
use crate::dtype::DType;
use crate::memory::{Uploading, View};
use crate::{error, process, threads};
use anabranch::{Download, Result};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

/// What work results in.
pub(crate) enum Outcome {
    Nothing,
    Buffer(View),
    Elements(Vec<u8>, DType, Vec<usize>),
}

type Work = Pin<Box<dyn Future<Output = Result<Outcome>> + Send>>;

enum State {
    Pending(Work),
    Ready(Result<Outcome>),
    Taken,
}

/// An awaitable that is ready when work is complete. It can be awaited once. Cancelling only stops the wait.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Completion(Mutex<State>);

impl Completion {
    pub(crate) fn new(work: impl Future<Output = Result<Outcome>> + Send + 'static) -> Self {
        Self(Mutex::new(State::Pending(Box::pin(work))))
    }

    pub(crate) fn of_work(work: anabranch::Completion) -> Self {
        Self::new(async { work.await.map(|()| Outcome::Nothing) })
    }

    pub(crate) fn of_download(download: Download<u8>, view: Arc<View>) -> Self {
        Self::new(async move {
            let bytes = download.await?;
            Ok(Outcome::Elements(bytes, view.dtype, view.shape.clone()))
        })
    }

    pub(crate) fn of_upload(upload: Uploading, dtype: DType, shape: Vec<usize>) -> Self {
        Self::new(async move { Ok(Outcome::Buffer(View::whole(upload.await?, dtype, shape))) })
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), State::Taken);
        crate::slot::release(state);
    }
}

/// Calls back when a future may be ready.
struct Callback(Mutex<Option<Py<PyAny>>>);

impl Wake for Callback {
    fn wake(self: Arc<Self>) {
        let Some(callback) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        threads::run(move || {
            threads::attach(|py| {
                if let Err(error) = callback.call0(py) {
                    error.write_unraisable(py, None);
                }
                drop(callback);
            });
        });
    }
}

#[pymethods]
impl Completion {
    /// Whether the work is complete. If not, `callback` is called once on another thread when it may be, and only the callback of
    /// the last call.
    fn _poll(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<bool> {
        error::require_usable(py)?;
        let waker = Waker::from(Arc::new(Callback(Mutex::new(Some(callback)))));
        process::detached(py, || {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let State::Pending(work) = &mut *state
                && let Poll::Ready(result) = work.as_mut().poll(&mut TaskContext::from_waker(&waker))
            {
                *state = State::Ready(result);
            }
            Ok(!matches!(&*state, State::Pending(_)))
        })
    }

    /// The result of work that is complete.
    fn _result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let state = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), State::Taken);
        match state {
            State::Ready(Ok(Outcome::Nothing)) => Ok(py.None()),
            State::Ready(Ok(Outcome::Buffer(view))) => buffer::create(py, view),
            State::Ready(Ok(Outcome::Elements(bytes, dtype, shape))) => elements(py, &bytes, dtype, &shape),
            State::Ready(Err(error)) => Err(error::raise(py, &error)),
            State::Pending(_) | State::Taken => Err(PyRuntimeError::new_err("a completion can be awaited once")),
        }
    }

    fn __await__<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let wait = this.py().import("anabranch._await")?.getattr("wait")?;
        wait.call1((this,))?.call_method0("__await__")
    }

    fn __repr__(&self) -> &'static str {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Pending(_) => "<anabranch.Completion (pending)>",
            State::Ready(_) => "<anabranch.Completion (ready)>",
            State::Taken => "<anabranch.Completion (awaited)>",
        }
    }
}

/// Elements that were downloaded, as a view that can be written.
pub(crate) fn elements(py: Python<'_>, bytes: &[u8], dtype: DType, shape: &[usize]) -> PyResult<Py<PyAny>> {
    let bytes = PyByteArray::new(py, bytes);
    let view = py.import("builtins")?.getattr("memoryview")?.call1((bytes,))?;
    tensor::cast(&view, dtype, shape).map(Bound::unbind)
}
