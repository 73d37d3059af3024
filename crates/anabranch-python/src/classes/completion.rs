//! Completion of work, for `await`.

use crate::classes::{buffer, tensor};
use crate::dtype::DType;
use crate::host_data::memoryview;
use crate::kept::Kept;
use crate::memory::{Uploading, View};
use crate::{error, process, threads};
use anabranch::{Download, Result};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyType};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// An awaitable that is ready when work is complete. It can be awaited once: only one of several tasks that wait gets the result,
/// and the others an exception. Cancelling only stops the wait.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Completion {
    state: Mutex<State>,
    waiters: Arc<Waiters>,
}

impl Completion {
    pub(crate) fn new(work: impl Future<Output = Result<Outcome>> + Send + 'static) -> Self {
        Self { state: Mutex::new(State::Pending(Box::pin(work))), waiters: Arc::default() }
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
        // Without the lock, which a thread may have had that the child of a fork does not have.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        crate::slot::release(std::mem::replace(state, State::Taken));
    }
}

/// Those who are called back when a future may be ready. The garbage collector does not see them: the work that is pending has them, too,
/// and calls them whoever is left, as a timer of asyncio does. Afterwards there are none.
#[derive(Default)]
struct Waiters(Mutex<Vec<Callback>>);

type Callback = Kept<Py<PyAny>>;

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, Vec<Callback>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, py: Python<'_>, callback: &Py<PyAny>) {
        let mut waiters = self.lock();
        let found = waiters.iter().position(|waiter| waiter.is(callback.bind(py)));
        let forgotten = found.map(|index| waiters.swap_remove(index));
        drop(waiters);
        drop(forgotten);
    }
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        let waiters = std::mem::take(&mut *self.lock());
        if !waiters.is_empty() {
            threads::WAKES.add(move |py| call_all(py, waiters));
        }
    }
}

fn call_all(py: Python<'_>, callbacks: Vec<Callback>) {
    for callback in callbacks {
        if let Err(error) = callback.call0(py) {
            error.write_unraisable(py, None);
        }
    }
}

impl Completion {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> State {
        std::mem::replace(&mut *self.lock(), State::Taken)
    }
}

#[pymethods]
impl Completion {
    /// Whether the work is complete. If not, `callback` is called once on another thread when it may be, unless it is forgotten.
    fn _poll(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<bool> {
        error::require_usable(py)?;
        self.waiters.lock().push(Kept::new(callback.clone_ref(py)));
        let waker = Waker::from(self.waiters.clone());
        let is_ready = process::detached(py, || {
            let mut state = self.lock();
            if let State::Pending(work) = &mut *state
                && let Poll::Ready(result) = work.as_mut().poll(&mut TaskContext::from_waker(&waker))
            {
                *state = State::Ready(result);
            }
            !matches!(&*state, State::Pending(_))
        });
        if is_ready {
            self.waiters.forget(py, &callback);
            // Nobody wakes the others any more.
            let others = std::mem::take(&mut *self.waiters.lock());
            call_all(py, others);
        }
        Ok(is_ready)
    }

    /// Does not call the callback any more, if it was not called yet.
    fn _forget(&self, py: Python<'_>, callback: Py<PyAny>) {
        if !process::is_forked() {
            self.waiters.forget(py, &callback);
        }
    }

    /// The result of work that is complete.
    fn _result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        error::require_memory(py)?;
        match self.take() {
            State::Ready(Ok(Outcome::Nothing)) => Ok(py.None()),
            State::Ready(Ok(Outcome::Buffer(view))) => buffer::create(py, view),
            State::Ready(Ok(Outcome::Elements(bytes, dtype, shape))) => elements(py, &bytes, dtype, &shape),
            State::Ready(Err(error)) => Err(error::raise(py, &error)),
            State::Pending(_) | State::Taken => Err(PyRuntimeError::new_err("a completion can be awaited once")),
        }
    }

    /// For annotations: a completion has the type of its result.
    #[classmethod]
    #[pyo3(signature = (result, /))]
    fn __class_getitem__<'py>(class: &Bound<'py, PyType>, result: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        class.py().import("types")?.getattr("GenericAlias")?.call1((class, result))
    }

    fn __await__<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let wait = this.py().import("anabranch._await")?.getattr("wait")?;
        wait.call1((this,))?.call_method0("__await__")
    }

    fn __repr__(&self) -> &'static str {
        match self.state.try_lock().as_deref() {
            // It is locked while it is polled.
            Ok(State::Pending(_)) | Err(_) => "<anabranch.Completion (pending)>",
            Ok(State::Ready(_)) => "<anabranch.Completion (ready)>",
            Ok(State::Taken) => "<anabranch.Completion (awaited)>",
        }
    }
}

/// Elements that were downloaded, as a view that can be written.
pub(crate) fn elements(py: Python<'_>, bytes: &[u8], dtype: DType, shape: &[usize]) -> PyResult<Py<PyAny>> {
    // Without memory for it, `PyByteArray_FromStringAndSize` complains of an array that it has not initialised.
    let copy = py.get_type::<PyByteArray>().call1((bytes.len(),))?.cast_into::<PyByteArray>()?;
    // SAFETY: nobody else has the array yet.
    unsafe { copy.as_bytes_mut() }.copy_from_slice(bytes);
    tensor::cast(&memoryview(&copy)?, dtype, shape).map(Bound::unbind)
}
