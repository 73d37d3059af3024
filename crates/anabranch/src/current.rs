//! Calls that take no stream: they use the [current stream](crate::Stream::enter) of the thread.
//!
//! | CuPy | here |
//! |---|---|
//! | `with stream:` | `let _guard = stream.enter();` until the guard is dropped |
//! | `stream.use()` | `stream.make_current();` until another stream of the context is made current |
//! | `cupy.asarray(data)` | [`Buffer::from_slice(data)`](Buffer::from_slice) |
//! | `cupy.fromiter(data, type)` | [`Buffer::from_elements(data)`](Buffer::from_elements) |
//! | `cupy.zeros(n)` | [`Buffer::zeroed(n)`](Buffer::zeroed) |
//! | `cupy.copyto(to, from)` | [`current::copy(&mut to, &from)`](copy) |
//! | `a.fill(value)` | [`current::fill(&mut a, value)`](fill) |
//! | `kernel(grid, block, arguments)` | [`current::launch(&kernel, &config, arguments)`](launch) |
//! | `cupy.asnumpy(a)` | [`a.to_vec()`](Buffer::to_vec) |
//!
//! ```
//! use anabranch::{Buffer, current};
//! use std::sync::Arc;
//! # let context = anabranch::Instance::new()?.device("host")?.context()?;
//!
//! let (first, second) = (Arc::new(context.create_stream()?), context.create_stream()?);
//! first.make_current(); // like `first.use()`
//! let source = Buffer::from_slice(&[1u32, 2, 3])?; // in `first`
//! {
//!     let _guard = second.enter(); // like `with second:`
//!     let mut target = Buffer::zeroed(3)?; // in `second`
//!     current::copy(&mut target, &source)?; // in `second`, behind the upload in `first`
//!     assert_eq!(target.to_vec()?, [1, 2, 3]);
//! }
//! assert_eq!(source.to_vec()?, [1, 2, 3]); // in `first`
//! # Ok::<(), anabranch::Error>(())
//! ```
//!
//! A call uses the current stream of the context that its buffers or its kernel belong to, so that streams of several
//! devices can be current at the same time. [`Buffer::from_slice`], [`Buffer::from_elements`] and [`Buffer::zeroed`]
//! have neither, and use the stream that became current last. Without a current stream, the calls return
//! [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE); the library does not fall back to a default
//! stream. Otherwise, they are the methods of [`Stream`] of the same names, and return their errors. Inside of a host
//! function, they return [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED), as those do.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::kernel::{Kernel, KernelArguments, LaunchConfig};
use crate::memory::{Buffer, BufferSlice, BufferSliceMut, FillElement};
use crate::stream::Stream;
use anabranch_core::context::ContextCore;
use anabranch_core::host_work::refuse_inside;
use anabranch_hal::Status;
use bytemuck::Pod;
use std::sync::Arc;

/// Calls `body` with the stream.
#[track_caller]
fn on_stream<R>(
    context: Option<&Arc<ContextCore>>,
    operation: &'static str,
    body: impl FnOnce(&Stream) -> Result<R>,
) -> Result<R> {
    refuse_inside(operation)?;
    let context = context.map(|core| Context::from_core(core.clone()));
    let with_stream = |stream: Option<&Stream>| match stream {
        Some(stream) => body(stream),
        None => Err(no_current(operation, context.as_ref())),
    };
    match &context {
        Some(context) => Stream::with_current_of(context, with_stream),
        None => Stream::with_current(with_stream),
    }
}

#[cold]
fn no_current(operation: &'static str, context: Option<&Context>) -> Error {
    let message = match context {
        Some(context) => format!("no stream of {} is current on this thread", context.device()),
        None => "no stream is current on this thread".to_owned(),
    };
    Error::argument(Status::ILLEGAL_STATE, operation, message)
        .with_hint("call Stream::enter or Stream::make_current before, or the method of a stream instead")
}

/// [Copies](Stream::copy) in the current stream of the destination's context.
///
/// # Errors
/// Same as [`Stream::copy`]; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if there is no current
/// stream.
#[track_caller]
pub fn copy<'d, 's, T: Pod>(
    destination: impl Into<BufferSliceMut<'d, T>>,
    source: impl Into<BufferSlice<'s, T>>,
) -> Result<()> {
    let (destination, source) = (destination.into(), source.into());
    let context = destination.allocation().context().clone();
    on_stream(Some(&context), "copying", |stream| stream.copy(destination, source))
}

/// [Fills](Stream::fill) in the current stream of the destination's context.
///
/// # Errors
/// Same as [`Stream::fill`]; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if there is no current
/// stream.
#[track_caller]
pub fn fill<'d, T: FillElement>(destination: impl Into<BufferSliceMut<'d, T>>, value: T) -> Result<()> {
    let destination = destination.into();
    let context = destination.allocation().context().clone();
    on_stream(Some(&context), "filling", |stream| stream.fill(destination, value))
}

/// [Launches](Stream::launch) a kernel in the current stream of its context.
///
/// # Safety
/// Same as for [`Stream::launch`].
///
/// # Errors
/// Same as [`Stream::launch`]; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if there is no current
/// stream.
#[track_caller]
pub unsafe fn launch<A: KernelArguments>(kernel: &Kernel, config: &LaunchConfig<'_>, arguments: A) -> Result<()> {
    on_stream(Some(kernel.core().context()), "launching a kernel", |stream| {
        // SAFETY: the caller promises what `Stream::launch` asks for.
        unsafe { stream.launch(kernel, config, arguments) }
    })
}

impl<T: Pod> Buffer<T> {
    /// [Uploads](Stream::upload) in the thread's current stream. See [`current`](crate::current).
    ///
    /// # Errors
    /// Same as [`Stream::upload`]; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if there is no
    /// current stream.
    #[track_caller]
    pub fn from_slice(source: &[T]) -> Result<Self> {
        on_stream(None, "uploading", |stream| stream.upload(source))
    }

    /// [Uploads the elements of an iterator](Stream::upload_elements) in the thread's current stream. See
    /// [`current`](crate::current).
    ///
    /// # Errors
    /// Same as [`Stream::upload_elements`]; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if there
    /// is no current stream.
    #[track_caller]
    pub fn from_elements(elements: impl IntoIterator<Item = T>) -> Result<Self> {
        on_stream(None, "uploading", |stream| stream.upload_elements(elements))
    }

    /// [Allocates zeros](Stream::allocate_zeroed) in the thread's current stream. See [`current`](crate::current).
    ///
    /// # Errors
    /// Same as [`Stream::allocate_zeroed`]; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if there
    /// is no current stream.
    #[track_caller]
    pub fn zeroed(length: usize) -> Result<Self> {
        on_stream(None, "allocating in stream order", |stream| stream.allocate_zeroed(length))
    }

    /// [Downloads](Stream::download) in the thread's current stream of the buffer's context. See
    /// [`current`](crate::current).
    ///
    /// # Errors
    /// Same as [`Stream::download`]; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if there is no
    /// current stream.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let slice = BufferSlice::from(self);
        let context = slice.allocation().context().clone();
        on_stream(Some(&context), "downloading", |stream| stream.download(slice))
    }
}
