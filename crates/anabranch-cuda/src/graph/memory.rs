//! The memory that the graphs of a device own, and the nodes that allocate it.

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::memory::pool;
use anabranch_hal::{
    AllocationNode, DeviceOrdinal, DevicePointer, Driver, Failure, GraphMemoryAttribute, MemoryPoolOptions, Result,
    Status,
};
use std::ptr;

fn raw_attribute(attribute: GraphMemoryAttribute) -> Result<CUgraphMem_attribute> {
    match attribute {
        GraphMemoryAttribute::UsedCurrent => Ok(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT),
        GraphMemoryAttribute::UsedHigh => Ok(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH),
        GraphMemoryAttribute::ReservedCurrent => Ok(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT),
        GraphMemoryAttribute::ReservedHigh => Ok(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH),
        other => {
            let message = format!("the CUDA back end knows no attribute {other:?} of the memory of graphs");
            Err(Failure::argument(Status::NOT_SUPPORTED, message))
        }
    }
}

pub(super) fn attribute(driver: &CudaDriver, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<u64> {
    let (device, attribute) = (driver.raw_device(device)?, raw_attribute(attribute)?);
    let mut value = 0_u64;
    // SAFETY: the device is one of this driver; each of these attributes is a 64-bit number, written to a variable that
    // outlives the call.
    check(unsafe { driver.functions.cuDeviceGetGraphMemAttribute(device, attribute, (&raw mut value).cast()) })?;
    Ok(value)
}

pub(super) fn reset(driver: &CudaDriver, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<()> {
    let (device, attribute) = (driver.raw_device(device)?, raw_attribute(attribute)?);
    let mut value = 0_u64;
    // SAFETY: the device is one of this driver; each of these attributes is a 64-bit number, and is read from a variable
    // that outlives the call.
    check(unsafe { driver.functions.cuDeviceSetGraphMemAttribute(device, attribute, (&raw mut value).cast()) })
}

pub(super) fn trim(driver: &CudaDriver, device: DeviceOrdinal) -> Result<()> {
    let device = driver.raw_device(device)?;
    // SAFETY: the device is one of this driver.
    check(unsafe { driver.functions.cuDeviceGraphMemTrim(device) })
}

/// The devices that may use the memory besides its own.
pub(super) fn access(driver: &CudaDriver, node: &AllocationNode) -> Result<Vec<CUmemAccessDesc>> {
    node.access.iter().map(|&device| Ok(pool::access(device_of(driver, device)?, true))).collect()
}

/// A device that a node names. `CUDA_ERROR_INVALID_VALUE (1)`, as the driver returns, if there is none of that
/// number.
fn device_of(driver: &CudaDriver, device: DeviceOrdinal) -> Result<CUdevice> {
    driver.raw_device(device).map_err(|_| Failure::new(Status::INVALID_VALUE))
}

/// The driver's description of an allocation. It points to `access`.
pub(super) fn describe(
    driver: &CudaDriver,
    node: &AllocationNode,
    access: &[CUmemAccessDesc],
) -> Result<CUDA_MEM_ALLOC_NODE_PARAMS> {
    let options = MemoryPoolOptions::default();
    Ok(CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps: pool::properties(device_of(driver, node.device)?, &options, driver.version()),
        accessDescs: if access.is_empty() { ptr::null() } else { access.as_ptr() },
        accessDescCount: access.len(),
        bytesize: node.bytes,
        ..CUDA_MEM_ALLOC_NODE_PARAMS::zeroed()
    })
}

/// The same description, for the function that adds nodes of all kinds.
pub(super) fn to_newest(parameters: &CUDA_MEM_ALLOC_NODE_PARAMS) -> CUDA_MEM_ALLOC_NODE_PARAMS_v2 {
    let CUDA_MEM_ALLOC_NODE_PARAMS { poolProps, accessDescs, accessDescCount, bytesize, dptr } = *parameters;
    CUDA_MEM_ALLOC_NODE_PARAMS_v2 { poolProps, accessDescs, accessDescCount, bytesize, dptr }
}

/// The allocation that the driver describes.
///
/// # Safety
///
/// The description points to as many entries as it says.
pub(super) unsafe fn read(raw: &CUDA_MEM_ALLOC_NODE_PARAMS) -> Result<AllocationNode> {
    let access = if raw.accessDescCount == 0 || raw.accessDescs.is_null() {
        &[]
    } else {
        // SAFETY: the caller promises that as many entries as stated are at this address, which is not null.
        unsafe { std::slice::from_raw_parts(raw.accessDescs, raw.accessDescCount) }
    };
    let location = raw.poolProps.location;
    let device = ordinal(&location)?;
    let others = access.iter().filter(|entry| entry.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    let mut access = others.map(|entry| ordinal(&entry.location)).collect::<Result<Vec<_>>>()?;
    access.retain(|&other| other != device);
    Ok(AllocationNode { device, bytes: raw.bytesize, access, address: DevicePointer(raw.dptr) })
}

/// The device of a location. The driver names devices by their ordinals there.
fn ordinal(location: &CUmemLocation) -> Result<DeviceOrdinal> {
    // SAFETY: all places but those in a part of a device are numbers, and every pattern of bits is a value of one.
    match u32::try_from(unsafe { location.__bindgen_anon_1.id }) {
        Ok(id) if location.type_ == CU_MEM_LOCATION_TYPE_DEVICE => Ok(DeviceOrdinal(id)),
        _ => Err(Failure::argument(Status::NOT_SUPPORTED, "the memory does not reside on a device")),
    }
}
