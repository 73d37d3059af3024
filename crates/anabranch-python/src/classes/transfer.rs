//! Copies and fills.

use crate::classes::buffer::Buffer;
use crate::classes::completion::{Completion, elements};
use crate::classes::open_stream::{OpenStream, wait_for};
use crate::dtype::{DType, Element, TypedCall};
use crate::host_data::{HostData, memoryview};
use crate::memory::{Memory, View};
use crate::{error, wait};
use anabranch::{BufferSliceMut, FillElement, MemoryAttachment, MemoryLocation, Prefetch, Status};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;

/// Fills a buffer with a number.
pub(crate) fn fill(stream: &OpenStream, buffer: &Bound<'_, Buffer>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    struct Fill<'a, 'py>(&'a OpenStream, &'a View, &'a Bound<'py, PyAny>);

    impl TypedCall for Fill<'_, '_> {
        type Output = PyResult<()>;

        fn call<T: Element>(self) -> Self::Output {
            let Self(stream, view, value) = self;
            let element = T::of_python(value)?;
            wait::in_turn(value.py(), [view.written()], || {
                // SAFETY: other threads submit no work that uses the memory meanwhile.
                let bytes = unsafe { view.bytes_mut("filling") }?;
                stream.fill(bytes.cast::<T>()?, element)
            })
        }
    }

    let view = buffer.get().view(buffer.py())?;
    view.dtype.with(Fill(stream, &view, value))
}

/// Refuses patterns that no element has, or that do not divide the bytes of a buffer.
pub(crate) fn require_pattern(view: &View, pattern: &[u8]) -> PyResult<()> {
    if ![1, 2, 4, 8].contains(&pattern.len()) || !view.byte_len().is_multiple_of(pattern.len()) {
        let (found, bytes) = (pattern.len(), view.byte_len());
        let message = format!("a buffer of {bytes} bytes is not filled with a pattern of {found} bytes");
        return Err(PyValueError::new_err(message));
    }
    Ok(())
}

/// Fills a buffer with a pattern of bytes.
pub(crate) fn fill_pattern(
    py: Python<'_>,
    stream: &OpenStream,
    buffer: &Bound<'_, Buffer>,
    pattern: &[u8],
) -> PyResult<()> {
    fn repeated<T: FillElement>(
        stream: &OpenStream,
        bytes: BufferSliceMut<'_, u8>,
        element: T,
    ) -> anabranch::Result<()> {
        stream.fill(bytes.cast::<T>()?, element)
    }

    let view = buffer.get().view(py)?;
    require_pattern(&view, pattern)?;
    wait::in_turn(py, [view.written()], || {
        // SAFETY: other threads submit no work that uses the memory meanwhile.
        let bytes = unsafe { view.bytes_mut("filling") }?;
        match *pattern {
            [one] => repeated(stream, bytes, one),
            [a, b] => repeated(stream, bytes, u16::from_ne_bytes([a, b])),
            [a, b, c, d] => repeated(stream, bytes, u32::from_ne_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => repeated(stream, bytes, u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
            _ => Ok(()),
        }
    })
}

/// Notes that earlier work of others in the stream uses a buffer.
pub(crate) fn note_use(py: Python<'_>, stream: &OpenStream, buffer: &Bound<'_, Buffer>) -> PyResult<()> {
    let view = buffer.get().view(py)?;
    if view.memory.is_read_only {
        return wait::in_turn(py, [view.read()], || stream.submit_foreign((view.bytes()?,), |_| ()));
    }
    wait::in_turn(py, [view.written()], || {
        // SAFETY: other threads submit no work that uses the memory meanwhile.
        let bytes = unsafe { view.bytes_mut("noting a use") }?;
        stream.submit_foreign((bytes,), |_| ())
    })
}

/// Moves managed memory to the stream's device, or to the host.
pub(crate) fn prefetch(py: Python<'_>, stream: &OpenStream, buffer: &Bound<'_, Buffer>, to_host: bool) -> PyResult<()> {
    let view = buffer.get().view(py)?;
    wait::in_turn(py, [view.read()], || {
        let location = match to_host {
            true => MemoryLocation::Host,
            false => MemoryLocation::Device(stream.device().ordinal()),
        };
        stream.prefetch_batch([Prefetch::new(view.bytes()?, location)?])
    })
}

/// Says who uses managed memory.
pub(crate) fn attach(
    py: Python<'_>,
    stream: &OpenStream,
    buffer: &Bound<'_, Buffer>,
    attachment: &str,
) -> PyResult<()> {
    let attachment = match attachment {
        "single" => MemoryAttachment::Single,
        "host" => MemoryAttachment::Host,
        "global" => MemoryAttachment::Global,
        _ => {
            let message = format!("memory is attached \"single\", \"host\" or \"global\", and not {attachment:?}");
            return Err(PyValueError::new_err(message));
        }
    };
    let view = buffer.get().view(py)?;
    wait::in_turn(py, [view.written()], || {
        // SAFETY: other threads submit no work that uses the memory meanwhile.
        stream.attach(unsafe { view.bytes_mut("attaching managed memory") }?, attachment)
    })
}

/// Copies elements from a buffer of one context to one of another.
pub(crate) fn copy_peer(
    stream: &OpenStream,
    destination: &Bound<'_, Buffer>,
    source: &Bound<'_, Buffer>,
) -> PyResult<()> {
    let py = destination.py();
    let (to, from) = (destination.get().view(py)?, source.get().view(py)?);
    require_copy(py, &to, &from)?;
    wait::in_turn(py, [to.written(), from.read()], || {
        // SAFETY: other threads submit no work that uses the destination meanwhile, and the parts do not overlap.
        stream.copy_peer(unsafe { to.bytes_mut("copying between contexts") }?, from.bytes()?)
    })
}

/// Copies elements to new memory.
pub(crate) fn clone_buffer(stream: &OpenStream, source: &Bound<'_, Buffer>) -> PyResult<Buffer> {
    struct Clone<'a>(&'a OpenStream, &'a View);

    impl TypedCall for Clone<'_> {
        type Output = anabranch::Result<Memory>;

        fn call<T: Element>(self) -> Self::Output {
            self.0.clone_buffer(self.1.bytes()?.cast::<T>()?).map(Memory::of)
        }
    }

    let py = source.py();
    let view = source.get().view(py)?;
    let memory = wait::in_turn(py, [view.read()], || view.dtype.with(Clone(stream, &view)))?;
    Ok(Buffer::new(View::whole(memory, view.dtype, view.shape.clone())))
}

/// Copies elements from one buffer to another one.
pub(crate) fn copy(stream: &OpenStream, destination: &Bound<'_, Buffer>, source: &Bound<'_, Buffer>) -> PyResult<()> {
    /// Called when it is this thread's turn to write the destination and to read the source.
    struct Copy<'a>(&'a OpenStream, &'a View, &'a View);

    impl TypedCall for Copy<'_> {
        type Output = anabranch::Result<()>;

        fn call<T: Element>(self) -> Self::Output {
            let Self(stream, destination, source) = self;
            // SAFETY: other threads submit no work that uses the destination meanwhile, and the parts do not overlap.
            let bytes = unsafe { destination.bytes_mut("copying") }?;
            stream.copy(bytes.cast::<T>()?, source.bytes()?.cast::<T>()?)
        }
    }

    let py = destination.py();
    let (to, from) = (destination.get().view(py)?, source.get().view(py)?);
    require_copy(py, &to, &from)?;
    wait::in_turn(py, [to.written(), from.read()], || to.dtype.with(Copy(stream, &to, &from)))
}

/// Refuses a copy between buffers of different types, or of a part of one to another part that it overlaps.
pub(crate) fn require_copy(py: Python<'_>, to: &View, from: &View) -> PyResult<()> {
    if to.dtype != from.dtype {
        let (to, from) = (to.dtype.name(), from.dtype.name());
        let message = format!("the destination has elements of {to}, and the source of {from}");
        return Err(PyTypeError::new_err(message));
    }
    if to.overlaps(from).map_err(|error| error::raise(py, &error))? {
        let (message, hint) = ("the destination and the source overlap", "copy by way of another buffer");
        return Err(error::refused(py, Status::INVALID_VALUE, "copying", message, hint));
    }
    Ok(())
}

/// Copies data of the host to a buffer. Returns when the data can be changed.
pub(crate) fn copy_from_host(stream: &OpenStream, buffer: &Bound<'_, Buffer>, data: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = buffer.py();
    let view = buffer.get().view(py)?;
    let data = HostData::of_python(data, Some(view.dtype))?;
    let bytes = data.bytes.as_bytes(py);
    if bytes.len() != view.byte_len() {
        let (found, expected) = (bytes.len() / view.dtype.size(), view.len());
        return Err(PyValueError::new_err(format!("the buffer has {expected} elements, and the data {found}")));
    }
    wait_for(py, stream)?;
    wait::in_turn(py, [view.written()], || {
        // SAFETY: other threads submit no work that uses the memory meanwhile.
        let destination = unsafe { view.bytes_mut("copying") }?;
        stream.copy_from_host(destination, bytes)
    })
}

/// Copies a buffer to a view that can be written. Waits for the copy.
pub(crate) fn copy_to_host(
    stream: &OpenStream,
    destination: &Bound<'_, PyAny>,
    buffer: &Bound<'_, Buffer>,
) -> PyResult<()> {
    let py = buffer.py();
    let view = buffer.get().view(py)?;
    let target = memoryview(destination)?;
    let is_read_only: bool = target.getattr("readonly")?.extract()?;
    let is_contiguous: bool = target.getattr("c_contiguous")?.extract()?;
    if is_read_only || !is_contiguous {
        return Err(PyBufferError::new_err("the destination must be memory that can be written, in row-major order"));
    }
    let format: String = target.getattr("format")?.extract()?;
    let (found, expected) = (DType::of_text(&format), view.dtype);
    // Plain bytes, and numbers of 16 bits as which others pass `float16` and `bfloat16`.
    let is_raw = found == Some(DType::U8) || (found == Some(DType::U16) && expected.size() == 2);
    if found != Some(expected) && !is_raw {
        let message =
            format!("the destination has elements of the format {format:?}, and the buffer of {}", expected.name());
        return Err(PyTypeError::new_err(message));
    }
    let found: usize = target.getattr("nbytes")?.extract()?;
    if found != view.byte_len() {
        let expected = view.byte_len();
        return Err(PyValueError::new_err(format!("the buffer has {expected} bytes, and the destination {found}")));
    }
    if found == 0 {
        return Ok(());
    }
    let bytes = download_bytes(py, stream, &view)?;
    let all = pyo3::types::PySlice::full(py);
    target.call_method1("cast", ("B",))?.set_item(all, crate::host_data::bytes(py, &bytes)?)
}

fn download_bytes(py: Python<'_>, stream: &OpenStream, view: &View) -> PyResult<Vec<u8>> {
    let download = wait::in_turn(py, [view.read()], || Ok(stream.download_async(view.bytes()?)))?;
    wait::for_future(py, download)
}

/// Copies a buffer to new memory of the host. Waits for the copy.
pub(crate) fn download(stream: &OpenStream, buffer: &Bound<'_, Buffer>) -> PyResult<Py<PyAny>> {
    let py = buffer.py();
    let view = buffer.get().view(py)?;
    let bytes = download_bytes(py, stream, &view)?;
    elements(py, &bytes, view.dtype, &view.shape)
}

/// Copies a buffer to new memory of the host, without waiting.
pub(crate) fn download_async(stream: &OpenStream, buffer: &Bound<'_, Buffer>) -> PyResult<Completion> {
    let py = buffer.py();
    let view: Arc<View> = buffer.get().view(py)?;
    let download = wait::in_turn(py, [view.read()], || Ok(stream.download_async(view.bytes()?)))?;
    Ok(Completion::of_download(download, view))
}
