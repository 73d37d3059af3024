//! Calls for memory and kernels.

use super::calls;
use crate::programs::slots::{
    ContextSlot, Flags, MemorySlot, New, Operand, PoolSlot, RegionSlot, StreamSlot, WordSlot,
};
use std::fmt::{self, Formatter};

/// A buffer of the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Device,
    Pinned,
    Pageable,
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

/// What is wrong with a launch on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    EmptyGrid,
    EmptyBlock,
    LargeBlock,
    LargeShared,
    LargeCooperative,
    LargeCluster,
    NoFunction,
    NoArguments,
}

/// A launch of the kernel that adds 1 in each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelSpec {
    pub(crate) word: WordSlot,
    pub(crate) grid: u32,
    pub(crate) block: u32,
    pub(crate) wrong: Option<Wrong>,
}

macro_rules! shown_by_name {
    ($($Type:ty)*) => { $(
        impl Operand for $Type {
            fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                write!(formatter, "{self:?}")
            }
        }
    )* };
}

shown_by_name!(Place BadPlace Wrong);

impl Operand for KernelSpec {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "count_up,{},grid {},block {}", self.word, self.grid, self.block)?;
        self.wrong.map_or(Ok(()), |wrong| write!(formatter, ",{wrong:?}"))
    }
}

calls! {
    /// Calls for memory.
    MemoryCall {
        Copy "copy" { context: ContextSlot, from: Place, to: Place, region: RegionSlot }
        CopyAsync "copy_async" { stream: StreamSlot, from: Place, to: Place, region: RegionSlot, bytes: u8 }
        CopyBad "copy_async_bad" { stream: StreamSlot, place: BadPlace }
        Copy3d "copy_3d_async" { stream: StreamSlot, from: Place, to: Place, region: RegionSlot, extent: [usize; 3] }
        CopyPeer "copy_peer_async" { stream: StreamSlot, region: RegionSlot }
        Fill "fill_async" { stream: StreamSlot, region: RegionSlot, width: u8, count: u8 }
        FillBad "fill_async_bad" { stream: StreamSlot, place: BadPlace }
        Prefetch "prefetch_async" { stream: StreamSlot }
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
        PoolDestroy "memory_pool_destroy" { pool: PoolSlot }
        PoolTrim "memory_pool_trim" { pool: PoolSlot, keep_bytes: usize }
        PeerAccess "context_enable_peer_access" { context: ContextSlot, peer: ContextSlot }
    }
}

impl MemoryCall {
    pub(super) fn may_wait(&self) -> bool {
        match self {
            Self::CopyAsync { from, to, .. } | Self::Copy3d { from, to, .. } => {
                let host = |place: &Place| *place != Place::Device;
                *from == Place::Pageable || *to == Place::Pageable || (host(from) && host(to))
            }
            Self::Copy { .. }
            | Self::Free { .. }
            | Self::FreePinned { .. }
            | Self::PoolDestroy { .. }
            | Self::PoolTrim { .. }
            | Self::PeerAccess { .. } => true,
            _ => false,
        }
    }
}

calls! {
    /// Calls for modules and kernels.
    ModuleCall {
        Launch "launch" { stream: StreamSlot, kernel: KernelSpec }
        LaunchAdd "launch_add" { stream: StreamSlot, word: WordSlot, factor: u32, value: u32 }
        LaunchOther "launch_other_context" { stream: StreamSlot }
        LoadAndUnload "module_load" { context: ContextSlot }
        Function "module_function" { context: ContextSlot, name: &'static str }
        FunctionInfo "function_info" { context: ContextSlot, name: &'static str }
    }
}
