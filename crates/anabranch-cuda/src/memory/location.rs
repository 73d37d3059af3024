//! Places of memory, as the driver's structures describe them.

use crate::driver::CudaDriver;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use anabranch_hal::{Failure, MemoryLocation, Result, Status};
use std::ffi::c_int;

/// A device's memory.
pub(crate) fn on_device(device: CUdevice) -> CUmemLocation {
    numbered(CU_MEM_LOCATION_TYPE_DEVICE, device)
}

fn numbered(type_: CUmemLocationType, id: c_int) -> CUmemLocation {
    CUmemLocation { type_, __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 { id } }
}

impl CudaDriver {
    /// A place, or none for a hint that is not given.
    pub(super) fn location(&self, location: Option<MemoryLocation>) -> Result<CUmemLocation> {
        match location {
            None => Ok(CUmemLocation::zeroed()),
            Some(MemoryLocation::Device(device)) => Ok(on_device(self.raw_device(device)?)),
            Some(MemoryLocation::Host) => Ok(numbered(CU_MEM_LOCATION_TYPE_HOST, 0)),
            Some(MemoryLocation::HostNuma(node)) => {
                let node = c_int::try_from(node).map_err(|_| Failure::new(Status::INVALID_VALUE))?;
                Ok(numbered(CU_MEM_LOCATION_TYPE_HOST_NUMA, node))
            }
            Some(other) => {
                let message = format!("the CUDA back end knows no place {other:?} of memory");
                Err(Failure::argument(Status::NOT_SUPPORTED, message))
            }
        }
    }
}
