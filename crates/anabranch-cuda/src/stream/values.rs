//! Value operations: conversion between the contract's type and the driver's union.

use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::handles::raw_context;
use anabranch_hal::{
    BarrierScope, ContextHandle, DevicePointer, Failure, Live, Reduction, Result, Status, Value, ValueOperation,
    WaitValueFlags, WriteValueFlags,
};
use std::ffi::c_uint;

/// The operations, as the driver takes them.
pub(crate) fn to_raw(operations: &[ValueOperation]) -> Vec<CUstreamBatchMemOpParams> {
    operations.iter().map(operation_to_raw).collect()
}

/// A description that points to the operations.
pub(crate) fn describe(
    context: Live<'_, ContextHandle>,
    operations: &mut [CUstreamBatchMemOpParams],
) -> Result<CUDA_BATCH_MEM_OP_NODE_PARAMS> {
    let count = c_uint::try_from(operations.len()).map_err(|_| Failure::new(Status::INVALID_VALUE))?;
    Ok(CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: raw_context(context),
        count,
        paramArray: operations.as_mut_ptr(),
        ..CUDA_BATCH_MEM_OP_NODE_PARAMS::zeroed()
    })
}

fn operation_to_raw(operation: &ValueOperation) -> CUstreamBatchMemOpParams {
    let mut raw = CUstreamBatchMemOpParams::zeroed();
    match *operation {
        ValueOperation::Wait { address, value, flags } => {
            let mut wait = CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st::zeroed();
            wait.address = address.0;
            wait.flags = flags.bits();
            match value {
                Value::U32(value) => {
                    wait.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
                    wait.__bindgen_anon_1.value = value;
                }
                Value::U64(value) => {
                    wait.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
                    wait.__bindgen_anon_1.value64 = value;
                }
            }
            raw.waitValue = wait;
        }
        ValueOperation::Write { address, value, flags } => {
            let mut write = CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st::zeroed();
            write.address = address.0;
            write.flags = flags.bits();
            match value {
                Value::U32(value) => {
                    write.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
                    write.__bindgen_anon_1.value = value;
                }
                Value::U64(value) => {
                    write.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
                    write.__bindgen_anon_1.value64 = value;
                }
            }
            raw.writeValue = write;
        }
        ValueOperation::Reduce { address, value, reduction } => {
            let (kind, value) = match value {
                Value::U32(value) => (CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_32, u64::from(value)),
                Value::U64(value) => (CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_64, value),
            };
            raw.atomicReduction = CUstreamBatchMemOpParams_union_CUstreamMemOpAtomicReductionParams_st {
                operation: CU_STREAM_MEM_OP_ATOMIC_REDUCTION,
                flags: 0,
                reductionOp: match reduction {
                    Reduction::Or => CU_STREAM_ATOMIC_REDUCTION_OP_OR,
                    Reduction::And => CU_STREAM_ATOMIC_REDUCTION_OP_AND,
                    Reduction::Add => CU_STREAM_ATOMIC_REDUCTION_OP_ADD,
                },
                dataType: kind,
                address: address.0,
                value,
                alias: 0,
            };
        }
        ValueOperation::Barrier { scope } => {
            raw.memoryBarrier = CUstreamBatchMemOpParams_union_CUstreamMemOpMemoryBarrierParams_st {
                operation: CU_STREAM_MEM_OP_BARRIER,
                flags: match scope {
                    BarrierScope::System => CU_STREAM_MEMORY_BARRIER_TYPE_SYS,
                    BarrierScope::Device => CU_STREAM_MEMORY_BARRIER_TYPE_GPU,
                },
            };
        }
        ValueOperation::FlushRemoteWrites => {
            raw.flushRemoteWrites = CUstreamBatchMemOpParams_union_CUstreamMemOpFlushRemoteWritesParams_st {
                operation: CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES,
                flags: 0,
            };
        }
    }
    raw
}

/// The operations of a description.
///
/// # Safety
///
/// The description is the driver's, of a live node.
pub(crate) unsafe fn read_all(raw: &CUDA_BATCH_MEM_OP_NODE_PARAMS) -> Result<Vec<ValueOperation>> {
    if raw.count == 0 || raw.paramArray.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the description is the driver's, so the array has as many operations as stated, and stays as long as the node.
    let operations = unsafe { std::slice::from_raw_parts(raw.paramArray, raw.count as usize) };
    // SAFETY: each is the driver's.
    operations.iter().map(|operation| unsafe { read(operation) }).collect()
}

/// The operation that a union of the driver's describes.
///
/// # Safety
///
/// The union is the driver's: its first field says which member it has.
unsafe fn read(raw: &CUstreamBatchMemOpParams) -> Result<ValueOperation> {
    // SAFETY: every member begins with this field.
    let operation = unsafe { raw.operation };
    match operation {
        CU_STREAM_MEM_OP_WAIT_VALUE_32 | CU_STREAM_MEM_OP_WAIT_VALUE_64 => {
            // SAFETY: this is the member of these operations, and the operation says how wide its value is.
            let (wait, value) = unsafe {
                let wait = raw.waitValue;
                let value = if operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 {
                    Value::U32(wait.__bindgen_anon_1.value)
                } else {
                    Value::U64(wait.__bindgen_anon_1.value64)
                };
                (wait, value)
            };
            let flags = WaitValueFlags::from_bits_retain(wait.flags);
            Ok(ValueOperation::Wait { address: DevicePointer(wait.address), value, flags })
        }
        CU_STREAM_MEM_OP_WRITE_VALUE_32 | CU_STREAM_MEM_OP_WRITE_VALUE_64 => {
            // SAFETY: this is the member of these operations, and the operation says how wide its value is.
            let (write, value) = unsafe {
                let write = raw.writeValue;
                let value = if operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 {
                    Value::U32(write.__bindgen_anon_1.value)
                } else {
                    Value::U64(write.__bindgen_anon_1.value64)
                };
                (write, value)
            };
            let flags = WriteValueFlags::from_bits_retain(write.flags);
            Ok(ValueOperation::Write { address: DevicePointer(write.address), value, flags })
        }
        CU_STREAM_MEM_OP_ATOMIC_REDUCTION => {
            // SAFETY: this is the member of this operation.
            let raw = unsafe { raw.atomicReduction };
            let reduction = match raw.reductionOp {
                CU_STREAM_ATOMIC_REDUCTION_OP_OR => Reduction::Or,
                CU_STREAM_ATOMIC_REDUCTION_OP_AND => Reduction::And,
                CU_STREAM_ATOMIC_REDUCTION_OP_ADD => Reduction::Add,
                other => return Err(unknown("reduction", other)),
            };
            let value = match raw.dataType {
                // The upper half means nothing.
                CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_32 => Value::U32(raw.value as u32),
                CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_64 => Value::U64(raw.value),
                other => return Err(unknown("type of a reduction", other)),
            };
            Ok(ValueOperation::Reduce { address: DevicePointer(raw.address), value, reduction })
        }
        CU_STREAM_MEM_OP_BARRIER => {
            // SAFETY: this is the member of this operation.
            let scope = match unsafe { raw.memoryBarrier }.flags {
                CU_STREAM_MEMORY_BARRIER_TYPE_SYS => BarrierScope::System,
                CU_STREAM_MEMORY_BARRIER_TYPE_GPU => BarrierScope::Device,
                other => return Err(unknown("scope of a barrier", other)),
            };
            Ok(ValueOperation::Barrier { scope })
        }
        CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES => Ok(ValueOperation::FlushRemoteWrites),
        other => Err(unknown("value operation", other)),
    }
}

fn unknown(what: &str, number: u32) -> Failure {
    Failure::argument(Status::NOT_SUPPORTED, format!("the contract has no {what} for the driver's number {number}"))
}

#[cfg(test)]
mod tests {
    use super::{read, to_raw};
    use crate::ffi::Zeroed;
    use crate::ffi::cuda_types::CUstreamBatchMemOpParams;
    use anabranch_hal::{
        BarrierScope, DevicePointer, Reduction, Status, Value, ValueOperation, WaitValueFlags, WriteValueFlags,
    };

    #[test]
    fn operations_come_back_as_they_were() {
        let values = [Value::U32(7), Value::U64(1 << 40)];
        let operations: Vec<ValueOperation> = values
            .into_iter()
            .flat_map(|value| {
                let address = DevicePointer(0x1000);
                [
                    ValueOperation::Wait { address, value, flags: WaitValueFlags::EQUAL | WaitValueFlags::FLUSH },
                    ValueOperation::Write { address, value, flags: WriteValueFlags::NO_MEMORY_BARRIER },
                    ValueOperation::Reduce { address, value, reduction: Reduction::Or },
                    ValueOperation::Reduce { address, value, reduction: Reduction::And },
                    ValueOperation::Reduce { address, value, reduction: Reduction::Add },
                    ValueOperation::Barrier { scope: BarrierScope::System },
                    ValueOperation::Barrier { scope: BarrierScope::Device },
                    ValueOperation::FlushRemoteWrites,
                ]
            })
            .collect();
        // SAFETY: each was made with the member that belongs to it.
        let back: Result<Vec<_>, _> = to_raw(&operations).iter().map(|raw| unsafe { read(raw) }).collect();
        assert_eq!(back, Ok(operations));
    }

    #[test]
    fn an_operation_of_another_kind_is_not_supported() {
        let mut raw = CUstreamBatchMemOpParams::zeroed();
        raw.operation = 99;
        // SAFETY: the field is there whatever the operation is.
        assert_eq!(unsafe { read(&raw) }.unwrap_err().status, Status::NOT_SUPPORTED);
    }
}
