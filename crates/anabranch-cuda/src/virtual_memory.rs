//! Reserved addresses, and memory that is mapped there (Driver API, group VA).

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::{
    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, CU_MEM_ALLOCATION_TYPE_PINNED, CUdevice, CUmemAllocationProp,
};
use crate::memory::location::on_device;
use crate::memory::pool::access;
use anabranch_hal::{DeviceOrdinal, DevicePointer, PhysicalMemoryHandle, Result, VirtualMemory};

fn properties(device: CUdevice) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CU_MEM_ALLOCATION_TYPE_PINNED,
        location: on_device(device),
        ..CUmemAllocationProp::zeroed()
    }
}

impl VirtualMemory for CudaDriver {
    fn physical_memory_granularity(&self, device: DeviceOrdinal) -> Result<usize> {
        let (properties, mut bytes) = (properties(self.raw_device(device)?), 0);
        // SAFETY: the description is complete, and the result is written to a variable that outlives the call.
        check(unsafe {
            let kind = CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
            self.functions.cuMemGetAllocationGranularity(&mut bytes, &properties, kind)
        })?;
        Ok(bytes)
    }

    fn address_reserve(&self, bytes: usize, alignment: usize) -> Result<DevicePointer> {
        let mut address = 0;
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuMemAddressReserve(&mut address, bytes, alignment, 0, 0) })?;
        Ok(DevicePointer(address))
    }

    unsafe fn address_free(&self, address: DevicePointer, bytes: usize) -> Result<()> {
        // SAFETY: the caller promises that the addresses were reserved so, and that nothing is mapped there.
        check(unsafe { self.functions.cuMemAddressFree(address.0, bytes) })
    }

    fn physical_memory_create(&self, device: DeviceOrdinal, bytes: usize) -> Result<PhysicalMemoryHandle> {
        let (properties, mut memory) = (properties(self.raw_device(device)?), 0);
        // SAFETY: the description is complete, and the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuMemCreate(&mut memory, bytes, &properties, 0) })?;
        Ok(PhysicalMemoryHandle(memory))
    }

    unsafe fn physical_memory_release(&self, memory: PhysicalMemoryHandle) -> Result<()> {
        // SAFETY: the caller promises that the memory exists, and that this is the last use of the handle.
        check(unsafe { self.functions.cuMemRelease(memory.0) })
    }

    unsafe fn memory_map(&self, address: DevicePointer, bytes: usize, memory: PhysicalMemoryHandle) -> Result<()> {
        // SAFETY: the caller promises that the addresses are reserved, and that the memory exists and has that size.
        check(unsafe { self.functions.cuMemMap(address.0, bytes, 0, memory.0, 0) })
    }

    unsafe fn memory_unmap(&self, address: DevicePointer, bytes: usize) -> Result<()> {
        // SAFETY: the caller promises that it was mapped so, and that no work uses it any more.
        check(unsafe { self.functions.cuMemUnmap(address.0, bytes) })
    }

    unsafe fn memory_set_access(
        &self,
        address: DevicePointer,
        bytes: usize,
        device: DeviceOrdinal,
        allowed: bool,
    ) -> Result<()> {
        let access = access(self.raw_device(device)?, allowed);
        // SAFETY: the caller promises that the range is mapped; there is one description, read before the driver returns.
        check(unsafe { self.functions.cuMemSetAccess(address.0, bytes, &access, 1) })
    }
}
