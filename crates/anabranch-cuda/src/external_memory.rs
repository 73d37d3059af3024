//! Memory of other APIs and processes (Driver API, group EXTRES_INTEROP).

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::{
    CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_DEDICATED,
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
};
use crate::handles::{external_memory_handle, raw_external_memory};
use anabranch_hal::{Call, DevicePointer, ExternalMemory, ExternalMemoryHandle, Live, Result};
use std::ptr;

impl ExternalMemory for CudaDriver {
    unsafe fn external_memory_import(
        &self,
        call: &Call<'_>,
        descriptor: i32,
        bytes: usize,
        dedicated: bool,
    ) -> Result<ExternalMemoryHandle> {
        let _bound = self.bind(call.context)?;
        let mut description = CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
            type_: CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
            size: bytes as u64,
            flags: if dedicated { CUDA_EXTERNAL_MEMORY_DEDICATED } else { 0 },
            ..CUDA_EXTERNAL_MEMORY_HANDLE_DESC::zeroed()
        };
        description.handle.fd = descriptor;
        let mut memory = ptr::null_mut();
        // SAFETY: the description is complete. The caller promises that the file descriptor is open, and that there are so many
        // bytes if it is that of memory; the driver refuses others.
        check(unsafe { self.functions.cuImportExternalMemory(&mut memory, &description) })?;
        Ok(external_memory_handle(memory))
    }

    fn external_memory_map(
        &self,
        call: &Call<'_>,
        memory: Live<'_, ExternalMemoryHandle>,
        offset: usize,
        bytes: usize,
    ) -> Result<DevicePointer> {
        let _bound = self.bind(call.context)?;
        let description = CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
            offset: offset as u64,
            size: bytes as u64,
            ..CUDA_EXTERNAL_MEMORY_BUFFER_DESC::zeroed()
        };
        let mut address = 0;
        // SAFETY: the memory is live, as its type says, and the description is complete.
        check(unsafe {
            let memory = raw_external_memory(memory);
            self.functions.cuExternalMemoryGetMappedBuffer(&mut address, memory, &description)
        })?;
        Ok(DevicePointer(address))
    }

    unsafe fn external_memory_unmap(&self, call: &Call<'_>, address: DevicePointer) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller promises that nobody uses the memory there any more, nor does queued work. A mapping of imported
        // memory is undone by this function.
        check(unsafe { self.functions.cuMemFree(address.0) })
    }

    unsafe fn external_memory_destroy(&self, call: &Call<'_>, memory: ExternalMemoryHandle) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller promises that the memory exists, that none of it is mapped, and that this is the last use.
        check(unsafe { self.functions.cuDestroyExternalMemory(raw_external_memory(memory)) })
    }
}
