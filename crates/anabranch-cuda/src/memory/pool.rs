//! Memory pools: conversion between the contract's types and the driver's structures.

use super::location::on_device;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use anabranch_hal::{DriverVersion, Failure, MemoryPoolAttribute, MemoryPoolOptions, Result, Status};

/// The first driver that knows a limit of a pool. Older ones want zeros there.
const FIRST_WITH_LIMIT: DriverVersion = DriverVersion { major: 12, minor: 2 };

/// The description of a pool in the memory of a device.
pub(crate) fn properties(device: CUdevice, options: &MemoryPoolOptions, version: DriverVersion) -> CUmemPoolProps {
    let max_bytes = if version >= FIRST_WITH_LIMIT { options.max_bytes } else { 0 };
    CUmemPoolProps {
        allocType: CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: match options.interprocess {
            true => CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            false => CU_MEM_HANDLE_TYPE_NONE,
        },
        location: on_device(device),
        // A limit beyond all addresses is no limit.
        maxSize: usize::try_from(max_bytes).unwrap_or(0),
        ..CUmemPoolProps::zeroed()
    }
}

/// Whether a device may use the memory of a pool.
pub(crate) fn access(device: CUdevice, allowed: bool) -> CUmemAccessDesc {
    let flags = if allowed { CU_MEM_ACCESS_FLAGS_PROT_READWRITE } else { CU_MEM_ACCESS_FLAGS_PROT_NONE };
    CUmemAccessDesc { location: on_device(device), flags }
}

/// The driver's number of an attribute. The value of each is a 64-bit number.
pub(super) fn attribute(attribute: MemoryPoolAttribute) -> Result<CUmemPool_attribute> {
    match attribute {
        MemoryPoolAttribute::ReleaseThreshold => Ok(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD),
        MemoryPoolAttribute::ReservedCurrent => Ok(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
        MemoryPoolAttribute::ReservedHigh => Ok(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH),
        MemoryPoolAttribute::UsedCurrent => Ok(CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
        MemoryPoolAttribute::UsedHigh => Ok(CU_MEMPOOL_ATTR_USED_MEM_HIGH),
        other => {
            let message = format!("the CUDA back end knows no attribute {other:?} of memory pools");
            Err(Failure::argument(Status::NOT_SUPPORTED, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::properties;
    use crate::ffi::cuda_types::{CU_MEM_HANDLE_TYPE_NONE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    use anabranch_hal::{DriverVersion, MemoryPoolOptions};

    #[test]
    fn a_pool_is_for_this_process_alone_unless_another_is_to_open_it() {
        let kind = |interprocess| {
            let options = MemoryPoolOptions { max_bytes: 0, interprocess };
            properties(0, &options, DriverVersion { major: 13, minor: 0 }).handleTypes
        };
        assert_eq!([kind(false), kind(true)], [CU_MEM_HANDLE_TYPE_NONE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR]);
    }

    #[test]
    fn the_limit_is_left_to_drivers_that_know_it() {
        let options = MemoryPoolOptions { max_bytes: 1 << 20, interprocess: false };
        let limit = |major, minor| properties(0, &options, DriverVersion { major, minor }).maxSize;
        assert_eq!([limit(12, 0), limit(12, 1), limit(12, 2), limit(13, 0)], [0, 0, 1 << 20, 1 << 20]);
    }
}
