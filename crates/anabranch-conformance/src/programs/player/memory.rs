//! Calls for memory.

use super::super::answer::{Answer, Outcome};
use super::super::call::{BadPlace, MemoryCall, Place};
use super::super::slots::{ContextSlot, MemorySlot, New, PoolSlot, RegionSlot, StreamSlot};
use super::arena::ARENA_BYTES;
use super::harness::{BYTES, REGION_BYTES, pattern};
use super::objects::{MemoryKind, MemoryObject, PoolObject, live};
use super::{Stage, plain, told};
use anabranch::hal::{
    CaptureStatus, Copy3d, CopyKind, CopyPlace, DeviceOrdinal, DevicePointer, FillPattern, MemoryPoolOptions,
    PinnedFlags,
};

/// The kind of a copy between two places.
fn copy_kind(from: Place, to: Place) -> CopyKind {
    match (from.is_on_host(), to.is_on_host()) {
        (false, false) => CopyKind::DeviceToDevice,
        (false, true) => CopyKind::DeviceToHost,
        (true, false) => CopyKind::HostToDevice,
        (true, true) => CopyKind::Inferred,
    }
}

/// The pattern that writes the byte of a region, in elements of that width.
pub(super) fn fill_pattern(region: RegionSlot, width: u8) -> FillPattern {
    let byte = pattern(usize::from(region.0));
    match width {
        1 => FillPattern::U8(byte),
        2 => FillPattern::U16(u16::from_ne_bytes([byte; 2])),
        4 => FillPattern::U32(u32::from_ne_bytes([byte; 4])),
        _ => FillPattern::U64(u64::from_ne_bytes([byte; 8])),
    }
}

impl Stage {
    /// A copy of a box of bytes within one region: rows of 16 bytes, and slices of 2 rows.
    pub(super) fn copy_3d(
        &self,
        context: ContextSlot,
        from: Place,
        to: Place,
        region: RegionSlot,
        extent: [usize; 3],
    ) -> Copy3d {
        let place = |address, place: Place| CopyPlace {
            address,
            host: place.is_on_host(),
            pitch: 16,
            height: 2,
            origin: [0; 3],
        };
        Copy3d {
            source: place(self.harness.source(context, from, region), from),
            destination: place(self.harness.target(context, to, region), to),
            extent,
        }
    }

    pub(super) fn memory_call(&mut self, call: &MemoryCall) -> Option<Answer> {
        let driver = self.driver.clone();
        Some(match call {
            MemoryCall::Copy { context, from, to, region } => {
                let (source, destination) = self.ends(*context, *from, *to, *region);
                let (call, kind) = (self.harness.call(*context), copy_kind(*from, *to));
                // SAFETY: both ranges are memory of the harness.
                plain(unsafe { driver.copy(&call, kind, destination, source, REGION_BYTES) })
            }
            MemoryCall::CopyAsync { stream, from, to, region, bytes } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let (source, destination) = self.ends(context, *from, *to, *region);
                let (call, kind) = (self.harness.call(context), copy_kind(*from, *to));
                let bytes = usize::from(*bytes).min(REGION_BYTES);
                // SAFETY: both ranges are memory of the harness.
                plain(unsafe { driver.copy_async(&call, kind, destination, source, bytes, stream) })
            }
            MemoryCall::CopyBad { stream, place } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let (source, _) = self.ends(context, Place::Device, Place::Device, RegionSlot(0));
                let (call, destination) = (self.harness.call(context), self.bad(context, *place));
                let kind = CopyKind::DeviceToDevice;
                // SAFETY: the source is memory of the harness. The driver refuses the destination: it is null, or ends
                // behind its allocation.
                plain(unsafe { driver.copy_async(&call, kind, destination.0, source, REGION_BYTES, stream) })
            }
            MemoryCall::Copy3d { stream, from, to, region, extent } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let copy = self.copy_3d(context, *from, *to, *region, *extent);
                // SAFETY: the boxes are within one region of the harness.
                plain(unsafe { driver.copy_3d_async(&self.harness.call(context), &copy, stream) })
            }
            MemoryCall::CopyPeer { stream, region } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let (call, other) = (self.harness.call(context), ContextSlot(1 - context.0 % 2));
                let source = DevicePointer(self.harness.source(other, Place::Device, *region));
                let destination = DevicePointer(self.harness.target(context, Place::Device, *region));
                let of = self.harness.call(other).context;
                // SAFETY: both ranges are memory of the harness, in the contexts that are named.
                let copied = unsafe {
                    driver.copy_peer_async(&call, destination, call.context, source, of, REGION_BYTES, stream)
                };
                plain(copied)
            }
            MemoryCall::CopyInferred { stream: slot, from, to, region, bytes } => {
                let (stream, context) = self.objects.stream(*slot)?;
                let (source, destination) = self.ends(context, *from, *to, *region);
                let (call, bytes) = (self.call_on(*slot, context), usize::from(*bytes).min(REGION_BYTES));
                // SAFETY: both ranges are memory of the harness.
                plain(unsafe { driver.copy_async(&call, CopyKind::Inferred, destination, source, bytes, stream) })
            }
            MemoryCall::CopyBetween { stream: slot, from, to, region } => {
                let (stream, context) = self.objects.stream(*slot)?;
                let source = DevicePointer(self.harness.source(*from, Place::Device, *region));
                let destination = DevicePointer(self.harness.target(*to, Place::Device, *region));
                let [from, to] = [from, to].map(|context| self.harness.call(*context).context);
                let call = self.call_on(*slot, context);
                // SAFETY: both ranges are memory of the harness, in the contexts that are named.
                plain(unsafe { driver.copy_peer_async(&call, destination, to, source, from, REGION_BYTES, stream) })
            }
            MemoryCall::Fill { stream, region, width, count } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let address = DevicePointer(self.harness.target(context, Place::Device, *region));
                let (pattern, count) = (fill_pattern(*region, *width), usize::from(*count));
                let count = count.min(REGION_BYTES / pattern.width());
                // SAFETY: the range is memory of the harness.
                plain(unsafe { driver.fill_async(&self.harness.call(context), address, pattern, count, stream) })
            }
            MemoryCall::FillBad { stream, place } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let (address, pattern) = (self.bad(context, *place), fill_pattern(RegionSlot(0), 4));
                // SAFETY: the driver refuses the address: it is null or not aligned, or the range ends behind its
                // allocation.
                plain(unsafe { driver.fill_async(&self.harness.call(context), address, pattern, 16, stream) })
            }
            MemoryCall::Prefetch { stream } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let (call, device) = (self.harness.call(context), Some(self.harness.device(context)));
                // SAFETY: the range is memory of the harness.
                plain(unsafe {
                    driver.prefetch_async(&call, self.harness.context(context).device, BYTES, device, stream)
                })
            }
            MemoryCall::PrefetchManaged { stream, device } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let (call, device) = (self.harness.call(context), device.map(|device| self.harness.ordinal(device)));
                let managed = self.harness.arena.managed()?;
                // SAFETY: the range is memory of the harness.
                plain(unsafe { driver.prefetch_async(&call, managed, ARENA_BYTES, device, stream) })
            }
            MemoryCall::Info { context } => plain(driver.memory_info(&self.harness.call(*context)).map(drop)),
            MemoryCall::Allocate { memory: New(slot), context, bytes } => {
                let address = driver.allocate(&self.harness.call(*context), *bytes);
                told(address, |address| self.allocated(*slot, address, *context, MemoryKind::Plain, *bytes))
            }
            MemoryCall::AllocateManaged { memory: New(slot), context, bytes } => {
                let address = driver.allocate_managed(&self.harness.call(*context), *bytes);
                told(address, |address| self.allocated(*slot, address, *context, MemoryKind::Plain, *bytes))
            }
            MemoryCall::AllocatePinned { memory: New(slot), context, bytes, flags } => {
                let flags = PinnedFlags::from_bits_retain(flags.0);
                let address = driver.allocate_pinned(&self.harness.call(*context), *bytes, flags);
                told(address, |address| {
                    self.allocated(*slot, DevicePointer(address as u64), *context, MemoryKind::Pinned, *bytes)
                })
            }
            MemoryCall::AllocateAsync { memory: New(slot), stream, bytes, pool } => {
                let (stream, context) = self.objects.stream(*stream)?;
                let (mut home, of) = (context, *pool);
                let pool = match pool {
                    Some(pool) => {
                        let pool = self.objects.pools.get_mut(pool)?;
                        pool.is_used = true;
                        if pool.device != self.harness.device(context) {
                            home = ContextSlot(1 - context.0 % 2);
                        }
                        Some(live(pool.handle))
                    }
                    None => None,
                };
                let call = self.harness.call(context);
                let address = driver.allocate_async(&call, *bytes, pool, stream);
                told(address, |address| {
                    let status = driver.stream_capture_status(&call, stream);
                    let kind = match status {
                        Ok(CaptureStatus::None) => MemoryKind::Async,
                        _ => MemoryKind::Graph,
                    };
                    let text = self.allocated(*slot, address, home, kind, *bytes);
                    if let Some(memory) = self.objects.memory.get_mut(slot) {
                        memory.pool = of;
                    }
                    text
                })
            }
            MemoryCall::Free { context, memory } => {
                let address = self.take_memory(*memory, &[MemoryKind::Plain])?;
                // SAFETY: the memory is allocated, and no work was given its address.
                plain(unsafe { driver.free(&self.harness.call(*context), address) })
            }
            MemoryCall::FreePinned { context, memory } => {
                let address = self.take_memory(*memory, &[MemoryKind::Pinned])?;
                // SAFETY: the memory is allocated, and no work was given its address.
                plain(unsafe { driver.free_pinned(&self.harness.call(*context), address.0 as *mut u8) })
            }
            MemoryCall::FreeAsync { stream, memory } => return self.free_async(*stream, *memory),
            MemoryCall::PoolCreate { pool: New(slot), max_bytes } => {
                return Some(self.create_pool(*slot, self.harness.ordinal(0), *max_bytes));
            }
            MemoryCall::PoolCreateOn { pool: New(slot), device, max_bytes } => {
                return Some(self.create_pool(*slot, self.harness.ordinal(*device), *max_bytes));
            }
            MemoryCall::PoolDestroy { pool } => {
                // CUDA's driver crashes later if memory of the pool is freed after that, in another stream.
                let PoolObject { handle, .. } = self.objects.pools.get(pool).copied().filter(|pool| !pool.is_used)?;
                self.objects.pools.remove(pool);
                // SAFETY: the slot is empty now, so that nobody uses the pool any more.
                plain(unsafe { driver.memory_pool_destroy(handle) })
            }
            MemoryCall::PoolTrim { pool, keep_bytes } => {
                // What can be given back depends on which frees are complete.
                if self.has_arena
                    && let Err(failure) = self.harness.synchronize()
                {
                    return Some(Answer::with(Outcome::Status(failure.status.0), "synchronizing"));
                }
                plain(driver.memory_pool_trim(live(self.objects.pools.get(pool)?.handle), *keep_bytes))
            }
            MemoryCall::DefaultPool { device } => {
                plain(driver.default_memory_pool(self.harness.ordinal(*device)).map(drop))
            }
            MemoryCall::PoolAttribute { pool, attribute } => {
                let value = driver.memory_pool_attribute(live(self.objects.pools.get(pool)?.handle), *attribute);
                told(value, |value| value.to_string())
            }
            MemoryCall::PoolSetAttribute { pool, attribute, value } => {
                let pool = live(self.objects.pools.get(pool)?.handle);
                plain(driver.memory_pool_set_attribute(pool, *attribute, *value))
            }
            MemoryCall::PoolSetAccess { pool, peer, allowed } => {
                let (pool, peer) = (self.objects.pools.get_mut(pool)?, self.harness.ordinal(*peer));
                let set = driver.memory_pool_set_access(live(pool.handle), peer, *allowed);
                if set.is_ok() && peer != pool.device {
                    pool.is_shared = *allowed;
                }
                plain(set)
            }
            MemoryCall::PeerDisable { context, peer } => {
                let (call, of) = (self.harness.call(*context), usize::from(context.0 % 2));
                if self.peers[of] && context != peer {
                    // Streams that capture cannot be waited for.
                    if !self.objects.captures.is_empty() {
                        return None;
                    }
                    if let Err(failure) = self.harness.synchronize() {
                        return Some(Answer::with(Outcome::Status(failure.status.0), "synchronizing"));
                    }
                }
                let peer = (self.harness.call(*peer).context, context != peer);
                // SAFETY: access between two contexts of one device is never enabled. If it is enabled between devices, all
                // work is complete, and no graph uses it.
                let disabled = unsafe { driver.context_disable_peer_access(&call, peer.0) };
                if disabled.is_ok() && peer.1 {
                    self.peers[of] = false;
                }
                plain(disabled)
            }
            MemoryCall::PeerAccess { context, peer } => {
                let is_other = self.harness.has_two_devices() && context != peer;
                let peer = self.harness.call(*peer).context;
                let enabled = driver.context_enable_peer_access(&self.harness.call(*context), peer);
                if enabled.is_ok() && is_other {
                    self.peers[usize::from(context.0 % 2)] = true;
                }
                plain(enabled)
            }
            MemoryCall::CanAccess { device, peer } => {
                let [device, peer] = [device, peer].map(|device| self.harness.ordinal(*device));
                told(driver.device_can_access_peer(device, peer), |can| can.to_string())
            }
        })
    }

    fn create_pool(&mut self, slot: PoolSlot, device: DeviceOrdinal, max_bytes: u64) -> Answer {
        told(self.driver.memory_pool_create(device, &MemoryPoolOptions { max_bytes, interprocess: false }), |handle| {
            let pool = PoolObject { handle, device, is_shared: false, is_used: false };
            self.objects.pools.insert(slot, pool);
            String::new()
        })
    }

    /// Whether copies in a stream of a context may use memory: that of a pool of another device must be shared.
    pub(super) fn may_copy_memory(&self, context: ContextSlot, memory: MemorySlot) -> bool {
        let Some(memory) = self.objects.memory.get(&memory) else { return true };
        let pool = memory.pool.and_then(|pool| self.objects.pools.get(&pool));
        self.harness.device(memory.context) == self.harness.device(context)
            || memory.kind != MemoryKind::Async
            || pool.is_some_and(|pool| pool.is_shared)
    }

    /// Whether kernels of a context can access device memory of another.
    pub(super) fn can_access(&self, context: ContextSlot, home: ContextSlot) -> bool {
        self.harness.device(context) == self.harness.device(home) || self.peers[usize::from(context.0 % 2)]
    }

    fn ends(&self, context: ContextSlot, from: Place, to: Place, region: RegionSlot) -> (u64, u64) {
        (self.harness.source(context, from, region), self.harness.target(context, to, region))
    }

    fn bad(&self, context: ContextSlot, place: BadPlace) -> DevicePointer {
        let device = self.harness.context(context).device;
        match place {
            BadPlace::Null => DevicePointer::NULL,
            BadPlace::End => device.byte_add(BYTES - 16),
            BadPlace::Odd => DevicePointer(self.harness.target(context, Place::Device, RegionSlot(0))).byte_add(1),
        }
    }

    /// Notes memory, and says what its address is like.
    pub(super) fn allocated(
        &mut self,
        slot: MemorySlot,
        address: DevicePointer,
        context: ContextSlot,
        kind: MemoryKind,
        bytes: usize,
    ) -> String {
        if address.is_null() {
            return "null".to_owned();
        }
        self.objects.memory.insert(
            slot,
            MemoryObject {
                address,
                context,
                kind,
                bytes,
                pool: None,
                graph: None,
                executable: None,
                is_gone: false,
                is_filled: false,
            },
        );
        self.fill_memory(slot);
        if address.0.is_multiple_of(256) {
            String::new()
        } else {
            format!("aligned to {}", 1 << address.0.trailing_zeros())
        }
    }

    /// Takes memory to free it, or the null address for no slot.
    fn take_memory(&mut self, slot: Option<MemorySlot>, kinds: &[MemoryKind]) -> Option<DevicePointer> {
        let Some(slot) = slot else { return Some(DevicePointer::NULL) };
        let memory = self.objects.memory.get(&slot).copied().filter(|memory| kinds.contains(&memory.kind))?;
        self.objects.memory.remove(&slot);
        self.forget_piece(slot);
        Some(memory.address)
    }

    fn free_async(&mut self, stream: StreamSlot, memory: Option<MemorySlot>) -> Option<Answer> {
        let (stream, context) = self.objects.stream(stream)?;
        let address = match memory {
            Some(slot) => {
                let memory = self.objects.memory.get(&slot).filter(|memory| !memory.is_gone)?;
                if ![MemoryKind::Async, MemoryKind::Graph].contains(&memory.kind) {
                    return None;
                }
                memory.address
            }
            None => DevicePointer::NULL,
        };
        let call = self.harness.call(context);
        // SAFETY: the memory is allocated, by a stream or by a graph, and no work was given its address.
        let freed = unsafe { self.driver.free_async(&call, address, stream) };
        if let (Ok(()), Some(slot)) = (&freed, memory) {
            let status = self.driver.stream_capture_status(&call, stream);
            if !status.is_ok_and(|status| status == CaptureStatus::Active) {
                self.objects.memory.remove(&slot);
                self.forget_piece(slot);
            }
        }
        Some(plain(freed))
    }
}
