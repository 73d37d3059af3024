//! Numbers in pinned memory, by which a device tells how far its streams have come.

use crate::capture::unprohibited;
use crate::context::ContextCore;
use crate::error::{Result, ResultExt};
use anabranch_hal::{DevicePointer, PinnedFlags, StreamHandle, Value, WriteValueFlags};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Flags are this far apart, so that streams that are told of at the same time do not share a cache line.
const DISTANCE: usize = 64;
const PAGE: usize = 4096;

/// The flags of a context. Their memory is freed when it ends.
#[derive(Default)]
pub(super) struct FlagPool {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    pages: Vec<usize>,
    idle: Vec<Number>,
    /// Flags that nobody reads any more, with the last number that a device will write.
    retired: Vec<(Number, u64)>,
}

/// Where a number is.
#[derive(Clone, Copy)]
pub(super) struct Number {
    address: usize,
}

impl Number {
    fn atomic(&self) -> &AtomicU64 {
        // SAFETY: the address is that of a flag, aligned to its size, in a page that is freed with the context; whoever has
        // a number keeps the context. Host and device use it in one piece.
        unsafe { AtomicU64::from_ptr(self.address as *mut u64) }
    }

    /// What the device wrote last. What it wrote elsewhere before can be read after this.
    #[inline(always)]
    pub(super) fn get(&self) -> u64 {
        self.atomic().load(Ordering::Acquire)
    }
}

/// The flag of one stream.
pub(super) struct Flag {
    number: Number,
    /// The last number that was queued to be written.
    last: u64,
    pool: Arc<FlagPool>,
}

impl Flag {
    /// A flag, at 0. `None`: there is no pinned memory to be had.
    pub(super) fn take(context: &ContextCore) -> Option<Self> {
        let pool = context.completion().flags().clone();
        let mut inner = pool.inner.lock();
        if inner.idle.is_empty() {
            inner.take_back();
        }
        if inner.idle.is_empty() {
            inner.allocate(context)?;
        }
        let number = inner.idle.pop()?;
        drop(inner);
        Some(Self { number, last: 0, pool })
    }

    pub(super) fn number(&self) -> Number {
        self.number
    }

    /// Makes the device write the next number when it has come so far, and returns it.
    ///
    /// # Safety
    /// The stream is live, and the only one that the flag is written by.
    pub(super) unsafe fn write_next(
        &mut self,
        context: &ContextCore,
        stream: StreamHandle,
        operation: &'static str,
    ) -> Result<u64> {
        let (next, address) = (self.last + 1, DevicePointer(self.number.address as u64));
        let flags = WriteValueFlags::empty();
        // SAFETY: the stream is the caller's word; the flag's memory is freed when the context has ended.
        unsafe { context.driver().stream_write_value(context.handle(), stream, address, Value::U64(next), flags) }
            .during(operation, || context.place())?;
        self.last = next;
        Ok(next)
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.pool.inner.lock().retired.push((self.number, self.last));
    }
}

impl Inner {
    /// Takes flags back into use that no device will write any more.
    fn take_back(&mut self) {
        let Self { idle, retired, .. } = self;
        retired.retain(|&(number, last)| {
            let is_written = number.get() == last;
            if is_written {
                number.atomic().store(0, Ordering::Relaxed);
                idle.push(number);
            }
            !is_written
        });
    }

    fn allocate(&mut self, context: &ContextCore) -> Option<()> {
        let flags = PinnedFlags::PORTABLE | PinnedFlags::DEVICE_MAP;
        let (driver, handle) = (context.driver(), context.handle());
        // SAFETY: the context's handle is live as long as its core.
        let page = unprohibited(driver, || unsafe { driver.allocate_pinned(handle, PAGE, flags) }).ok()?;
        // SAFETY: the page was just allocated with that many bytes, and nobody else has its address.
        unsafe { std::ptr::write_bytes(page, 0, PAGE) };
        self.pages.push(page as usize);
        self.idle.extend((0..PAGE / DISTANCE).rev().map(|index| Number { address: page as usize + index * DISTANCE }));
        Some(())
    }
}

impl FlagPool {
    /// The addresses of all pages, to be freed when the context ends.
    pub(super) fn take_pages(&self) -> Vec<usize> {
        let mut inner = self.inner.lock();
        inner.idle.clear();
        inner.retired.clear();
        std::mem::take(&mut inner.pages)
    }
}
