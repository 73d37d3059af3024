//! Calls for memory and kernels.

use super::calls;
use crate::programs::slots::{ContextSlot, Flags, MemorySlot, New, PoolSlot, RegionSlot, StreamSlot};
use anabranch::hal::MemoryPoolAttribute;

/// A buffer of the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Device,
    /// Device memory of the other context.
    Other,
    Pinned,
    Pageable,
}

impl Place {
    pub(crate) fn is_on_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Pageable)
    }
}

/// An address that a call must refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadPlace {
    Null,
    /// Device memory of which the range runs out.
    End,
    /// An address that is not aligned to the width of a fill.
    Odd,
}

calls! {
    /// Calls for memory.
    MemoryCall {
        Copy "copy" { context: ContextSlot, from: Place, to: Place, region: RegionSlot }
        CopyAsync "copy_async" { stream: StreamSlot, from: Place, to: Place, region: RegionSlot, bytes: u8 }
        CopyBad "copy_async_bad" { stream: StreamSlot, place: BadPlace }
        Copy3d "copy_3d_async" { stream: StreamSlot, from: Place, to: Place, region: RegionSlot, extent: [usize; 3] }
        CopyPeer "copy_peer_async" { stream: StreamSlot, region: RegionSlot }
        CopyInferred "copy_async_inferred" {
            stream: StreamSlot, from: Place, to: Place, region: RegionSlot, bytes: u8,
        }
        CopyBetween "copy_peer_async" { stream: StreamSlot, from: ContextSlot, to: ContextSlot, region: RegionSlot }
        Fill "fill_async" { stream: StreamSlot, region: RegionSlot, width: u8, count: u8 }
        FillBad "fill_async_bad" { stream: StreamSlot, place: BadPlace }
        Prefetch "prefetch_async" { stream: StreamSlot }
        PrefetchManaged "prefetch_async" { stream: StreamSlot, device: Option<u32> }
        Info "memory_info" { context: ContextSlot }
        Allocate "allocate" { memory: New<MemorySlot>, context: ContextSlot, bytes: usize }
        AllocatePinned "allocate_pinned" { memory: New<MemorySlot>, context: ContextSlot, bytes: usize, flags: Flags }
        AllocateManaged "allocate_managed" { memory: New<MemorySlot>, context: ContextSlot, bytes: usize }
        AllocateAsync "allocate_async" {
            memory: New<MemorySlot>, stream: StreamSlot, bytes: usize, pool: Option<PoolSlot>,
        }
        Free "free" { context: ContextSlot, memory: Option<MemorySlot> }
        FreePinned "free_pinned" { context: ContextSlot, memory: Option<MemorySlot> }
        FreeAsync "free_async" { stream: StreamSlot, memory: Option<MemorySlot> }
        PoolCreate "memory_pool_create" { pool: New<PoolSlot>, max_bytes: u64 }
        PoolCreateOn "memory_pool_create" { pool: New<PoolSlot>, device: u32, max_bytes: u64 }
        PoolDestroy "memory_pool_destroy" { pool: PoolSlot }
        PoolTrim "memory_pool_trim" { pool: PoolSlot, keep_bytes: usize }
        DefaultPool "default_memory_pool" { device: u32 }
        PoolAttribute "memory_pool_attribute" { pool: PoolSlot, attribute: MemoryPoolAttribute }
        PoolSetAttribute "memory_pool_set_attribute" { pool: PoolSlot, attribute: MemoryPoolAttribute, value: u64 }
        PoolSetAccess "memory_pool_set_access" { pool: PoolSlot, peer: u32, allowed: bool }
        PeerDisable "context_disable_peer_access" { context: ContextSlot, peer: ContextSlot }
        PeerAccess "context_enable_peer_access" { context: ContextSlot, peer: ContextSlot }
        CanAccess "device_can_access_peer" { device: u32, peer: u32 }
    }
}

impl MemoryCall {
    pub(super) fn may_wait(&self) -> bool {
        match self {
            Self::CopyAsync { from, to, .. } | Self::Copy3d { from, to, .. } | Self::CopyInferred { from, to, .. } => {
                let host = |place: &Place| place.is_on_host();
                *from == Place::Pageable || *to == Place::Pageable || (host(from) && host(to))
            }
            Self::Copy { .. }
            | Self::Free { .. }
            | Self::FreePinned { .. }
            | Self::PoolDestroy { .. }
            | Self::PoolTrim { .. }
            | Self::PeerDisable { .. }
            | Self::PeerAccess { .. } => true,
            _ => false,
        }
    }
}
