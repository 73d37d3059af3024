//! Pieces of this process's memory, and how much of it a device may take.

use anabranch_hal::{Failure, Result, Status};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The alignment of every allocation in bytes, as on hardware.
const ALIGNMENT: usize = 256;

/// How much memory there is, and how much of it is taken.
#[derive(Debug)]
pub(crate) struct Account {
    total: u64,
    used: AtomicU64,
}

impl Account {
    pub(crate) fn new(total: u64) -> Self {
        Self { total, used: AtomicU64::new(0) }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn free(&self) -> u64 {
        self.total.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// Takes bytes if there are as many.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let enough = |used: u64| used.checked_add(bytes).filter(|&used| used <= self.total);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).is_ok()
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A piece of memory. It is always initialised, because kernels, which are safe code, read it.
#[derive(Debug)]
pub(crate) struct Block {
    base: NonNull<u8>,
    layout: Layout,
    address: u64,
    bytes: usize,
    account: Arc<Account>,
}

// SAFETY: a block owns its memory, as a box does, and gives out no references to it.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Zeroed memory; 2 when there is not enough.
    pub(crate) fn allocate(account: &Arc<Account>, bytes: usize) -> Result<Self> {
        let out_of_memory = || Failure::new(Status::OUT_OF_MEMORY);
        // Asked for at a small alignment, and aligned here: for a small alignment the allocator passes on pages that the
        // system has zeroed and not yet touched, where for a large one it would write them all.
        let layout = bytes
            .checked_add(ALIGNMENT)
            .and_then(|bytes| Layout::from_size_align(bytes, 16).ok())
            .ok_or_else(out_of_memory)?;
        if !account.take(bytes as u64) {
            return Err(out_of_memory());
        }
        // SAFETY: the layout is not empty.
        let Some(base) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            account.give_back(bytes as u64);
            return Err(out_of_memory());
        };
        let address = (base.as_ptr().expose_provenance() as u64).next_multiple_of(ALIGNMENT as u64);
        Ok(Self { base, layout, address, bytes, account: Arc::clone(account) })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.account.give_back(self.bytes as u64);
        // SAFETY: the memory is from `alloc_zeroed` with this layout, and is given back once. That nobody uses it any more
        // is the promise of whoever freed it.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// Bytes of an upload, copied when it was enqueued.
#[derive(Debug)]
pub(crate) struct StagedBytes {
    data: Box<[u8]>,
    account: Arc<AtomicU64>,
}

impl StagedBytes {
    /// Copies `bytes` bytes, if the bytes staged in all then stay within `limit`.
    ///
    /// # Safety
    /// `source` is valid for reads of as many initialised bytes.
    pub(crate) unsafe fn copy_from(source: u64, bytes: usize, account: &Arc<AtomicU64>, limit: u64) -> Option<Self> {
        if account.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 > limit {
            account.fetch_sub(bytes as u64, Ordering::Relaxed);
            return None;
        }
        // SAFETY: the caller vouches for the range.
        let data = unsafe { std::slice::from_raw_parts(source as usize as *const u8, bytes) };
        Some(Self { data: data.into(), account: Arc::clone(account) })
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for StagedBytes {
    fn drop(&mut self) {
        self.account.fetch_sub(self.data.len() as u64, Ordering::Relaxed);
    }
}
