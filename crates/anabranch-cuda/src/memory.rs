//! Memory, pools and copies (Driver API, groups MEM and MALLOC_ASYNC).

mod batch;
pub(crate) mod copy;
mod fill;
pub(crate) mod location;
mod managed;
pub(crate) mod pool;

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::cuda_types::{
    CU_MEM_ATTACH_GLOBAL, CU_MEMORYTYPE_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_MANAGED,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CUdevice,
    CUdeviceptr, CUpointer_attribute,
};
use crate::handles::{pool_handle, raw_context, raw_pool, raw_stream};
use anabranch_hal::{
    AttributedCopy, AttributedCopy3d, Call, ContextHandle, Copy3d, CopyKind, DeviceOrdinal, DevicePointer, Driver,
    FillPattern, Live, ManagedRange, Memory, MemoryAttachment, MemoryInfo, MemoryPoolAttribute, MemoryPoolHandle,
    MemoryPoolOptions, MemoryRange, PinnedFlags, Prefetch, RegisterFlags, Result, StreamHandle,
};
use std::ptr;

/// The host, where a call takes a device (`CU_DEVICE_CPU`, a cast in the header, which the bindings leave out).
const HOST: CUdevice = -1;

impl Memory for CudaDriver {
    fn memory_info(&self, call: &Call<'_>) -> Result<MemoryInfo> {
        let _bound = self.bind(call.context)?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current.
        check(unsafe { self.functions.cuMemGetInfo(&mut free, &mut total) })?;
        Ok(MemoryInfo { free: free as u64, total: total as u64 })
    }

    fn memory_range(&self, call: &Call<'_>, address: DevicePointer) -> Result<MemoryRange> {
        let _bound = self.bind(call.context)?;
        // SAFETY: each is the type of its attribute (`CUpointer_attribute`); the driver refuses addresses that it does not know.
        unsafe {
            let start: CUdeviceptr = self.pointer_attribute(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address)?;
            let bytes: usize = self.pointer_attribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address)?;
            let kind: u32 = self.pointer_attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)?;
            let managed: u32 = self.pointer_attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, address)?;
            let ordinal: i32 = self.pointer_attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)?;
            let is_of_device = kind == CU_MEMORYTYPE_DEVICE && managed == 0;
            let device =
                is_of_device.then(|| u32::try_from(ordinal).map(DeviceOrdinal)).and_then(|ordinal| ordinal.ok());
            Ok(MemoryRange { address: DevicePointer(start), bytes: bytes as u64, device })
        }
    }

    fn allocate(&self, call: &Call<'_>, bytes: usize) -> Result<DevicePointer> {
        let _bound = self.bind(call.context)?;
        let mut address = 0;
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuMemAlloc(&mut address, bytes) })?;
        Ok(DevicePointer(address))
    }

    unsafe fn free(&self, call: &Call<'_>, address: DevicePointer) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller promises that nobody uses the memory any more, and no queued work that this does not wait
        // for; the driver refuses addresses that it did not give.
        check(unsafe { self.functions.cuMemFree(address.0) })
    }

    #[inline]
    fn allocate_async(
        &self,
        call: &Call<'_>,
        bytes: usize,
        pool: Option<Live<'_, MemoryPoolHandle>>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<DevicePointer> {
        self.call_on_stream(call.context, stream, move || {
            let stream = raw_stream(stream);
            let mut address = 0;
            // SAFETY: stream and pool are live, as their types say.
            check(unsafe {
                match pool {
                    None => self.functions.cuMemAllocAsync(&mut address, bytes, stream),
                    Some(pool) => self.functions.cuMemAllocFromPoolAsync(&mut address, bytes, raw_pool(pool), stream),
                }
            })?;
            Ok(DevicePointer(address))
        })
    }

    #[inline]
    unsafe fn free_async(&self, call: &Call<'_>, address: DevicePointer, stream: Live<'_, StreamHandle>) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            // SAFETY: the stream is live, as its type says, and the caller promises that all other uses of the memory
            // come before this one.
            check(unsafe { self.functions.cuMemFreeAsync(address.0, raw_stream(stream)) })
        })
    }

    fn allocate_pinned(&self, call: &Call<'_>, bytes: usize, flags: PinnedFlags) -> Result<*mut u8> {
        let _bound = self.bind(call.context)?;
        let mut address = ptr::null_mut();
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuMemHostAlloc(&mut address, bytes, flags.bits()) })?;
        Ok(address.cast())
    }

    unsafe fn free_pinned(&self, call: &Call<'_>, address: *mut u8) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller promises that nobody uses the memory any more, and no queued work that this does not wait
        // for; the driver refuses addresses that it did not give.
        check(unsafe { self.functions.cuMemFreeHost(address.cast()) })
    }

    unsafe fn register_pinned(
        &self,
        call: &Call<'_>,
        address: *mut u8,
        bytes: usize,
        flags: RegisterFlags,
    ) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller keeps the range allocated until it is unregistered.
        check(unsafe { self.functions.cuMemHostRegister(address.cast(), bytes, flags.bits()) })
    }

    unsafe fn unregister_pinned(&self, call: &Call<'_>, address: *mut u8) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller promises that no queued work uses the memory, or only work that this waits for; the driver
        // refuses addresses that are not registered.
        check(unsafe { self.functions.cuMemHostUnregister(address.cast()) })
    }

    fn pinned_device_pointer(&self, call: &Call<'_>, address: *mut u8) -> Result<DevicePointer> {
        let _bound = self.bind(call.context)?;
        let mut mapped = 0;
        // SAFETY: the result is written to a variable that outlives the call; the driver refuses addresses that are not
        // those of pinned memory.
        check(unsafe { self.functions.cuMemHostGetDevicePointer(&mut mapped, address.cast(), 0) })?;
        Ok(DevicePointer(mapped))
    }

    fn allocate_managed(&self, call: &Call<'_>, bytes: usize) -> Result<DevicePointer> {
        let _bound = self.bind(call.context)?;
        let mut address = 0;
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuMemAllocManaged(&mut address, bytes, CU_MEM_ATTACH_GLOBAL) })?;
        Ok(DevicePointer(address))
    }

    unsafe fn prefetch_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        bytes: usize,
        device: Option<DeviceOrdinal>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let device = device.map_or(Ok(HOST), |device| self.raw_device(device))?;
        let _bound = self.bind_for_stream(call.context, stream)?;
        // SAFETY: the stream is live, as its type says, and the caller keeps the range allocated until the operation
        // has run.
        check(unsafe { self.functions.cuMemPrefetchAsync(address.0, bytes, device, raw_stream(stream)) })
    }

    unsafe fn prefetch_batch_async(
        &self,
        call: &Call<'_>,
        prefetches: &[Prefetch],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { self.queue_prefetches(call, prefetches, false, stream) }
    }

    unsafe fn discard_batch_async(
        &self,
        call: &Call<'_>,
        ranges: &[ManagedRange],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { self.queue_discards(call, ranges, stream) }
    }

    unsafe fn discard_and_prefetch_batch_async(
        &self,
        call: &Call<'_>,
        prefetches: &[Prefetch],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { self.queue_prefetches(call, prefetches, true, stream) }
    }

    unsafe fn attach_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        bytes: usize,
        attachment: MemoryAttachment,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { self.queue_attachment(call, address, bytes, attachment, stream) }
    }

    #[inline]
    unsafe fn copy_async(
        &self,
        call: &Call<'_>,
        kind: CopyKind,
        destination: u64,
        source: u64,
        bytes: usize,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the stream is live, as its type says, and the caller keeps both ranges valid until the copy has run.
        unsafe { copy::queue(&self.functions, kind, destination, source, bytes, raw_stream(stream)) }
    }

    unsafe fn copy(&self, call: &Call<'_>, kind: CopyKind, destination: u64, source: u64, bytes: usize) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the context is current, and the caller keeps both ranges valid until the copy has run.
        unsafe { copy::perform(&self.functions, kind, destination, source, bytes) }
    }

    unsafe fn copy_peer_async(
        &self,
        call: &Call<'_>,
        destination: DevicePointer,
        destination_context: Live<'_, ContextHandle>,
        source: DevicePointer,
        source_context: Live<'_, ContextHandle>,
        bytes: usize,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let _bound = self.bind(call.context)?;
        let (to, from) = (raw_context(destination_context), raw_context(source_context));
        // SAFETY: the contexts and the stream are live, as their types say, and the caller keeps both ranges valid
        // until the copy has run.
        check(unsafe { self.functions.cuMemcpyPeerAsync(destination.0, to, source.0, from, bytes, raw_stream(stream)) })
    }

    unsafe fn copy_3d_async(&self, call: &Call<'_>, copy: &Copy3d, stream: Live<'_, StreamHandle>) -> Result<()> {
        let description = copy::describe(copy);
        let _bound = self.bind(call.context)?;
        // SAFETY: the stream is live, as its type says, and the caller keeps both volumes valid until the copy has run.
        // The driver reads the description before it returns.
        check(unsafe { self.functions.cuMemcpy3DAsync(&description, raw_stream(stream)) })
    }

    unsafe fn copy_3d_peer_async(
        &self,
        call: &Call<'_>,
        copy: &Copy3d,
        destination_context: Live<'_, ContextHandle>,
        source_context: Live<'_, ContextHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let _bound = self.bind(call.context)?;
        let (to, from) = (raw_context(destination_context), raw_context(source_context));
        let description = copy::describe_peer(copy, to, from);
        // SAFETY: the contexts and the stream are live, as their types say, and the caller keeps both volumes valid until the copy
        // has run. The driver reads the description before it returns.
        check(unsafe { self.functions.cuMemcpy3DPeerAsync(&description, raw_stream(stream)) })
    }

    unsafe fn copy_batch_async(
        &self,
        call: &Call<'_>,
        copies: &[AttributedCopy],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { self.queue_batch(call, copies, stream) }
    }

    unsafe fn copy_3d_batch_async(
        &self,
        call: &Call<'_>,
        copies: &[AttributedCopy3d],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { self.queue_region_batch(call, copies, stream) }
    }

    unsafe fn copy_with_attributes_async(
        &self,
        call: &Call<'_>,
        copy: &AttributedCopy,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { self.queue_with_attributes(call, copy, stream) }
    }

    unsafe fn copy_3d_with_attributes_async(
        &self,
        call: &Call<'_>,
        copy: &AttributedCopy3d,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { self.queue_region_with_attributes(call, copy, stream) }
    }

    #[inline]
    unsafe fn fill_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        pattern: FillPattern,
        count: usize,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            // SAFETY: the stream is live, as its type says, and the caller keeps the range valid until the fill has
            // run.
            unsafe { fill::queue(&self.functions, address, pattern, count, raw_stream(stream)) }
        })
    }

    fn default_memory_pool(&self, device: DeviceOrdinal) -> Result<MemoryPoolHandle> {
        let device = self.raw_device(device)?;
        let mut pool = ptr::null_mut();
        // SAFETY: the device is one of this driver.
        check(unsafe { self.functions.cuDeviceGetDefaultMemPool(&mut pool, device) })?;
        Ok(pool_handle(pool))
    }

    fn memory_pool_create(&self, device: DeviceOrdinal, options: &MemoryPoolOptions) -> Result<MemoryPoolHandle> {
        let properties = pool::properties(self.raw_device(device)?, options, self.version());
        let mut pool = ptr::null_mut();
        // SAFETY: the description is complete, and read before the driver returns.
        check(unsafe { self.functions.cuMemPoolCreate(&mut pool, &properties) })?;
        Ok(pool_handle(pool))
    }

    unsafe fn memory_pool_destroy(&self, pool: MemoryPoolHandle) -> Result<()> {
        // SAFETY: the caller promises that the pool exists, and that this is the last use of it.
        check(unsafe { self.functions.cuMemPoolDestroy(raw_pool(pool)) })
    }

    fn memory_pool_trim(&self, pool: Live<'_, MemoryPoolHandle>, keep_bytes: usize) -> Result<()> {
        // SAFETY: the pool is live, as its type says.
        check(unsafe { self.functions.cuMemPoolTrimTo(raw_pool(pool), keep_bytes) })
    }

    fn memory_pool_attribute(&self, pool: Live<'_, MemoryPoolHandle>, attribute: MemoryPoolAttribute) -> Result<u64> {
        let attribute = pool::attribute(attribute)?;
        let mut value = 0_u64;
        // SAFETY: the pool is live, as its type says; each of these attributes is a 64-bit number, written to a
        // variable that outlives the call.
        check(unsafe { self.functions.cuMemPoolGetAttribute(raw_pool(pool), attribute, (&raw mut value).cast()) })?;
        Ok(value)
    }

    fn memory_pool_set_attribute(
        &self,
        pool: Live<'_, MemoryPoolHandle>,
        attribute: MemoryPoolAttribute,
        value: u64,
    ) -> Result<()> {
        let attribute = pool::attribute(attribute)?;
        let mut value = value;
        // SAFETY: the pool is live, as its type says; each of these attributes is a 64-bit number, and is read from a
        // variable that outlives the call.
        check(unsafe { self.functions.cuMemPoolSetAttribute(raw_pool(pool), attribute, (&raw mut value).cast()) })
    }

    fn memory_pool_set_access(
        &self,
        pool: Live<'_, MemoryPoolHandle>,
        peer: DeviceOrdinal,
        allowed: bool,
    ) -> Result<()> {
        let access = pool::access(self.raw_device(peer)?, allowed);
        // SAFETY: the pool is live, as its type says; there is one description, read before the driver returns.
        check(unsafe { self.functions.cuMemPoolSetAccess(raw_pool(pool), &access, 1) })
    }
}

impl CudaDriver {
    /// Asks for what is known of an address. A context is current.
    ///
    /// # Safety
    /// The attribute has that type, of which zeros are a value, or a smaller one whose bytes begin there.
    unsafe fn pointer_attribute<T: Default>(
        &self,
        attribute: CUpointer_attribute,
        address: DevicePointer,
    ) -> Result<T> {
        let mut value = T::default();
        // SAFETY: the caller promises that the driver writes no more than the value. It outlives the call.
        check(unsafe { self.functions.cuPointerGetAttribute((&raw mut value).cast(), attribute, address.0) })?;
        Ok(value)
    }
}
