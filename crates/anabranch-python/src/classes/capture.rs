//! Captures as context managers.

use crate::classes::buffer::Buffer;
use crate::classes::graph::Graph;
use crate::classes::open_stream::OpenStream;
use crate::classes::stream::Stream;
use crate::dtype::DType;
use crate::few::Few;
use crate::memory::View;
use crate::{error, process, wait};
use anabranch::{CaptureMode, CaptureScope, Error, Result, Status};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// The mode that a text names.
pub(crate) fn mode_of(text: &str) -> PyResult<CaptureMode> {
    match text {
        "global" => Ok(CaptureMode::Global),
        "thread_local" => Ok(CaptureMode::ThreadLocal),
        "relaxed" => Ok(CaptureMode::Relaxed),
        _ => {
            let message = format!("there is no mode {text:?}; there are \"global\", \"thread_local\" and \"relaxed\"");
            Err(PyValueError::new_err(message))
        }
    }
}

/// A capture: what is submitted to the stream within `with` becomes a graph, and does not run. Other streams that wait for it
/// join the capture; it has to wait for them before the end.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Capture {
    /// The stream that captures.
    #[pyo3(get)]
    stream: Py<Stream>,
    mode: CaptureMode,
    graph: Mutex<Option<Py<Graph>>>,
}

impl Capture {
    pub(crate) fn new(stream: Py<Stream>, mode: CaptureMode) -> Self {
        Self { stream, mode, graph: Mutex::new(None) }
    }
}

/// The exception of a body, while the library carries an error of its own.
type Raised = Mutex<Option<PyErr>>;

fn raised() -> Error {
    Error::argument(Status::UNKNOWN, "capturing a condition", "the body has raised an exception")
}

/// Captures the body of a condition: calls `body` with a capture of its own.
fn run_body(scope: &CaptureScope<'_>, body: &Py<PyAny>, failure: &Raised) -> Result<()> {
    let captured = Python::attach(|py| {
        let stream = Py::new(py, Stream::new(OpenStream::of_body(scope.stream())))?;
        let capture = Py::new(py, Capture::new(stream.clone_ref(py), scope.mode()))?;
        let result = body.call1(py, (capture,));
        // The body is over, whoever has kept the object.
        stream.get().close(py);
        result.map(drop)
    });
    captured.map_err(|exception| {
        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(exception);
        raised()
    })
}

fn condition_of(py: Python<'_>, condition: &Bound<'_, Buffer>) -> PyResult<Arc<View>> {
    let view = condition.get().view(py)?;
    // What is not zero is the same in both.
    if matches!(view.dtype, DType::U32 | DType::I32) {
        return Ok(view);
    }
    let found = view.dtype.name();
    Err(PyTypeError::new_err(format!("a condition is a buffer of uint32 or int32, and this one is of {found}")))
}

impl Capture {
    /// Captures conditions by `capture`, and raises what a body has raised.
    fn within(
        &self,
        py: Python<'_>,
        capture: impl FnOnce(&CaptureScope<'_>, &Raised) -> Result<()> + Send,
    ) -> PyResult<()> {
        let stream = self.stream.get().get(py)?;
        let failure = Raised::new(None);
        error::require_usable(py)?;
        let result = process::detached(py, || {
            let scope = stream.capture_scope(self.mode)?;
            capture(&scope, &failure)
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(exception) => Err(exception),
            None => result.map_err(|error| error::raise(py, &error)),
        }
    }
}

#[pymethods]
impl Capture {
    /// The graph, after the end.
    #[getter]
    fn graph(&self, py: Python<'_>) -> PyResult<Py<Graph>> {
        let graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|graph| graph.clone_ref(py));
        graph.ok_or_else(|| PyRuntimeError::new_err("there is a graph when the capture has ended without an exception"))
    }

    fn __enter__<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, mode) = (this.py(), this.get().mode);
        {
            let stream = this.get().stream.get().get(py)?;
            wait::call(py, || stream.begin_capture(mode))?;
        }
        Ok(this)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exception_type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let ended = self.stream.get().get(py).and_then(|stream| wait::call(py, || stream.end_capture()));
        if !exception_type.is_none() {
            // The exception says more than what the capture made of it, or that the stream is closed. A graph is dropped.
            if let Ok(graph) = ended {
                crate::slot::release(graph);
            }
            return Ok(());
        }
        let graph = Py::new(py, Graph::new(ended?))?;
        let former = self.graph.lock().unwrap_or_else(PoisonError::into_inner).replace(graph);
        drop(former);
        Ok(())
    }

    /// Captures a condition: at each launch, what `body` captures runs if the first element of the condition, a buffer of
    /// uint32 or int32, is not zero at that point; otherwise what `otherwise` captures. Bodies are called once, at once, with a capture
    /// whose `stream` they use.
    #[pyo3(signature = (condition, body, otherwise = None))]
    fn if_(
        &self,
        py: Python<'_>,
        condition: &Bound<'_, Buffer>,
        body: Py<PyAny>,
        otherwise: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let view = condition_of(py, condition)?;
        self.within(py, |scope, failure| {
            let condition = view.bytes()?.cast::<u32>()?;
            match &otherwise {
                None => scope.capture_if(condition, |part| run_body(part, &body, failure)),
                Some(otherwise) => scope.capture_if_else(
                    condition,
                    |part| run_body(part, &body, failure),
                    |part| run_body(part, otherwise, failure),
                ),
            }
        })
    }

    /// Captures a loop: at each launch, what `body` captures runs as long as the first element of the condition, a buffer of
    /// uint32 or int32, is not zero. The body has to change it.
    fn while_(&self, py: Python<'_>, condition: &Bound<'_, Buffer>, body: Py<PyAny>) -> PyResult<()> {
        let view = condition_of(py, condition)?;
        self.within(py, |scope, failure| {
            // SAFETY: the library reads the condition between runs of the body, which is captured in the meantime on this thread,
            // and is lent the condition there.
            let condition = unsafe { view.bytes_mut("capturing a condition") }?.cast::<u32>()?;
            scope.capture_while(condition, |part, _| run_body(part, &body, failure))
        })
    }

    /// Captures another graph: a node that runs a copy of it, behind what the stream has captured so far. The graph must not
    /// allocate memory nor have conditions.
    fn child(&self, py: Python<'_>, graph: &Bound<'_, Graph>) -> PyResult<()> {
        let (stream, graph) = (self.stream.get().get(py)?, graph.get().get(py)?);
        wait::call(py, || graph.read(|graph| stream.capture_child(graph)))
    }

    /// Captures a choice: at each launch, what the body of that number captures runs, and nothing if there is none.
    fn switch(&self, py: Python<'_>, value: &Bound<'_, Buffer>, bodies: Few<Py<PyAny>>) -> PyResult<()> {
        let Few(bodies) = bodies;
        type Body<'a> = Box<dyn for<'scope> FnMut(&CaptureScope<'scope>) -> Result<()> + 'a>;
        type Borrowed<'a> = &'a mut dyn for<'scope> FnMut(&CaptureScope<'scope>) -> Result<()>;

        let view = condition_of(py, value)?;
        self.within(py, |scope, failure| {
            let value = view.bytes()?.cast::<u32>()?;
            let mut bodies: Vec<Body<'_>> = bodies
                .iter()
                .map(|body| -> Body<'_> { Box::new(move |part: &CaptureScope<'_>| run_body(part, body, failure)) })
                .collect();
            let mut bodies: Vec<Borrowed<'_>> = bodies.iter_mut().map(|body| &mut **body as Borrowed<'_>).collect();
            scope.capture_switch(value, &mut bodies)
        })
    }

    fn __repr__(&self) -> String {
        format!("<anabranch.Capture in stream {}>", self.stream.get().id())
    }
}
