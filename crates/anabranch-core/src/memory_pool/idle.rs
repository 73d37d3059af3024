//! Memory pools that nobody uses, and that are used again.

use crate::device::DeviceCore;
use crate::drop_error;
use crate::error::ResultExt;
use crate::extensions::Extension;
use crate::ranks;
use crate::reaper;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use anabranch_hal::{
    DeviceOrdinal, Driver, Live, MemoryPoolAttribute, MemoryPoolHandle, MemoryPoolOptions, Result, Status,
};
use anabranch_sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pools of a device that nobody uses, and whose memory is freed. They are destroyed with the device's object.
///
/// CUDA permits to destroy a pool at any time, but its driver (580.159.04) then uses memory of its own that it has freed: when
/// memory of the pool is freed in another stream than it was allocated in after that, and also when another thread
/// synchronizes meanwhile.
pub(super) struct IdlePools {
    pools: Mutex<Pools>,
}

#[derive(Default)]
struct Pools {
    /// Those that can be used again, by their maximum sizes.
    of_size: BTreeMap<u64, Vec<IdlePool>>,
    /// Those that other processes may still have, or have made.
    kept: Vec<IdlePool>,
}

struct IdlePool {
    driver: Arc<dyn Driver>,
    handle: MemoryPoolHandle,
    /// The devices that may access its memory.
    peers: Vec<DeviceOrdinal>,
}

impl Default for IdlePools {
    fn default() -> Self {
        Self { pools: Mutex::new(ranks::IDLE_MEMORY_POOLS, Pools::default()) }
    }
}

impl Extension for IdlePools {}

impl IdlePools {
    /// A pool that was made with these options.
    pub(super) fn take(&self, options: &MemoryPoolOptions) -> Option<MemoryPoolHandle> {
        if options.interprocess {
            return None;
        }
        let mut pools = self.pools.lock();
        let pools = pools.of_size.get_mut(&options.max_bytes)?;
        let index = pools.iter().position(|pool| pool.renew().is_ok())?;
        Some(pools.swap_remove(index).handle)
    }

    /// Keeps a pool for later. `peers`: the devices that may access its memory.
    pub(super) fn give_back(
        &self,
        device: &DeviceCore,
        handle: MemoryPoolHandle,
        options: MemoryPoolOptions,
        peers: Vec<DeviceOrdinal>,
    ) {
        let pool = IdlePool { driver: device.driver().clone(), handle, peers };
        // What fails now, or has no effect yet, is done when the pool is taken, or else the pool is not taken.
        let _ = pool.renew();
        let mut pools = self.pools.lock();
        match options.interprocess {
            true => pools.kept.push(pool),
            false => pools.of_size.entry(options.max_bytes).or_default().push(pool),
        }
    }

    /// Keeps a pool that was imported until the others are destroyed.
    pub(super) fn keep_imported(&self, device: &DeviceCore, handle: MemoryPoolHandle) {
        let driver = device.driver().clone();
        self.pools.lock().kept.push(IdlePool { driver, handle, peers: Vec::new() });
    }

    /// Destroys all pools. For when a driver has no more of them.
    pub(super) fn destroy_all(&self) {
        let pools = std::mem::take(&mut *self.pools.lock());
        pools.all().for_each(IdlePool::destroy);
    }
}

impl Pools {
    fn all(self) -> impl Iterator<Item = IdlePool> {
        self.of_size.into_values().flatten().chain(self.kept)
    }
}

impl IdlePool {
    /// Makes the pool as it was at first, or returns an error if it is not.
    fn renew(&self) -> Result<()> {
        // SAFETY: the pool exists until it is destroyed, and then this is gone.
        let pool: Live<'_, MemoryPoolHandle> = unsafe { Live::new(self.handle) };
        with_relaxed_capture_mode(&*self.driver, || {
            for peer in &self.peers {
                self.driver.memory_pool_set_access(pool, *peer, false)?;
            }
            self.driver.memory_pool_set_attribute(pool, MemoryPoolAttribute::ReleaseThreshold, 0)?;
            self.driver.memory_pool_trim(pool, 0)?;
            for high in [MemoryPoolAttribute::UsedHigh, MemoryPoolAttribute::ReservedHigh] {
                self.driver.memory_pool_set_attribute(pool, high, 0)?;
                if self.driver.memory_pool_attribute(pool, high)? != 0 {
                    return Err(Status::ILLEGAL_STATE.into());
                }
            }
            Ok(())
        })
    }

    fn destroy(self) {
        let Self { driver, handle, .. } = self;
        // SAFETY: nobody uses the pool any more, and its memory is freed.
        let destroyed = with_relaxed_capture_mode(&*driver, || unsafe { driver.memory_pool_destroy(handle) });
        drop_error::report(destroyed.during("destroying a memory pool", || driver.kind().to_string()));
    }
}

impl Drop for IdlePools {
    fn drop(&mut self) {
        let pools = std::mem::take(&mut *self.pools.lock());
        let mut pools = pools.all().peekable();
        if pools.peek().is_some() {
            reaper::now_or_later(move || pools.for_each(IdlePool::destroy));
        }
    }
}
