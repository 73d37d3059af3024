//! Memory that is shared with other libraries: DLPack and the array interfaces.

use crate::classes::buffer;
use crate::classes::stream::Stream;
use crate::dtype::DType;
use crate::host_data;
use crate::memory::{Memory, Place, View};
use crate::slot::release;
use crate::{error, process, threads, wait};
use anabranch::dlpack::{DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, ManagedTensor};
use anabranch::{BackendKind, BorrowedStream, StreamHandle};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use pyo3::{IntoPyObjectExt, ffi, intern};
use std::ffi::CStr;
use std::ptr::NonNull;

const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
const USED_UNVERSIONED: &CStr = c"used_dltensor";

/// A capsule of a part of memory.
pub(crate) fn export(
    py: Python<'_>,
    view: &std::sync::Arc<View>,
    stream: Option<i64>,
    max_version: Option<(u32, u32)>,
    dl_device: Option<(i32, i32)>,
    copy: Option<bool>,
) -> PyResult<Py<PyAny>> {
    let device = view.memory.device().map_err(|error| error::raise(py, &error))?;
    if dl_device.is_some_and(|wanted| wanted != (device.device_type.0, device.device_id)) {
        return Err(PyBufferError::new_err("the memory is on another device, and is not copied: copy it in a stream"));
    }
    if copy == Some(true) {
        return Err(PyBufferError::new_err("a copy is not made here: copy the buffer in a stream"));
    }
    let is_of_host = matches!(device.device_type, DLDeviceType::CPU | DLDeviceType::CUDA_HOST);
    let tensor = match (is_of_host, stream) {
        (true, None | Some(-1)) | (false, Some(-1)) => {
            let view = view.clone();
            wait::for_wait(py, view.memory.id(), move || view.share(None))
        }
        (true, Some(_)) => return Err(PyValueError::new_err("memory of the host has no stream: pass stream=None")),
        (false, stream) => wait::in_turn(py, [view.written()], || match stream {
            None | Some(1) => view.share(Some(&view.memory.context().legacy_stream()?)),
            Some(2) => view.share(Some(&view.memory.context().per_thread_stream()?)),
            Some(handle) => {
                // SAFETY: the consumer promises that it is a stream, which exists as long as it works in it.
                let stream = unsafe { borrowed(view.memory.context(), handle) }?;
                view.share(Some(&stream))
            }
        }),
    }?;
    let tensor = deleted_without_python(tensor);
    if max_version.is_some_and(|(major, _)| major >= 1) {
        let raw = tensor.into_versioned();
        // SAFETY: the pointer is that of a versioned tensor, and nobody else has it.
        return unsafe { capsule(py, raw.as_ptr().cast(), VERSIONED, Some(drop_versioned)) };
    }
    // The error says how a tensor that is read-only can be had.
    let raw = tensor.into_unversioned().map_err(|(error, _)| PyBufferError::new_err(error.to_string()))?;
    // SAFETY: the pointer is that of a tensor without a version, and nobody else has it.
    unsafe { capsule(py, raw.as_ptr().cast(), UNVERSIONED, Some(drop_unversioned)) }
}

/// # Safety
/// The handle is that of a stream, which exists as long as the result.
unsafe fn borrowed(context: &anabranch::Context, handle: i64) -> anabranch::Result<BorrowedStream<'static>> {
    // SAFETY: the caller promises the same.
    unsafe { BorrowedStream::from_raw(context, StreamHandle::from_raw(handle as usize)) }
}

/// # Safety
/// The destructor can be called with a capsule of that pointer and that name.
unsafe fn capsule(
    py: Python<'_>,
    pointer: *mut std::ffi::c_void,
    name: &'static CStr,
    destructor: Option<ffi::PyCapsule_Destructor>,
) -> PyResult<Py<PyAny>> {
    // SAFETY: the name lives for ever, and the caller promises the rest.
    let capsule = unsafe { ffi::PyCapsule_New(pointer, name.as_ptr(), destructor) };
    // SAFETY: it is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }.map(Bound::unbind)
}

/// Drops the tensor of a capsule that nobody has taken.
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule, and a name of C.
    if unsafe { ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: it is valid under this name.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()) };
    if let Some(tensor) = NonNull::new(pointer.cast::<DLManagedTensorVersioned>()) {
        // SAFETY: the capsule is of this module, and nobody has taken the tensor.
        drop(unsafe { ManagedTensor::from_versioned(tensor) });
    }
}

/// Drops the tensor of a capsule that nobody has taken.
unsafe extern "C" fn drop_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule, and a name of C.
    if unsafe { ffi::PyCapsule_IsValid(capsule, UNVERSIONED.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: it is valid under this name.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()) };
    if let Some(tensor) = NonNull::new(pointer.cast::<DLManagedTensor>()) {
        // SAFETY: the capsule is of this module, and nobody has taken the tensor.
        drop(unsafe { ManagedTensor::from_unversioned(tensor) });
    }
}

/// A buffer of the array of another library, without a copy.
pub(crate) fn import(
    context: &anabranch::Context,
    array: &Bound<'_, PyAny>,
    stream: Option<&Bound<'_, Stream>>,
) -> PyResult<Py<PyAny>> {
    let py = array.py();
    error::require_usable(py)?;
    let Some(method) = array.getattr_opt("__dlpack__")? else {
        let message = format!("{} is no array that DLPack knows: it has no __dlpack__", array.get_type().name()?);
        return Err(PyTypeError::new_err(message));
    };
    let (device_type, _): (i32, i32) = array.call_method0("__dlpack_device__")?.extract()?;
    let is_of_host = [DLDeviceType::CPU, DLDeviceType::CUDA_HOST].contains(&DLDeviceType(device_type));
    let stream = stream.map(|stream| stream.get().get(py)).transpose()?;
    // What the consumer's stream is called; see the Python array API standard.
    let asked = match &stream {
        _ if is_of_host || context.device().backend() == BackendKind::Host => None,
        None => Some(1),
        Some(stream) => Some(match stream.as_raw().as_raw() {
            0 => 1,
            handle => handle,
        }),
    };
    let versions = PyDict::new(py);
    versions.set_item("stream", asked)?;
    versions.set_item("max_version", (1, 0))?;
    let capsule = match method.call((), Some(&versions)) {
        // A producer of before version 1.
        Err(refused) if refused.is_instance_of::<PyTypeError>(py) => {
            versions.del_item("max_version")?;
            method.call((), Some(&versions))?
        }
        called => called?,
    };
    let tensor = taken(&capsule)?;
    let Some(dtype) = DType::of_tensor(tensor.data_type()) else {
        let message = format!("elements of {:?} are not supported; convert the array", tensor.data_type());
        return Err(PyTypeError::new_err(message));
    };
    let shape = tensor.shape().iter().map(|&extent| usize::try_from(extent).unwrap_or_default()).collect();
    let memory = wait::call(py, || match (&stream, asked) {
        (Some(stream), _) => Memory::imported(tensor, dtype, context, Some(stream)),
        (None, Some(_)) => Memory::imported(tensor, dtype, context, Some(&context.legacy_stream()?)),
        (None, None) => Memory::imported(tensor, dtype, context, None),
    })?;
    buffer::create(py, View::whole(memory, dtype, shape))
}

/// The tensor of a capsule, which is marked as used.
fn taken(capsule: &Bound<'_, PyAny>) -> PyResult<ManagedTensor> {
    let (py, pointer) = (capsule.py(), capsule.as_ptr());
    let take = |name: &'static CStr, used: &'static CStr| {
        // SAFETY: it is an object, and the name is of C; this says so if the object is no such capsule.
        if unsafe { ffi::PyCapsule_IsValid(pointer, name.as_ptr()) } == 0 {
            return Ok(None);
        }
        // SAFETY: it is a capsule of that name.
        let tensor = NonNull::new(unsafe { ffi::PyCapsule_GetPointer(pointer, name.as_ptr()) });
        // SAFETY: the other name lives for ever.
        if unsafe { ffi::PyCapsule_SetName(pointer, used.as_ptr()) } != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(tensor)
    };
    if let Some(tensor) = take(VERSIONED, USED_VERSIONED)? {
        // SAFETY: the producer promises a tensor, which is this module's from now on. Its deleter is called on threads of this
        // module.
        let tensor = unsafe { ManagedTensor::from_versioned(tensor.cast()) };
        return tensor.map(deleted_with_python).map_err(|error| error::raise(py, &error));
    }
    if let Some(tensor) = take(UNVERSIONED, USED_UNVERSIONED)? {
        // SAFETY: the producer promises a tensor, which is this module's from now on. Its deleter is called on threads of this
        // module.
        return Ok(deleted_with_python(unsafe { ManagedTensor::from_unversioned(tensor.cast()) }));
    }
    Err(PyTypeError::new_err("__dlpack__ has returned no capsule of a tensor that is not used yet"))
}

/// The same tensor, which is deleted on a thread that may wait for the interpreter, and not at all when that ends: deleters of
/// Python's libraries attach to it.
fn deleted_with_python(tensor: ManagedTensor) -> ManagedTensor {
    unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
        // SAFETY: whoever has the tensor calls this once.
        let inner = unsafe { Inner::of(tensor) };
        threads::DELETIONS.add(move |_| drop(inner));
    }
    with_deleter(tensor, delete)
}

/// The same tensor, which is deleted without the interpreter, and not at all in the child of a fork: the library may wait for threads.
fn deleted_without_python(tensor: ManagedTensor) -> ManagedTensor {
    unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
        // SAFETY: whoever has the tensor calls this once.
        let inner = unsafe { Inner::of(tensor) };
        if process::is_forked() || process::may_have_interpreter() {
            release(inner);
        }
    }
    with_deleter(tensor, delete)
}

/// The same tensor with another deleter, which gets a tensor for [`Inner::of`].
fn with_deleter(tensor: ManagedTensor, delete: unsafe extern "C" fn(*mut DLManagedTensorVersioned)) -> ManagedTensor {
    let raw = tensor.into_versioned();
    // SAFETY: it is a tensor, which is there until its deleter is called.
    let inner = unsafe { raw.as_ref() };
    let outer = Box::new(DLManagedTensorVersioned {
        version: inner.version,
        manager_ctx: raw.as_ptr().cast(),
        deleter: Some(delete),
        flags: inner.flags,
        dl_tensor: inner.dl_tensor,
    });
    // SAFETY: the tensor is the inner one, which is kept until this one is deleted. It is of version 1, as that is.
    match unsafe { ManagedTensor::from_versioned(NonNull::from(Box::leak(outer))) } {
        Ok(tensor) => tensor,
        Err(_) => unreachable!("the version was accepted before"),
    }
}

/// The tensor that one of [`with_deleter`] stands for.
struct Inner(*mut DLManagedTensorVersioned);

// SAFETY: the deleter of a tensor can be called on any thread, and nothing else is done with it.
unsafe impl Send for Inner {}

impl Inner {
    /// Takes it out.
    ///
    /// # Safety
    /// The tensor was made by [`with_deleter`], and this is called once.
    unsafe fn of(tensor: *mut DLManagedTensorVersioned) -> Self {
        // SAFETY: it was a box.
        Self(unsafe { Box::from_raw(tensor) }.manager_ctx.cast())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the tensor is there until its deleter is called, which is done here only.
        if let Some(deleter) = unsafe { (*self.0).deleter } {
            // SAFETY: nobody uses the tensor any more.
            unsafe { deleter(self.0) };
        }
    }
}

/// For NumPy.
pub(crate) fn array_interface<'py>(py: Python<'py>, view: &View, address: usize) -> PyResult<Bound<'py, PyDict>> {
    let interface = PyDict::new(py);
    interface.set_item("shape", PyTuple::new(py, &view.shape)?)?;
    interface.set_item("typestr", view.dtype.typestr())?;
    interface.set_item("data", (address, view.memory.is_read_only))?;
    interface.set_item("strides", py.None())?;
    interface.set_item("version", 3)?;
    Ok(interface)
}

/// The number of the legacy default stream in the interface.
const LEGACY: usize = 1;

/// For libraries on GPUs.
pub(crate) fn cuda_array_interface<'py>(py: Python<'py>, view: &View) -> PyResult<Bound<'py, PyDict>> {
    if view.memory.context().device().backend() != BackendKind::Cuda || view.memory.place == Place::Pinned {
        return Err(PyAttributeError::new_err("the buffer is no memory of a GPU"));
    }
    let address = wait::in_turn(py, [view.written()], || {
        let stream = view.memory.context().legacy_stream()?;
        // The tensor itself is not needed: whoever gets the address waits for the stream, and keeps the buffer.
        drop(view.share(Some(&stream))?);
        view.address()
    })?;
    let interface = array_interface(py, view, address as usize)?;
    interface.set_item("stream", LEGACY)?;
    Ok(interface)
}

/// A view of memory of the host. It keeps `owner`, which keeps the memory, and so does every view that is made of it.
pub(crate) fn memoryview(owner: &Bound<'_, PyAny>, view: &View, address: usize) -> PyResult<Py<PyAny>> {
    let py = owner.py();
    let all = if view.len() == 0 {
        host_data::memoryview(&PyBytes::new(py, b""))?
    } else {
        // The stable ABI of older versions has no classes with the buffer protocol. An array of ctypes has it, and attributes.
        let class = py.import(intern!(py, "ctypes"))?.getattr(intern!(py, "c_char"))?.mul(view.byte_len())?;
        let array = class.call_method1(intern!(py, "from_address"), (address,))?;
        array.setattr(intern!(py, "owner"), owner)?;
        let all = host_data::memoryview(&array)?;
        if view.memory.is_read_only { all.call_method0(intern!(py, "toreadonly"))? } else { all }
    };
    cast(&all.call_method1("cast", ("B",))?, view.dtype, &view.shape)?.into_py_any(py)
}

/// A view of bytes as elements in a shape. Those of 16 bits that are no integers are integers there.
pub(crate) fn cast<'py>(bytes: &Bound<'py, PyAny>, dtype: DType, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let format = match dtype {
        DType::F16 | DType::BF16 => "H",
        _ => dtype.format(),
    };
    // There is no view of no elements in several dimensions.
    if shape.len() == 1 || shape.contains(&0) {
        return bytes.call_method1("cast", (format,));
    }
    bytes.call_method1("cast", (format, PyTuple::new(bytes.py(), shape)?))
}
