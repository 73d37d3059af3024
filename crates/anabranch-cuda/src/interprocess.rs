//! Memory of other processes (Driver API, groups MEM and MALLOC_ASYNC).

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::{
    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUipcMemHandle,
    CUmemPoolPtrExportData,
};
use crate::handles::{pool_handle, raw_pool, signed, unsigned};
use anabranch_hal::{
    Call, DevicePointer, InterprocessMemory, InterprocessMemoryHandle, InterprocessPoolMemoryHandle, Live,
    MemoryPoolHandle, Result,
};
use std::ffi::c_int;
use std::ptr;

impl InterprocessMemory for CudaDriver {
    fn memory_export(&self, call: &Call<'_>, address: DevicePointer) -> Result<InterprocessMemoryHandle> {
        let _bound = self.bind(call.context)?;
        let mut exported = CUipcMemHandle::zeroed();
        // SAFETY: the result is written to a variable that outlives the call; the driver refuses addresses that it did not
        // give.
        check(unsafe { self.functions.cuIpcGetMemHandle(&mut exported, address.0) })?;
        Ok(InterprocessMemoryHandle(exported.reserved.map(unsigned)))
    }

    fn memory_open(&self, call: &Call<'_>, exported: &InterprocessMemoryHandle) -> Result<DevicePointer> {
        let _bound = self.bind(call.context)?;
        let exported = CUipcMemHandle { reserved: exported.0.map(signed) };
        let mut address = 0;
        // SAFETY: the result is written to a variable that outlives the call; the driver refuses bytes that it did not
        // make.
        check(unsafe {
            self.functions.cuIpcOpenMemHandle(&mut address, exported, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        })?;
        Ok(DevicePointer(address))
    }

    unsafe fn memory_close(&self, call: &Call<'_>, address: DevicePointer) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller promises that nobody uses the memory any more, unless it was opened more than once; the driver
        // refuses addresses that it did not give.
        check(unsafe { self.functions.cuIpcCloseMemHandle(address.0) })
    }

    fn memory_pool_export(&self, pool: Live<'_, MemoryPoolHandle>) -> Result<i32> {
        let mut descriptor: c_int = -1;
        let written = (&raw mut descriptor).cast();
        // SAFETY: the pool is live, as its type says; a handle of this type is an integer, written to a variable that outlives
        // the call.
        check(unsafe {
            let kind = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
            self.functions.cuMemPoolExportToShareableHandle(written, raw_pool(pool), kind, 0)
        })?;
        Ok(descriptor)
    }

    unsafe fn memory_pool_import(&self, descriptor: i32) -> Result<MemoryPoolHandle> {
        let mut pool = ptr::null_mut();
        let descriptor = ptr::without_provenance_mut(descriptor as usize);
        // SAFETY: a handle of this type is an integer in place of the pointer, and the caller promises that it is an open file
        // descriptor; the result is written to a variable that outlives the call.
        check(unsafe {
            let kind = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
            self.functions.cuMemPoolImportFromShareableHandle(&mut pool, descriptor, kind, 0)
        })?;
        Ok(pool_handle(pool))
    }

    fn pool_memory_export(&self, call: &Call<'_>, address: DevicePointer) -> Result<InterprocessPoolMemoryHandle> {
        let _bound = self.bind(call.context)?;
        let mut exported = CUmemPoolPtrExportData::zeroed();
        // SAFETY: the result is written to a variable that outlives the call; the driver refuses addresses that it did not
        // give.
        check(unsafe { self.functions.cuMemPoolExportPointer(&mut exported, address.0) })?;
        Ok(InterprocessPoolMemoryHandle(exported.reserved))
    }

    fn pool_memory_open(
        &self,
        call: &Call<'_>,
        pool: Live<'_, MemoryPoolHandle>,
        exported: &InterprocessPoolMemoryHandle,
    ) -> Result<DevicePointer> {
        let _bound = self.bind(call.context)?;
        let mut exported = CUmemPoolPtrExportData { reserved: exported.0 };
        let mut address = 0;
        // SAFETY: the pool is live, as its type says; both variables outlive the call, and the driver refuses bytes that it
        // did not make.
        check(unsafe { self.functions.cuMemPoolImportPointer(&mut address, raw_pool(pool), &mut exported) })?;
        Ok(DevicePointer(address))
    }
}
