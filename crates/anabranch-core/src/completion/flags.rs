//! Flags: numbers in pinned memory in which a device notes how far its streams have come.

use super::context_part::ContextCompletion;
use crate::context::ContextCore;
use crate::error::Result;
use crate::ranks;
use crate::stream::OpenStream;
use crate::submission::Submission;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use anabranch_hal::{DevicePointer, PinnedFlags, Value, WriteValueFlags};
use anabranch_sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Flags are this far apart, so that those of two streams do not share a cache line.
const DISTANCE: usize = 64;
const PAGE: usize = 4096;

/// The flags of a context. Their memory is freed when it is closed.
pub struct FlagPool {
    inner: Mutex<Inner>,
}

impl Default for FlagPool {
    fn default() -> Self {
        Self { inner: Mutex::new(ranks::FLAG_POOL, Inner::default()) }
    }
}

#[derive(Default)]
struct Inner {
    pages: Vec<usize>,
    idle: Vec<FlagAddress>,
    /// Flags that nobody reads any more, with the last value that a device will write.
    retired: Vec<(FlagAddress, u64)>,
}

/// Where a flag is.
#[derive(Clone, Copy)]
pub(crate) struct FlagAddress(usize);

impl FlagAddress {
    fn atomic(&self) -> &AtomicU64 {
        // SAFETY: the address is that of a flag, aligned to its size, in a page that is freed with the context; whoever has one
        // holds a reference to the context. Host and device access it in one piece.
        unsafe { AtomicU64::from_ptr(self.0 as *mut u64) }
    }

    /// The value that the device wrote last. What it wrote elsewhere before can be read after this.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.atomic().load(Ordering::Acquire)
    }
}

/// The flag of one stream.
pub(crate) struct Flag {
    address: FlagAddress,
    /// The last value whose write was queued.
    last: u64,
    pool: Arc<FlagPool>,
}

impl Flag {
    /// Takes a flag with value 0. `None`: no memory can be pinned.
    pub(crate) fn take(context: &ContextCore) -> Option<Self> {
        let pool = context.extension::<ContextCompletion>().flags().clone();
        let mut inner = pool.inner.lock();
        if inner.idle.is_empty() {
            inner.take_back();
        }
        if inner.idle.is_empty() {
            inner.allocate(context)?;
        }
        let address = inner.idle.pop()?;
        drop(inner);
        Some(Self { address, last: 0, pool })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> FlagAddress {
        self.address
    }

    /// Makes the device write a value of the stream's timeline when it has come so far. Values are written in ascending
    /// order, by this stream only.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub(crate) fn write(&mut self, stream: &OpenStream, value: u64, operation: &'static str) -> Result<()> {
        let address = DevicePointer(self.address.0 as u64);
        let location = std::panic::Location::caller();
        // SAFETY: the flag's memory is freed when the context is closed, and its work is complete then.
        Submission::put_at(stream, operation, location, |call, handle| unsafe {
            let flags = WriteValueFlags::empty();
            stream.context().driver().stream_write_value(call, handle, address, Value::U64(value), flags)
        })?;
        self.last = value;
        Ok(())
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.pool.inner.lock().retired.push((self.address, self.last));
    }
}

impl Inner {
    /// Makes flags available again that no device will write any more.
    fn take_back(&mut self) {
        let Self { idle, retired, .. } = self;
        retired.retain(|&(address, last)| {
            let is_written = address.get() == last;
            if is_written {
                address.atomic().store(0, Ordering::Relaxed);
                idle.push(address);
            }
            !is_written
        });
    }

    fn allocate(&mut self, context: &ContextCore) -> Option<()> {
        let flags = PinnedFlags::PORTABLE | PinnedFlags::DEVICE_MAP;
        let (driver, call) = (context.driver(), context.call("allocating memory for completion flags"));
        let page = with_relaxed_capture_mode(driver, || driver.allocate_pinned(&call, PAGE, flags)).ok()?;
        // SAFETY: the page was just allocated with that many bytes, and nobody else has its address.
        unsafe { std::ptr::write_bytes(page, 0, PAGE) };
        self.pages.push(page as usize);
        self.idle.extend((0..PAGE / DISTANCE).rev().map(|index| FlagAddress(page as usize + index * DISTANCE)));
        Some(())
    }
}

impl FlagPool {
    /// The addresses of all pages, to be freed when the context is closed.
    pub fn take_pages(&self) -> Vec<usize> {
        let mut inner = self.inner.lock();
        inner.idle.clear();
        inner.retired.clear();
        std::mem::take(&mut inner.pages)
    }
}
