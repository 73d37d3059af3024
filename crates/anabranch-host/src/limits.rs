//! What devices are limited to. Nothing limits them here; the numbers are those of an H100.

use crate::engine::GREATEST_PRIORITY;
use anabranch_hal::PriorityRange;

/// Threads of a block, at most.
pub(crate) const MAX_THREADS_PER_BLOCK: u32 = 1024;
/// Extents of a block, at most.
pub(crate) const MAX_BLOCK_DIMENSIONS: [u32; 3] = [1024, 1024, 64];
/// Extents of a grid, at most.
pub(crate) const MAX_GRID_DIMENSIONS: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Shared memory of a block in bytes, without asking for more.
pub(crate) const MAX_SHARED_BYTES: u32 = anabranch_ptx::STATIC_SHARED_LIMIT;
/// Shared memory of a block in bytes, when the kernel has asked for more.
pub(crate) const MAX_SHARED_BYTES_OPTIN: u32 = 227 << 10;
/// All parameters of a kernel in bytes.
pub(crate) const MAX_PARAMETER_BYTES: usize = 32_764;
/// What kernels of a context can allocate with `malloc`: what CUDA lets them have unless a program asks for more.
pub(crate) const MALLOC_HEAP_BYTES: usize = 8 << 20;
/// Streams' priorities.
pub(crate) const PRIORITY_RANGE: PriorityRange = PriorityRange { least: 0, greatest: GREATEST_PRIORITY };
/// Memory-synchronization domains.
pub(crate) const MEMORY_SYNC_DOMAINS: u8 = 4;
/// Value operations of a batch in a stream, or of a node.
pub(crate) const MOST_VALUES: usize = 255;
