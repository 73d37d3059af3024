//! Virtual memory, which the software device does not have.

use super::HostDriver;
use crate::error::permitted;
use anabranch_hal::{DeviceOrdinal, DevicePointer, Failure, PhysicalMemoryHandle, Result, Status, VirtualMemory};

fn refuse<T>() -> Result<T> {
    permitted()?;
    Err(Failure::new(Status::NOT_SUPPORTED))
}

impl VirtualMemory for HostDriver {
    fn physical_memory_granularity(&self, _device: DeviceOrdinal) -> Result<usize> {
        refuse()
    }

    fn address_reserve(&self, _bytes: usize, _alignment: usize) -> Result<DevicePointer> {
        refuse()
    }

    unsafe fn address_free(&self, _address: DevicePointer, _bytes: usize) -> Result<()> {
        refuse()
    }

    fn physical_memory_create(&self, _device: DeviceOrdinal, _bytes: usize) -> Result<PhysicalMemoryHandle> {
        refuse()
    }

    unsafe fn physical_memory_release(&self, _memory: PhysicalMemoryHandle) -> Result<()> {
        refuse()
    }

    unsafe fn memory_map(&self, _address: DevicePointer, _bytes: usize, _memory: PhysicalMemoryHandle) -> Result<()> {
        refuse()
    }

    unsafe fn memory_unmap(&self, _address: DevicePointer, _bytes: usize) -> Result<()> {
        refuse()
    }

    unsafe fn memory_set_access(
        &self,
        _address: DevicePointer,
        _bytes: usize,
        _device: DeviceOrdinal,
        _allowed: bool,
    ) -> Result<()> {
        refuse()
    }
}
