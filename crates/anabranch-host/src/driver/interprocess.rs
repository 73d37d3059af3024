//! Memory of other processes, which the software device does not have.

use super::HostDriver;
use crate::error::permitted;
use anabranch_hal::{
    Call, DevicePointer, Failure, InterprocessMemory, InterprocessMemoryHandle, InterprocessPoolMemoryHandle, Live,
    MemoryPoolHandle, Result, Status,
};

fn refuse<T>() -> Result<T> {
    permitted()?;
    Err(Failure::new(Status::NOT_SUPPORTED))
}

impl InterprocessMemory for HostDriver {
    fn memory_export(&self, _: &Call<'_>, _address: DevicePointer) -> Result<InterprocessMemoryHandle> {
        refuse()
    }

    fn memory_open(&self, _: &Call<'_>, _exported: &InterprocessMemoryHandle) -> Result<DevicePointer> {
        refuse()
    }

    unsafe fn memory_close(&self, _: &Call<'_>, _address: DevicePointer) -> Result<()> {
        refuse()
    }

    fn memory_pool_export(&self, _pool: Live<'_, MemoryPoolHandle>) -> Result<i32> {
        refuse()
    }

    unsafe fn memory_pool_import(&self, _descriptor: i32) -> Result<MemoryPoolHandle> {
        refuse()
    }

    fn pool_memory_export(&self, _: &Call<'_>, _address: DevicePointer) -> Result<InterprocessPoolMemoryHandle> {
        refuse()
    }

    fn pool_memory_open(
        &self,
        _: &Call<'_>,
        _pool: Live<'_, MemoryPoolHandle>,
        _exported: &InterprocessPoolMemoryHandle,
    ) -> Result<DevicePointer> {
        refuse()
    }
}
