//! Memory: allocated, copied, filled, freed.

mod block;
mod copy;
mod fill;
mod piece;
mod pool;
mod table;

pub(crate) use block::{Account, Block, StagedBytes};
pub(crate) use copy::{address, check_copy_3d, run_copy, run_copy_3d, volume_range};
pub(crate) use fill::{check_fill, run_fill};
pub(crate) use piece::{Piece, RawPiece};
pub(crate) use pool::PoolState;
pub(crate) use table::{Allocation, AllocationTable, Lookup, MemoryKind};

use crate::checker::{FreedBy, Origin};
use crate::context::ContextState;
use crate::device::DeviceState;
use crate::driver::HostDriver;
use crate::engine::entry::Entry;
use crate::engine::host_work::permitted;
use crate::handles;
use crate::stream::{resolve, resolve_even_if_lost};
use anabranch_hal::{
    AllocationNode, ContextHandle, Copy3d, CopyKind, DeviceOrdinal, DevicePointer, Failure, FillPattern, Memory,
    MemoryInfo, MemoryPoolAttribute, MemoryPoolHandle, MemoryPoolOptions, MemoryReport, NodeParameters, PinnedFlags,
    Result, Status, StreamHandle,
};
use std::sync::Arc;

impl HostDriver {
    /// A context that is not lost, and its device.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn usable_context<'a>(&'a self, context: ContextHandle) -> Result<(&'a ContextState, &'a DeviceState)> {
        permitted()?;
        // SAFETY: the handle rule.
        let context: &'a ContextState = unsafe { handles::context(context) }?;
        context.core.check()?;
        Ok((context, self.shared.device(context.core.device)?))
    }

    /// Allocates plain memory of a kind.
    fn allocate_block(
        &self,
        context: &ContextState,
        device: &DeviceState,
        bytes: usize,
        kind: MemoryKind,
    ) -> Result<u64> {
        self.shared.captures.before_unsafe_call()?;
        if bytes == 0 {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let account = if kind == MemoryKind::Pinned { &self.pinned } else { &device.account };
        let block = Block::allocate(account, bytes).or_else(|_| {
            device.give_all_idle_memory_back();
            Block::allocate(account, bytes)
        })?;
        if let Some(checker) = &self.shared.engine.checker {
            checker.allocated(&block, Origin { kind, device: device.ordinal, bytes, stream: None });
        }
        Ok(self.shared.table.insert(Allocation { block, kind, owner: Some(context.core.id), pool: None }))
    }

    /// Frees memory of the wanted kinds, after the context's work.
    ///
    /// # Safety
    /// The handle rule; nobody uses the memory any more.
    unsafe fn free_block(
        &self,
        context: ContextHandle,
        address: u64,
        wanted: impl Fn(MemoryKind) -> bool,
    ) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        let context = unsafe { handles::context(context) }?;
        self.shared.captures.before_unsafe_call()?;
        if address == 0 {
            return context.core.check();
        }
        let bad = || Failure::new(Status::INVALID_VALUE);
        let kind = self.shared.table.kind_at(address).filter(|&kind| wanted(kind)).ok_or_else(bad)?;
        context.core.wait_for_all(context.core.patience());
        if kind == MemoryKind::Graph {
            let block = self.shared.graph_memory.block(address).filter(|block| block.free()).ok_or_else(bad)?;
            if let Some(checker) = &self.shared.engine.checker {
                checker.graph_freed(block.address(), FreedBy::Call);
            }
            return context.core.check();
        }
        let Allocation { mut block, pool, .. } = self.shared.table.remove(address, wanted).ok_or_else(bad)?;
        if let Some(checker) = &self.shared.engine.checker {
            checker.freeing(address, FreedBy::Call);
        }
        match pool {
            Some(pool) => {
                drop(block.exchange());
                pool.take_back(block, None);
            }
            None => drop(block),
        }
        // In a lost context the memory is free all the same, and the call says that the context is lost.
        context.core.check()
    }
}

impl Memory for HostDriver {
    unsafe fn memory_info(&self, context: ContextHandle) -> Result<MemoryInfo> {
        // SAFETY: the handle rule.
        let (_, device) = unsafe { self.usable_context(context) }?;
        Ok(MemoryInfo { free: device.account.free(), total: device.account.total() })
    }

    unsafe fn allocate(&self, context: ContextHandle, bytes: usize) -> Result<DevicePointer> {
        // SAFETY: the handle rule.
        let (context, device) = unsafe { self.usable_context(context) }?;
        self.allocate_block(context, device, bytes, MemoryKind::Device).map(DevicePointer)
    }

    unsafe fn free(&self, context: ContextHandle, address: DevicePointer) -> Result<()> {
        // SAFETY: the caller's word.
        unsafe { self.free_block(context, address.0, |kind| !matches!(kind, MemoryKind::Pinned | MemoryKind::Global)) }
    }

    unsafe fn allocate_async(
        &self,
        context: ContextHandle,
        bytes: usize,
        pool: Option<MemoryPoolHandle>,
        stream: StreamHandle,
    ) -> Result<DevicePointer> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        if bytes == 0 {
            return Ok(DevicePointer::NULL);
        }
        if let Some(mut recording) = stream.recording()? {
            let device = match pool {
                // SAFETY: the handle rule.
                Some(pool) => unsafe { handles::pool(pool) }?.device,
                None => stream.core.device,
            };
            let node = AllocationNode {
                device: DeviceOrdinal(device),
                bytes,
                access: Vec::new(),
                address: DevicePointer::NULL,
            };
            // SAFETY: an allocation names nothing that could be gone.
            let added = unsafe { recording.add(NodeParameters::Allocate(node)) }?;
            return added.address.ok_or(Failure::new(Status::UNKNOWN));
        }
        let pool = match pool {
            // SAFETY: the handle rule.
            Some(pool) => unsafe { handles::pool(pool) }?.share().ok_or(Failure::new(Status::INVALID_VALUE))?,
            None => Arc::clone(self.shared.device(stream.core.device)?.default_pool()),
        };
        self.shared.captures.before_unsafe_call()?;
        let block = pool.allocate(self.shared.device(pool.device)?, bytes, &stream)?;
        if let Some(checker) = &self.shared.engine.checker {
            let origin = Origin { kind: MemoryKind::Pooled, device: pool.device, bytes, stream: Some(stream.id) };
            checker.allocated(&block, origin);
            stream.enqueue(Entry::Arrive(block.address()));
        }
        let allocation = Allocation { block, kind: MemoryKind::Pooled, owner: None, pool: Some(pool) };
        Ok(DevicePointer(self.shared.table.insert(allocation)))
    }

    unsafe fn free_async(&self, context: ContextHandle, address: DevicePointer, stream: StreamHandle) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve_even_if_lost(context, stream) }?;
        if address.is_null() {
            return stream.core.check();
        }
        if let Some(mut recording) = stream.recording()? {
            // SAFETY: the caller vouches for what the node does.
            unsafe { recording.add(NodeParameters::Free(address)) }?;
            return stream.core.check();
        }
        self.shared.captures.before_unsafe_call()?;
        match self.shared.table.kind_at(address.0) {
            Some(MemoryKind::Managed) => return Err(Failure::new(Status::NOT_SUPPORTED)),
            Some(MemoryKind::Graph) => {
                let block = self.shared.graph_memory.block(address.0).filter(|block| block.free());
                // Its graph may be gone, and work that is queued may use it.
                stream.enqueue(Entry::ReleaseShare(block.ok_or(Failure::new(Status::INVALID_VALUE))?));
                return stream.core.check();
            }
            _ => {}
        }
        // Plain memory may be freed in stream order too.
        let wanted = |kind| matches!(kind, MemoryKind::Pooled | MemoryKind::Device);
        let Some(Allocation { mut block, pool, .. }) = self.shared.table.remove(address.0, wanted) else {
            return Err(Failure::new(Status::INVALID_VALUE));
        };
        if let Some(checker) = &self.shared.engine.checker {
            checker.freeing(address.0, FreedBy::Stream(stream.id));
        }
        match pool {
            Some(pool) => {
                // The memory itself is freed where the stream comes to it, and the pool has other memory to go on with.
                if let Some(piece) = block.exchange() {
                    stream.enqueue(Entry::Retire(Box::new(piece)));
                }
                let freed_at = stream.mark_position();
                pool.take_back(block, Some(freed_at));
            }
            None => {
                stream.enqueue(Entry::Release(Box::new(block)));
            }
        }
        stream.core.check()
    }

    unsafe fn allocate_pinned(&self, context: ContextHandle, bytes: usize, flags: PinnedFlags) -> Result<*mut u8> {
        // SAFETY: the handle rule.
        let (context, device) = unsafe { self.usable_context(context) }?;
        if !PinnedFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        // Unlike device memory, none of it is no error.
        if bytes == 0 {
            self.shared.captures.before_unsafe_call()?;
            return Ok(std::ptr::null_mut());
        }
        self.allocate_block(context, device, bytes, MemoryKind::Pinned).map(copy::address)
    }

    unsafe fn free_pinned(&self, context: ContextHandle, address: *mut u8) -> Result<()> {
        let address = address.expose_provenance() as u64;
        // SAFETY: the caller's word.
        unsafe { self.free_block(context, address, |kind| kind == MemoryKind::Pinned) }
    }

    unsafe fn allocate_managed(&self, context: ContextHandle, bytes: usize) -> Result<DevicePointer> {
        // SAFETY: the handle rule.
        let (context, device) = unsafe { self.usable_context(context) }?;
        self.allocate_block(context, device, bytes, MemoryKind::Managed).map(DevicePointer)
    }

    unsafe fn prefetch_async(
        &self,
        context: ContextHandle,
        address: DevicePointer,
        bytes: usize,
        device: Option<DeviceOrdinal>,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        if let Some(recording) = stream.recording()? {
            return recording.refuse();
        }
        if let Some(device) = device {
            self.shared.device(device.0)?;
        }
        // There is nowhere to move it to, so nothing need be queued.
        match self.shared.table.find(address.0, bytes) {
            Lookup::Inside(MemoryKind::Managed) if bytes > 0 => Ok(()),
            _ => Err(Failure::new(Status::INVALID_VALUE)),
        }
    }

    unsafe fn copy_async(
        &self,
        context: ContextHandle,
        kind: CopyKind,
        destination: u64,
        source: u64,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        // SAFETY: the caller vouches for both ranges.
        unsafe { copy::copy(&stream, kind, destination, source, bytes, false) }
    }

    unsafe fn copy(
        &self,
        context: ContextHandle,
        kind: CopyKind,
        destination: u64,
        source: u64,
        bytes: usize,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, StreamHandle::LEGACY) }?;
        // SAFETY: the caller vouches for both ranges.
        unsafe { copy::copy(&stream, kind, destination, source, bytes, true) }
    }

    unsafe fn copy_peer_async(
        &self,
        context: ContextHandle,
        destination: DevicePointer,
        destination_context: ContextHandle,
        source: DevicePointer,
        source_context: ContextHandle,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        for peer in [destination_context, source_context] {
            // SAFETY: the handle rule.
            unsafe { handles::context(peer) }?.core.check()?;
        }
        if let Some(recording) = stream.recording()? {
            return recording.refuse();
        }
        // SAFETY: the caller vouches for both ranges.
        unsafe { copy::copy(&stream, CopyKind::DeviceToDevice, destination.0, source.0, bytes, false) }
    }

    unsafe fn copy_3d_async(&self, context: ContextHandle, copy: &Copy3d, stream: StreamHandle) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        // SAFETY: the caller vouches for both volumes.
        unsafe { copy::copy_3d(&stream, copy) }
    }

    unsafe fn fill_async(
        &self,
        context: ContextHandle,
        address: DevicePointer,
        pattern: FillPattern,
        count: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        // SAFETY: the caller vouches for the range.
        unsafe { fill::fill(&stream, address.0, pattern, count) }
    }

    fn default_memory_pool(&self, device: DeviceOrdinal) -> Result<MemoryPoolHandle> {
        permitted()?;
        let pool = self.shared.device(device.0)?.default_pool();
        Ok(MemoryPoolHandle::from_raw(Arc::as_ptr(pool) as usize))
    }

    fn memory_pool_create(&self, device: DeviceOrdinal, options: &MemoryPoolOptions) -> Result<MemoryPoolHandle> {
        permitted()?;
        let device = self.shared.device(device.0)?;
        self.shared.captures.before_unsafe_call()?;
        let pool = PoolState::new(device, false, options.max_bytes);
        Ok(MemoryPoolHandle::from_raw(device.pools.insert(pool)))
    }

    unsafe fn memory_pool_destroy(&self, pool: MemoryPoolHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        let state = unsafe { handles::pool(pool) }?;
        if state.is_default {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        self.shared.captures.before_unsafe_call()?;
        let removed = self.shared.device(state.device)?.pools.remove(pool.as_raw());
        removed.ok_or(Failure::new(Status::INVALID_VALUE))?.destroy();
        Ok(())
    }

    unsafe fn memory_pool_trim(&self, pool: MemoryPoolHandle, keep_bytes: usize) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        let pool = unsafe { handles::pool(pool) }?;
        self.shared.captures.before_unsafe_call()?;
        pool.trim(keep_bytes);
        Ok(())
    }

    unsafe fn memory_pool_attribute(&self, pool: MemoryPoolHandle, attribute: MemoryPoolAttribute) -> Result<u64> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::pool(pool) }?.attribute(attribute)
    }

    unsafe fn memory_pool_set_attribute(
        &self,
        pool: MemoryPoolHandle,
        attribute: MemoryPoolAttribute,
        value: u64,
    ) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        let pool = unsafe { handles::pool(pool) }?;
        self.shared.captures.before_unsafe_call()?;
        pool.set_attribute(attribute, value)
    }

    unsafe fn memory_pool_set_access(&self, pool: MemoryPoolHandle, peer: DeviceOrdinal, allowed: bool) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        let pool = unsafe { handles::pool(pool) }?;
        self.shared.device(peer.0)?;
        // All memory is memory of this process. Only a device's access to its own pool cannot be taken away.
        if pool.device == peer.0 && !allowed {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        Ok(())
    }

    fn memory_report(&self, device: DeviceOrdinal) -> Option<MemoryReport> {
        self.shared.device(device.0).ok()?;
        self.shared.engine.checker.as_ref().map(|checker| checker.report(device.0))
    }
}
