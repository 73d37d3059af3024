//! Tensor maps: descriptions of tensors in device memory, which kernels get by value.

use crate::error::{Error, Result, ResultExt};
use crate::host_work::refuse_inside;
use crate::memory::Allocation;
use anabranch_hal::{Capabilities, EncodedTensorMap, Status, TiledTensor};

const OPERATION: &str = "making a tensor map";

/// Makes a tensor map of a tensor in a piece of memory. `bytes`: how many bytes of the memory there are from the tensor's address
/// on.
///
/// # Errors
/// `CUDA_ERROR_INVALID_VALUE (1)` for a tensor that the device cannot describe, or that is not within the memory;
/// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no tensor maps; `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function.
#[track_caller]
pub fn encode(memory: &Allocation, bytes: u64, tensor: &TiledTensor) -> Result<EncodedTensorMap> {
    let context = memory.context();
    refuse_inside(OPERATION).map_err(|error| error.at(context.place()))?;
    if !context.device().can(Capabilities::TENSOR_MAPS) {
        return Err(Error::argument(Status::NOT_SUPPORTED, OPERATION, "the device, or its driver, has no tensor maps")
            .with_hint("use a device of compute capability 9.0 or higher, or pass the buffer and the extents")
            .at(context.place()));
    }
    tensor.check().during(OPERATION, || context.place())?;
    if tensor.byte_len().is_none_or(|length| length > bytes) {
        let message = format!("the tensor ends beyond the {bytes} bytes of its memory");
        return Err(Error::argument(Status::INVALID_VALUE, OPERATION, message)
            .with_hint("check the extents, and the strides, which are in bytes")
            .at(context.place()));
    }
    let call = context.call(OPERATION);
    context.driver().tensor_map_encode(&call, tensor).during(OPERATION, || context.place())
}
