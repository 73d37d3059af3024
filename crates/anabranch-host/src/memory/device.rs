//! The memory of one device.

use super::block::Account;
use super::graph::GraphMemoryCounters;
use super::leaving::Leaving;
use super::observer::MemoryObserver;
use super::pool::PoolState;
use crate::engine::ContextCore;
use crate::handles::Handles;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The memory of one device.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    pub(crate) ordinal: u32,
    pub(crate) account: Arc<Account>,
    default_pool: OnceLock<Arc<PoolState>>,
    pub(crate) pools: Handles<PoolState>,
    /// How many freed blocks the pools keep.
    pub(super) idle_blocks: Arc<AtomicUsize>,
    /// Memory that is freed behind work.
    pub(super) leaving: Leaving,
    /// How much of it graphs have.
    pub(crate) graphs: GraphMemoryCounters,
}

impl DeviceMemory {
    pub(super) fn new(ordinal: u32, bytes: u64, observer: Option<&Arc<dyn MemoryObserver>>, leaving: &Leaving) -> Self {
        Self {
            ordinal,
            account: Arc::new(Account::new(bytes, observer)),
            default_pool: OnceLock::new(),
            pools: Handles::default(),
            idle_blocks: Arc::new(AtomicUsize::new(0)),
            leaving: leaving.clone(),
            graphs: GraphMemoryCounters::default(),
        }
    }

    pub(crate) fn default_pool(&self) -> &Arc<PoolState> {
        self.default_pool.get_or_init(|| {
            let pool = PoolState::new(self, true, 0);
            self.pools.insert(Arc::clone(&pool));
            pool
        })
    }

    /// Lets pools give memory back that is above what they are to keep. Called whenever a thread has synchronized with work of a
    /// context.
    #[inline]
    pub(crate) fn give_idle_memory_back(&self, core: &ContextCore) {
        if self.idle_blocks.load(Ordering::Relaxed) > 0 {
            for pool in self.pools.all() {
                pool.release_above_threshold(core);
            }
        }
    }

    /// Lets pools give back all memory that nobody uses, when there is not enough for so many bytes. They keep it if there never
    /// is.
    #[cold]
    pub(crate) fn give_all_idle_memory_back(&self, bytes: u64) {
        if bytes > self.account.total() {
            return;
        }
        for pool in self.pools.all() {
            pool.trim(0);
        }
    }
}
