//! Buffers.

use crate::classes::context::Context;
use crate::classes::tensor;
use crate::dtype::DType;
use crate::kept::Kept;
use crate::memory::{Place, View, count, extents};
use crate::slot::{Slot, release};
use crate::{threads, wait};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyIndexError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice, PyTuple};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Device memory for elements of one type, in row-major order. Uses in several streams are ordered. On the software device,
/// it is memory of the host, which NumPy can view.
#[pyclass(frozen, weakref, subclass, module = "anabranch")]
pub(crate) struct Buffer {
    view: Slot<View>,
    id: u64,
    /// What views of others point to, which keep this object and not the memory.
    viewed: OnceLock<Arc<View>>,
}

impl Buffer {
    pub(crate) fn new(view: View) -> Self {
        let id = view.memory.id();
        Self { view: Slot::new("buffer", view), id, viewed: OnceLock::new() }
    }

    /// The part of memory that it stands for.
    pub(crate) fn view(&self, py: Python<'_>) -> PyResult<Arc<View>> {
        Ok(self.view.get(py)?.share())
    }

    /// The part, for a view of another library on memory of the host, and its address. Waits until work that uses it is
    /// complete.
    fn host_view(&self, py: Python<'_>) -> PyResult<(Arc<View>, usize)> {
        let view = self.view(py)?;
        if !view.memory.is_of_host() {
            return Err(PyAttributeError::new_err("the buffer is memory of a GPU, which the host cannot read"));
        }
        let shared = view.clone();
        wait::for_wait(py, view.memory.id(), move || shared.share(None).map(drop))?;
        let address = view.address().map_err(|error| crate::error::raise(py, &error))?;
        let _ = self.viewed.set(view.clone());
        Ok((view, address as usize))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(viewed) = self.viewed.take() {
            release(viewed);
        }
    }
}

/// Pinned host memory, which devices access directly. NumPy can view it.
#[pyclass(frozen, extends = Buffer, module = "anabranch")]
pub(crate) struct PinnedBuffer;

/// Memory that the host and devices access at the same address, and that the driver moves between them. NumPy can view it, where
/// the device allows that while it works.
#[pyclass(frozen, extends = Buffer, module = "anabranch")]
pub(crate) struct ManagedBuffer;

/// A buffer of the class that its memory is of.
pub(crate) fn create(py: Python<'_>, view: View) -> PyResult<Py<PyAny>> {
    let place = view.memory.place;
    let buffer = PyClassInitializer::from(Buffer::new(view));
    match place {
        Place::Device => Py::new(py, buffer).map(Py::into_any),
        Place::Pinned => Py::new(py, buffer.add_subclass(PinnedBuffer)).map(Py::into_any),
        Place::Managed => Py::new(py, buffer.add_subclass(ManagedBuffer)).map(Py::into_any),
    }
}

/// An exception of `__buffer__`. NumPy drops it, and asks for `__array_interface__` instead, which raises it then: it may be that of Ctrl-C,
/// which nobody would get otherwise.
struct Lost {
    buffer: usize,
    caller: Caller,
    error: Kept<PyErr>,
}

/// Where the program is: the address of a frame, and the instruction in it. NumPy asks again within the same instruction; what the program
/// does after it has handled an exception is another one.
type Caller = (usize, i64);

/// The frame so many calls up.
fn caller(py: Python<'_>, up: usize) -> PyResult<Caller> {
    let frame = py.import(intern!(py, "sys"))?.call_method1(intern!(py, "_getframe"), (up,))?;
    let instruction = frame.getattr(intern!(py, "f_lasti"))?.extract()?;
    Ok((frame.as_ptr().addr(), instruction))
}

/// For so long an exception is kept, with the frames and the variables that it has. NumPy goes on at once.
const LOST_FOR: Duration = Duration::from_millis(100);

/// How many are kept at most.
const MOST_KEPT: usize = 16;

static KEPT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LOST: Cell<Option<Arc<Mutex<Option<Lost>>>>> = const { Cell::new(None) };
}

fn take(lost: &Mutex<Option<Lost>>) -> Option<Lost> {
    lost.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Lost {
    /// Keeps it for this thread and for a while.
    fn keep(self) {
        let lost = Arc::new(Mutex::new(Some(self)));
        let kept = lost.clone();
        let expire = move || {
            std::thread::sleep(LOST_FOR);
            KEPT.fetch_sub(1, Ordering::Relaxed);
            drop(take(&kept));
        };
        // Without a thread that lets go of it, it is not kept. A program that brings about one after the other has no thread for each.
        if KEPT.fetch_add(1, Ordering::Relaxed) < MOST_KEPT && threads::run(expire).is_ok() {
            LOST.with(|last| drop(last.replace(Some(lost))));
        } else {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Buffer {
    fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn take_lost(&self, py: Python<'_>) -> Option<PyErr> {
        let lost = take(&*LOST.with(Cell::take)?)?;
        let is_it = lost.buffer == self.place() && caller(py, 0).is_ok_and(|caller| caller == lost.caller);
        is_it.then(|| lost.error.into_inner())
    }
}

#[pymethods]
impl Buffer {
    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.view(py)?.shape)
    }

    /// The type of the elements, by its name in NumPy, such as "float32".
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(self.view(py)?.dtype.name())
    }

    /// The bytes of an element.
    #[getter]
    fn itemsize(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.view(py)?.dtype.size())
    }

    /// The number of elements.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.view(py)?.len())
    }

    /// The number of bytes.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.view(py)?.byte_len())
    }

    /// The address of the first element. The library does not order uses by the address.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<u64> {
        self.view(py)?.address().map_err(|error| crate::error::raise(py, &error))
    }

    /// Whether the memory cannot be written.
    #[getter]
    fn is_read_only(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.view(py)?.memory.is_read_only)
    }

    /// The context that the memory belongs to.
    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<Context> {
        Ok(Context::new(self.view(py)?.memory.context().clone()))
    }

    /// An id of the memory, which parts of it have too, and which is never reused.
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// The same elements in another shape.
    fn reshape(&self, py: Python<'_>, shape: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (view, shape) = (self.view(py)?, extents(shape)?);
        if count(view.dtype, &shape).ok() != Some(view.len()) {
            let message = format!("the shape {shape:?} is not that of {} elements", view.len());
            return Err(pyo3::exceptions::PyValueError::new_err(message));
        }
        create(py, View { shape, ..View::clone(&view) })
    }

    /// Gives up this object's hold on the memory, which is freed behind its last use when no part, view or graph has it.
    fn close(&self, py: Python<'_>) {
        self.view.close(py);
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __exit__(&self, kind: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _traceback: &Bound<'_, PyAny>) {
        self.close(kind.py());
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let view = self.view(py)?;
        view.shape.first().copied().ok_or_else(|| PyTypeError::new_err("a buffer of no dimensions has no length"))
    }

    /// A part of the first dimension, by a slice with a step of 1. It shares the memory.
    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let view = self.view(py)?;
        let Ok(slice) = index.cast::<PySlice>() else {
            let message = "a buffer has parts, such as buffer[2:5]; download it to read elements";
            return Err(PyTypeError::new_err(message));
        };
        let (&extent, rest) =
            view.shape.split_first().ok_or_else(|| PyIndexError::new_err("a buffer of no dimensions has no parts"))?;
        let indices = slice.indices(extent as isize)?;
        if indices.step != 1 {
            return Err(PyIndexError::new_err("the parts of a buffer are contiguous: slice it with a step of 1"));
        }
        let mut shape = view.shape.clone();
        shape[0] = indices.slicelength;
        // A start at the end is that of an empty part.
        let first = view.first + indices.start.cast_unsigned() * rest.iter().product::<usize>();
        create(py, View { first, shape, ..View::clone(&view) })
    }

    /// A capsule for another library; see the Python array API standard. `stream` is the consumer's. For memory of the host,
    /// it is None, and this waits until work that uses the memory is complete.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        tensor::export(py, &self.view(py)?, stream, max_version, dl_device, copy)
    }

    /// The kind and the number of the device, in the terms of DLPack.
    fn __dlpack_device__(&self, py: Python<'_>) -> PyResult<(i32, i32)> {
        let device = self.view(py)?.memory.device().map_err(|error| crate::error::raise(py, &error))?;
        Ok((device.device_type.0, device.device_id))
    }

    /// For NumPy: memory of the host. Waits until work that uses the memory is complete.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(lost) = self.take_lost(py) {
            return Err(lost);
        }
        let (view, address) = self.host_view(py)?;
        tensor::array_interface(py, &view, address)
    }

    /// For other libraries: memory of a GPU. The legacy default stream follows all work that uses the memory.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let view = self.view(py)?;
        let interface = tensor::cuda_array_interface(py, &view)?;
        let _ = self.viewed.set(view);
        Ok(interface)
    }

    /// A view of memory of the host, for `__buffer__`, which keeps this object.
    fn _memoryview(this: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (py, buffer) = (this.py(), this.get());
        let view = buffer.view(py)?;
        if !view.memory.is_of_host() {
            return Err(PyBufferError::new_err("the buffer is memory of a GPU, which the host cannot read"));
        }
        let dtype = view.dtype;
        if matches!(dtype, DType::F16 | DType::BF16) {
            // Others would take integers of 16 bits for the numbers. NumPy goes on to `__array_interface__`.
            let message = format!("the buffer protocol has no {}; NumPy and DLPack have it", dtype.name());
            return Err(PyBufferError::new_err(message));
        }
        let (view, address) = buffer.host_view(py).inspect_err(|error| {
            // Above `__buffer__`, which calls this.
            if let Ok(caller) = caller(py, 1) {
                Lost { buffer: buffer.place(), caller, error: Kept::new(error.clone_ref(py)) }.keep();
            }
        })?;
        tensor::memoryview(this, &view, address)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.view.peek(py) {
            None => "<anabranch.Buffer (closed)>".to_owned(),
            Some(view) => {
                let class = match view.memory.place {
                    Place::Device => "Buffer",
                    Place::Pinned => "PinnedBuffer",
                    Place::Managed => "ManagedBuffer",
                };
                let (shape, device) = (&view.shape, view.memory.context().device().name());
                format!("<anabranch.{class} {shape:?} of {} on {device}>", view.dtype.name())
            }
        }
    }
}
