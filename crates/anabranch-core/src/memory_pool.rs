//! Memory pools.

mod idle;
mod imported;

pub use self::imported::ImportedPoolCore;

use self::idle::IdlePools;
use crate::device::DeviceCore;
use crate::error::{Error, Result, ResultExt};
use crate::host_work::refuse_inside;
use crate::idle_memory::attempt_behind;
use crate::ranks;
use crate::reaper;
use crate::stream::{PendingWork, StreamCore, is_any_capturing};
use anabranch_hal::{DeviceOrdinal, Live, MemoryPoolHandle, MemoryPoolOptions, Status};
use anabranch_sync::Mutex;
use std::fmt;
use std::sync::Arc;

/// A memory pool of a device. Its memory holds references to it, so that it is given back when all of that is freed.
pub struct MemoryPoolCore {
    device: Arc<DeviceCore>,
    handle: MemoryPoolHandle,
    /// `None`: the pool that the device uses by default, which is never destroyed.
    options: Option<MemoryPoolOptions>,
    uses: Mutex<Uses>,
}

#[derive(Default)]
struct Uses {
    /// The streams in which memory was freed, except those that have ended since, with all their work.
    freed_in: Vec<Arc<StreamCore>>,
    /// The devices that were allowed to access the memory.
    peers: Vec<DeviceOrdinal>,
    /// Whether the pool was exported to other processes.
    is_exported: bool,
}

impl MemoryPoolCore {
    /// The pool that a device uses by default.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no pools.
    pub fn default_of(device: &Arc<DeviceCore>) -> Result<Arc<Self>> {
        let handle = device
            .driver()
            .default_memory_pool(device.ordinal())
            .during("opening the default memory pool", || device.to_string())
            .map_err(Error::of_another_capture)?;
        Ok(Self::new(device, handle, None))
    }

    /// Makes a pool.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no pools; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` beside
    /// a capture that forbids it.
    pub fn create(device: &Arc<DeviceCore>, options: &MemoryPoolOptions) -> Result<Arc<Self>> {
        let operation = "creating a memory pool";
        refuse_inside(operation).map_err(|error| error.at(device.to_string()))?;
        let idle = device.extension::<IdlePools>();
        let create = || device.driver().memory_pool_create(device.ordinal(), options);
        // Beside a capture, the driver says whether a pool may be made.
        let used = if is_any_capturing() { None } else { idle.take(options) };
        let handle = match used {
            Some(handle) => handle,
            None => create()
                .or_else(|failure| {
                    if failure.status != Status::OUT_OF_MEMORY {
                        return Err(failure);
                    }
                    // A driver has room for few pools.
                    idle.destroy_all();
                    create()
                })
                .during(operation, || device.to_string())
                .map_err(Error::of_another_capture)?,
        };
        Ok(Self::new(device, handle, Some(*options)))
    }

    fn new(device: &Arc<DeviceCore>, handle: MemoryPoolHandle, options: Option<MemoryPoolOptions>) -> Arc<Self> {
        let uses = Mutex::new(ranks::MEMORY_POOL, Uses::default());
        Arc::new(Self { device: device.clone(), handle, options, uses })
    }

    /// The device.
    pub fn device(&self) -> &Arc<DeviceCore> {
        &self.device
    }

    /// The pool's handle.
    pub fn live(&self) -> Live<'_, MemoryPoolHandle> {
        // SAFETY: the pool is given back when this is dropped, or not at all if it is the default one.
        unsafe { Live::new(self.handle) }
    }

    /// Whether other processes can open its memory.
    pub fn is_interprocess(&self) -> bool {
        self.options.is_some_and(|options| options.interprocess)
    }

    /// Exports the pool to other processes. Returns a new POSIX file descriptor, which the caller closes.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` unless the pool was created for that.
    pub fn export(&self) -> Result<i32> {
        let operation = "exporting a memory pool";
        if !self.is_interprocess() {
            let message = "the pool was created for this process alone";
            let hint = "create a pool with MemoryPoolOptions::interprocess";
            return Err(Error::argument(Status::INVALID_VALUE, operation, message)
                .with_hint(hint)
                .at(self.device.to_string()));
        }
        let descriptor =
            self.device.driver().memory_pool_export(self.live()).during(operation, || self.device.to_string())?;
        self.uses.lock().is_exported = true;
        Ok(descriptor)
    }

    /// Exports the pool unless that was done before. The driver exports no memory of a pool that was not exported.
    #[cfg(unix)]
    pub(crate) fn export_once(&self) -> Result<()> {
        use std::os::fd::{FromRawFd, OwnedFd};
        let is_exported = self.uses.lock().is_exported;
        if !is_exported {
            let descriptor = self.export()?;
            // SAFETY: the driver has just made this file descriptor, and nobody else has it.
            drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
        Ok(())
    }

    /// Such pools do not exist here.
    #[cfg(not(unix))]
    pub(crate) fn export_once(&self) -> Result<()> {
        self.export().map(|_| ())
    }

    /// Allows or forbids a device to access memory of this pool.
    ///
    /// # Errors
    /// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (217)` or `CUDA_ERROR_INVALID_VALUE (1)` if `peer` cannot access this
    /// device's memory; `CUDA_ERROR_INVALID_DEVICE (101)` if it belongs to another driver.
    pub fn set_peer_access(&self, peer: &DeviceCore, allowed: bool) -> Result<()> {
        let operation = "setting peer access of a memory pool";
        if !self.device.same_driver(peer) {
            return Err(self.device.refuse_other_driver(peer, operation));
        }
        let set = self.device.driver().memory_pool_set_access(self.live(), peer.ordinal(), allowed);
        // Its own device always has access, and that cannot be taken away.
        if allowed && set.is_ok() && peer.ordinal() != self.device.ordinal() {
            let peers = &mut self.uses.lock().peers;
            if !peers.contains(&peer.ordinal()) {
                peers.push(peer.ordinal());
            }
        }
        set.during(operation, || self.device.to_string()).map_err(|error| match error.status() {
            Status::INVALID_DEVICE if !allowed && peer.ordinal() == self.device.ordinal() => {
                error.with_message("the device of the pool always has access to its memory")
            }
            _ => error.of_another_capture(),
        })
    }

    /// Notes that memory of the pool is about to be freed in a stream.
    pub(crate) fn is_freed_in(&self, stream: &Arc<StreamCore>) {
        if self.options.is_none() {
            return;
        }
        let before = {
            let streams = &mut self.uses.lock().freed_in;
            if streams.iter().any(|known| Arc::ptr_eq(known, stream)) {
                return;
            }
            let is_full = streams.len() == streams.capacity();
            let before = if is_full { std::mem::take(streams) } else { Vec::new() };
            streams.push(stream.clone());
            before
        };
        if before.is_empty() {
            return;
        }
        // Streams are asked with no lock held: what is asked of the legacy stream waits for a lock that threads hold which free
        // memory there, and then note it here.
        let (used, over): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|known| known.is_live() || !work_of([known]).is_over());
        {
            let streams = &mut self.uses.lock().freed_in;
            streams.reserve(2 * used.len());
            for known in used {
                if !streams.iter().any(|other| Arc::ptr_eq(other, &known)) {
                    streams.push(known);
                }
            }
        }
        drop(over);
    }
}

/// The work that is in some streams now.
fn work_of<'a>(streams: impl IntoIterator<Item = &'a Arc<StreamCore>>) -> PendingWork {
    let mut work = PendingWork::default();
    streams.into_iter().for_each(|stream| work.add(stream));
    work
}

impl Drop for MemoryPoolCore {
    fn drop(&mut self) {
        let Some(options) = self.options else { return };
        let (device, handle) = (self.device.clone(), self.handle);
        let Uses { freed_in, peers, is_exported: _ } = std::mem::take(&mut *self.uses.lock());
        reaper::now_or_later(move || {
            let give_back = move || device.extension::<IdlePools>().give_back(&device, handle, options, peers);
            let mut work = work_of(&freed_in);
            if work.is_over() { give_back() } else { attempt_behind(work, give_back) }
        });
    }
}

impl fmt::Debug for MemoryPoolCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MemoryPool({}, {:?})", self.device, self.handle)
    }
}
