//! Tensor maps (Driver API, group TENSOR_MEMORY).

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use anabranch_hal::{
    Call, EncodedTensorMap, Failure, Result, Status, TensorDataType, TensorFill, TensorMaps, TensorPromotion,
    TensorSwizzle, TiledTensor,
};
use std::ffi::c_void;
use std::ptr;

fn unknown(what: &str) -> Failure {
    Failure::argument(Status::NOT_SUPPORTED, format!("the CUDA back end knows no such {what} of tensors"))
}

fn data_type(data_type: TensorDataType) -> Result<CUtensorMapDataType> {
    Ok(match data_type {
        TensorDataType::U8 => CU_TENSOR_MAP_DATA_TYPE_UINT8,
        TensorDataType::U16 => CU_TENSOR_MAP_DATA_TYPE_UINT16,
        TensorDataType::U32 => CU_TENSOR_MAP_DATA_TYPE_UINT32,
        TensorDataType::I32 => CU_TENSOR_MAP_DATA_TYPE_INT32,
        TensorDataType::U64 => CU_TENSOR_MAP_DATA_TYPE_UINT64,
        TensorDataType::I64 => CU_TENSOR_MAP_DATA_TYPE_INT64,
        TensorDataType::F16 => CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        TensorDataType::F32 => CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        TensorDataType::F64 => CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        TensorDataType::Bf16 => CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        _ => return Err(unknown("type of elements")),
    })
}

fn swizzle(swizzle: TensorSwizzle) -> Result<CUtensorMapSwizzle> {
    Ok(match swizzle {
        TensorSwizzle::None => CU_TENSOR_MAP_SWIZZLE_NONE,
        TensorSwizzle::Bytes32 => CU_TENSOR_MAP_SWIZZLE_32B,
        TensorSwizzle::Bytes64 => CU_TENSOR_MAP_SWIZZLE_64B,
        TensorSwizzle::Bytes128 => CU_TENSOR_MAP_SWIZZLE_128B,
        _ => return Err(unknown("swizzle")),
    })
}

fn promotion(promotion: TensorPromotion) -> Result<CUtensorMapL2promotion> {
    Ok(match promotion {
        TensorPromotion::None => CU_TENSOR_MAP_L2_PROMOTION_NONE,
        TensorPromotion::Bytes64 => CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        TensorPromotion::Bytes128 => CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        TensorPromotion::Bytes256 => CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        _ => return Err(unknown("promotion")),
    })
}

fn fill(fill: TensorFill) -> CUtensorMapFloatOOBfill {
    match fill {
        TensorFill::Zero => CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        TensorFill::NotANumber => CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    }
}

impl TensorMaps for CudaDriver {
    fn tensor_map_encode(&self, call: &Call<'_>, tensor: &TiledTensor) -> Result<EncodedTensorMap> {
        tensor.check_dimensions()?;
        let rank = u32::try_from(tensor.rank()).map_err(|_| Failure::new(Status::INVALID_VALUE))?;
        let (data_type, swizzle) = (data_type(tensor.data_type)?, swizzle(tensor.swizzle)?);
        let promotion = promotion(tensor.promotion)?;
        let _bound = self.bind(call.context)?;
        let mut map = CUtensorMap::zeroed();
        // SAFETY: there are as many extents, strides of all dimensions but one, extents of the box and element strides as the rank
        // says, which was just checked. The driver reads them, and writes the map, before it returns. It does not read the memory.
        check(unsafe {
            self.functions.cuTensorMapEncodeTiled(
                &mut map,
                data_type,
                rank,
                ptr::without_provenance_mut::<c_void>(tensor.address.0 as usize),
                tensor.extents.as_ptr(),
                tensor.strides.as_ptr(),
                tensor.box_extents.as_ptr(),
                tensor.element_strides.as_ptr(),
                CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle,
                promotion,
                fill(tensor.fill),
            )
        })?;
        Ok(EncodedTensorMap::from_raw(map.opaque))
    }
}
