//! A block of staging memory in use.

use super::RawBlock;
use crate::completion::Outstanding;
use crate::context::ContextCore;
use crate::error::{Error, Result, ResultExt};
use crate::helping::helping;
use crate::idle_memory::{BlockKind, attempt_when_idle};
use crate::reaper::{self, Attempt};
use crate::stream::PendingWork;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use crate::trace;
use anabranch_hal::{PinnedFlags, Status};
use std::sync::Arc;

const FLAGS: PinnedFlags = PinnedFlags::PORTABLE.union(PinnedFlags::DEVICE_MAP);

/// Pinned memory that only the holder uses. Dropping it frees it after all current work of the context, which is always
/// correct. If it is known that no work uses it any more, or when that will be, the block can be returned for reuse
/// instead.
pub struct StagingBlock {
    context: Arc<ContextCore>,
    raw: Option<RawBlock>,
}

impl StagingBlock {
    /// Takes a block for at least so many bytes, which are initialised: an idle one, or a new one.
    pub fn take(context: &Arc<ContextCore>, bytes: usize) -> Result<Self> {
        let cache = context.staging();
        let capacity = cache.capacity(bytes);
        let raw = match cache.take(capacity) {
            Some(raw) => raw,
            None => match allocate(context, capacity) {
                Ok(raw) => raw,
                Err(error) => cache.take_any(bytes).ok_or(error)?,
            },
        };
        Ok(Self { context: context.clone(), raw: Some(raw) })
    }

    /// The address of `length` elements of a size and alignment in bytes.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the block is not sufficiently aligned or large.
    pub fn pointer(&self, length: usize, size: usize, align: usize) -> Result<*mut u8> {
        let fits = |raw: &&RawBlock| length.checked_mul(size).is_some_and(|bytes| bytes <= raw.capacity);
        let pointer = self.raw.as_ref().filter(fits).map(RawBlock::pointer);
        pointer.filter(|pointer| pointer.addr().is_multiple_of(align)).ok_or_else(|| {
            let message = format!("memory for transfers is not aligned to {align} bytes");
            Error::argument(Status::INVALID_VALUE, "staging a transfer", message)
                .with_hint("transfer elements of a type that is less aligned")
                .at(self.context.place())
        })
    }

    /// Returns the block for reuse. No work uses it any more.
    pub fn give_back(mut self) {
        if let Some(raw) = self.raw.take() {
            self.context.store_staging(raw);
        }
    }

    /// Returns the block for reuse when work that may use it is complete.
    pub fn give_back_after(self, work: Outstanding) {
        let mut block = Some(self);
        reaper::attempt(work.queue(), move || {
            let is_over = {
                let _helping = helping();
                work.is_over()
            };
            if !is_over {
                return Attempt::Pending;
            }
            // In a context that is lost something may still be running.
            if let Some(block) = block.take().filter(|_| work.is_complete()) {
                block.give_back();
            }
            Attempt::Done
        });
    }
}

impl Drop for StagingBlock {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        let context = self.context.clone();
        // When the context is idle no work uses the block any more.
        attempt_when_idle(&self.context, move || free_unused(&context, [raw]));
    }
}

fn allocate(context: &Arc<ContextCore>, capacity: usize) -> Result<RawBlock> {
    let pointer = match context.take_idle_memory(BlockKind::pinned(FLAGS), capacity) {
        Some(address) => address as usize as *mut u8,
        None => {
            trace::span!("allocating staging memory", capacity, device = %context.device());
            // No capture can depend on memory that nobody has yet.
            let operation = "allocating staging memory";
            with_relaxed_capture_mode(context.driver(), || {
                context.driver().allocate_pinned(&context.call(operation), capacity, FLAGS)
            })
            .during(operation, || context.place())
            .map_err(|error| match error.status() {
                Status::OUT_OF_MEMORY => {
                    error.with_hint("transfer less at a time, or use a PinnedBuffer of your own again and again")
                }
                _ => error,
            })?
        }
    };
    // SAFETY: the memory has that many bytes, and nobody else uses it.
    unsafe { pointer.write_bytes(0, capacity) };
    Ok(RawBlock { address: pointer as usize, capacity })
}

/// Frees blocks that no work uses, when the context is idle. Until then, blocks of the same size are made of them.
pub(super) fn free_unused(context: &Arc<ContextCore>, blocks: impl IntoIterator<Item = RawBlock>) {
    for block in blocks {
        let (kind, address) = (BlockKind::pinned(FLAGS), block.address as u64);
        context.free_when_idle(kind, block.capacity, address, PendingWork::default());
    }
}
