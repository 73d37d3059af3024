//! Memory of other libraries.

use super::Buffer;
use crate::context::Context;
use crate::error::{Error, Result};
use anabranch_core::keeper::Keeper;
use anabranch_core::memory::{Allocation, byte_size};
use anabranch_hal::{DevicePointer, Status};
use bytemuck::Pod;

impl<T: Pod> Buffer<T> {
    /// Uses memory that another library has allocated: device memory of this context's device, or pinned or managed memory.
    /// `keeper` is whatever keeps it allocated. It is dropped when the buffer, and every graph that uses it, is gone and the
    /// last use is complete, on a thread of this library. Pass `()` if nothing is to be done then.
    ///
    /// The library orders its own uses of the buffer. For work of others, see [`Stream::submit_foreign`](crate::Stream::submit_foreign).
    ///
    /// ```
    /// # use anabranch::Buffer;
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let theirs = context.create_stream()?.upload(&[1u32, 2, 3])?;
    /// # let address = theirs.device_pointer();
    /// let stream = context.create_stream()?;
    /// // SAFETY: `theirs` has three numbers there, keeps them, and uses them no more itself.
    /// let mut buffer: Buffer<u32> = unsafe { Buffer::from_raw_parts(&context, address, 3, theirs)? };
    /// stream.fill(&mut buffer, 7)?;
    /// assert_eq!(stream.download(&buffer)?, [7, 7, 7]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Safety
    /// The elements are initialised, and stay allocated until `keeper` is dropped. Others use the memory only in work that is
    /// complete, or that [`Stream::submit_foreign`](crate::Stream::submit_foreign) orders; no other buffer has any of it.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the driver knows no memory there, if the
    /// elements extend past the end of the allocation, or if the address is not aligned for them;
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) for memory of another device;
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) for more elements than the address space has.
    /// `keeper` is dropped then.
    #[track_caller]
    pub unsafe fn from_raw_parts(
        context: &Context,
        address: DevicePointer,
        length: usize,
        keeper: impl Send + 'static,
    ) -> Result<Self> {
        let bytes = byte_size::<T>(length, OPERATION)?;
        if bytes > 0 {
            check(OPERATION, context, address, bytes, align_of::<T>())?;
        }
        let memory = Allocation::foreign(context.core(), address, bytes, Keeper::new(keeper));
        Ok(Self::of_others(memory, length))
    }
}

const OPERATION: &str = "using memory of another library";

/// Refuses an address where no so many bytes of this context's device are, or that is not aligned.
pub(crate) fn check(
    operation: &'static str,
    context: &Context,
    address: DevicePointer,
    bytes: usize,
    alignment: usize,
) -> Result<()> {
    let refuse = |status, message: String, hint: &'static str| {
        Err(Error::argument(status, operation, message).with_hint(hint).at(context.core().place()))
    };
    if !address.0.is_multiple_of(alignment as u64) {
        let message = format!("{address:?} is not aligned to the {alignment} bytes of the elements");
        return refuse(
            Status::INVALID_VALUE,
            message,
            "use elements of another type, or an aligned part of the memory",
        );
    }
    let range = match context.core().memory_range(address) {
        Err(error) if error.status() == Status::INVALID_VALUE => {
            let message = format!("{address:?} is in no memory of the driver of {}", context.core().place());
            let hint = "pass an address of memory that was allocated with this driver and not freed";
            return refuse(Status::INVALID_VALUE, message, hint);
        }
        range => range?,
    };
    if range.device.is_some_and(|device| device != context.device().ordinal()) {
        let message = format!("{address:?} is memory of another device than that of {}", context.core().place());
        return refuse(Status::INVALID_DEVICE, message, "use a context of that device, or copy between the devices");
    }
    let left = range.bytes.saturating_sub(address.0.saturating_sub(range.address.0));
    if bytes as u64 > left {
        let message = format!("there are {left} bytes to the end of the allocation, and the elements have {bytes}");
        return refuse(Status::INVALID_VALUE, message, "pass fewer elements");
    }
    Ok(())
}
