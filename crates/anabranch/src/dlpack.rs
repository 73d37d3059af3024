//! Tensors of other libraries, without copies: the exchange format [DLPack](https://dmlc.github.io/dlpack/latest/) 1.x, with the
//! cargo feature `dlpack`.
//!
//! A [`ManagedTensor`] owns a tensor that is passed between libraries.
//!
//! * **Export**: [`ManagedTensor::export`] takes a buffer. [`into_versioned`](ManagedTensor::into_versioned) and
//!   [`into_unversioned`](ManagedTensor::into_unversioned) give the pointer that the other library takes. The buffer is dropped when
//!   that library calls the deleter, on any thread.
//! * **Import**: [`ManagedTensor::from_versioned`] and [`from_unversioned`](ManagedTensor::from_unversioned) take a pointer of
//!   another library, and [`into_buffer`](ManagedTensor::into_buffer) makes a [`Buffer`](crate::Buffer) of it, whose uses are ordered
//!   like those of any other. The deleter is called behind the last use, on a thread of this library.
//!
//! Buffers have one dimension, and tensors have a shape. Tensors are contiguous, in row-major order, and their elements are those
//! of [`DlpackElement`].
//!
//! | memory | on `cuda:N` | on `host` |
//! |---|---|---|
//! | [`Buffer`](crate::Buffer) | `kDLCUDA` | `kDLCPU` |
//! | [`PinnedBuffer`](crate::PinnedBuffer) | `kDLCUDAHost` | `kDLCPU` |
//! | [`ManagedBuffer`](crate::ManagedBuffer) | `kDLCUDAManaged` | `kDLCPU` |
//!
//! # Order of streams
//!
//! Both sides agree on a stream in whose order the memory passes from one to the other. In Python it is the argument of
//! `__dlpack__(stream=…)`, which the consumer passes to the producer:
//!
//! | `stream` | the stream here |
//! |---|---|
//! | `None` or `1` | [`Context::legacy_stream`](crate::Context::legacy_stream) |
//! | `2` | [`Context::per_thread_stream`](crate::Context::per_thread_stream) |
//! | a handle | [`BorrowedStream::from_raw`](crate::BorrowedStream::from_raw) |
//! | `-1`, or memory of the host | no stream: `None` |
//!
//! In Python, a capsule named `dltensor_versioned` has a versioned tensor, and one named `dltensor` has one without a version.
//!
//! ```
//! use anabranch::dlpack::ManagedTensor;
//! # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
//!
//! let buffer = stream.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let tensor = ManagedTensor::export(buffer, &[2, 3], Some(&stream)).map_err(|(error, _)| error)?;
//! let raw = tensor.into_versioned(); // for the other library
//!
//! // SAFETY: it is the pointer of above, and nobody else has it.
//! let tensor = unsafe { ManagedTensor::from_versioned(raw) }?;
//! assert_eq!(tensor.shape(), [2, 3]);
//! let buffer = tensor.into_buffer::<f32>(&stream.context(), Some(&stream))?;
//! assert_eq!(stream.download(buffer.slice(4..)?)?, [5.0, 6.0]);
//! # Ok::<(), anabranch::Error>(())
//! ```

mod abi;
mod element;
mod export;
mod import;
mod imported;
mod tensor;

pub use abi::{
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion,
    DLTensor, READ_ONLY,
};
pub use element::DlpackElement;
pub use tensor::ManagedTensor;
