//! Kernels of modules.

use super::body::Body;
use super::globals::Globals;
use crate::engine::ContextCore;
use crate::handles::handle;
use crate::limits::MAX_SHARED_BYTES;
use anabranch_hal::FunctionHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Threads that a multiprocessor of an H100 holds at once.
const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
/// Blocks that it holds.
const BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
/// Its shared memory in bytes.
const SHARED_BYTES_PER_MULTIPROCESSOR: usize = 228 << 10;
/// What each block takes of that beside its own.
const SHARED_BYTES_RESERVED: usize = 1 << 10;

/// A kernel of a loaded module.
#[derive(Debug)]
pub(crate) struct FunctionState {
    pub(crate) core: Arc<ContextCore>,
    pub(crate) body: Body,
    pub(super) globals: Arc<Globals>,
    pub(crate) max_dynamic_shared_bytes: AtomicU32,
    pub(crate) non_portable_cluster_size: AtomicBool,
}

handle!(FunctionState, FunctionHandle, INVALID_HANDLE);

impl FunctionState {
    pub(super) fn new(core: &Arc<ContextCore>, body: Body, globals: &Arc<Globals>) -> Arc<Self> {
        let dynamic = MAX_SHARED_BYTES.saturating_sub(body.static_shared_bytes());
        Arc::new(Self {
            core: Arc::clone(core),
            body,
            globals: Arc::clone(globals),
            max_dynamic_shared_bytes: AtomicU32::new(dynamic),
            non_portable_cluster_size: AtomicBool::new(false),
        })
    }

    /// How many blocks a multiprocessor holds at once.
    pub(crate) fn max_active_blocks(&self, threads: u32, dynamic_shared_bytes: usize) -> u32 {
        // A kernel that is set to have less is not asked about it.
        let without_asking = MAX_SHARED_BYTES.saturating_sub(self.body.static_shared_bytes());
        let dynamic_limit = self.max_dynamic_shared_bytes.load(Ordering::Relaxed).max(without_asking) as usize;
        if threads == 0 || threads > self.body.most_threads() || dynamic_shared_bytes > dynamic_limit {
            return 0;
        }
        let shared = dynamic_shared_bytes + self.body.static_shared_bytes() as usize + SHARED_BYTES_RESERVED;
        // Threads come in warps.
        let by_threads = THREADS_PER_MULTIPROCESSOR / threads.next_multiple_of(32);
        let by_shared = u32::try_from(SHARED_BYTES_PER_MULTIPROCESSOR / shared).unwrap_or(u32::MAX);
        BLOCKS_PER_MULTIPROCESSOR.min(by_threads).min(by_shared)
    }
}
