//! Streams of this library and of others.

use crate::classes::stream::Stream;
use crate::kept::Kept;
use crate::{error, wait};
use anabranch::{BorrowedStream, EventFlags, Status, StreamHandle};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::ops::Deref;

/// A stream that can be used.
pub(crate) enum OpenStream {
    /// A stream of this library, which ends with this.
    Owned(anabranch::Stream),
    /// The stream of another library, with the object that keeps it. The garbage collector does not see that one: it might clear the object
    /// first, and end the stream while this is still there.
    Foreign { stream: BorrowedStream<'static>, _owner: Kept<Py<PyAny>> },
    /// The stream of the body of a condition, for as long as it is captured.
    Body(BorrowedStream<'static>),
}

impl Deref for OpenStream {
    type Target = anabranch::Stream;

    fn deref(&self) -> &anabranch::Stream {
        match self {
            Self::Owned(stream) => stream,
            Self::Foreign { stream, .. } | Self::Body(stream) => stream,
        }
    }
}

impl OpenStream {
    /// The stream that the body of a condition is captured with.
    pub(crate) fn of_body(stream: &anabranch::Stream) -> Self {
        // SAFETY: it shares the stream's owner, and so keeps the stream. The lifetime only lets the stream end before those that
        // have lent it do, and whoever calls this closes the object of Python when the body is over.
        Self::Body(unsafe { std::mem::transmute::<BorrowedStream<'_>, BorrowedStream<'static>>(stream.to_borrowed()) })
    }
}

/// The stream that an object with `__cuda_stream__` stands for. A mere number is none: it could be anything, and drivers take
/// handles for what they are called.
pub(crate) fn foreign(object: &Bound<'_, PyAny>, context: &anabranch::Context) -> PyResult<Stream> {
    let py = object.py();
    if let Ok(ours) = object.cast::<Stream>() {
        return ours.get().share(py, context);
    }
    if let Some(ours) = of_this_package(object)? {
        return ours.get().share(py, context);
    }
    let Some(method) = object.getattr_opt("__cuda_stream__")? else {
        let name = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{name} is no stream: it has no __cuda_stream__")));
    };
    // An attribute at first, and a method since.
    let described = if method.is_callable() { method.call0()? } else { method };
    let (version, handle): (u64, usize) = described.extract()?;
    if version != 0 {
        let message = format!("the stream is described by version {version} of __cuda_stream__");
        let hint = "install a newer version of this package";
        return Err(error::refused(py, Status::NOT_SUPPORTED, "opening a stream", message, hint));
    }
    of_handle(py, context, handle, object.clone().unbind())
}

/// The stream of an object of a module of this package. Such an object may close its stream, which is kept therefore, and not the object.
fn of_this_package<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, Stream>>> {
    let found = object.getattr_opt("anabranch_stream")?;
    Ok(found.and_then(|found| found.cast_into::<Stream>().ok()))
}

/// The stream with that handle, of another library. It exists as long as `owner`, which is kept.
pub(crate) fn of_handle(
    py: Python<'_>,
    context: &anabranch::Context,
    handle: usize,
    owner: Py<PyAny>,
) -> PyResult<Stream> {
    if let Some(ours) = of_this_package(owner.bind(py))?
        && ours.get().handle(py)? == handle
    {
        return ours.get().share(py, context);
    }
    let handle = StreamHandle::from_raw(handle);
    // SAFETY: whoever has named the handle promises that the stream exists as long as the object, which is kept.
    let stream = wait::call(py, || unsafe { BorrowedStream::from_raw(context, handle) })?;
    Ok(Stream::new(OpenStream::Foreign { stream, _owner: Kept::new(owner) }))
}

/// Waits for the work of a stream until now, before a call that waits for it without looking at signals. A stream that captures
/// has no such work.
pub(crate) fn wait_for(py: Python<'_>, stream: &OpenStream) -> PyResult<()> {
    let completion = wait::call(py, || {
        if stream.is_capturing()? {
            return Ok(None);
        }
        let event = stream.record_event_with_flags(EventFlags::DISABLE_TIMING)?;
        Ok(Some(event.completed()))
    })?;
    completion.map_or(Ok(()), |completion| wait::for_future(py, completion))
}
