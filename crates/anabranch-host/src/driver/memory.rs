//! Memory: allocated, copied, filled, freed.

use super::{ContextState, HostDriver, batch, copy, fill, managed, register, resolve, resolve_even_if_lost, usable};
use crate::capture::Target;
use crate::engine::work;
use crate::error::permitted;
use crate::memory::{
    Allocation, Arrival, Block, DeviceMemory, FreeGraphBlock, FreedBy, Lookup, MemoryKind, Origin, PoolState, address,
    release, retire,
};
use anabranch_hal::{
    AllocationNode, AttributedCopy, AttributedCopy3d, Call, ContextHandle, Copy3d, CopyKind, DeviceOrdinal,
    DevicePointer, Failure, FillPattern, Live, ManagedRange, Memory, MemoryAttachment, MemoryInfo, MemoryPoolAttribute,
    MemoryPoolHandle, MemoryPoolOptions, MemoryRange, MemoryReport, NodeParameters, PinnedFlags, Prefetch,
    RegisterFlags, Result, Status, StreamHandle,
};
use std::sync::Arc;

impl HostDriver {
    /// A context that is not lost, and its device.
    fn context_and_device<'a>(&'a self, call: &Call<'a>) -> Result<(&'a ContextState, &'a DeviceMemory)> {
        let context = usable(call)?;
        Ok((context, self.shared.memory.device(context.core.device)?))
    }

    /// Allocates plain memory of a kind.
    fn allocate_block(
        &self,
        context: &ContextState,
        device: &DeviceMemory,
        bytes: usize,
        kind: MemoryKind,
    ) -> Result<u64> {
        self.shared.captures.before_unsafe_call()?;
        if bytes == 0 {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let block = match kind {
            // What pools of the device have does not count against it.
            MemoryKind::Pinned => Block::allocate(&self.shared.memory.pinned, bytes)?,
            _ => Block::allocate(&device.account, bytes).or_else(|_| {
                device.give_all_idle_memory_back(bytes as u64);
                Block::allocate(&device.account, bytes)
            })?,
        };
        let origin = Origin { kind, device: device.ordinal, bytes, stream: None };
        self.shared.memory.notify(|observer| observer.allocated(&block, origin));
        let owner = Some(context.core.id);
        Ok(self.shared.memory.table.insert(Allocation { block, kind, device: device.ordinal, owner, pool: None }))
    }

    /// Frees memory of the wanted kinds, after the context's work.
    ///
    /// # Safety
    /// Nobody uses the memory any more, except work that this waits for.
    unsafe fn free_block(&self, call: &Call<'_>, address: u64, wanted: impl Fn(MemoryKind) -> bool) -> Result<()> {
        permitted()?;
        let context = ContextState::of(call.context)?;
        self.shared.captures.before_unsafe_call()?;
        if address == 0 {
            return context.core.check();
        }
        let bad = || Failure::new(Status::INVALID_VALUE);
        let kind = self.shared.memory.table.kind_at(address).filter(|&kind| wanted(kind)).ok_or_else(bad)?;
        context.core.wait_to_give_back(call);
        if kind == MemoryKind::Graph {
            let block = self.shared.memory.graphs.block(address).filter(|block| block.free()).ok_or_else(bad)?;
            self.shared.memory.notify(|observer| observer.graph_freed(block.address(), FreedBy::Call));
            return context.core.check();
        }
        let Allocation { mut block, pool, .. } = self.shared.memory.table.remove(address, wanted).ok_or_else(bad)?;
        self.shared.memory.notify(|observer| observer.freeing(address, FreedBy::Call));
        match pool {
            Some(pool) => match block.exchange() {
                Ok(_) => pool.take_back(block, None),
                Err(_) => pool.let_go(block, None),
            },
            None => drop(block),
        }
        // In a lost context the memory is free all the same, and the call says that the context is lost.
        context.core.check()
    }
}

impl Memory for HostDriver {
    fn memory_info(&self, call: &Call<'_>) -> Result<MemoryInfo> {
        let (_, device) = self.context_and_device(call)?;
        Ok(MemoryInfo { free: device.account.free(), total: device.account.total() })
    }

    fn memory_range(&self, call: &Call<'_>, address: DevicePointer) -> Result<MemoryRange> {
        self.context_and_device(call)?;
        self.shared.memory.table.range_of(address.0).ok_or(Failure::new(Status::INVALID_VALUE))
    }

    fn allocate(&self, call: &Call<'_>, bytes: usize) -> Result<DevicePointer> {
        let (context, device) = self.context_and_device(call)?;
        self.allocate_block(context, device, bytes, MemoryKind::Device).map(DevicePointer)
    }

    unsafe fn free(&self, call: &Call<'_>, address: DevicePointer) -> Result<()> {
        // SAFETY: the caller promises that nobody uses the memory any more, except work that this waits for.
        unsafe {
            self.free_block(call, address.0, |kind| {
                !matches!(kind, MemoryKind::Pinned | MemoryKind::Registered | MemoryKind::Global | MemoryKind::External)
            })
        }
    }

    fn allocate_async(
        &self,
        call: &Call<'_>,
        bytes: usize,
        pool: Option<Live<'_, MemoryPoolHandle>>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<DevicePointer> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let target = self.shared.captures.target(&stream)?;
        if let Target::Queue(_) = target {
            self.shared.captures.before_unsafe_call()?;
        }
        if bytes == 0 {
            return Ok(DevicePointer::NULL);
        }
        let stream = match target {
            Target::Queue(stream) => stream,
            Target::Capture(mut recording) => {
                let device = match pool {
                    Some(pool) => PoolState::of(pool)?.device,
                    None => stream.core.device,
                };
                let node = AllocationNode {
                    device: DeviceOrdinal(device),
                    bytes,
                    access: Vec::new(),
                    address: DevicePointer::NULL,
                };
                // SAFETY: an allocation refers to no object and to no address.
                let added = unsafe { recording.add(NodeParameters::Allocate(node)) }?;
                return added.address.ok_or(Failure::new(Status::UNKNOWN));
            }
        };
        let pool = match pool {
            Some(pool) => PoolState::of(pool)?.share().ok_or(Failure::new(Status::INVALID_VALUE))?,
            None => Arc::clone(self.shared.memory.device(stream.core.device)?.default_pool()),
        };
        let block = pool.allocate(self.shared.memory.device(pool.device)?, bytes, stream)?;
        if let Some(observer) = &self.shared.memory.observer {
            let origin = Origin { kind: MemoryKind::Pooled, device: pool.device, bytes, stream: Some(stream.id) };
            observer.allocated(&block, origin);
            stream.enqueue(work(Arrival { memory: Arc::clone(&self.shared.memory), address: block.address() }));
        }
        let (kind, device) = (MemoryKind::Pooled, pool.device);
        let allocation = Allocation { block, kind, device, owner: None, pool: Some(pool) };
        Ok(DevicePointer(self.shared.memory.table.insert(allocation)))
    }

    unsafe fn free_async(&self, call: &Call<'_>, address: DevicePointer, stream: Live<'_, StreamHandle>) -> Result<()> {
        let stream = resolve_even_if_lost(&self.shared, call.context, stream)?;
        let stream = match self.shared.captures.target(&stream)? {
            Target::Capture(_) if address.is_null() => return stream.core.check(),
            Target::Capture(mut recording) => {
                // SAFETY: the caller promises that all other uses of the memory are ordered before the free.
                unsafe { recording.add(NodeParameters::Free(address)) }?;
                return stream.core.check();
            }
            Target::Queue(stream) => stream,
        };
        self.shared.captures.before_unsafe_call()?;
        if address.is_null() {
            return stream.core.check();
        }
        match self.shared.memory.table.kind_at(address.0) {
            Some(MemoryKind::Managed) => return Err(Failure::new(Status::NOT_SUPPORTED)),
            Some(MemoryKind::Graph) => {
                let block = self.shared.memory.graphs.block(address.0).filter(|block| block.free());
                // Its graph may have been destroyed, and queued work may use it.
                let block = block.ok_or(Failure::new(Status::INVALID_VALUE))?;
                stream.enqueue(work(FreeGraphBlock { memory: Arc::clone(&self.shared.memory), block }));
                return stream.core.check();
            }
            _ => {}
        }
        // Plain memory may be freed in stream order too.
        let wanted = |kind| matches!(kind, MemoryKind::Pooled | MemoryKind::Device);
        let Some(Allocation { mut block, pool, .. }) = self.shared.memory.table.remove(address.0, wanted) else {
            return Err(Failure::new(Status::INVALID_VALUE));
        };
        let memory = &self.shared.memory;
        memory.notify(|observer| observer.freeing(address.0, FreedBy::Stream(stream.id)));
        match pool {
            Some(pool) => {
                // The memory itself is freed where the stream comes to it, and the pool has other memory to go on with.
                let exchanged = block.exchange();
                let is_usable = exchanged.is_ok();
                if let Ok(Some(piece)) = exchanged {
                    stream.enqueue(retire(&memory.leaving, piece, block.bytes()));
                }
                let freed_at = Some(stream.mark_position());
                if is_usable { pool.take_back(block, freed_at) } else { pool.let_go(block, freed_at) }
            }
            None => {
                stream.enqueue(release(&memory.leaving, block));
            }
        }
        stream.core.check()
    }

    fn allocate_pinned(&self, call: &Call<'_>, bytes: usize, flags: PinnedFlags) -> Result<*mut u8> {
        let (context, device) = self.context_and_device(call)?;
        if !PinnedFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        // Unlike device memory, none of it is no error.
        if bytes == 0 {
            self.shared.captures.before_unsafe_call()?;
            return Ok(std::ptr::null_mut());
        }
        self.allocate_block(context, device, bytes, MemoryKind::Pinned).map(address)
    }

    unsafe fn free_pinned(&self, call: &Call<'_>, address: *mut u8) -> Result<()> {
        let address = address.expose_provenance() as u64;
        // SAFETY: the caller promises that nobody uses the memory any more, except work that this waits for.
        unsafe { self.free_block(call, address, |kind| kind == MemoryKind::Pinned) }
    }

    unsafe fn register_pinned(
        &self,
        call: &Call<'_>,
        address: *mut u8,
        bytes: usize,
        flags: RegisterFlags,
    ) -> Result<()> {
        let (context, device) = self.context_and_device(call)?;
        // SAFETY: the caller keeps the range allocated until it is unregistered.
        unsafe { register::register(&self.shared, &context.core, device.ordinal, address, bytes, flags) }
    }

    unsafe fn unregister_pinned(&self, call: &Call<'_>, address: *mut u8) -> Result<()> {
        permitted()?;
        let context = ContextState::of(call.context)?;
        // SAFETY: the caller promises that no queued work uses the memory, except work that this waits for.
        unsafe { register::unregister(&self.shared, call, &context.core, address) }
    }

    fn pinned_device_pointer(&self, call: &Call<'_>, address: *mut u8) -> Result<DevicePointer> {
        self.context_and_device(call)?;
        register::device_pointer(&self.shared, address)
    }

    fn allocate_managed(&self, call: &Call<'_>, bytes: usize) -> Result<DevicePointer> {
        let (context, device) = self.context_and_device(call)?;
        self.allocate_block(context, device, bytes, MemoryKind::Managed).map(DevicePointer)
    }

    unsafe fn prefetch_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        bytes: usize,
        device: Option<DeviceOrdinal>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.refuse(&stream)?;
        if let Some(device) = device {
            self.shared.memory.device(device.0)?;
        }
        // There is nowhere to move it to, so nothing need be queued.
        match self.shared.memory.table.find(address.0, bytes) {
            Lookup::Inside(MemoryKind::Managed) if bytes > 0 => Ok(()),
            _ => Err(Failure::new(Status::INVALID_VALUE)),
        }
    }

    unsafe fn prefetch_batch_async(
        &self,
        call: &Call<'_>,
        prefetches: &[Prefetch],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        managed::prefetch_all(&self.shared, &stream, prefetches).map(drop)
    }

    unsafe fn discard_batch_async(
        &self,
        call: &Call<'_>,
        ranges: &[ManagedRange],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        // SAFETY: the caller promises what this asks for.
        unsafe { managed::discard_all(&self.shared, &stream, ranges) }
    }

    unsafe fn discard_and_prefetch_batch_async(
        &self,
        call: &Call<'_>,
        prefetches: &[Prefetch],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let ranges = managed::prefetch_all(&self.shared, &stream, prefetches)?;
        // SAFETY: the caller promises what this asks for.
        unsafe { managed::discard_all(&self.shared, &stream, &ranges) }
    }

    unsafe fn attach_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        bytes: usize,
        _: MemoryAttachment,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        managed::attach(&self.shared, &stream, address, bytes)
    }

    unsafe fn copy_async(
        &self,
        call: &Call<'_>,
        kind: CopyKind,
        destination: u64,
        source: u64,
        bytes: usize,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let target = self.shared.captures.target(&stream)?;
        // SAFETY: the caller keeps both ranges valid until the copy is complete.
        unsafe { copy::copy(&self.shared, target, kind, destination, source, bytes, false) }
    }

    unsafe fn copy(&self, call: &Call<'_>, kind: CopyKind, destination: u64, source: u64, bytes: usize) -> Result<()> {
        let stream = resolve(&self.shared, call.context, Live::LEGACY)?;
        let target = self.shared.captures.target(&stream)?;
        // SAFETY: the caller keeps both ranges valid until the copy is complete.
        unsafe { copy::copy(&self.shared, target, kind, destination, source, bytes, true) }
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
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.refuse(&stream)?;
        for peer in [destination_context, source_context] {
            ContextState::of(peer)?.core.check()?;
        }
        let target = self.shared.captures.target(&stream)?;
        // SAFETY: the caller keeps both ranges valid until the copy is complete.
        unsafe { copy::copy(&self.shared, target, CopyKind::DeviceToDevice, destination.0, source.0, bytes, false) }
    }

    unsafe fn copy_3d_async(&self, call: &Call<'_>, copy: &Copy3d, stream: Live<'_, StreamHandle>) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let target = self.shared.captures.target(&stream)?;
        // SAFETY: the caller keeps both volumes valid until the copy is complete.
        unsafe { copy::copy_3d(&self.shared, target, copy) }
    }

    unsafe fn copy_3d_peer_async(
        &self,
        call: &Call<'_>,
        copy: &Copy3d,
        destination_context: Live<'_, ContextHandle>,
        source_context: Live<'_, ContextHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.refuse(&stream)?;
        for peer in [destination_context, source_context] {
            ContextState::of(peer)?.core.check()?;
        }
        let target = self.shared.captures.target(&stream)?;
        // SAFETY: the caller keeps both volumes valid until the copy is complete.
        unsafe { copy::copy_3d(&self.shared, target, copy) }
    }

    unsafe fn copy_batch_async(
        &self,
        call: &Call<'_>,
        copies: &[AttributedCopy],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        // SAFETY: the caller promises what this asks for.
        unsafe { batch::copy_all(&self.shared, &stream, copies) }
    }

    unsafe fn copy_3d_batch_async(
        &self,
        call: &Call<'_>,
        copies: &[AttributedCopy3d],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        // SAFETY: the caller promises what this asks for.
        unsafe { batch::copy_all_regions(&self.shared, &stream, copies) }
    }

    unsafe fn copy_with_attributes_async(
        &self,
        call: &Call<'_>,
        copy: &AttributedCopy,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { self.copy_batch_async(call, std::slice::from_ref(copy), stream) }
    }

    unsafe fn copy_3d_with_attributes_async(
        &self,
        call: &Call<'_>,
        copy: &AttributedCopy3d,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { self.copy_3d_batch_async(call, std::slice::from_ref(copy), stream) }
    }

    unsafe fn fill_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        pattern: FillPattern,
        count: usize,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let target = self.shared.captures.target(&stream)?;
        // SAFETY: the caller keeps the range valid until the fill is complete.
        unsafe { fill::fill(&self.shared, target, address.0, pattern, count) }
    }

    fn default_memory_pool(&self, device: DeviceOrdinal) -> Result<MemoryPoolHandle> {
        permitted()?;
        let pool = self.shared.memory.device(device.0)?.default_pool();
        Ok(MemoryPoolHandle::from_raw(Arc::as_ptr(pool) as usize))
    }

    fn memory_pool_create(&self, device: DeviceOrdinal, options: &MemoryPoolOptions) -> Result<MemoryPoolHandle> {
        permitted()?;
        let device = self.shared.memory.device(device.0)?;
        self.shared.captures.before_unsafe_call()?;
        if options.interprocess {
            return Err(Failure::new(Status::NOT_SUPPORTED));
        }
        let pool = PoolState::create(device, options.max_bytes)?;
        Ok(MemoryPoolHandle::from_raw(device.pools.insert(pool)))
    }

    unsafe fn memory_pool_destroy(&self, pool: MemoryPoolHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the caller promises that the pool exists.
        let state = PoolState::of(unsafe { Live::new(pool) })?;
        if state.is_default {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        self.shared.captures.before_unsafe_call()?;
        let removed = self.shared.memory.device(state.device)?.pools.remove(pool.as_raw());
        removed.ok_or(Failure::new(Status::INVALID_VALUE))?.destroy();
        Ok(())
    }

    fn memory_pool_trim(&self, pool: Live<'_, MemoryPoolHandle>, keep_bytes: usize) -> Result<()> {
        permitted()?;
        let pool = PoolState::of(pool)?;
        self.shared.captures.before_unsafe_call()?;
        pool.trim(keep_bytes);
        Ok(())
    }

    fn memory_pool_attribute(&self, pool: Live<'_, MemoryPoolHandle>, attribute: MemoryPoolAttribute) -> Result<u64> {
        permitted()?;
        let pool = PoolState::of(pool)?;
        self.shared.captures.before_unsafe_call()?;
        pool.attribute(attribute)
    }

    fn memory_pool_set_attribute(
        &self,
        pool: Live<'_, MemoryPoolHandle>,
        attribute: MemoryPoolAttribute,
        value: u64,
    ) -> Result<()> {
        permitted()?;
        let pool = PoolState::of(pool)?;
        self.shared.captures.before_unsafe_call()?;
        pool.set_attribute(attribute, value)
    }

    fn memory_pool_set_access(
        &self,
        pool: Live<'_, MemoryPoolHandle>,
        peer: DeviceOrdinal,
        allowed: bool,
    ) -> Result<()> {
        permitted()?;
        let pool = PoolState::of(pool)?;
        self.shared.captures.before_unsafe_call()?;
        self.shared.memory.device(peer.0)?;
        // All memory is memory of this process. Only a device's access to its own pool cannot be taken away.
        if pool.device == peer.0 && !allowed {
            return Err(Failure::new(Status::INVALID_DEVICE));
        }
        Ok(())
    }

    fn memory_report(&self, device: DeviceOrdinal) -> Option<MemoryReport> {
        self.shared.memory.device(device.0).ok()?;
        self.checker.as_ref().map(|checker| checker.report(device.0))
    }
}
