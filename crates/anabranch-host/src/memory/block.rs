//! Memory that counts against a device, and how much of it a device may take.

use super::observer::MemoryObserver;
use super::piece::Piece;
use crate::shared_file::MappedFile;
use anabranch_hal::{ALLOCATION_ALIGNMENT, Failure, Result, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much memory there is, how much of it is taken, and who observes it.
#[derive(Debug)]
pub(crate) struct Account {
    total: u64,
    used: AtomicU64,
    observer: Option<Arc<dyn MemoryObserver>>,
}

impl Account {
    pub(crate) fn new(total: u64, observer: Option<&Arc<dyn MemoryObserver>>) -> Self {
        Self { total, used: AtomicU64::new(0), observer: observer.cloned() }
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

/// A piece of memory that counts against an account.
#[derive(Debug)]
pub(crate) struct Block {
    piece: Piece,
    /// How large it is.
    capacity: usize,
    /// How much of it was asked for. Accesses beyond are refused.
    bytes: usize,
    account: Arc<Account>,
}

impl Block {
    /// Zeroed memory; `CUDA_ERROR_OUT_OF_MEMORY (2)` when there is not enough.
    pub(crate) fn allocate(account: &Arc<Account>, bytes: usize) -> Result<Self> {
        Self::allocate_aligned(account, bytes, ALLOCATION_ALIGNMENT)
    }

    /// The same, at a multiple of a power of two.
    pub(crate) fn allocate_aligned(account: &Arc<Account>, bytes: usize, alignment: usize) -> Result<Self> {
        let out_of_memory = || Failure::new(Status::OUT_OF_MEMORY);
        if !account.take(bytes as u64) {
            return Err(out_of_memory());
        }
        let Some(piece) = Piece::allocate(bytes, alignment, account.observer.as_ref()) else {
            account.give_back(bytes as u64);
            return Err(out_of_memory());
        };
        Ok(Self { piece, capacity: bytes, bytes, account: Arc::clone(account) })
    }

    /// Memory of the program, which counts against no account.
    pub(crate) fn of_program(account: &Arc<Account>, address: u64, bytes: usize) -> Self {
        Self { piece: Piece::of_program(address), capacity: 0, bytes, account: Arc::clone(account) }
    }

    /// A part of a file that is mapped, which counts against no account.
    pub(crate) fn of_file(account: &Arc<Account>, file: MappedFile, offset: usize, bytes: usize) -> Self {
        Self { piece: Piece::of_file(file, offset), capacity: 0, bytes, account: Arc::clone(account) }
    }

    pub(crate) fn address(&self) -> u64 {
        self.piece.address()
    }

    /// How much of it was asked for.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How large it is.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The block, of which only so many bytes were asked for.
    pub(crate) fn with_bytes(self, bytes: usize) -> Self {
        let mut block = self;
        block.bytes = bytes.min(block.capacity);
        block
    }

    pub(crate) fn piece(&self) -> &Piece {
        &self.piece
    }

    /// Puts other memory in place of its own, which is freed separately. `Ok(None)`: that is not needed, because nobody
    /// checks memory.
    ///
    /// # Errors
    /// There is no memory; the block is as it was, and nobody may use it again.
    pub(crate) fn exchange(&mut self) -> Result<Option<Piece>> {
        let Some(observer) = self.account.observer.as_ref() else { return Ok(None) };
        let other = Piece::allocate(self.capacity, ALLOCATION_ALIGNMENT, Some(observer));
        let other = other.ok_or(Failure::new(Status::OUT_OF_MEMORY))?;
        Ok(Some(std::mem::replace(&mut self.piece, other)))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.account.give_back(self.capacity as u64);
    }
}

/// Bytes of an upload, copied when it was enqueued.
#[derive(Debug)]
pub(crate) struct StagedBytes {
    data: Vec<u8>,
    account: Arc<AtomicU64>,
}

impl StagedBytes {
    /// Copies `bytes` bytes, if the bytes staged in all then stay within `limit`, and there is memory.
    ///
    /// # Safety
    /// `source` is valid for reads of as many initialised bytes.
    pub(crate) unsafe fn copy_from(source: u64, bytes: usize, account: &Arc<AtomicU64>, limit: u64) -> Option<Self> {
        if account.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 > limit {
            account.fetch_sub(bytes as u64, Ordering::Relaxed);
            return None;
        }
        // SAFETY: the caller promises that so many initialised bytes can be read there.
        let data = unsafe { std::slice::from_raw_parts(source as usize as *const u8, bytes) };
        let mut copy = Self { data: Vec::new(), account: Arc::clone(account) };
        if copy.data.try_reserve_exact(bytes).is_err() {
            account.fetch_sub(bytes as u64, Ordering::Relaxed);
            return None;
        }
        copy.data.extend_from_slice(data);
        Some(copy)
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
